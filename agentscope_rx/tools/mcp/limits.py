"""How much of a server's words is read, and what is noted when it says more.

A message is a line of a program's standard output, the JSON of an HTTP response, or one server-sent event.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from dataclasses import dataclass, field

import anyio

from agentscope_rx.errors import BodyTooLargeError, ConfigurationError
from agentscope_rx.guard.body import check_values
from agentscope_rx.guard.options import BYTES_PER_VALUE

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
MAX_REQUESTS = 100
"""How many requests of a server may be in progress at the same time."""

# (the first alternative is never given back: half of CR LF is no line end)
_EVENT_END = re.compile(rb"(?>\r\n|\n|\r)(?:\r\n|\n|\r)")


class TooMuchError(Exception):
    """Within the transports: a server sent more than is read. `Excess` knows what."""


def checked_limit(limit: object) -> None:
    """`ConfigurationError` unless it can be a number of bytes."""
    if type(limit) is not int or limit < 1:
        raise ConfigurationError(f"max_message_bytes must be a whole number of at least 1, not {limit!r:.60}.")


@dataclass(slots=True)
class Excess:
    """What one connection may say, and what was too much."""

    max_message_bytes: int
    what: str = ""
    option: str = ""
    limit: int = 0
    noted: anyio.Event = field(default_factory=anyio.Event)

    def note(self, what: str, option: str, limit: int) -> TooMuchError:
        """Remember the first excess; gives the error that ends the reading."""
        if not self.what:
            self.what, self.option, self.limit = what, option, limit
            self.noted.set()
        return TooMuchError(f"The server sent {what}.")

    def too_long(self) -> TooMuchError:
        """Note a message of too many bytes."""
        limit = self.max_message_bytes
        return self.note(f"a message of more than {limit} bytes (max_message_bytes)", "max_message_bytes", limit)

    def check(self, message: bytes | bytearray) -> None:
        """Note a message that is too long, or holds too many values."""
        if len(message) > self.max_message_bytes:
            raise self.too_long()
        most = max(1000, self.max_message_bytes // BYTES_PER_VALUE)
        try:
            check_values(message, most)
        except BodyTooLargeError:
            words = f"a message of more than {most} JSON values (max_message_bytes / {BYTES_PER_VALUE})"
            raise self.note(words, "max_message_bytes", most) from None


async def lines(pieces: AsyncIterable[bytes], excess: Excess) -> AsyncGenerator[bytearray]:
    """The lines of a stream, without what follows the last of them."""
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
    """The bytes of an event stream, one event (or comment) after the other, and at the end what is left."""
    event = bytearray()
    async for piece in pieces:
        looked = max(0, len(event) - 3)
        event += piece
        while (end := _EVENT_END.search(event, looked)) is not None:
            whole = bytes(event[: end.end()])
            del event[: end.end()]
            excess.check(whole)
            yield whole
            looked = 0
        if len(event) > excess.max_message_bytes:
            raise excess.too_long()
    if event:
        yield bytes(event)


async def whole(pieces: AsyncIterator[bytes], excess: Excess) -> bytes:
    """All of a response."""
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > excess.max_message_bytes:
            raise excess.too_long()
    excess.check(body)
    return bytes(body)
