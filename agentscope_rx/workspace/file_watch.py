"""`FileWatch`: the text of files, read again only when a file has changed.

| the file                                        | gives                                                       |
|-------------------------------------------------|-------------------------------------------------------------|
| is as it was when it was read                   | the text that was read then; the file is not opened         |
| is new or has changed                           | its text                                                    |
| is large                                        | its first `limit` bytes, up to a line end; `more` is True   |
| cannot be read, is binary, is not UTF-8         | a problem in words, and no text                             |
| does not exist, or is denied by the workspace   | None                                                        |

`names` does the same for the entries of a folder, whose times change when a name is added or removed.

A file has changed if its inode, size, or one of its times (in nanoseconds) differs. File systems count time in steps,
so a file that was changed within `SETTLING` seconds before it was read is read again at the next look.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from agentscope_rx.errors import WorkspaceError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.tools.files import Workspace
from agentscope_rx.tools.files.dirfd import FileKind
from agentscope_rx.tools.files.encoding import unix
from agentscope_rx.tools.files.resolve import ResolvedPath, translated_errors

LIMIT: Final = 256 * 1024
"""Bytes of a file that are read."""
SETTLING: Final = 3.0
"""The coarsest steps of file times are 2 seconds (FAT)."""
KEPT: Final = 512
"""Files whose texts are kept."""
_ABSENT: Final = frozenset(("missing", "denied"))

Stamp = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class FileText:
    """What a file holds: its text, or the problem with it. `more`: the file goes on behind the text."""

    text: str = ""
    problem: str = ""
    more: bool = False


@dataclass(frozen=True, slots=True)
class _Read:
    """A file as it was read. `settled`: a later change gives it another stamp."""

    stamp: Stamp | None
    settled: bool
    content: FileText


@dataclass(frozen=True, slots=True)
class _Listed:
    """A folder as it was listed: the paths in it, those of folders with a slash at the end."""

    stamp: Stamp
    settled: bool
    names: tuple[str, ...]


class FileWatch:
    """The texts of files of one workspace. Its methods block: call them on a worker thread, from any number of them.

    `clock` gives the time in seconds since the epoch.
    """

    __slots__ = ("_clock", "_files", "_folders", "_limit", "_workspace")

    def __init__(self, workspace: Workspace, *, limit: int = LIMIT, clock: Callable[[], float] = time.time) -> None:
        self._workspace = workspace
        self._limit = limit
        self._clock = clock
        # each look replaces it, so that no lock is held while files are read
        self._files: Mapping[str, _Read] = {}
        self._folders: Mapping[str, _Listed] = {}

    def look(self, paths: Iterable[str]) -> dict[str, FileText]:
        """The contents of those files that exist, in this order; equal contents are the same object as before."""
        before = self._files
        found: dict[str, _Read] = {}
        for path in (looked := dict.fromkeys(paths)):
            read = self._one(path, before.get(path))
            if read is not None:
                found[path] = read
        kept = [each for each in {**before, **found}.items() if each[0] in found or each[0] not in looked]
        self._files = dict(kept[-KEPT:])
        return {path: read.content for path, read in found.items()}

    def names(self, folder: str) -> tuple[str, ...]:
        """The paths of the files and folders in a folder, folders with a slash; none if there is no such folder."""
        before = self._folders.get(folder)
        try:
            with self._workspace.resolve(folder) as resolved, translated_errors(folder):
                status = resolved.stat()
            if status is None:
                return ()
            stamp = _stamp(status)
            if before is not None and before.settled and before.stamp == stamp:
                return before.names
            now = self._clock()
            kinds = {FileKind.FILE: "", FileKind.FOLDER: "/"}
            entries = self._workspace.entries(folder)
        except WorkspaceError as error:
            if error.reason == "replaced":
                raise
            return ()
        names = tuple(f"{each.path}{kinds[each.kind]}" for each in entries if each.kind in kinds)
        self._folders = {**self._folders, folder: _Listed(stamp, self._is_settled(stamp, now), names)}
        return names

    def _is_settled(self, stamp: Stamp, now: float) -> bool:
        return now - max(stamp[3], stamp[4]) / 1e9 > SETTLING

    def _one(self, path: str, before: _Read | None) -> _Read | None:
        try:
            with self._workspace.resolve(path) as resolved, translated_errors(path):
                status = resolved.stat()
                if status is None:
                    return None
                stamp = _stamp(status)
                if before is not None and before.settled and before.stamp == stamp:
                    return before
                now = self._clock()
                content = _content(resolved, self._limit)
        except WorkspaceError as error:
            if error.reason in _ABSENT:
                return None
            if error.reason == "replaced":
                raise
            stamp, now, content = None, 0.0, FileText(problem=str(error))
        settled = stamp is not None and self._is_settled(stamp, now)
        return _Read(stamp, settled, before.content if before is not None and before.content == content else content)


def _stamp(status: os.stat_result) -> Stamp:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _content(resolved: ResolvedPath, limit: int) -> FileText:
    if resolved.kind() is FileKind.FOLDER:
        return FileText(problem="This is a folder, not a file.")
    data = resolved.head(limit + 1)
    more = len(data) > limit
    if more:
        # a line end is never a part of a character in UTF-8
        data = data[: data.rfind(b"\n", 0, limit) + 1]
    if b"\0" in data:
        return FileText(problem="This is not a text file.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return FileText(problem="This file is not UTF-8 text. Save it as UTF-8 to have it here.")
    return FileText(unix(text), more=more)
