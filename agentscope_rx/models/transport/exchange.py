"""One request and its response, by httpx. `Transport` imports this module, and httpx with it, at the first request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from itertools import count
from typing import Protocol

import httpx

from agentscope_rx.errors import ConfigurationError, ModelConnectionError, ModelError, ModelHTTPError
from agentscope_rx.models.transport.body import ENCODINGS, read_error
from agentscope_rx.models.transport.client import (
    MAX_REDIRECTS,
    close_client,
    new_client,
    redirected,
    tls_context,
    too_many,
)
from agentscope_rx.models.transport.config import HttpConfig
from agentscope_rx.models.transport.request import (
    HttpRequest,
    LastParsed,
    OnHeaders,
    hiding,
    secrets_of,
    user_agent,
)
from agentscope_rx.models.transport.status import http_error
from agentscope_rx.models.wire.base_url import sendable, shown_url
from agentscope_rx.reactive.kernel.runtime import runtime
from agentscope_rx.trace_context import TRACE_CONTEXT

ERROR_BODY_SECONDS = 10.0
"""The deadline for the body of an error status."""


class Opening(Protocol):
    """The type of `opened`."""

    def __call__(
        self,
        config: HttpConfig,
        last: LastParsed,
        request: HttpRequest,
        accept: str,
        on_headers: OnHeaders | None = None,
    ) -> AbstractAsyncContextManager[httpx.Response]: ...


@asynccontextmanager
async def opened(
    config: HttpConfig, last: LastParsed, request: HttpRequest, accept: str, on_headers: OnHeaders | None = None
) -> AsyncGenerator[httpx.Response]:
    """The response to a request, closed on exit; errors of httpx in the block are translated."""
    with hiding(request, config), _translated(request.url):
        headers = _headers(last, request.headers, accept)
        client = await _client(config)
        url = _url(last, request.url)
        if TRACE_CONTEXT.here is not None:
            headers = httpx.Headers({**TRACE_CONTEXT.here.outgoing(url.host), **headers})
        for redirects in count():
            # the headers are all that a request has: nothing of the client's is merged into them
            # (httpx 0.27 sets the client's timeout only where the client makes the request)
            made = httpx.Request(
                request.method,
                url,
                headers=headers,
                content=request.body,
                extensions={"timeout": client.timeout.as_dict()},
            )
            response = await client.send(made, stream=True)
            try:
                if not response.has_redirect_location:
                    if on_headers is not None:
                        on_headers(response.headers)
                    if not response.is_success:
                        raise await _refused(config, response, request)
                    yield response
                    return
                if redirects == MAX_REDIRECTS:
                    raise too_many(url, response.status_code)
                url = redirected(request.method, url, response)
            finally:
                await response.aclose()


def _url(last: LastParsed, url: str) -> httpx.URL:
    known = last.url
    if known is None or known[0] != url:
        last.url = known = (url, httpx.URL(url))
    return known[1]


def _headers(last: LastParsed, given: Mapping[str, str], accept: str) -> httpx.Headers:
    """All headers of a request; `ConfigurationError` names one that cannot be sent."""
    asked = (accept, *given.items())
    known = last.headers
    if known is None or known[0] != asked:
        own = {
            "accept": accept,
            "accept-encoding": ENCODINGS,
            "connection": "keep-alive",
            "content-type": "application/json",
            "user-agent": user_agent(),
        }
        last.headers = known = (asked, httpx.Headers({**own, **sendable(given)}))
    return known[1]


async def _client(config: HttpConfig) -> httpx.AsyncClient:
    context = await tls_context(config.verify, trust_env=config.trust_env)
    proxy = None
    if config.proxy is not None:
        checked = config.proxy.startswith("https:")
        over = await tls_context(True, trust_env=config.trust_env) if checked else None
        proxy = httpx.Proxy(config.proxy, ssl_context=over)
    return await runtime().resource(
        (new_client, config.connection), lambda: new_client(config, context, proxy), close_client
    )


async def _refused(config: HttpConfig, response: httpx.Response, request: HttpRequest) -> ModelHTTPError:
    """The error for an error status. A body that breaks off or is late is left out: the status matters more."""
    body = b""
    with suppress(TimeoutError, httpx.HTTPError, ModelError):
        async with asyncio.timeout(ERROR_BODY_SECONDS):
            body = await read_error(response, config)
    # before the body is cut: half a key would not be found
    text = secrets_of(request, config).hide(body.decode("utf-8-sig", "replace"))
    return http_error(response.status_code, text, response.headers)


@contextmanager
def _translated(url: str) -> Generator[None]:
    """Translates errors of httpx in the block to those of this library."""
    try:
        yield
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError) as error:
        raise ConfigurationError(f"This request to {shown_url(url)} cannot be sent: {error}") from error
    except (httpx.RequestError, httpx.StreamError) as error:
        raise _broken(error, url) from error


def _broken(error: httpx.RequestError | httpx.StreamError, url: str) -> ModelConnectionError:
    where = shown_url(url)
    what = str(error) or type(error).__name__
    if isinstance(error, httpx.ConnectTimeout):
        what = "connecting took too long"
    if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)):
        return ModelConnectionError(f"No connection to {where}: {what}")
    return ModelConnectionError(f"The connection to {where} broke off: {what}")
