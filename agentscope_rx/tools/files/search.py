"""`Search`: one grep, file by file: its matches with the lines around them, bounded in number, length and time."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType

from agentscope_rx.errors import ToolError
from agentscope_rx.tools.files.encoding import decoded, lines_of
from agentscope_rx.tools.files.regex import SECONDS, Matcher, matcher

MAX_MATCHES = 200
MAX_SHOWN = 300
"""How many characters of a line are shown."""
MAX_TEXT = 50_000


class Search:
    """What was found so far; a context in which files are searched."""

    def __init__(self, pattern: str, *, ignore_case: bool = False, context: int = 0, seconds: float = SECONDS) -> None:
        self.pattern = pattern
        self.files = 0
        self.unread = 0
        self.matched = 0
        self.cut = ""
        self.lines: list[str] = []
        self._ignore_case = ignore_case
        self._context = context
        self._seconds = seconds
        self._size = 0
        self._until = 0.0
        self._matcher: Matcher | None = None

    @property
    def over(self) -> bool:
        """Whether there is no use in looking at more files."""
        return bool(self.cut)

    def file(self, path: str, read: Callable[[], bytes]) -> None:
        """Search one file; what is not text, or cannot be read, is counted and left out."""
        assert self._matcher is not None
        if time.monotonic() > self._until:
            self.cut = f"the search was stopped after {self._seconds:g} s; search fewer files"
            return
        try:
            lines = lines_of(decoded(read(), path)[0])
        except ToolError:
            # a picture, or a file that has just gone
            self.unread += 1
            return
        self.files += 1
        found = self._matcher.matches(lines)
        if found:
            self._show(path, lines, dict(found))

    def __enter__(self) -> Search:
        self._until = time.monotonic() + self._seconds
        self._matcher = matcher(
            self.pattern, ignore_case=self._ignore_case, most=MAX_MATCHES + 1, seconds=self._seconds
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._matcher is not None:
            self._matcher.close()

    def _show(self, path: str, lines: list[str], found: dict[int, int]) -> None:
        last = -1
        for index in found:
            if self.matched >= MAX_MATCHES or self._size > MAX_TEXT:
                self.cut = f"only the first {self.matched} matches are shown; give a narrower pattern, path or glob"
                return
            self.matched += 1
            start = max(last + 1, index - self._context)
            if self._context and self.lines and start > last + 1:
                self._add("--")
            for at in range(start, min(len(lines), index + self._context + 1)):
                if at > index and at in found:
                    break
                mark = ":" if at in found else "-"
                self._add(f"{path}{mark}{at + 1}{mark} {_around(lines[at], found.get(at, 0))}")
                last = at

    def _add(self, line: str) -> None:
        self.lines.append(line)
        self._size += len(line) + 1


def looked_for(search: Search) -> str:
    """What a search has found, in words."""
    unread = f", not text or not readable: {search.unread}" if search.unread else ""
    if not search.lines:
        cut = f" ({search.cut})" if search.cut else ""
        return f"No line fits {search.pattern!r:.200}. Files searched: {search.files}{unread}.{cut}"
    return "\n".join([*search.lines, *([f"... {search.cut}."] if search.cut else [])])


def _around(line: str, at: int) -> str:
    """The part of a long line that has the match in it."""
    if len(line) <= MAX_SHOWN:
        return line
    start = max(0, min(at - MAX_SHOWN // 4, len(line) - MAX_SHOWN))
    return f"{'...' if start else ''}{line[start : start + MAX_SHOWN]}..."
