r"""`Search`: one grep over many files, bounded in matches, text and time.

Models write the patterns. Rust's regex engine takes time linear in the line (see `tools.schemas.pattern`); Python's
`re` backtracks, and holds the interpreter for minutes over `(a+)+$` and 40 letters. Linear time is still too long for a
long line and a pattern with large repeats, so that a line is searched only as far as `MAX_WORK` goes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from agentscope_rx.errors import ToolError
from agentscope_rx.errors.text import encodable
from agentscope_rx.tools.files.encoding import decoded, lines_of
from agentscope_rx.tools.files.workspace import FileEntry, Workspace
from agentscope_rx.tools.schemas.pattern import Pattern, PatternError

SECONDS = 10.0
"""How long one search may take."""
MAX_PATTERN = 1_000
MAX_WORK = 40_000_000
"""Characters of a line times units of the pattern. One takes up to 7 ns, and the engine cannot be interrupted."""
MAX_MATCHES = 200
MAX_SHOWN = 300
"""How many characters of a line are shown."""
MAX_TEXT = 50_000
MAX_VISITED = 50_000
"""How many files, and how many folders, one search visits."""


class Walk:
    """The files at or below a path, bounded in files, folders and seconds; `cut` says which bound was reached."""

    def __init__(self, workspace: Workspace, path: str) -> None:
        self.files: int = 0
        self.cut = ""
        self._workspace = workspace
        self._path = path
        self._folders = 0
        self._deadline = time.monotonic() + SECONDS

    def __iter__(self) -> Iterator[FileEntry]:
        for entry in self._workspace.walk(self._path, stop=self._stop):
            if self.files >= MAX_VISITED:
                self.cut = f"only the first {MAX_VISITED} files were visited; give a path"
            if self.cut or self._late():
                return
            self.files += 1
            yield entry

    def _stop(self) -> bool:
        """Called before each folder is read: a tree may have no files at all."""
        self._folders += 1
        if self._folders > MAX_VISITED:
            self.cut = f"only the first {MAX_VISITED} folders were visited; give a path"
        return bool(self.cut) or self._late()

    def _late(self) -> bool:
        if time.monotonic() > self._deadline:
            self.cut: str = f"the search was stopped after {SECONDS:g} s; give a path"
        return bool(self.cut)


class Search:
    """The matches found so far, with the lines around them; `ToolError` for a pattern that the engine refuses."""

    def __init__(self, pattern: str, *, ignore_case: bool = False, context: int = 0, seconds: float = SECONDS) -> None:
        self.pattern = pattern
        self.files: int = 0
        self.skipped: int = 0
        self.matched: int = 0
        self.cut = ""
        """Why the search has ended early; '' if it has not."""
        self._lines: list[str] = []
        self._size = 0
        self._context = context
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._regex = _compiled(pattern, ignore_case)
        self._max_line = MAX_WORK // self._regex.units
        self._long_lines = 0
        self._locating = MAX_WORK
        """What is left for finding the matches within long lines."""

    def file(self, path: str, read: Callable[[], bytes]) -> None:
        """Search one file. A file that is not text, or cannot be read, is counted and skipped."""
        try:
            lines = lines_of(decoded(read(), path)[0])
        except ToolError:
            self.skipped += 1
            return
        self.files += 1
        if found := self._matching(lines):
            self._show(path, lines, found)

    def result(self) -> str:
        """The matches as the model reads them."""
        notes = [f"not text or not readable: {self.skipped}"] if self.skipped else []
        if self._long_lines:
            notes.append(f"lines searched to character {self._max_line:,} only: {self._long_lines}")
        if not self._lines:
            cut = f" ({self.cut})" if self.cut else ""
            searched = ", ".join([f"Files searched: {self.files}", *notes])
            return f"No line matches {self.pattern!r:.200}. {searched}.{cut}"
        end = [f"... {self.cut}."] if self.cut else []
        return "\n".join([*self._lines, *end, *([f"({notes[-1]}.)"] if self._long_lines else [])])

    def _matching(self, lines: list[str]) -> set[int]:
        """The indexes of the lines that match, one more than is shown at most."""
        found: set[int] = set()
        work = 0
        for index, line in enumerate(lines):
            if len(line) > self._max_line:
                self._long_lines += 1
                line = line[: self._max_line]
            if self._regex.matches(line):
                found.add(index)
                if self.matched + len(found) > MAX_MATCHES:
                    break
            work += len(line) * self._regex.units + 1_000
            if work > MAX_WORK:
                work = 0
                if time.monotonic() > self._deadline:
                    break
        if time.monotonic() > self._deadline:
            self.cut = (
                f"the search was stopped after {self._seconds:g} s; search fewer files, or give a simpler pattern"
            )
        return found

    def _show(self, path: str, lines: list[str], found: set[int]) -> None:
        last = -1
        for index in sorted(found):
            if self.matched >= MAX_MATCHES or self._size > MAX_TEXT:
                self.cut: str = (
                    f"only the first {self.matched} matches are shown; give a narrower pattern, path or glob"
                )
                return
            self.matched += 1
            start = max(last + 1, index - self._context)
            if self._context and self._lines and start > last + 1:
                self._add("--")
            for at in range(start, min(len(lines), index + self._context + 1)):
                if at > index and at in found:
                    break
                mark = ":" if at in found else "-"
                self._add(f"{path}{mark}{at + 1}{mark} {self._excerpt(lines[at], at in found)}")
                last = at

    def _excerpt(self, line: str, matches: bool) -> str:
        """A short line whole; of a long one the first part that matches by itself, or else its beginning."""
        if len(line) <= MAX_SHOWN:
            return line
        shown = 0
        for start in range(0, len(line) - MAX_SHOWN // 2, MAX_SHOWN // 2) if matches else ():
            self._locating -= MAX_SHOWN * self._regex.units
            if self._locating < 0:
                break
            if self._regex.matches(line[start : start + MAX_SHOWN]):
                shown = start
                break
        return f"{'...' if shown else ''}{line[shown : shown + MAX_SHOWN]}..."

    def _add(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line) + 1


def _compiled(pattern: str, ignore_case: bool) -> Pattern:
    if not pattern:
        raise ToolError("The pattern is empty. Give a word or a regular expression to search for.")
    if len(pattern) > MAX_PATTERN:
        raise ToolError(f"The pattern is longer than {MAX_PATTERN} characters. Give a shorter one.")
    if "\n" in pattern:
        raise ToolError("The pattern has a line break in it, but each line is searched alone. Give text of one line.")
    try:
        return Pattern(encodable(f"(?i){pattern}" if ignore_case else pattern))
    except PatternError as error:
        raise ToolError(
            f"{pattern!r:.200} is no regular expression that can be searched for: {error}. Give a simpler one, and "
            "escape characters that are meant as they are."
        ) from None
