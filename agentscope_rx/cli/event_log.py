"""Logs of events as `trace` reads them: bytes to events, piece by piece, and files that grow.

A line is an event as `record` and `ask --json` write it, or one of a stream of server-sent events as `curl` saves it:

    {"v":1,"type":"pre_call",...}           an event
    data: {"v":1,"type":"pre_call",...}     an event
    id: 0 | event: pre_call | : | (blank)   nothing
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from typing import BinaryIO, NamedTuple

from agentscope_rx.errors import EventLineError, EventLogError, InvalidInputError
from agentscope_rx.events import Event
from agentscope_rx.events._log_file import MAX_LINE, Lines, events_in
from agentscope_rx.reactive import Flow, from_async_iterable, on_worker

READ = 1024 * 1024
"""The bytes that are read at once."""
POLL = 0.2
"""The seconds between two looks at a file that grows."""

_NOT_DATA = (b"id:", b"event:", b"retry:", b":")


class EventFeed:
    """Events of the bytes of a log, which come in pieces of any size. `name` is that of the log in errors."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._line = 0
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[Event]:
        """The events of the lines that are now complete; `EventLineError` names the first line that is none."""
        self._rest += data
        end = self._rest.rfind(b"\n", max(0, len(self._rest) - len(data)))
        if end >= 0:
            lines = bytes(self._rest[:end]).split(b"\n")
            del self._rest[: end + 1]
            for line in lines:
                yield from self._event(line, b"\n")
        if len(self._rest) > MAX_LINE:
            yield from self._event(bytes(self._rest), b"")

    def end(self) -> Iterator[Event]:
        """The event of a last line without a line break, if it is whole; `cut_off` if it is not."""
        rest, self._rest = bytes(self._rest), bytearray()
        try:
            yield from self._event(rest, b"")
        except EventLineError as error:
            raise CutOffError(self._name, error.line) from error

    def begin_again(self) -> bool:
        """The next bytes are those of another file; True if the last line of the one before was cut off."""
        cut_off, self._rest, self._line = bool(self._rest), bytearray(), 0
        return cut_off

    def _event(self, line: bytes, end: bytes) -> Iterator[Event]:
        self._line += 1
        text = line.strip()
        if text.startswith(b"data:"):
            text = text[5:].lstrip()
        if text and not text.startswith(_NOT_DATA):
            yield from events_in(Lines(self._name, self._line, [text + end]), None)


class CutOffError(EventLineError):
    """The last line of a log is not whole: writing it was not finished."""

    def __init__(self, name: str, line: int) -> None:
        super().__init__(
            f"The last line of {name}, {line}, is cut off: writing it was not finished", file=name, line=line
        )


def open_binary(path: str) -> BinaryIO:
    """Open a file to read; `InvalidInputError` says what is there instead of a file."""
    try:
        return open(path, "rb", buffering=0)
    except IsADirectoryError:
        raise InvalidInputError(
            f"{path} is a directory. Name a log in it, such as {path.rstrip('/')}/run.jsonl."
        ) from None
    except FileNotFoundError:
        raise InvalidInputError(
            f'There is no file {path}. A log is recorded by: agentscope-rx ask "..." --json > {path}'
        ) from None
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{path} cannot be opened: {error}") from error


def read_pieces(file: BinaryIO, name: str) -> Iterator[bytes]:
    """The bytes of a file, as they come; `EventLogError` if the system refuses. Blocks."""
    read = getattr(file, "read1", file.read)
    try:
        while data := read(READ):
            yield data
    except OSError as error:
        raise EventLogError(f"The log of events {name} cannot be read: {error}", file=name) from error


class Grown(NamedTuple):
    """What a look at a file has found: new bytes, or another file in its place."""

    data: bytes
    note: str = ""
    """Why what follows is another file: it was cut short, or replaced."""


class GrowingFile:
    """A file that others write. It goes on with the file that takes its place, and begins again if it was cut short."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = open_binary(path)

    def look(self) -> Grown:
        """The bytes that are new, at most `READ`. Blocks."""
        try:
            data = self._file.read(READ)
            if data:
                return Grown(data)
            here = os.fstat(self._file.fileno())
            if here.st_size < self._file.tell():
                self._file.seek(0)
                return Grown(b"", f"{self._path} was cut short: reading it from the beginning")
            try:
                there = os.stat(self._path)
            except FileNotFoundError:
                # being replaced, or removed: its writer may go on
                return Grown(b"")
            if (there.st_ino, there.st_dev) == (here.st_ino, here.st_dev):
                return Grown(b"")
            file, self._file = self._file, open_binary(self._path)
            file.close()
        except OSError as error:
            raise EventLogError(f"The log of events {self._path} cannot be read: {error}", file=self._path) from error
        return Grown(b"", f"{self._path} was replaced: reading the new file")

    def close(self) -> None:
        self._file.close()


def follow(path: str, over: Callable[[], bool], *, poll: float = POLL) -> Flow[Grown]:
    """What is in a file, and then what is written to it, until `over()` and nothing is new.

    Signals: what each look has found, nothing new included, then completion; `EventLogError` if the system refuses.
    Cancels: the wait; the file is closed.
    """

    async def looks() -> AsyncIterator[Grown]:
        file = GrowingFile(path)
        try:
            while True:
                grown = await on_worker(file.look)
                yield grown
                if not grown.data and not grown.note:
                    if over():
                        return
                    await asyncio.sleep(poll)
        finally:
            file.close()

    return from_async_iterable(looks)
