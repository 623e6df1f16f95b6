"""`SavedCopy`: what a conversation knows of its copy in a session; it replaces only what it has read or written.

    load        -> the version, and the entries that were taken over
    save        -> at that version, one save after the other
    a conflict  -> the entries are read again:   those that this conversation knows      saved at the new version
                                                 those of a save whose end is not known  saved at the new version
                                                 others                                  SessionConflictError

The version is that of the whole session, and a session may hold entries of others, too: they are no conflict.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from agentscope_rx.errors import SessionConflictError, SessionValueError
from agentscope_rx.reactive import Flow, Semaphore, catch, concat_map, defer, throw
from agentscope_rx.session import ANY_VERSION, Expected, Saved, Session
from agentscope_rx.session.entry import StoredEntry, encode

_TRIES: Final = 5
"""How often a save is begun when others keep changing entries of theirs."""
_UNSURE: Final = 4
"""How many saves whose end is not known are remembered."""
_ADVICE: Final = (
    "This conversation is whole in memory. Put what is stored in its place with load(), or replace what is stored with "
    "save(..., overwrite=True)."
)


class SavedCopy:
    """The copy of one conversation under one key; `entries` are the names of what is compared after a conflict."""

    __slots__ = ("_entries", "_known", "_left", "_unsure", "_version", "key", "session", "turn")

    def __init__(self, session: Session, key: str, entries: Collection[str]) -> None:
        self.session = session
        self.key = key
        self.turn = Semaphore(1)
        """Held by a save or a load: each begins where the one before it has ended, whichever run it belongs to."""
        self._entries = entries
        self._version: str | None = None
        self._known = Saved()
        self._left: frozenset[str] = frozenset()
        """Entries that are there and were not read: a save that is to replace one has to find out."""
        # those that failed without saying that nothing was written
        self._unsure: deque[Saved] = deque(maxlen=_UNSURE)

    def is_at(self, session: Session, key: str) -> bool:
        """Whether this is the copy under the key of that session."""
        return self.key == key and self.session == session

    def read(self, saved: Saved, taken: Collection[str]) -> None:
        """The conversation goes on from the entries in `taken`, as they were read; others it leaves aside."""
        self._left = frozenset(name for name in self._entries if name not in taken and _has(saved, name))
        self._version = saved.version
        self._known = _only(saved, taken)
        self._unsure.clear()

    def write(
        self, values: Mapping[str, object], lists: Mapping[str, Sequence[object]], *, overwrite: bool
    ) -> Flow[None]:
        """Save these entries, with the turn in hand.

        Signals: one None when they are kept; `SessionConflictError` if the session holds what this conversation
        neither has read nor written, unless that is to be overwritten; another `SessionError`.
        Cancels: as `Session.save_all`.
        """
        given = Saved(dict(values), {name: list(items) for name, items in lists.items()})

        def kept(version: str | None) -> None:
            self._version = version
            self._left = self._left.difference(given.values, given.lists)
            self._known = Saved({**self._known.values, **given.values}, {**self._known.lists, **given.lists})
            self._unsure.clear()

        def attempt(expected: Expected, left: int) -> Flow[None]:
            def failed(error: Exception) -> Flow[None]:
                if isinstance(error, SessionConflictError) and left and not overwrite:
                    return self.session.load_all(self.key, list(self._entries)).pipe(
                        concat_map(lambda saved: again(saved, left))
                    )
                if not isinstance(error, (SessionConflictError, SessionValueError)):
                    self._unsure.append(given)
                return throw(error)

            saving = defer(lambda: self.session.save_all(self.key, values, lists, expected=expected))
            return saving.pipe(concat_map(kept), catch(failed))

        def again(saved: Saved, left: int) -> Flow[None]:
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
