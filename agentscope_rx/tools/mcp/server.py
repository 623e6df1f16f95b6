"""Where an MCP server is: a command to run, a URL, or an object in this process; and the transport to a URL.

| server                                | is reached by                                                                |
|---------------------------------------|------------------------------------------------------------------------------|
| `McpStdio(command, args, env=, cwd=)` | its standard input and output; started with the connection, ended with it    |
| `McpHttp(url, headers=, auth=)`       | streamable HTTP                                                              |
| `McpSse(url, headers=, auth=)`        | the older transport: events of one request, and a POST for each message      |
| `McpInMemory(server)`                 | calls: an object of the official SDK in this process, on the library's loop  |

Of HTTP, the SDK bounds only one server-sent event. `HttpTransport` bounds each response before the SDK sees it, after
decompression: JSON in place of events, the body of an error or a redirect, and each event.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import MCP_DEFAULT_TIMEOUT

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.tools.mcp.limits import (
    MAX_MESSAGE_BYTES,
    CountingWriter,
    Excess,
    LimitedReader,
    ServerRequests,
    TooMuchError,
    check_limit,
    events,
    whole,
)
from agentscope_rx.tools.mcp.stdio import StdioTransport

if TYPE_CHECKING:
    from mcp.client import Transport
    from mcp.server import MCPServer, Server

_DECODED = ("content-encoding", "content-length", "transfer-encoding")


@dataclass(slots=True)
class McpStreams:
    """A connection to one server, not yet opened: the SDK's transport, and a report of the server's end."""

    target: Transport | Server[Any] | MCPServer
    ended: Ended | None = None


class Ended(Protocol):
    """A transport's report of the end of its server."""

    @property
    def excess(self) -> Excess:
        """The limits of messages, and the first one that the server went beyond."""
        ...

    def words(self) -> str:
        """How the server ended, with the end of its standard error; '' if nothing is known."""
        ...

    async def wait(self) -> None:
        """Return when the server has ended, or went beyond a limit."""
        ...


class McpServer(Protocol):
    """The transport to an MCP server."""

    def link(self) -> McpStreams:
        """A new connection, as an async context manager; nothing happens before it is entered."""
        ...


@dataclass(frozen=True, slots=True)
class McpStdio:
    """A program that speaks MCP on its standard input and output.

    It gets `env` and a few variables of this process (PATH, HOME, ...), but no others, as these may hold secrets. It is
    killed after a line of more than `max_message_bytes`. The end of its standard error is kept for errors.
    """

    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str | Path | None = None
    max_message_bytes: int = MAX_MESSAGE_BYTES

    def __post_init__(self) -> None:
        check_limit(self.max_message_bytes)
        if not isinstance(self.command, str) or not self.command:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"McpStdio takes a command, such as McpStdio('uvx', ['x']), not {self.command!r}.")
        if isinstance(self.args, str):
            raise ConfigurationError(f"McpStdio takes the arguments as a list, not as the text {self.args!r:.60}.")
        object.__setattr__(self, "args", tuple(str(each) for each in self.args))

    def link(self) -> McpStreams:
        """A new process."""
        transport = StdioTransport(self.command, self.args, self.env, self.cwd, self.max_message_bytes)
        return McpStreams(transport, transport)


@dataclass(frozen=True, slots=True)
class McpHttp:
    """A server at a URL, by streamable HTTP; `auth` is an `httpx2.Auth`, such as the SDK's OAuth providers.

    A response, or one event of it, of more than `max_message_bytes` (decompressed) ends the connection.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    auth: httpx2.Auth | None = field(default=None, repr=False)
    max_message_bytes: int = MAX_MESSAGE_BYTES

    def __post_init__(self) -> None:
        check_limit(self.max_message_bytes)
        _check_url("McpHttp", self.url, "https://example.com/mcp")

    def link(self) -> McpStreams:
        """A new HTTP client, for one connection."""
        transport = HttpTransport(self.url, self.headers, self.auth, self.max_message_bytes)
        return McpStreams(transport, transport)


@dataclass(frozen=True, slots=True)
class McpSse:
    """A server at a URL, by the HTTP+SSE transport of protocol 2024-11-05, which `McpHttp` has replaced.

    Its URLs often end in `/sse`. The arguments are those of `McpHttp`.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    auth: httpx2.Auth | None = field(default=None, repr=False)
    max_message_bytes: int = MAX_MESSAGE_BYTES

    def __post_init__(self) -> None:
        check_limit(self.max_message_bytes)
        _check_url("McpSse", self.url, "https://example.com/sse")

    def link(self) -> McpStreams:
        """A new HTTP client, for one connection."""
        transport = SseTransport(self.url, self.headers, self.auth, self.max_message_bytes)
        return McpStreams(transport, transport)


@dataclass(frozen=True, slots=True)
class McpInMemory:
    """A server object of the official SDK, in this process; its handlers run on the library's loop."""

    server: Server[Any] | MCPServer = field(repr=False)

    def link(self) -> McpStreams:
        """A connection to the object, in this process."""
        return McpStreams(self.server)


class HttpTransport:
    """One connection to a URL, as a transport of the SDK."""

    def __init__(self, url: str, headers: Mapping[str, str], auth: httpx2.Auth | None, max_message_bytes: int) -> None:
        self._url = url
        self._headers = headers
        self._auth = auth
        self.excess: Excess = Excess(max_message_bytes)
        self._open: AbstractAsyncContextManager[TransportStreams] = self._streams()

    async def __aenter__(self) -> TransportStreams:
        return await self._open.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._open.__aexit__(kind, error, trace)

    async def wait(self) -> None:
        """Return when the server went beyond a limit."""
        await self.excess.noted.wait()

    def words(self) -> str:
        """Nothing: the end of a remote server is not reported."""
        return ""

    def _client(self) -> httpx2.AsyncClient:
        # no read timeout: a call may be silent for as long as its own deadlines allow
        timeout = httpx2.Timeout(MCP_DEFAULT_TIMEOUT, read=None)
        return httpx2.AsyncClient(
            headers=dict(self._headers),
            timeout=timeout,
            auth=self._auth,
            event_hooks={"response": [self._limit]},
        )

    @asynccontextmanager
    async def _streams(self) -> AsyncGenerator[TransportStreams]:
        async with (
            self._client() as client,
            # (one event is bounded in `_limit`)
            streamable_http_client(self._url, http_client=client, max_sse_event_size=None) as (read, write),
        ):
            requests = ServerRequests(self.excess)
            yield LimitedReader(read, requests), CountingWriter(write, requests)

    async def _limit(self, response: httpx2.Response) -> None:
        """Limit a response whose body has not been read yet."""
        stream = response.stream
        if isinstance(stream, httpx2.AsyncByteStream):
            is_events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
            raw = httpx2.Response(200, headers=response.headers, stream=stream)
            response.stream = _LimitedBody(raw, self.excess, is_events=is_events)
            for name in _DECODED:
                response.headers.pop(name, None)


class SseTransport(HttpTransport):
    """One connection by the older transport."""

    def __init__(self, url: str, headers: Mapping[str, str], auth: httpx2.Auth | None, max_message_bytes: int) -> None:
        super().__init__(url, headers, auth, max_message_bytes)
        self._refused = ""

    def words(self) -> str:
        """How the server has refused a message, if it has."""
        return self._refused

    @asynccontextmanager
    async def _streams(self) -> AsyncGenerator[TransportStreams]:
        def made(
            headers: dict[str, str] | None = None,
            timeout: httpx2.Timeout | None = None,
            auth: httpx2.Auth | None = None,
        ) -> httpx2.AsyncClient:
            return self._client()

        async with sse_client(self._url, httpx_client_factory=made) as (read, write):
            requests = ServerRequests(self.excess)
            yield LimitedReader(read, requests), CountingWriter(write, requests)

    async def _limit(self, response: httpx2.Response) -> None:
        await super()._limit(response)
        if response.request.method == "POST" and response.status_code >= 400:
            # the SDK logs this, and the call would wait for an answer that cannot come
            self._refused = f"It answered a message with status {response.status_code}."
            self.excess.noted.set()


class _LimitedBody(httpx2.AsyncByteStream):
    def __init__(self, raw: httpx2.Response, excess: Excess, *, is_events: bool) -> None:
        self._raw = raw
        self._excess = excess
        self._is_events = is_events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = self._raw.aiter_bytes()
        try:
            if self._is_events:
                async for event in events(pieces, self._excess):
                    yield event
            else:
                yield await whole(pieces, self._excess)
        except TooMuchError as error:
            # the SDK handles this as a response that cannot be used
            raise httpx2.StreamError(str(error)) from error

    async def aclose(self) -> None:
        await self._raw.aclose()


def _check_url(what: str, url: object, such: str) -> None:
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise ConfigurationError(f"{what} takes a URL such as {such!r}, not {url!r:.80}.")
