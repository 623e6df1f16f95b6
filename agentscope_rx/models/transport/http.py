"""`Transport`: one POST to a provider, as a Flow of its events or of its JSON answer. The only place with httpx.

    stream(request)     --event--event--|        the response is closed before the completion,
                        --event--X               before the error,
                        --event--                and at disposal
    request(request)    --answer|

There is one pooled client for each event loop and configuration, closed with its loop, so one `Transport` works in any
number of loops. It bounds the time to connect, the bytes that are read (`HttpConfig`) and the origin of redirects. The
deadlines of an answer are operators above.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from typing import Literal

import httpx

from agentscope_rx.errors import ConfigurationError, ModelConnectionError, ModelError, ModelHTTPError, ProtocolError
from agentscope_rx.frozen_values import quick_init
from agentscope_rx.models.transport.body import ENCODINGS, read_chunks, read_document, read_error
from agentscope_rx.models.transport.client import (
    MAX_REDIRECTS,
    close_client,
    new_client,
    redirected,
    tls_context,
    too_many,
)
from agentscope_rx.models.transport.config import HttpConfig
from agentscope_rx.models.transport.framing import ServerEvent, read_events, read_lines
from agentscope_rx.models.transport.secrets import Secrets
from agentscope_rx.models.transport.status import BODY_SHOWN, http_error
from agentscope_rx.models.wire.base_url import sendable, shown_url
from agentscope_rx.models.wire.json_size import load_json
from agentscope_rx.reactive import Flow, from_async_iterable, from_callable
from agentscope_rx.reactive.kernel.runtime import runtime
from agentscope_rx.trace_context import TRACE_CONTEXT

Framing = Literal["sse", "ndjson"]
"""The format of a stream: server-sent events, or lines of JSON."""

OnHeaders = Callable[[Mapping[str, str]], object]
"""Called with the headers of a response."""

_FRAMINGS: dict[Framing, tuple[str, Callable[[httpx.Response, HttpConfig], AsyncGenerator[ServerEvent]]]] = {
    "sse": ("text/event-stream, application/json", read_events),
    "ndjson": ("application/x-ndjson, application/json", read_lines),
}

DRAIN_SECONDS = 0.2
DRAIN_BYTES = 64 * 1024
"""The limits for reading the rest of a body after its last event, so that the connection can be reused."""

ERROR_BODY_SECONDS = 10.0
"""The deadline for the body of an error status."""


@quick_init
@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One POST of a JSON body, or a GET."""

    url: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    method: Literal["POST", "GET"] = "POST"

    def __repr__(self) -> str:
        # without the body, which is a conversation, and the query, which may hold a key
        return f"HttpRequest({self.method} {shown_url(self.url)}, {len(self.body)} bytes)"


class Transport:
    """Sends requests; its only state is its configuration.

    Give one to several models: `OpenAIChatModel(..., transport=Transport(HttpConfig(...)))`.
    """

    def __init__(self, config: HttpConfig | None = None) -> None:
        self.config: HttpConfig = config or HttpConfig()

    def stream(self, request: HttpRequest, *, until: str | None = None, framing: Framing = "sse") -> Flow[ServerEvent]:
        """The events of the answer as they arrive, up to and including the one whose data or name is `until`.

        An answer that ends without it completes, too: the parser decides if it is whole.

        Signals: events, then completion; a `ModelHTTPError` for an error status; `ModelConnectionError` if there is
        no connection or it breaks off; `ProtocolError` for a web page.
        Cancels: the request, or the reading; the response is closed.
        """
        return from_async_iterable(lambda: self.events(request, until=until, framing=framing))

    def request(self, request: HttpRequest) -> Flow[object]:
        """The JSON value of the answer.

        Signals: the value and completion; errors as `stream`, and `ProtocolError` if the answer is not JSON.
        Cancels: the request; the response is closed.
        """
        return from_callable(lambda: self.answer(request))

    async def events(
        self,
        request: HttpRequest,
        *,
        until: str | None = None,
        framing: Framing = "sse",
        on_headers: OnHeaders | None = None,
    ) -> AsyncGenerator[ServerEvent]:
        """The generator behind `stream`, for a source that reads and parses in one step; the caller closes it.

        `on_headers(headers)` is called when the headers arrive, also those of an error status.
        """
        accept, read = _FRAMINGS[framing]
        async with (
            self._open(request, accept, on_headers) as response,
            aclosing(read(response, self.config)) as events,
        ):
            async for event in events:
                yield event
                if until is not None and (event.event == until or event.data.strip() == until):
                    await _drain(events)
                    return

    async def chunks(self, request: HttpRequest, *, accept: str) -> AsyncGenerator[bytes]:
        """The bytes of a binary answer as they arrive; the caller closes it. Errors as `stream`."""
        async with self._open(request, accept) as response, aclosing(read_chunks(response, self.config)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def answer(self, request: HttpRequest, *, on_headers: OnHeaders | None = None) -> object:
        """The coroutine behind `request`; `on_headers` as in `events`."""
        async with self._open(request, "application/json", on_headers) as response:
            body = (await read_document(response, self.config)).decode("utf-8-sig", "replace")
            try:
                return load_json(body)
            except (ValueError, RecursionError) as error:
                raise ProtocolError(f"The answer is not JSON: {error}", body=body[:BODY_SHOWN]) from error

    @contextmanager
    def hiding(self, request: HttpRequest) -> Generator[None]:
        """Removes the request's keys and passwords from errors raised in the block."""
        try:
            yield
        except Exception as error:
            self._secrets(request).hide_in(error)
            raise

    @asynccontextmanager
    async def _open(
        self, request: HttpRequest, accept: str, on_headers: OnHeaders | None = None
    ) -> AsyncGenerator[httpx.Response]:
        """The response to a request, closed on exit; errors of httpx in the block are translated."""
        headers = {
            "accept": accept,
            "accept-encoding": ENCODINGS,
            "content-type": "application/json",
            "user-agent": user_agent(),
            **sendable(request.headers),
        }
        with self.hiding(request), _translated(request.url):
            client = await self._client()
            url = httpx.URL(request.url)
            if TRACE_CONTEXT.here is not None:
                headers = {**TRACE_CONTEXT.here.outgoing(url.host), **headers}
            for redirects in count():
                async with client.stream(request.method, url, content=request.body, headers=headers) as response:
                    if not response.has_redirect_location:
                        if on_headers is not None:
                            on_headers(response.headers)
                        if not response.is_success:
                            raise await self._refused(response, request)
                        yield response
                        return
                    if redirects == MAX_REDIRECTS:
                        raise too_many(url, response.status_code)
                    url = redirected(request.method, url, response)

    async def _client(self) -> httpx.AsyncClient:
        config = self.config
        context = await tls_context(config.verify, trust_env=config.trust_env)
        proxy = None
        if config.proxy is not None:
            checked = config.proxy.startswith("https:")
            over = await tls_context(True, trust_env=config.trust_env) if checked else None
            proxy = httpx.Proxy(config.proxy, ssl_context=over)
        return await runtime().resource(
            (Transport, config.connection), lambda: new_client(config, context, proxy), close_client
        )

    async def _refused(self, response: httpx.Response, request: HttpRequest) -> ModelHTTPError:
        """The error for an error status. A body that breaks off or is late is left out: the status matters more."""
        body = b""
        with suppress(TimeoutError, httpx.HTTPError, ModelError):
            async with asyncio.timeout(ERROR_BODY_SECONDS):
                body = await read_error(response, self.config)
        # before the body is cut: half a key would not be found
        text = self._secrets(request).hide(body.decode("utf-8-sig", "replace"))
        return http_error(response.status_code, text, response.headers)

    def _secrets(self, request: HttpRequest) -> Secrets:
        return Secrets(request.url, request.headers, self.config.proxy)


@cache
def user_agent() -> str:
    """The User-Agent header."""
    try:
        return f"agentscope-rx/{version('agentscope-rx')}"
    except PackageNotFoundError:
        return "agentscope-rx"


async def _drain(events: AsyncGenerator[ServerEvent]) -> None:
    # Usually the end of the body has arrived already. If the server keeps it open, the connection is not reused.
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            left = DRAIN_BYTES
            async for event in events:
                left -= len(event.data)
                if left < 0:
                    return
    except (TimeoutError, httpx.HTTPError, ModelError):
        return


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
