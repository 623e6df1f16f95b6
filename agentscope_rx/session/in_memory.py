"""`InMemorySession`: what is saved lives as long as the object; it is kept as text, so that nothing aliases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from agentscope_rx.reactive import Flow, defer, just
from agentscope_rx.reactive.forking import new_lock
from agentscope_rx.session.entry import Entry, check_key, check_name, check_names, decode, encode
from agentscope_rx.session.session import Saved, Session

T = TypeVar("T")


class InMemorySession(Session):
    """Keeps sessions in this process: for tests, and for state that need not outlive it."""

    def __init__(self) -> None:
        self._lock = new_lock()
        # a session's entries are replaced, never changed: who has read them may go on without the lock
        self._sessions: dict[str, dict[str, Entry]] = {}

    def __repr__(self) -> str:
        return f"<InMemorySession of {len(self._sessions)} sessions>"

    def save_all(
        self, key: str, values: Mapping[str, object], lists: Mapping[str, Sequence[object]] | None = None
    ) -> Flow[None]:
        def save() -> None:
            entries = encode(key, values, lists)
            with self._lock:
                self._put(key, self._sessions.get(key, {}) | entries)

        return _now(save)

    def load_all(self, key: str, names: Sequence[str] | None = None) -> Flow[Saved]:
        def load() -> Saved:
            entries, wanted = self._entries(key), check_names(names)
            return decode(
                key, entries if wanted is None else {name: entries[name] for name in wanted if name in entries}
            )

        return _now(load)

    def remove(self, key: str, name: str) -> Flow[bool]:
        def remove() -> bool:
            check_key(key)
            check_name(name)
            with self._lock:
                entries = self._sessions.get(key, {})
                self._put(key, {kept: entry for kept, entry in entries.items() if kept != name})
                return name in entries

        return _now(remove)

    def delete(self, key: str) -> Flow[bool]:
        def delete() -> bool:
            check_key(key)
            with self._lock:
                return self._sessions.pop(key, None) is not None

        return _now(delete)

    def exists(self, key: str) -> Flow[bool]:
        return _now(lambda: bool(self._entries(key)))

    def keys(self) -> Flow[list[str]]:
        def keys() -> list[str]:
            with self._lock:
                return sorted(self._sessions)

        return _now(keys)

    def _entries(self, key: str) -> dict[str, Entry]:
        check_key(key)
        with self._lock:
            return self._sessions.get(key, {})

    def _put(self, key: str, entries: dict[str, Entry]) -> None:
        if entries:
            self._sessions[key] = entries
        else:
            self._sessions.pop(key, None)


def _now(call: Callable[[], T]) -> Flow[T]:
    return defer(lambda: just(call()))
