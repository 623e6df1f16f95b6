"""`InMemorySession`: state that lives as long as the object. It is kept as JSON, so that no value is shared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from itertools import count
from typing import TypeVar

from agentscope_rx.frozen_values import dataclass
from agentscope_rx.reactive import Flow, defer, just
from agentscope_rx.reactive.kernel.forking import new_lock
from agentscope_rx.session.entry import StoredEntry, check_key, check_name, check_names, decode, encode
from agentscope_rx.session.session import ANY_VERSION, Expected, Items, Saved, Session, check_expected

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _State:
    """The entries of one session at a version. It is replaced, never changed, so that reading needs no lock."""

    entries: Mapping[str, StoredEntry] = field(default_factory=dict[str, StoredEntry])
    version: str | None = None


_ABSENT = _State()


class InMemorySession(Session):
    """Keeps sessions in this process: for tests, and for state that may be lost with it."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._sessions: dict[str, _State] = {}
        # one counter for all sessions: a session that is deleted and made again must not repeat a version
        self._versions = count(1)

    def __repr__(self) -> str:
        return f"<InMemorySession of {len(self._sessions)} sessions>"

    def save_all(
        self,
        key: str,
        values: Mapping[str, object],
        lists: Mapping[str, Items] | None = None,
        *,
        expected: Expected = ANY_VERSION,
    ) -> Flow[str | None]:
        def save() -> str | None:
            entries = encode(key, values, lists)
            with self._lock:
                before = self._sessions.get(key, _ABSENT)
                check_expected(key, expected, before.version)
                whole = {name: entry.onto(key, name, before.entries.get(name)) for name, entry in entries.items()}
                return self._put(key, before, {**before.entries, **whole})

        return _now(save)

    def load_all(self, key: str, names: Sequence[str] | None = None) -> Flow[Saved]:
        def load() -> Saved:
            state, wanted = self._state(key), check_names(names)
            entries = state.entries
            if wanted is not None:
                entries = {name: entries[name] for name in wanted if name in entries}
            return decode(key, entries, state.version)

        return _now(load)

    def remove(self, key: str, name: str) -> Flow[bool]:
        def remove() -> bool:
            check_key(key)
            check_name(name)
            with self._lock:
                before = self._sessions.get(key, _ABSENT)
                self._put(key, before, {kept: entry for kept, entry in before.entries.items() if kept != name})
                return name in before.entries

        return _now(remove)

    def delete(self, key: str) -> Flow[bool]:
        def delete() -> bool:
            check_key(key)
            with self._lock:
                return self._sessions.pop(key, None) is not None

        return _now(delete)

    def exists(self, key: str) -> Flow[bool]:
        return _now(lambda: self._state(key) is not _ABSENT)

    def keys(self) -> Flow[list[str]]:
        def keys() -> list[str]:
            with self._lock:
                return sorted(self._sessions)

        return _now(keys)

    def _state(self, key: str) -> _State:
        check_key(key)
        with self._lock:
            return self._sessions.get(key, _ABSENT)

    def _put(self, key: str, before: _State, entries: dict[str, StoredEntry]) -> str | None:
        """Replace the entries with the lock held; returns the version."""
        if entries == before.entries:
            return before.version
        if not entries:
            del self._sessions[key]
            return None
        state = self._sessions[key] = _State(entries, f"{next(self._versions)}")
        return state.version


def _now(call: Callable[[], T]) -> Flow[T]:
    return defer(lambda: just(call()))
