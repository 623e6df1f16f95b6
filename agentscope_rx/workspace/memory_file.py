"""`MemoryFile`: MEMORY.md, what of the daily files it has, and when it was distilled last.

    claim()      the gap has passed, and there is something new --> MEMORY.md and the new notes, for one distiller
    replace()    MEMORY.md is what it was then --> the old one to memory/archive/, the new one in its place

The state is in `.agentscope/memory.json`, which tools of models do not reach, so that all agents and processes that
share the workspace keep one gap between them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, cast

from agentscope_rx.errors import InvalidInputError, WorkspaceError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.tools.files import Workspace
from agentscope_rx.workspace.daily_log import ATTEMPTS, DailyLog, without_marks
from agentscope_rx.workspace.layout import ARCHIVE, LIBRARY, MEMORY, own_workspace

STATE: Final = f"{LIBRARY}/memory.json"
MAX_NEWS: Final = 60_000
"""Bytes of daily files that one distillation gets; the rest waits for the next one."""


@dataclass(frozen=True, slots=True)
class _Part:
    """The beginning of a daily file that MEMORY.md has: its size in bytes, and a digest of it."""

    size: int
    digest: str

    @classmethod
    def of(cls, data: bytes) -> _Part:
        return cls(len(data), hashlib.sha256(data).hexdigest()[:16])

    def begins(self, data: bytes) -> bool:
        return _Part.of(data[: self.size]) == self


@dataclass(frozen=True, slots=True)
class _State:
    claimed: float
    logs: Mapping[str, _Part]


@dataclass(frozen=True, slots=True)
class Claim:
    """One distillation: MEMORY.md as it is (None: there is none), the new notes by day, and what has then been read."""

    memory: bytes | None
    news: Mapping[str, str]
    logs: Mapping[str, _Part]

    @property
    def text(self) -> str:
        """MEMORY.md as text; `InvalidInputError` if it is not UTF-8."""
        try:
            return (self.memory or b"").decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InvalidInputError(
                f"{MEMORY} of the workspace is not UTF-8 text, so it stays as it is. Save it as UTF-8."
            ) from error


class _KeptError(Exception):
    """Leaves a file as it is."""


class MemoryFile:
    """MEMORY.md of one workspace. Its methods block."""

    def __init__(self, workspace: Workspace, log: DailyLog, *, versions: int) -> None:
        self._workspace = workspace
        self._own = own_workspace(workspace)
        self._log = log
        self._versions = versions

    def claim(self, now: float, gap: float) -> Claim | None:
        """What is to be distilled; None if there is nothing new, or the last claim is less than `gap` seconds ago."""
        state = self._state()
        if not _is_due(state, now, gap):
            return None
        news, logs = self._news(state)
        if not news:
            return None
        memory = self._memory()
        claimed = self._change(lambda state: replace(state, claimed=now) if _is_due(state, now, gap) else None)
        return Claim(memory, news, logs) if claimed else None

    def again(self, claim: Claim) -> Claim:
        """The claim with MEMORY.md as it is now."""
        return replace(claim, memory=self._memory())

    def replace(self, claim: Claim, text: str, now: float) -> bool:
        """Put the text in the place of MEMORY.md; False, and no change, if it is not what the claim has read."""
        data = text.encode()
        if claim.memory is not None and claim.memory.strip():
            if self._memory() != claim.memory:
                return False
            if data != claim.memory:
                self._keep_version(claim.memory, now)
        try:
            self._put(claim.memory, data)
        except _KeptError:
            return False
        except WorkspaceError as error:
            if error.reason not in ("changed", "missing"):
                raise
            return False
        days = frozenset(self._log.days())
        self._change(lambda state: replace(state, logs=_of(days, {**state.logs, **claim.logs})))
        return True

    def done(self) -> list[str]:
        """The days whose whole files MEMORY.md has."""
        state = self._state()
        return [
            day for day in self._log.days() if (part := state.logs.get(day)) and part == _Part.of(self._log.read(day))
        ]

    def _put(self, before: bytes | None, data: bytes) -> None:
        def changed(found: bytes) -> bytes:
            if found != before:
                raise _KeptError
            return data

        def made(head: bytes | None) -> bytes:
            if head is not None:
                raise _KeptError
            return data

        if before is None:
            self._workspace.write(MEMORY, made)
        else:
            self._workspace.update(MEMORY, changed)

    def _memory(self) -> bytes | None:
        try:
            return self._workspace.read(MEMORY)
        except WorkspaceError as error:
            if error.reason == "missing":
                return None
            raise

    def _news(self, state: _State) -> tuple[dict[str, str], dict[str, _Part]]:
        news: dict[str, str] = {}
        logs: dict[str, _Part] = {}
        room = MAX_NEWS
        for day in self._log.days():
            data = self._log.read(day)
            known = state.logs.get(day)
            # (a file whose beginning was edited is new as a whole)
            start = known.size if known is not None and known.begins(data) else 0
            end = len(data) if len(data) - start <= room else data.rfind(b"\n", start, start + room) + 1
            if end <= start:
                if len(data) > start:
                    break
                continue
            text = without_marks(data[start:end].decode("utf-8", "replace"))
            logs[day] = _Part.of(data[:end])
            room -= end - start
            if text.strip():
                news[day] = text
        return news, logs

    def _keep_version(self, data: bytes, now: float) -> None:
        at = datetime.fromtimestamp(now, UTC)
        self._workspace.write(f"{ARCHIVE}/MEMORY-{at:%Y%m%dT%H%M%SZ}.md", data)
        names = [each.path for each in self._workspace.entries(ARCHIVE) if each.name.startswith("MEMORY-")]
        for path in sorted(names)[: -self._versions]:
            with suppress(WorkspaceError):
                self._workspace.delete(path)

    # --- the state ----------------------------------------------------------------------------------------------------

    def _state(self) -> _State:
        try:
            return _read(self._own.read(STATE))
        except WorkspaceError as error:
            if error.reason == "missing":
                return _State(0.0, {})
            raise

    def _change(self, change: Callable[[_State], _State | None]) -> bool:
        """Replace the state by `change(state)`, atomically; False, and no change, if that is None."""

        def changed(data: bytes | None) -> bytes:
            state = change(_State(0.0, {}) if data is None else _read(data))
            if state is None:
                raise _KeptError
            return _written(state)

        for attempt in range(ATTEMPTS):
            try:
                try:
                    self._own.update(STATE, changed)
                except WorkspaceError as error:
                    if error.reason != "missing":
                        raise
                    self._own.write(STATE, changed)
            except _KeptError:
                return False
            except WorkspaceError as error:
                # another process has changed it
                if error.reason != "changed" or attempt == ATTEMPTS - 1:
                    raise
            else:
                return True
        return False


def _of(days: Collection[str], logs: Mapping[str, _Part]) -> dict[str, _Part]:
    return {day: part for day, part in logs.items() if day in days}


def _is_due(state: _State, now: float, gap: float) -> bool:
    # (a claim of the future is of a clock that was wrong)
    return not now - gap < state.claimed <= now


def _written(state: _State) -> bytes:
    logs = {day: [part.size, part.digest] for day, part in sorted(state.logs.items())}
    return json.dumps({"version": 1, "claimed": state.claimed, "logs": logs}, indent=1).encode()


def _read(data: bytes) -> _State:
    try:
        found = cast("Mapping[str, object]", json.loads(data))
        if found["version"] != 1:
            raise ValueError("its version is not 1")
        logs = cast("Mapping[str, tuple[int, str]]", found["logs"])
        parts = {day: _Part(int(size), str(digest)) for day, (size, digest) in logs.items()}
        return _State(float(cast("float", found["claimed"])), parts)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidInputError(
            f"{STATE} of the workspace cannot be read ({error}). Delete it: the daily notes are then distilled again."
        ) from error
