"""The program that parses documents in a child process. It imports the parsers of one format, and nothing else of
the library.

    stdin   <-  one frame of settings (JSON), then for each document: one of options, frames of its bytes, an empty one
    stdout  ->  ["ready"]; for each document ["part", text, page, headings, kind, language] ..., then ["end"] or
                ["error", kind, what, limit]

A frame is its length in four bytes, and so many bytes. The document comes through the pipe: a parser opens no file, and
can write none. Writing blocks while nothing is asked for.
"""

from __future__ import annotations

import faulthandler
import importlib
import io
import json
import logging
import os
import struct
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

_NO_MEMORY = 2
"""libxml2's number of the error (XML_ERR_NO_MEMORY)."""
_PACKAGES = ("agentscope_rx", "agentscope_rx.knowledge", "agentscope_rx.knowledge.readers")
_BLOCKED = ("numpy", "pandas", "PIL.ImageShow", "tkinter")
"""Packages that the parsers use if they are there, and that are not needed: they take time and address space."""


def main() -> None:
    """Parse the documents that come in, until there are no more."""
    frames, output = _pipes()
    settings = json.loads(_read(frames) or b"{}")
    _limit(settings["memory"])
    parts = _parser(settings)
    _write(output, ["ready"])
    while (options := _read(frames)) is not None:
        given = json.loads(options)
        document = _document(frames)
        _allow_time(given["seconds"])
        try:
            _send(output, parts(document, given["unpacked"]), given["seconds"])
        except BrokenPipeError:
            return
        del document


def _pipes() -> tuple[BinaryIO, BinaryIO]:
    """The input and the output; what a parser prints goes nowhere."""
    frames, output = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    return frames, output


def _parser(settings: dict[str, Any]) -> Callable[[BinaryIO, int], Iterator[Any]]:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    sys.dont_write_bytecode = True
    sys.path[:] = settings["path"]
    for name in _BLOCKED:
        sys.modules[name] = None  # pyright: ignore[reportArgumentType]
    folder = settings["folder"]
    for name in _PACKAGES:
        # packages without what their `__init__` imports
        package = types.ModuleType(name)
        package.__path__ = [os.path.join(folder, *name.split("."))]
        sys.modules[name] = package
    return importlib.import_module(f"{_PACKAGES[-1]}.formats.{settings['format']}").parts


def _limit(memory: int) -> None:
    try:
        import resource
    except ImportError:
        # Windows
        return
    for name, most in (("AS", memory), ("CORE", 0), ("FSIZE", 0)):
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is not None:
            hard = resource.getrlimit(kind)[1]
            bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
            try:
                resource.setrlimit(kind, (bound, bound))
            except (ValueError, OSError):
                # macOS knows RLIMIT_AS, and does not take it
                continue


def _allow_time(seconds: float) -> None:
    """Processor time for one more document."""
    try:
        import resource
    except ImportError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    soft = int(used.ru_utime + used.ru_stime + seconds) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _document(frames: BinaryIO) -> io.BytesIO:
    document = io.BytesIO()
    while data := _read(frames):
        document.write(data)
    document.seek(0)
    return document


def _send(output: BinaryIO, parts: Iterator[Any], seconds: float) -> None:
    from agentscope_rx.knowledge.readers.formats.parts import FormatError, LimitError, clean

    try:
        while True:
            with _watched(seconds):
                part = next(parts, None)
            if part is None:
                break
            headings = [clean(each)[:200] for each in part.headings[:20]]
            _write(output, ["part", clean(part.text), part.page, headings, part.kind, part.language])
    except BrokenPipeError:
        raise
    except FormatError as error:
        found = ["error", "damaged", str(error), ""]
    except LimitError as error:
        found = ["error", "large", str(error), error.limit]
    except MemoryError:
        found = ["error", "memory", "", "memory"]
    except RecursionError:
        found = ["error", "damaged", "it is nested too deeply", ""]
    except Exception as error:
        # a parser may fail with any error on data that it does not expect
        if type(error).__name__ == "XMLSyntaxError" and getattr(error, "code", None) == _NO_MEMORY:
            found = ["error", "memory", "", "memory"]
        else:
            found = ["error", "damaged", f"its parser failed ({type(error).__name__}: {str(error)[:200]})", ""]
    else:
        found = ["end"]
    _write(output, found)


class _watched:
    """On Windows, ends this process if a part takes too long; elsewhere the processor time and the parent do."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        if os.name == "nt":
            faulthandler.dump_traceback_later(self._seconds, exit=True, file=2)

    def __exit__(self, *exc: object) -> None:
        if os.name == "nt":
            faulthandler.cancel_dump_traceback_later()


def _read(frames: BinaryIO) -> bytes | None:
    """One frame; None at the end."""
    head = frames.read(4)
    if len(head) < 4:
        return None
    size = struct.unpack("<I", head)[0]
    data = frames.read(size)
    return data if len(data) == size else None


def _write(output: BinaryIO, frame: list[Any]) -> None:
    data = json.dumps(frame, ensure_ascii=False).encode("utf-8", "replace")
    output.write(struct.pack("<I", len(data)) + data)
    output.flush()


if __name__ == "__main__":
    main()
