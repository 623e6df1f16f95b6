"""Limits for what a server sends: messages before they are parsed, answers before the SDK checks them, open requests.

| limit               | default | bounds                                                    | beyond it                |
|---------------------|---------|-----------------------------------------------------------|--------------------------|
| `max_message_bytes` | 16 MiB  | one message, decompressed                                 | the connection is closed |
| JSON values         | 262,144 | the same; one per `BYTES_PER_VALUE` bytes of it           | the connection is closed |
| `MAX_REQUESTS`      | 100     | requests of the server that wait for an answer            | the connection is closed |
| `MAX_ANSWER_VALUES` | 50,000  | values in one answer, of any type                         | the request fails        |
| `MAX_LISTED`        | 1,000   | tools, resources or prompts of one list, over all pages   | the request fails        |

A message is a line of a program's standard output, the JSON of an HTTP response, or one server-sent event.

The two counts of values protect different things. Before parsing, memory: a value takes up to 250 bytes, and without
parsing there is no request that could fail. After it, the event loop: the SDK checks an answer on the loop's thread in
half a millisecond for a thousand values.
"""

from __future__ import annotations

import contextvars
import re
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, cast

import anyio
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from agentscope_rx.errors import BodyTooLargeError, ConfigurationError
from agentscope_rx.guard.body import BYTES_PER_VALUE, check_values, max_values

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
MAX_REQUESTS = 100
MAX_LISTED = 1_000
MAX_ANSWER_VALUES = 50_000
LIMIT_ERROR = -32_077
"""The code of the error answers that are made here."""

# (the first alternative is atomic: half of CR LF is no line end)
_EVENT_END = re.compile(rb"(?>\r\n|\n|\r)(?:\r\n|\n|\r)")
_LISTS = ("tools", "resources", "resourceTemplates", "prompts")


def check_limit(limit: object) -> None:
    """`ConfigurationError` unless it is a positive number of bytes."""
    if type(limit) is not int or limit < 1:
        raise ConfigurationError(f"max_message_bytes must be a whole number of at least 1, not {limit!r:.60}.")


# --- messages, before they are parsed ---------------------------------------------------------------------------------


class TooMuchError(Exception):
    """Within the transports: a server went beyond a limit. `Excess` knows which."""


@dataclass(slots=True)
class Excess:
    """The limit of one connection's messages, and the first limit that the server went beyond."""

    max_message_bytes: int
    what: str = ""
    option: str = ""
    limit: int = 0
    noted: anyio.Event = field(default_factory=anyio.Event)

    def note(self, what: str, option: str, limit: int) -> TooMuchError:
        """Record the first excess; gives the error that ends the reading."""
        if not self.what:
            self.what, self.option, self.limit = what, option, limit
            self.noted.set()
        return TooMuchError(f"The server sent {what}.")

    def too_long(self) -> TooMuchError:
        """Record a message of too many bytes."""
        limit = self.max_message_bytes
        return self.note(f"a message of more than {limit} bytes (max_message_bytes)", "max_message_bytes", limit)

    def check(self, message: bytes | bytearray) -> None:
        """Record and raise if a message has too many bytes or values."""
        if len(message) > self.max_message_bytes:
            raise self.too_long()
        limit = max_values(self.max_message_bytes)
        try:
            check_values(message, limit)
        except BodyTooLargeError:
            words = f"a message of more than {limit} JSON values (max_message_bytes / {BYTES_PER_VALUE})"
            raise self.note(words, "max_message_bytes", limit) from None


async def lines(pieces: AsyncIterable[bytes], excess: Excess) -> AsyncGenerator[bytearray]:
    """The lines of a stream, without an unfinished last one."""
    # not a list of pieces: a piece of one byte takes forty
    line = bytearray()
    async for piece in pieces:
        start = 0
        while (end := piece.find(b"\n", start)) >= 0:
            line += piece[start:end]
            excess.check(line)
            yield line
            line = bytearray()
            start = end + 1
        line += piece[start:]
        if len(line) > excess.max_message_bytes:
            raise excess.too_long()


async def events(pieces: AsyncIterator[bytes], excess: Excess) -> AsyncGenerator[bytes]:
    """The bytes of an event stream, one event (or comment) at a time; an unfinished last one comes as it is."""
    event = bytearray()
    async for piece in pieces:
        searched = max(0, len(event) - 3)
        event += piece
        while (end := _EVENT_END.search(event, searched)) is not None:
            complete = bytes(event[: end.end()])
            del event[: end.end()]
            excess.check(complete)
            yield complete
            searched = 0
        if len(event) > excess.max_message_bytes:
            raise excess.too_long()
    if event:
        yield bytes(event)


async def whole(pieces: AsyncIterator[bytes], excess: Excess) -> bytes:
    """The whole body of a response."""
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > excess.max_message_bytes:
            raise excess.too_long()
    excess.check(body)
    return bytes(body)


# --- answers, before the SDK checks them ------------------------------------------------------------------------------


def limited(message: SessionMessage | Exception) -> SessionMessage | Exception:
    """The message; an answer that is too large is replaced by an error answer."""
    if not isinstance(message, SessionMessage) or not isinstance(message.message, JSONRPCResponse):
        return message
    answer = message.message
    problem = _answer_problem(answer.result)
    if problem is None:
        return message
    error = ErrorData(code=LIMIT_ERROR, message=problem)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=answer.id, error=error), metadata=message.metadata)


def too_many_listed(what: str) -> str:
    """The text of the error for a list that is too long."""
    return f"lists more than {MAX_LISTED:,} {what}, which is the limit. Have it offer fewer."


def _answer_problem(result: dict[str, Any]) -> str | None:
    for name in _LISTS:
        listed = result.get(name)
        if isinstance(listed, list) and len(cast("list[object]", listed)) > MAX_LISTED:
            return too_many_listed(name)
    left = MAX_ANSWER_VALUES
    pending: list[object] = [result]
    while pending:
        value = pending.pop()
        inner = cast("dict[str, object]", value).values() if isinstance(value, dict) else cast("list[object]", value)
        left -= len(inner)
        if left < 0:
            return f"gave an answer with more than {MAX_ANSWER_VALUES:,} values, which is the limit."
        pending += [each for each in inner if isinstance(each, (dict, list))]
    return None


# --- requests of the server -------------------------------------------------------------------------------------------


class ServerRequests:
    """The unanswered requests of one connection's server. Their number is bounded, as each takes a task."""

    def __init__(self, excess: Excess) -> None:
        self._excess = excess
        self._open: set[RequestId] = set()

    def received(self, message: JSONRPCMessage) -> None:
        """Count a message from the server; `TooMuchError` for one request too many."""
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

    def sent(self, message: JSONRPCMessage) -> None:
        """Count a message to the server."""
        if isinstance(message, (JSONRPCResponse, JSONRPCError)) and message.id is not None:
            self._open.discard(message.id)


class _Closing:
    """An async context manager that closes its stream."""

    def __init__(self, stream: ReadStream[Any] | WriteStream[Any]) -> None:
        self._closed = stream.aclose

    async def aclose(self) -> None:
        """Close the stream."""
        await self._closed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


class LimitedReader(_Closing):
    """A transport's messages from the server, with these limits. It ends with the first request too many."""

    def __init__(self, stream: ReadStream[SessionMessage | Exception], requests: ServerRequests) -> None:
        super().__init__(stream)
        self._stream = stream
        self._requests = requests

    @property
    def last_context(self) -> contextvars.Context | None:
        """The context that the latest item was sent in, which the SDK reads."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """The next item."""
        item = limited(await self._stream.receive())
        if isinstance(item, SessionMessage):
            try:
                self._requests.received(item.message)
            except TooMuchError as error:
                raise anyio.EndOfStream from error
        return item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class CountingWriter(_Closing):
    """A transport's messages to the server; an answer ends its request once the transport has taken it."""

    def __init__(self, stream: WriteStream[SessionMessage], requests: ServerRequests) -> None:
        super().__init__(stream)
        self._stream = stream
        self._requests = requests

    async def send(self, item: SessionMessage, /) -> None:
        """Write it."""
        await self._stream.send(item)
        self._requests.sent(item.message)
