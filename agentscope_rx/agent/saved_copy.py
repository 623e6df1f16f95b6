"""`SavedCopy`: the copy of a conversation in a session. A save replaces only entries that this conversation knows.

    load        -> notes the version, and the entries that were taken over
    save        -> expects that version; saves follow one another
    a conflict  -> the entries are read again:   as this conversation knows them             saved at the new version
                                                 as a save with unknown outcome wrote them   saved at the new version
                                                 anything else                               SessionConflictError

The version is that of the whole session. A session may hold entries of others, too: these make no conflict.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from agentscope_rx.errors import SessionConflictError, SessionValueError
from agentscope_rx.reactive import Flow, Semaphore, catch, concat_map, defer, throw
from agentscope_rx.session import ANY_VERSION, Expected, Saved, Session
from agentscope_rx.session.entry import StoredEntry, encode

_TRIES: Final = 5
"""The number of attempts of a save while others keep changing their entries."""
_UNSURE: Final = 4
"""The number of saves with unknown outcome that are remembered."""
_ADVICE: Final = (
    "Memory has all of this conversation. Replace it by the stored one with load(), or replace the stored one with "
    "save(..., overwrite=True)."
)


@dataclass(frozen=True, slots=True)
class Binding:
    """The place where a conversation is saved at the end of each of its runs.

    `file_root` is the folder whose files its messages may read; files elsewhere come back locked.
    """

    session: Session
    key: str
    file_root: str | None = None


class SavedCopy:
    """The copy of one conversation under one key; `entries` are compared after a conflict."""

    __slots__ = ("_entries", "_known", "_left", "_unsure", "_version", "key", "session", "turn")

    def __init__(self, session: Session, key: str, entries: Collection[str]) -> None:
        self.session: Session = session
        self.key: str = key
        self.turn: Semaphore = Semaphore(1)
        """Held by a save or a load: each begins when the one before it has ended, whichever run it belongs to."""
        self._entries = entries
        self._version: str | None = None
        self._known = Saved()
        self._left: frozenset[str] = frozenset()
        """Entries that exist and were not taken over: a save that would replace one compares first."""
        # saves that failed without the certainty that nothing was written
        self._unsure: deque[Saved] = deque(maxlen=_UNSURE)

    def is_at(self, session: Session, key: str) -> bool:
        """True if this is the copy under the key of that session."""
        return self.key == key and self.session == session

    def read(self, saved: Saved, taken: Collection[str]) -> None:
        """The conversation continues from the entries in `taken`, as they were read, and ignores the others."""
        self._left = frozenset(name for name in self._entries if name not in taken and _has(saved, name))
        self._version = saved.version
        self._known = _only(saved, taken)
        self._unsure.clear()

    def holds(self, values: Mapping[str, object], lists: Mapping[str, Sequence[object]]) -> bool:
        """True if the session held just these entries when this conversation last read or wrote it."""
        known = self._known
        # in most cases by identity: the items of a list are kept from save to save
        if values == known.values and lists == known.lists:
            return True
        names = (*values, *lists)
        given = Saved(dict(values), {name: list(items) for name, items in lists.items()})
        return self._same(given, known, names)

    @property
    def empty(self) -> bool:
        """True if nothing was read or written yet, and nothing was left in the session."""
        return not (self._known.values or self._known.lists or self._left or self._unsure)

    def write(
        self, values: Mapping[str, object], lists: Mapping[str, Sequence[object]], *, overwrite: bool
    ) -> Flow[None]:
        """Save these entries. The caller holds the turn.

        Signals: one None when they are kept; `SessionConflictError` if the session holds entries that this
        conversation has neither read nor written, unless `overwrite` is true; another `SessionError`.
        Cancels: as `Session.save_all`.
        """
        given = Saved(dict(values), {name: list(items) for name, items in lists.items()})

        def record(version: str | None) -> None:
            self._version = version
            self._left = self._left.difference(given.values, given.lists)
            self._known = Saved({**self._known.values, **given.values}, {**self._known.lists, **given.lists})
            self._unsure.clear()

        def attempt(expected: Expected, left: int) -> Flow[None]:
            def failed(error: Exception) -> Flow[None]:
                if isinstance(error, SessionConflictError) and left and not overwrite:
                    return self.session.load_all(self.key, list(self._entries)).pipe(
                        concat_map(lambda saved: retry(saved, left))
                    )
                if not isinstance(error, (SessionConflictError, SessionValueError)):
                    self._unsure.append(given)
                return throw(error)

            saving = defer(lambda: self.session.save_all(self.key, values, lists, expected=expected))
            return saving.pipe(concat_map(record), catch(failed))

        def retry(saved: Saved, left: int) -> Flow[None]:
            names = [name for name in self._entries if _has(given, name)]
            for each in (self._known, *self._unsure):
                if self._same(saved, each, names):
                    self._left = frozenset(name for name in self._entries if not self._same(saved, each, [name]))
                    return attempt(saved.version, left - 1)
            return throw(SessionConflictError(self.key, self._version, saved.version, _ADVICE))

        if overwrite:
            return attempt(ANY_VERSION, 0)
        unread = not self._left.isdisjoint((*given.values, *given.lists))
        return attempt(None if unread else self._version, _TRIES - 1)

    def _same(self, one: Saved, other: Saved, names: Collection[str]) -> bool:
        return self._text(_only(one, names)) == self._text(_only(other, names))

    def _text(self, saved: Saved) -> dict[str, StoredEntry]:
        return encode(self.key, saved.values, saved.lists)


def _has(saved: Saved, name: str) -> bool:
    return name in saved.values or name in saved.lists


def _only(saved: Saved, names: Collection[str]) -> Saved:
    values = {name: value for name, value in saved.values.items() if name in names}
    return Saved(values, {name: items for name, items in saved.lists.items() if name in names})
