"""`ParserProcess`: a child process that parses documents of one format (see `child`), seen from this process.

Its methods block, on a worker thread; `kill` may be called from any thread, and ends the one that blocks.
"""

from __future__ import annotations

import json
import os
import select
import signal
import struct
import sys
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from typing import BinaryIO, cast

from agentscope_rx.errors import (
    DamagedDocumentError,
    DocumentTimeoutError,
    DocumentTooLargeError,
    SetupError,
)
from agentscope_rx.knowledge.readers.formats.parts import Kind, Part, clean
from agentscope_rx.knowledge.readers.limits import ReadLimits
from agentscope_rx.tools.process.supervised import interpreter

START_SECONDS = 60.0
"""How long a child may take to start and to import its parser."""
END_SECONDS = 2.0
"""How long a child may take to end after it has closed its output."""
FRAME = 1024 * 1024
"""The bytes of the largest frame that is taken from a child, which may be in the hands of a document."""

_PROGRAM = Path(__file__).with_name("child.py")
_FOLDER = Path(__file__).parents[3]
_PIECE = 64 * 1024
_HAS_POLL = hasattr(select, "poll")


class ParserProcess:
    """One child process; `close` it in the end. `documents` and `bytes` count what it has parsed."""

    def __init__(self, format: str, limits: ReadLimits) -> None:
        python = interpreter()
        if python is None:
            raise SetupError("Documents of this kind are parsed in a child process, and there is no Python to start.")
        self.documents: int = 0
        self.bytes: int = 0
        self._format = format
        self._seconds = START_SECONDS
        try:
            self._process = Popen(  # noqa: S603 - this Python, with a file of this package
                (python, "-I", "-S", str(_PROGRAM)),
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                env={name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ},
                start_new_session=True,
            )
        except OSError as error:
            raise SetupError(f"The child process that parses documents could not be started: {error}.") from error
        self._input = cast("BinaryIO", self._process.stdin)
        self._output = cast("BinaryIO", self._process.stdout)
        if _HAS_POLL:
            os.set_blocking(self._input.fileno(), False)
            os.set_blocking(self._output.fileno(), False)
        path = [each for each in sys.path if each and os.path.isabs(each)]
        settings = {"path": path, "folder": str(_FOLDER), "format": format, "memory": limits.memory}
        self._settings = _frame(json.dumps(settings).encode())

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def parts(self, file: BinaryIO, document: str, limits: ReadLimits) -> Generator[Part]:
        """The parts of one document, each read from the child when it is asked for."""
        if self._settings:
            self._start()
        try:
            self._seconds = limits.seconds
            self._give(file, document, limits)
            while (part := self._part(document)) is not None:
                yield part
        except _OutOfTime:
            self.kill()
            raise _timeout(document, limits) from None
        except (BrokenPipeError, _Ended):
            raise self._how_it_ended(document, limits) from None
        self.documents += 1

    def kill(self) -> None:
        """End the process now."""
        with suppress(ProcessLookupError, PermissionError):
            self._process.kill()

    def close(self) -> None:
        """End the process, and wait for its end."""
        self.kill()
        self._process.wait()
        for pipe in (self._input, self._output):
            with suppress(OSError):
                pipe.close()

    def _start(self) -> None:
        settings, self._settings = self._settings, b""
        try:
            self._write(settings)
            if self._read() == ["ready"]:
                return
            why = "it gave a wrong answer"
        except _OutOfTime:
            why = f"it took longer than {START_SECONDS:g} s"
        except (BrokenPipeError, _Ended):
            why = f"it has ended with exit code {self._exit_code()}"
        raise SetupError(
            f"The parser of {self._format} did not start: {why}. Are its packages whole? Is ReadLimits.memory enough?"
        )

    def _give(self, file: BinaryIO, document: str, limits: ReadLimits) -> None:
        options = {"unpacked": limits.unpacked, "seconds": limits.seconds}
        self._write(_frame(json.dumps(options).encode()))
        size = 0
        while data := file.read(_PIECE):
            size += len(data)
            if size > limits.size:
                # it has grown since it was opened
                what = f"it has more than the {limits.size:,} bytes that ReadLimits.size allows"
                raise DocumentTooLargeError(document, what, "size")
            self._write(_frame(data))
        self._write(_frame(b""))
        self.bytes += size

    def _part(self, document: str) -> Part | None:
        frame = self._read()
        found = cast("list[object]", frame) if isinstance(frame, list) else [None]
        match found:
            case ["end"]:
                return None
            case ["part", str(text), int() | None as page, headings, str(kind), str(language)] if kind in (
                "text",
                "table",
                "code",
            ) and isinstance(headings, list):
                # (cleaned here, too: the child may be in the hands of the document)
                above = tuple(clean(str(each)) for each in cast("list[object]", headings))
                return Part(clean(text), page, above, cast("Kind", kind), clean(language))
            case ["error", "memory", _, str(limit)]:
                what = "parsing it takes more memory than ReadLimits.memory allows"
                raise DocumentTooLargeError(document, what, limit)
            case ["error", "large", str(what), str(limit)]:
                raise DocumentTooLargeError(document, what, limit)
            case ["error", _, str(what), _]:
                raise DamagedDocumentError(document, what)
            case _:
                raise DamagedDocumentError(document, "its parser gave what no parser gives")

    def _write(self, data: bytes) -> None:
        if not _HAS_POLL:
            self._input.write(data)
            self._input.flush()
            return
        view = memoryview(data)
        descriptor = self._input.fileno()
        while view:
            self._wait(descriptor, select.POLLOUT)
            with suppress(BlockingIOError):
                view = view[os.write(descriptor, view) :]

    def _read(self) -> object:
        size: int = struct.unpack("<I", self._bytes(4))[0]
        if size > FRAME:
            return None
        try:
            return json.loads(self._bytes(size))
        except (ValueError, RecursionError):
            return None

    def _bytes(self, size: int) -> bytes:
        found = bytearray()
        descriptor = self._output.fileno()
        while len(found) < size:
            if _HAS_POLL:
                self._wait(descriptor, select.POLLIN)
            try:
                data = os.read(descriptor, size - len(found))
            except BlockingIOError:
                continue
            if not data:
                raise _Ended
            found += data
        return bytes(found)

    def _wait(self, descriptor: int, event: int) -> None:
        """Wait for the pipe; only this time counts, and not that in which no section is asked for."""
        poll = select.poll()
        poll.register(descriptor, event)
        began = time.monotonic()
        ready = poll.poll(max(self._seconds, 0) * 1000)
        self._seconds -= time.monotonic() - began
        if not ready:
            raise _OutOfTime

    def _how_it_ended(self, document: str, limits: ReadLimits) -> Exception:
        code = self._exit_code()
        if code == -getattr(signal, "SIGXCPU", 0) or (os.name == "nt" and code == 1):
            return _timeout(document, limits)
        return DamagedDocumentError(document, f"its parser ended early (exit code {code})")

    def _exit_code(self) -> int:
        try:
            return self._process.wait(END_SECONDS)
        except TimeoutExpired:
            # it has closed its pipe, and still runs
            self.kill()
            return self._process.wait()


class _OutOfTime(Exception):
    pass


class _Ended(Exception):
    pass


def _timeout(document: str, limits: ReadLimits) -> DocumentTimeoutError:
    return DocumentTimeoutError(document, f"parsing it takes longer than {limits.seconds:g} s (ReadLimits.seconds)")


def _frame(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data
