"""`Remote`: a server at a URL as a transport of the SDK that reads no more of a response than it may.

The SDK bounds one server-sent event. Here each response is bounded before the SDK sees it, decompressed: the JSON that
comes in place of events, the body of an error or a redirect, and each event.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import MCP_DEFAULT_TIMEOUT

from agentscope_rx.tools.mcp.limits import Excess, TooMuchError, events, whole
from agentscope_rx.tools.mcp.server_requests import Heard, ServerRequests, Told

_DECODED = ("content-encoding", "content-length", "transfer-encoding")


class Remote:
    """One connection to a URL."""

    def __init__(self, url: str, headers: Mapping[str, str], auth: httpx2.Auth | None, max_message_bytes: int) -> None:
        self._url = url
        self._headers = headers
        self._auth = auth
        self.excess = Excess(max_message_bytes)
        self._open: AbstractAsyncContextManager[TransportStreams] = self._streams()

    async def __aenter__(self) -> TransportStreams:
        return await self._open.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._open.__aexit__(kind, error, trace)

    async def wait(self) -> None:
        """Return when the server has sent more than is read."""
        await self.excess.noted.wait()

    def words(self) -> str:
        """Nothing is known of the end of a server far away."""
        return ""

    @asynccontextmanager
    async def _streams(self) -> AsyncGenerator[TransportStreams]:
        # how long a call may be silent is for its own deadlines to say
        patience = httpx2.Timeout(MCP_DEFAULT_TIMEOUT, read=None)
        async with (
            httpx2.AsyncClient(
                headers=dict(self._headers),
                timeout=patience,
                auth=self._auth,
                event_hooks={"response": [self._bound]},
            ) as client,
            # (one event is bounded in `_bound`)
            streamable_http_client(self._url, http_client=client, max_sse_event_size=None) as (read, write),
        ):
            asked = ServerRequests(self.excess)
            yield Heard(read, asked), Told(write, asked)

    async def _bound(self, response: httpx2.Response) -> None:
        """Put bounds on a response whose body is still to be read."""
        stream = response.stream
        if isinstance(stream, httpx2.AsyncByteStream):
            is_events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
            raw = httpx2.Response(200, headers=response.headers, stream=stream)
            response.stream = _Bounded(raw, self.excess, is_events=is_events)
            for name in _DECODED:
                response.headers.pop(name, None)


class _Bounded(httpx2.AsyncByteStream):
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
            # what the SDK takes for a response that cannot be used
            raise httpx2.StreamError(str(error)) from error

    async def aclose(self) -> None:
        await self._raw.aclose()
