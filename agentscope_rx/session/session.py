"""The port to saved state: named entries under a key, each a JSON value or a list of them. Every method is a cold Flow.

    session "ann"      "state"     {"version": 1, ...}           a value, replaced as a whole
                       "memory"    [{...}, {...}, ...]           a list, given in full; the store finds out what is new

| law                                                                                                         |
|-------------------------------------------------------------------------------------------------------------|
| What is read is what JSON makes of what was saved: tuples come back as lists, keys of dicts as text.          |
| Values do not alias. They are taken at subscription; what is changed before or after changes nothing stored.  |
| One save is one step: all of its entries are there afterwards, or none. So is one `load_all`.                 |
| A session exists while it has an entry. Any text that is not blank is a key, and a name.                      |
| Two changes under way at once take place one after the other, in either order.                                |
| A session has a version, which each change replaces; a save that expects another one changes nothing.         |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal

from agentscope_rx.errors import InvalidInputError, SessionConflictError
from agentscope_rx.reactive import Flow, concat_map, just


class AnyVersion(Enum):
    """What a save expects that replaces whatever is there."""

    ANY = "any"


ANY_VERSION: Final = AnyVersion.ANY
Expected = str | None | Literal[AnyVersion.ANY]
"""The version that a save is based on: the one of a `Saved`, None for no session, or `ANY_VERSION`."""


@dataclass(frozen=True, slots=True)
class Saved:
    """Entries of one session as they stood at one moment: the caller's own copies.

    `version` is that of the whole session, whichever entries were asked for; None if it does not exist. It is opaque:
    two equal versions of one session have equal entries.
    """

    values: dict[str, object] = field(default_factory=dict[str, object])
    lists: dict[str, list[object]] = field(default_factory=dict[str, list[object]])
    version: str | None = field(default=None, compare=False)


class Unchanging:
    """A list item that will never change: its JSON is made once, however often the list is saved."""

    __slots__ = ("line", "value")

    def __init__(self, value: object) -> None:
        self.value = value
        self.line: bytes | None = None
        """Its JSON and a newline, once it has been saved."""


class Session(ABC):
    """Saved state under keys. Implementations are safe for calls from several threads and keep the laws above.

    Two session objects that reach the same state, such as two of one folder, are equal.

    A store needs `save_all`, `load_all`, `remove`, `delete`, `exists` and `keys` (`entry` has what they share); the
    rest is made of these. Blank keys, names and what JSON has no form for are errors of the flow.
    """

    @abstractmethod
    def save_all(
        self,
        key: str,
        values: Mapping[str, object],
        lists: Mapping[str, Sequence[object]] | None = None,
        *,
        expected: Expected = ANY_VERSION,
    ) -> Flow[str | None]:
        """Replace these entries in one step, and leave the session's other entries as they are.

        An item of a list may be `Unchanging(value)`, which is stored as the value. With `expected` the save happens
        only if that is the session's version at that moment (None: if there is no session): compare and write are one
        step, for all writers of the store.

        Signals: the new version when they are kept, then completion (None if there is still no session: nothing was
        given). `SessionConflictError` if the version is another one, `SessionValueError` for what JSON cannot write.
        Cancels: a write that has not begun; one that has begun runs to its end.
        """

    @abstractmethod
    def load_all(self, key: str, names: Sequence[str] | None = None) -> Flow[Saved]:
        """The entries of these names, or all, as they stood at one moment; those that are not there are left out.

        Signals: one `Saved`, empty if there is nothing, then completion.
        Cancels: the read.
        """

    @abstractmethod
    def remove(self, key: str, name: str) -> Flow[bool]:
        """Remove one entry, value or list; signals whether there was one. Cancels as `save_all`."""

    @abstractmethod
    def delete(self, key: str) -> Flow[bool]:
        """Remove the whole session; signals whether there was one. Cancels as `save_all`."""

    @abstractmethod
    def exists(self, key: str) -> Flow[bool]:
        """Whether the session has an entry."""

    @abstractmethod
    def keys(self) -> Flow[list[str]]:
        """The keys of all sessions, as they were given, sorted."""

    def save(self, key: str, name: str, value: object) -> Flow[None]:
        """Put one value in the place of the entry. Signals None when it is kept; cancels as `save_all`."""
        return self.save_all(key, {name: value}).pipe(concat_map(_kept))

    def save_list(self, key: str, name: str, items: Sequence[object]) -> Flow[None]:
        """Put the whole list in the place of the entry. Signals None when it is kept; cancels as `save_all`."""
        return self.save_all(key, {}, {name: items}).pipe(concat_map(_kept))

    def load(self, key: str, name: str) -> Flow[object]:
        """The value of an entry, None if it is not there; `InvalidInputError` if it is a list."""

        def value(saved: Saved) -> object:
            if name in saved.lists:
                raise InvalidInputError(f"Entry {name!r} of session {key!r} is a list. Read it with load_list.")
            return saved.values.get(name)

        return self.load_all(key, [name]).pipe(concat_map(value))

    def load_list(self, key: str, name: str) -> Flow[list[object]]:
        """The items of an entry, [] if it is not there; `InvalidInputError` if it is a single value."""

        def items(saved: Saved) -> list[object]:
            if name in saved.values:
                raise InvalidInputError(f"Entry {name!r} of session {key!r} is a single value. Read it with load.")
            return saved.lists.get(name, [])

        return self.load_all(key, [name]).pipe(concat_map(items))

    def close(self) -> Flow[None]:
        """Let go of what the store holds open, if anything; what is saved stays. May be called twice."""
        return just(None)


def check_expected(key: str, expected: Expected, found: str | None) -> None:
    """Raise `SessionConflictError` unless a session at the version `found` is one that the save expects."""
    if expected is not ANY_VERSION and expected != found:
        raise SessionConflictError(key, expected, found)


def _kept(version: str | None) -> None:
    """A save of one entry signals no version."""
