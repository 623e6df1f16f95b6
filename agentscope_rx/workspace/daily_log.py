"""`DailyLog`: what was noted on each day, in `memory/2026-11-23.md`; entries are appended, whole or not at all.

    # Notes of 2026-11-23

    ## 14:05 Friday
    <!-- through 0f3a9c1b2d4e5f60 -->
    - Ann prefers tea.

The comment names the last message of an entry by a digest. It is written together with the facts, so that a message
whose record was interrupted, or whose conversation was not saved afterwards, is not noted twice.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import Final

from agentscope_rx.errors import WorkspaceError
from agentscope_rx.reactive.kernel.forking import new_lock
from agentscope_rx.tools.files import Workspace
from agentscope_rx.tools.files.dirfd import FileKind
from agentscope_rx.workspace.layout import ARCHIVE, DAILY, daily_file

_NAME: Final = re.compile(r"(\d{4}-\d{2}-\d{2})\.md")
_MARK: Final = re.compile(r"<!-- through ([0-9a-f]{16}) -->\n?")
ATTEMPTS: Final = 5
"""How often a file that another program is changing is read again."""


def mark_of(message_id: str) -> str:
    """The digest that stands for a message."""
    return hashlib.sha256(message_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def without_marks(text: str) -> str:
    """The notes as a model reads them."""
    return _MARK.sub("", text)


def entry(facts: Iterable[str], agent: str, at: datetime, mark: str) -> str:
    """The text of one entry. No fact and no name begins a line of its own, or a comment."""
    title = _one_line(f"{at:%H:%M} {agent}")
    lines = "".join(f"- {_one_line(fact)}\n" for fact in facts)
    return f"## {title}\n<!-- through {mark} -->\n{lines}"


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("<!--", "&lt;!--").encode("utf-8", "replace").decode()


class DailyLog:
    """The daily files of one workspace. Its methods block."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        # a write that was abandoned goes on: what is read after it was begun must have it
        self._writing = new_lock()

    def append(self, day: date, text: str, mark: str) -> bool:
        """Append an entry; False if the file has one with this mark. Others may write to the file meanwhile."""
        path = daily_file(day)
        for attempt in range(ATTEMPTS):
            try:
                with self._writing:
                    return self._append(path, f"# Notes of {day.isoformat()}\n\n", text, mark)
            except WorkspaceError as error:
                # changed or made by another program: read it again
                if error.reason not in ("changed", "exists") or attempt == ATTEMPTS - 1:
                    raise
        return False

    def _append(self, path: str, title: str, text: str, mark: str) -> bool:
        done = False

        def extended(data: bytes) -> bytes:
            nonlocal done
            if f"<!-- through {mark} -->".encode() in data:
                return data
            done = True
            gap = b"" if not data.strip() else b"\n" if data.endswith(b"\n") else b"\n\n"
            return data + gap + text.encode()

        def made(head: bytes | None) -> bytes:
            nonlocal done
            if head is not None:
                raise WorkspaceError(f"{path!r} exists already.", path=path, reason="exists")
            done = True
            return (title + text).encode()

        try:
            self.workspace.update(path, extended)
        except WorkspaceError as error:
            if error.reason != "missing":
                raise
            self.workspace.write(path, made)
        return done

    def marks(self, days: Iterable[date]) -> frozenset[str]:
        """The marks of all entries of these days."""
        found: set[str] = set()
        for day in days:
            with suppress(WorkspaceError), self._writing:
                text = self.workspace.read(daily_file(day)).decode("utf-8", "replace")
                found.update(_MARK.findall(text))
        return frozenset(found)

    def days(self) -> Sequence[str]:
        """The days that have a file, the oldest first, as in its name."""
        try:
            entries = self.workspace.entries(DAILY)
        except WorkspaceError as error:
            if error.reason in ("missing", "denied"):
                return ()
            raise
        names = [found[1] for each in entries if each.kind is FileKind.FILE and (found := _NAME.fullmatch(each.name))]
        return sorted(name for name in names if _is_day(name))

    def read(self, day: str) -> bytes:
        """The file of a day."""
        return self.workspace.read(f"{DAILY}/{day}.md")

    def archive(self, today: date, keep_days: int, done: Iterable[str] | None) -> list[str]:
        """Move the files of days that are older to the archive; of those in `done`, if it is given."""
        last = (today - timedelta(days=keep_days)).isoformat()
        allowed = None if done is None else frozenset(done)
        moved: list[str] = []
        for day in self.days():
            if day >= last or (allowed is not None and day not in allowed):
                continue
            # a file of the name that is in the archive already stays as it is, and so does this one
            with suppress(WorkspaceError):
                self.workspace.move(f"{DAILY}/{day}.md", f"{ARCHIVE}/{day}.md")
                moved.append(day)
        return moved


def _is_day(name: str) -> bool:
    with suppress(ValueError):
        date.fromisoformat(name)
        return True
    return False
