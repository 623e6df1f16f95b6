"""`ServerRequests`: requests of a server that wait for an answer, at most so many: each takes a task."""

from __future__ import annotations

import contextvars
from types import TracebackType
from typing import Self

import anyio
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from agentscope_rx.tools.mcp.guard import guarded
from agentscope_rx.tools.mcp.limits import MAX_REQUESTS, Excess, TooMuchError


class ServerRequests:
    """The requests of one connection."""

    def __init__(self, excess: Excess) -> None:
        self._excess = excess
        self._open: set[RequestId] = set()

    def heard(self, message: JSONRPCMessage) -> None:
        """The server has sent this; `TooMuchError` if it is one request too many."""
        if isinstance(message, JSONRPCRequest):
            if message.id in self._open:
                words = f"a second request of the id {message.id!r:.40} before the first was answered"
                raise self._excess.note(words, "MAX_REQUESTS", 1)
            if len(self._open) >= MAX_REQUESTS:
                words = f"more than {MAX_REQUESTS} requests at the same time"
                raise self._excess.note(words, "MAX_REQUESTS", MAX_REQUESTS)
            self._open.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            cancelled = (message.params or {}).get("requestId")
            if isinstance(cancelled, (str, int)):
                self._open.discard(cancelled)

    def told(self, message: JSONRPCMessage) -> None:
        """The server is sent this."""
        if isinstance(message, (JSONRPCResponse, JSONRPCError)) and message.id is not None:
            self._open.discard(message.id)


class Heard:
    """What a transport of the SDK reads, guarded, with requests counted; it ends with the one that is too many."""

    def __init__(self, stream: ReadStream[SessionMessage | Exception], asked: ServerRequests) -> None:
        self._stream = stream
        self._asked = asked

    @property
    def last_context(self) -> contextvars.Context | None:
        """The context that the latest item was sent in, as the SDK asks for it."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """The next item."""
        item = guarded(await self._stream.receive())
        if isinstance(item, SessionMessage):
            try:
                self._asked.heard(item.message)
            except TooMuchError as error:
                raise anyio.EndOfStream from error
        return item

    async def aclose(self) -> None:
        """Read no more."""
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


class Told:
    """What a transport of the SDK writes, with answers counted."""

    def __init__(self, stream: WriteStream[SessionMessage], asked: ServerRequests) -> None:
        self._stream = stream
        self._asked = asked

    async def send(self, item: SessionMessage, /) -> None:
        """Write it; what was answered counts no more once the transport has taken it."""
        await self._stream.send(item)
        self._asked.told(item.message)

    async def aclose(self) -> None:
        """Write no more."""
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()
