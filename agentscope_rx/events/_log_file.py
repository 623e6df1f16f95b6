"""Files of events: one event a line, as JSON in UTF-8. `record` writes them, `replay` and `RecordedModel` read them.

A line is written in one piece, so a file that ends without a line break was cut off while it was written.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from os import PathLike
from typing import IO, Any, Literal, NamedTuple, Protocol, cast

from agentscope_rx.errors import ConfigurationError, EventLineError, EventLogError, InvalidInputError
from agentscope_rx.errors.text import encode_json
from agentscope_rx.events.base import Event, encode_event, event_from_json

LogFile = str | PathLike[str] | IO[bytes] | IO[str]
"""A log: its path, or a file object of bytes or text. File objects are used where they stand, and are not closed."""

WriteMode = Literal["x", "a", "w"]
"""As in `open`: "x" for a new file, "a" to append, "w" to overwrite."""

MAX_LINE = 256 * 1024 * 1024
"""The most bytes of one line: more than any event, so that a file without line breaks is not read as a whole."""

BATCH = 64 * 1024
"""Lines are read together up to about so many bytes."""

# private: the files hold conversations
_FILE_MODE = 0o600
_FLAGS = os.O_WRONLY | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_MODES = {"x": os.O_EXCL, "a": os.O_APPEND, "w": os.O_TRUNC}


def name_of(file: LogFile) -> str:
    """The name of a log for the text of an error."""
    if isinstance(file, (str, PathLike)):
        return os.fspath(file)
    name: object = getattr(file, "name", None)
    return name if isinstance(name, str) and name else f"<{type(file).__name__}>"


def check_file(file: object, what: str, method: str) -> None:
    """`ConfigurationError` for what is neither a path nor an object with this method."""
    if not isinstance(file, (str, PathLike)) and not callable(getattr(file, method, None)):
        raise ConfigurationError(f"{what} takes a path, or an open file with a method {method}(), not {file!r:.60}.")


class LogWriter(Protocol):
    """A log that is being written."""

    def write(self, event: Event) -> None:
        """Hand the event's line to the system; `EventLogError` if it refuses, and the file ends with whole lines."""
        ...

    def close(self) -> None:
        """Close what was opened here; `EventLogError` if the system refuses."""
        ...


def open_log(file: LogFile, mode: WriteMode) -> LogWriter:
    """Open a log to write to; `EventLogError` if that is not possible."""
    return _PathWriter(os.fspath(file), mode) if isinstance(file, (str, PathLike)) else _ObjectWriter(file)


class _PathWriter:
    """Writes without a buffer of its own: a line that was written survives the end of the process."""

    __slots__ = ("_descriptor", "_name", "_size")

    def __init__(self, path: str, mode: WriteMode) -> None:
        self._name = path
        try:
            self._descriptor = os.open(path, _FLAGS | _MODES[mode], _FILE_MODE)
        except FileExistsError as error:
            raise EventLogError(
                f"{path} exists. Record into a new file, or give mode='a' to append to it or mode='w' to overwrite it.",
                file=path,
            ) from error
        except (OSError, ValueError) as error:
            raise EventLogError(f"{path} cannot be opened to record events: {error}", file=path) from error
        # None for what is no regular file, such as a pipe
        status = os.fstat(self._descriptor)
        self._size: int | None = status.st_size if stat.S_ISREG(status.st_mode) else None
        if self._size and not _ends_with_a_line(path):
            self.close()
            raise EventLogError(
                f"{path} ends in the middle of a line: writing it was cut off. Remove that line, or record into a new "
                "file.",
                file=path,
            )

    def write(self, event: Event) -> None:
        line = encode_event(event) + b"\n"
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            if self._size is not None:
                # a part of the line may be there
                with suppress(OSError):
                    os.ftruncate(self._descriptor, self._size)
            raise _not_written(self._name, error) from error
        if self._size is not None:
            self._size += len(line)

    def close(self) -> None:
        try:
            os.close(self._descriptor)
        except OSError as error:
            raise _not_written(self._name, error) from error


class _ObjectWriter:
    __slots__ = ("_file", "_name", "_text")

    def __init__(self, file: IO[bytes] | IO[str]) -> None:
        self._file: IO[Any] = file
        self._name = name_of(file)
        self._text = _is_text(file)

    def write(self, event: Event) -> None:
        line = encode_event(event) + b"\n"
        try:
            if self._text:
                self._file.write(line.decode())
            else:
                rest = memoryview(line)
                while rest:
                    # a raw file may take a part; objects that only look like files return None
                    written = cast("int | None", self._file.write(rest))
                    if written == 0 or (written is None and isinstance(self._file, io.RawIOBase)):
                        raise BlockingIOError("it takes no more bytes now, and must not be a non-blocking file")
                    rest = rest[len(rest) if written is None else written :]
            flush = getattr(self._file, "flush", None)
            if flush is not None:
                flush()
        except Exception as error:
            # closed, of another encoding, opened to read; compressing and remote files have errors of their own
            raise _not_written(self._name, error) from error

    def close(self) -> None:
        """Nothing: the file object is the caller's."""


def _not_written(name: str, error: Exception) -> EventLogError:
    return EventLogError(f"Events cannot be written to {name}: {error}", file=name)


def _ends_with_a_line(path: str) -> bool:
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _is_text(file: object) -> bool:
    # wrappers, such as those of tempfile, are no subclass
    return isinstance(file, io.TextIOBase) or isinstance(getattr(file, "encoding", None), str)


# --- reading ----------------------------------------------------------------------------------------------------------


class Lines(NamedTuple):
    """Some lines of a log; `number` is that of the first."""

    name: str
    number: int
    lines: Sequence[bytes]


def read_lines(file: LogFile) -> Iterator[Lines]:
    """The lines of a log, some at a time; `EventLogError` if the system refuses. Blocks."""
    name = name_of(file)
    try:
        opened: IO[Any] = open(file, "rb") if isinstance(file, (str, PathLike)) else file  # noqa: SIM115
        try:
            number = 1
            while lines := _some_lines(opened, name, number):
                yield Lines(name, number, lines)
                number += len(lines)
        finally:
            if opened is not file:
                opened.close()
    except Exception as error:
        # closed, no text; compressed and remote files have errors of their own
        raise EventLogError(f"The log of events {name} cannot be read: {error}", file=name) from error


def _some_lines(file: IO[Any], name: str, number: int) -> list[bytes]:
    lines: list[bytes] = []
    size = 0
    while size < BATCH:
        line = cast("bytes | str", file.readline(MAX_LINE + 1))
        if not line:
            break
        lines.append(line if isinstance(line, bytes) else encode_json(line))
        size += len(line)
        if len(line) > MAX_LINE:
            # reported when it is read as an event, after those before it
            break
    return lines


def events_in(some: Lines, file_root: str | PathLike[str] | None) -> Iterator[Event]:
    """The events of these lines; `EventLineError` names the first line that is none, after the events before it."""
    for number, line in enumerate(some.lines, some.number):
        try:
            event = event_from_json(line, file_root=file_root)
        except InvalidInputError as error:
            where = f"Line {number} of the log of events {some.name}"
            if not line.endswith(b"\n"):
                long = len(line) > MAX_LINE
                fault = f"has more than {MAX_LINE:,} bytes" if long else "is cut off: writing it was not finished"
            else:
                fault = f"cannot be read. {error}"
            raise EventLineError(f"{where} {fault}", file=some.name, line=number) from error
        yield event


def read_log(file: LogFile, file_root: str | PathLike[str] | None = None) -> Iterator[Event]:
    """All events of a log, read as they are used. Blocks; `EventLogError` and `EventLineError` as `replay`."""
    for some in read_lines(file):
        yield from events_in(some, file_root)
