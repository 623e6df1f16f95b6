"""`Transport`: one POST to a provider, as a Flow of its events or of its JSON answer. The only place with httpx.

    stream(request)     --event--event--|        the response is closed before the completion,
                        --event--X               before the error,
                        --event--                and at disposal
    request(request)    --answer|

There is one pooled client for each event loop and configuration, closed with its loop, so one `Transport` works in any
number of loops. It sets a limit to connecting only: how long an answer may take is a matter of operators above.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

import httpx

from agentscope_rx.errors import ConfigurationError, ModelConnectionError, ProtocolError
from agentscope_rx.model.transport.ndjson import read_lines
from agentscope_rx.model.transport.sse import ServerEvent, read_events
from agentscope_rx.model.transport.status import BODY_SHOWN, http_error
from agentscope_rx.model.wire import bounded_json
from agentscope_rx.reactive import Flow, from_async_iterable, from_call
from agentscope_rx.reactive.runtime import runtime

Framing = Literal["sse", "ndjson"]
"""How events follow each other in a body: server-sent events, or lines of JSON."""

_FRAMINGS: dict[Framing, tuple[str, Callable[[httpx.Response], AsyncGenerator[ServerEvent]]]] = {
    "sse": ("text/event-stream, application/json", read_events),
    "ndjson": ("application/x-ndjson, application/json", read_lines),
}

DRAIN_SECONDS = 0.2
"""How long the end of a body is waited for after its last event, so that the connection can be used again."""


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """How to connect. The defaults are httpx's: proxies from the environment, certificates checked.

    `proxy` is a URL; `verify=False` turns certificate checks off, an `SSLContext` brings one's own. Configurations
    that are equal share their connections.
    """

    proxy: str | None = None
    verify: bool | ssl.SSLContext = True
    trust_env: bool = True
    connect_timeout: float = 30.0
    max_keepalive: int = 5
    keepalive_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One POST of a JSON body, or a GET."""

    url: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    method: Literal["POST", "GET"] = "POST"


class Transport:
    """Sends requests; holds nothing but its configuration."""

    def __init__(self, config: HttpConfig | None = None) -> None:
        self.config = config or HttpConfig()

    def stream(self, request: HttpRequest, *, until: str | None = None, framing: Framing = "sse") -> Flow[ServerEvent]:
        """The events of the answer as they come, up to and with the one whose data or name is `until`.

        An answer that ends without it completes too: whether it is whole is the parser's to say.

        Signals: events, then completion; a `ModelHTTPError` for an error status; `ModelConnectionError` if there is
        no connection or it breaks off; `ProtocolError` for a web page.
        Cancels: the request, or the reading; the response is closed.
        """
        return from_async_iterable(lambda: self.events(request, until=until, framing=framing))

    def request(self, request: HttpRequest) -> Flow[object]:
        """The JSON value that the server answers with.

        Signals: the value and completion; errors as `stream`, and `ProtocolError` if the answer is not JSON.
        Cancels: the request; the response is closed.
        """
        return from_call(lambda: self.answer(request))

    async def events(
        self, request: HttpRequest, *, until: str | None = None, framing: Framing = "sse"
    ) -> AsyncGenerator[ServerEvent]:
        """What `stream` is made of, for a source that reads and parses in one go; to be closed by its user."""
        accept, read = _FRAMINGS[framing]
        async with self._open(request, accept) as response, aclosing(read(response)) as events:
            async for event in events:
                yield event
                if until is not None and (event.event == until or event.data.strip() == until):
                    await _drain(events)
                    return

    async def chunks(self, request: HttpRequest, *, accept: str) -> AsyncGenerator[bytes]:
        """The bytes of an answer that is no text, as they come; to be closed by its user. Errors as `stream`."""
        async with self._open(request, accept) as response:
            async for chunk in response.aiter_bytes():
                yield chunk

    async def answer(self, request: HttpRequest) -> object:
        """What `request` is made of."""
        async with self._open(request, "application/json") as response:
            body = (await response.aread()).decode("utf-8-sig", "replace")
        try:
            return bounded_json(body)
        except ValueError as error:
            raise ProtocolError(f"The answer is not JSON: {error}", body=body[:BODY_SHOWN]) from error

    @asynccontextmanager
    async def _open(self, request: HttpRequest, accept: str) -> AsyncGenerator[httpx.Response]:
        """The response to a request, closed at the end; httpx's errors within become ours."""
        client = await runtime().resource((Transport, self.config), lambda: _client(self.config), _close)
        headers = {
            "accept": accept,
            "content-type": "application/json",
            "user-agent": user_agent(),
            **{name.lower(): value for name, value in request.headers.items()},
        }
        try:
            async with client.stream(request.method, request.url, content=request.body, headers=headers) as response:
                if not response.is_success:
                    body = await _error_body(response)
                    raise http_error(response.status_code, body, response.headers)
                yield response
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError) as error:
            raise ConfigurationError(f"This request to {_where(request.url)} cannot be sent: {error}") from error
        except (httpx.RequestError, httpx.StreamError) as error:
            raise _broken(error, request.url) from error


@cache
def user_agent() -> str:
    """What the library calls itself to servers."""
    try:
        return f"agentscope-rx/{version('agentscope-rx')}"
    except PackageNotFoundError:
        return "agentscope-rx"


def _client(config: HttpConfig) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        proxy=config.proxy,
        verify=config.verify,
        trust_env=config.trust_env,
        follow_redirects=True,
        timeout=httpx.Timeout(None, connect=config.connect_timeout),
        limits=httpx.Limits(
            max_connections=None,
            max_keepalive_connections=config.max_keepalive,
            keepalive_expiry=config.keepalive_seconds,
        ),
    )


async def _close(client: httpx.AsyncClient) -> None:
    await client.aclose()


async def _drain(events: AsyncGenerator[ServerEvent]) -> None:
    # Usually the end of the body is here already. A server that holds the connection open costs it and nothing else.
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in events:
                pass
    except (TimeoutError, httpx.HTTPError):
        return


async def _error_body(response: httpx.Response) -> str:
    try:
        return (await response.aread()).decode("utf-8-sig", "replace")
    except httpx.HTTPError:
        # the status has been told; it says more than the broken connection
        return ""


def _broken(error: httpx.RequestError | httpx.StreamError, url: str) -> ModelConnectionError:
    where = _where(url)
    what = str(error) or type(error).__name__
    if isinstance(error, httpx.ConnectTimeout):
        what = "connecting took too long"
    if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)):
        return ModelConnectionError(f"No connection to {where}: {what}")
    return ModelConnectionError(f"The connection to {where} broke off: {what}")


def _where(url: str) -> str:
    """The URL without what may be secret in it."""
    scheme, _, rest = url.partition("?")[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
