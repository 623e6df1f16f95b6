"""Which lines of a text fit a pattern, in bounded time: words here, regular expressions in a process of their own.

A regular expression of a model's can run for hours, or take all memory, while Python's `re` holds the interpreter: no
thread and no event loop goes on meanwhile. (`regex` has a timeout, but `(?:(?:a{500}){500}){500}` takes all memory
while it is being compiled.) A process can be bounded, and ended.
"""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import threading
from typing import IO, Protocol, cast

from agentscope_rx.errors import ToolError
from agentscope_rx.tools.process.supervised import interpreter

MAX_PATTERN = 1_000
SECONDS = 10.0
MEMORY = 1024 * 1024 * 1024

Match = tuple[int, int]
"""The index of a line, and where in it the match begins."""

_SPECIAL = re.compile(r"[\\.^$*+?{}\[\]|()]")

_CHILD = """
import json, re, struct, sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (%(memory)d, %(memory)d))
    resource.setrlimit(resource.RLIMIT_CPU, (%(seconds)d, %(seconds)d))
except (ImportError, ValueError, OSError):
    pass
given, told = sys.stdin.buffer, sys.stdout.buffer
def read():
    size = given.read(8)
    return given.read(struct.unpack("!Q", size)[0]).decode("utf-8", "surrogatepass") if len(size) == 8 else None
def tell(value):
    told.write(json.dumps(value).encode() + b"\\n")
    told.flush()
try:
    flags, most = json.loads(read())
    search = re.compile(read(), flags).search
    tell(None)
    while (text := read()) is not None:
        found = []
        for index, line in enumerate(text.split("\\n")):
            match = search(line)
            if match:
                found.append((index, match.start()))
                if len(found) >= most:
                    break
        tell(found)
except re.error as error:
    tell(str(error))
except (RecursionError, OverflowError, MemoryError) as error:
    tell("it is too large (" + type(error).__name__ + ")")
"""


class Matcher(Protocol):
    """Finds the lines that fit; close it."""

    def matches(self, lines: list[str]) -> list[Match]: ...
    def close(self) -> None: ...


def matcher(pattern: str, *, ignore_case: bool = False, most: int = 1_000, seconds: float = SECONDS) -> Matcher:
    """What finds this pattern; `ToolError` for one that is none. `seconds` bound all of its work together."""
    if not pattern:
        raise ToolError("The pattern is empty. Give a word or a regular expression to look for.")
    if len(pattern) > MAX_PATTERN:
        raise ToolError(f"The pattern is longer than {MAX_PATTERN} characters. Give a shorter one.")
    if "\n" in pattern:
        raise ToolError(
            "The pattern has a line break in it, and each line is searched for itself. Give one line's text."
        )
    if _SPECIAL.search(pattern):
        return _Expression(pattern, ignore_case, most, seconds)
    return _Words(pattern, ignore_case, most)


class _Words:
    """A pattern that has nothing special in it."""

    def __init__(self, pattern: str, ignore_case: bool, most: int) -> None:
        self._wanted = pattern.lower() if ignore_case else pattern
        self._ignore_case = ignore_case
        self._most = most

    def matches(self, lines: list[str]) -> list[Match]:
        found: list[Match] = []
        for index, line in enumerate(lines):
            at = (line.lower() if self._ignore_case else line).find(self._wanted)
            if at >= 0:
                found.append((index, at))
                if len(found) >= self._most:
                    break
        return found

    def close(self) -> None:
        pass


class _Expression:
    """A regular expression, in a Python of its own that is ended when its time is over."""

    def __init__(self, pattern: str, ignore_case: bool, most: int, seconds: float) -> None:
        python = interpreter()
        if python is None:
            raise ToolError(
                "Regular expressions cannot be used here. Give plain words, without any of \\.^$*+?{}[]|()."
            )
        self._pattern = pattern
        self._seconds = seconds
        self._late = False
        code = _CHILD % {"memory": MEMORY, "seconds": int(seconds) + 1}
        # nothing of ours is for it: neither the environment nor the folder
        self._child = subprocess.Popen(  # noqa: S603 - this Python, with the program above
            [python, "-I", "-S", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ},
        )
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._timer.start()
        try:
            self._send(json.dumps([re.IGNORECASE if ignore_case else 0, most]), pattern)
            if problem := self._told():
                raise ToolError(f"{pattern!r:.200} is no regular expression: {problem}. Escape what is meant as it is.")
        except BaseException:
            self.close()
            raise

    def matches(self, lines: list[str]) -> list[Match]:
        self._send("\n".join(lines))
        return [(index, start) for index, start in cast("list[list[int]]", self._told())]

    def close(self) -> None:
        self._timer.cancel()
        self._child.kill()
        for pipe in (self._child.stdin, self._child.stdout):
            try:
                cast("IO[bytes]", pipe).close()
            except OSError:
                # what was still to be sent has no reader any more
                continue
        self._child.wait()

    def _end(self) -> None:
        self._late = True
        self._child.kill()

    def _send(self, *texts: str) -> None:
        pipe = cast("IO[bytes]", self._child.stdin)
        try:
            for text in texts:
                data = text.encode("utf-8", "surrogatepass")
                pipe.write(struct.pack("!Q", len(data)) + data)
            pipe.flush()
        except OSError:
            raise self._over() from None

    def _told(self) -> object:
        line = cast("IO[bytes]", self._child.stdout).readline()
        if not line.endswith(b"\n"):
            raise self._over()
        told: object = json.loads(line)
        if isinstance(told, str) and "too large" in told:
            raise self._over()
        return told

    def _over(self) -> ToolError:
        why = f"more than {self._seconds:g} s" if self._late else "too much memory or time"
        return ToolError(
            f"The search for {self._pattern!r:.200} took {why} and was stopped. Give a simpler pattern (no repeats "
            "within repeats), or search fewer files."
        )
