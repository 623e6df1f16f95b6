"""Tools that look at the files of a workspace. Every answer is bounded plain text, one fact a line."""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Annotated

from pydantic import Field

from agentscope_rx.errors import ToolError
from agentscope_rx.tools import tool
from agentscope_rx.tools.files.dirfd import FileKind
from agentscope_rx.tools.files.encoding import decoded
from agentscope_rx.tools.files.paths import shown
from agentscope_rx.tools.files.workspace import Workspace

MAX_ENTRIES = 200
MAX_BYTES = 4 * 1024 * 1024
"""How large a file may be to be read or searched."""
MAX_TEXT = 20_000
"""How many characters of a file one answer holds."""
MAX_MATCHES = 50
MAX_SEARCHED = 5_000
MAX_LINE = 200
PROGRESS_EVERY = 200

_RANGE = re.compile(r"(?P<path>.+):(?P<first>\d{1,9})(?P<open>-(?P<last>\d{1,9})?)?:?", re.DOTALL | re.ASCII)
_SUFFIX = {
    FileKind.FILE: "",
    FileKind.FOLDER: "/",
    FileKind.LINK: " (a link, not followed)",
    FileKind.OTHER: " (not a file)",
}


class FileTools:
    """list_files, read_file and search_files over one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    @tool
    def list_files(
        self,
        path: Annotated[
            str, Field(description="The folder, relative to the working directory.", examples=["src/app", "src"])
        ] = ".",
    ) -> str:
        """List the files in a folder (directory)."""
        entries = self._workspace.entries(path.strip())
        if not entries:
            return f"The folder {shown(path)} is empty."
        lines = [f"{entry.path}{_SUFFIX[entry.kind]}" for entry in entries[:MAX_ENTRIES]]
        if len(entries) > MAX_ENTRIES:
            lines.append(f"... and {len(entries) - MAX_ENTRIES} more")
        return "\n".join(lines)

    @tool
    def read_file(
        self,
        path: Annotated[
            str,
            Field(
                description="The file, relative to the working directory. For some lines only: path:first-last.",
                examples=["notes/todo.txt"],
            ),
        ],
    ) -> str:
        """Read a file: what it says, its text, its contents."""
        # the range is part of the path, as search_files writes it: a small model fills in any argument it is offered
        data, first, last = self._ranged(path.strip())
        lines = decoded(data, path)[0].splitlines()
        if not lines:
            return f"The file {shown(path)} is empty."
        if first > len(lines):
            raise ToolError(f"{shown(path)} has {len(lines)} lines; there is no line {first}.")
        end = min(last or len(lines), len(lines))
        if end < first:
            raise ToolError(f"The range in {shown(path)} ends before it begins.")
        return _excerpt(lines, first, end)

    def _ranged(self, path: str) -> tuple[bytes, int, int]:
        """A file's bytes, and which of its lines are wanted; 0 is the end."""
        found = _RANGE.fullmatch(path)
        try:
            return self._workspace.read(path, MAX_BYTES), 1, 0
        except ToolError:
            # a file whose own name ends like a range comes first
            if found is None:
                raise
        first = max(1, int(found["first"]))
        last = int(found["last"]) if found["last"] else 0 if found["open"] else first
        return self._workspace.read(found["path"], MAX_BYTES), first, last

    @tool
    def search_files(
        self,
        pattern: Annotated[str, Field(description="The word or phrase to look for.", examples=["banana"])],
        path: Annotated[str, Field(description="The folder to search in.")] = ".",
    ) -> object:
        """Search all files for a word or phrase: find where it is used, which file mentions it."""
        # a generator, but not announced as one: its last value is the result alone, the values before it are progress
        return self._search(pattern, path.strip())

    def _search(self, pattern: str, path: str) -> Generator[str]:
        wanted = pattern.strip().casefold()
        if not wanted:
            raise ToolError("The pattern is empty. Give a word or phrase to look for.")
        searched, unread = 0, 0
        found: list[str] = []
        for file in (entry.path for entry in self._workspace.walk(path)):
            if searched + unread >= MAX_SEARCHED or len(found) > MAX_MATCHES:
                break
            try:
                text, _ = decoded(self._workspace.read(file, MAX_BYTES), file)
            except ToolError:
                # a picture, or a file that has just gone
                unread += 1
                continue
            searched += 1
            lines = _matches(file, text, wanted)
            found += lines
            if lines:
                yield f"{file}: {len(lines)} found"
            elif searched % PROGRESS_EVERY == 0:
                yield f"{searched} files searched"
        yield _told(found, pattern, searched, searched + unread >= MAX_SEARCHED)


def _excerpt(lines: list[str], first: int, end: int) -> str:
    """Lines `first` to `end`, as many as fit, and a note if they are not the whole file."""
    taken: list[str] = []
    room = MAX_TEXT
    for line in lines[first - 1 : end]:
        if len(line) >= room:
            if not taken:
                taken.append(f"{line[:room]}...")
            break
        taken.append(line)
        room -= len(line) + 1
    last = first + len(taken) - 1
    text = "\n".join(taken)
    if first == 1 and last == len(lines):
        return text
    more = f" Read on from line {last + 1} with path:{last + 1}-" if last < end else ""
    return f"{text}\n(Lines {first} to {last} of {len(lines)}.{more})"


def _matches(file: str, text: str, wanted: str) -> list[str]:
    if wanted not in text.casefold():
        return []
    return [
        f"{file}:{number}: {_around(line.strip(), wanted)}"
        for number, line in enumerate(text.splitlines(), 1)
        if wanted in line.casefold()
    ]


def _around(line: str, wanted: str) -> str:
    """The part of a long line that has the match in it."""
    if len(line) <= MAX_LINE:
        return line
    start = max(0, min(line.casefold().find(wanted) - MAX_LINE // 4, len(line) - MAX_LINE))
    return f"{'...' if start else ''}{line[start : start + MAX_LINE]}..."


def _told(found: list[str], pattern: str, searched: int, cut: bool) -> str:
    if not found:
        regular = set(pattern) & set("\\*[]|^$")
        hint = " It is looked for as it is, not as a regular expression." if regular else ""
        return f"No file has {shown(pattern)}. Files searched: {searched}{', and no more' if cut else ''}.{hint}"
    lines = found[:MAX_MATCHES]
    if len(found) > MAX_MATCHES:
        lines.append(f"... and more. Only the first {MAX_MATCHES} are shown.")
    elif cut:
        lines.append(f"... Only the first {MAX_SEARCHED} files were searched.")
    return "\n".join(lines)
