"""The port to saved state: named entries under a key, each a JSON value or a list of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Final, Literal

from agentscope_rx.errors import InvalidInputError, SessionConflictError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.reactive import Flow, catch, concat_map, defer, just, throw
from agentscope_rx.session.history import (
    HISTORY,
    JOURNAL,
    STATE,
    Checkpoint,
    HistoryLog,
    checkpoint_id,
    lists_of_conversation,
)


class AnyVersion(Enum):
    """The expectation of a save that replaces any version."""

    ANY = "any"


ANY_VERSION: Final = AnyVersion.ANY
"""The expectation of a save that replaces any version: the default."""
Expected = str | None | Literal[AnyVersion.ANY]
"""The version that a save expects: that of a `Saved`, None for no session, or `ANY_VERSION`."""


@dataclass(frozen=True, slots=True)
class Saved:
    """Copies of the entries of one session at one moment.

    `version` is that of the whole session, also if only some entries were loaded; None if the session does not exist.
    It is opaque: equal versions of one session have equal entries.
    """

    values: dict[str, object] = field(default_factory=dict[str, object])
    lists: dict[str, list[object]] = field(default_factory=dict[str, list[object]])
    version: str | None = field(default=None, compare=False)


class Unchanging:
    """A list item that never changes: its JSON is made once, however often the list is saved."""

    __slots__ = ("line", "value")

    def __init__(self, value: object) -> None:
        self.value: object = value
        self.line: bytes | None = None
        """Its JSON and a newline, once it has been saved."""


class ListTail:
    """The end of a list: a save keeps the first `start` items, and puts these in place of all that follow.

    Without `start` the items come behind those that the list has, as many as there are. A list that does not exist is
    empty. A list of fewer than `start` items, and an entry that is a single value, is an `InvalidInputError` of the
    save: a save that names the version it expects knows the length.
    """

    __slots__ = ("items", "start")

    def __init__(self, items: Sequence[object], start: int | None = None) -> None:
        if start is not None and start < 0:
            raise InvalidInputError(f"The tail of a list starts at item 0 or later, not {start}.")
        self.items: Sequence[object] = items
        self.start: int | None = start

    def __repr__(self) -> str:
        return f"<ListTail of {len(self.items)} items from {'the end' if self.start is None else self.start}>"


Items = Sequence[object] | ListTail
"""A list as a save takes it: all of its items, or its tail (`ListTail`)."""


class Session(ABC):
    """A store for saved state: under a key, named entries, each a JSON value or a list of them.

    Every method is a cold Flow.

        session "ann"      "state"     {"version": 1, ...}     a value, replaced as a whole
                           "memory"    [{...}, {...}, ...]     a list, saved in full, or its tail only (`ListTail`)

    The laws:

    - **Values are JSON.** Tuples come back as lists, keys of dicts as text. A value without a JSON form is a
      `SessionValueError` that names its place.
    - **Values are copies.** They are encoded at subscription, and made anew by each load.
    - **A save is atomic.** All of its entries are stored, or none. One `load_all` is one moment, too.
    - **Names are free.** Any text that is not blank is a key and a name. A blank one is an `InvalidInputError`.
    - **A session exists** while it has an entry.
    - **Changes take turns.** Concurrent changes take place one after the other, in any order: await the first if the
      order matters.
    - **A session has a version.** Each change replaces it. A save that expects another version changes nothing.
    - **A tail is cheap.** Its save costs what its items cost, however long the list is.
    - **Writes complete.** A write that has begun runs to its end when its subscriber leaves. One that has not begun
      does not begin.

    Implementations are thread-safe. Two objects for the same state, such as two `JsonSession`s of one folder, are
    equal.

    A subclass implements `save_all`, `load_all`, `remove`, `delete`, `exists` and `keys`; the other methods call these.
    `save_all` compares `expected` with the stored version in the same step as the write. A version is any text that
    never stands for two states of one key, also after a deletion. `encode`, `decode` and `StoredEntry` of
    this package do the common work; `testing.check_session` checks the laws.
    """

    @abstractmethod
    def save_all(
        self,
        key: str,
        values: Mapping[str, object],
        lists: Mapping[str, Items] | None = None,
        *,
        expected: Expected = ANY_VERSION,
    ) -> Flow[str | None]:
        """Replace these entries in one step, and leave the session's other entries as they are.

        Give a list as all of its items, or as a `ListTail`. An item may be `Unchanging(value)`, which is stored as the
        value. With `expected` the save happens only if that is the session's version at that moment (None: if there is
        no session). Comparison and write are one step for all writers of the store.

        Signals: the new version once the entries are stored (None if no entry was given and there is no session), then
        completion. `SessionConflictError` if the version is another one, `SessionValueError` for a value without JSON.
        Cancels: a write that has not begun; one that has begun runs to its end.
        """

    @abstractmethod
    def load_all(self, key: str, names: Sequence[str] | None = None) -> Flow[Saved]:
        """Load the entries of these names (default: all) as they are at one moment; missing ones are left out.

        Signals: one `Saved`, which may be empty, then completion.
        Cancels: the read.
        """

    @abstractmethod
    def remove(self, key: str, name: str) -> Flow[bool]:
        """Remove one entry, value or list; emits True if there was one. Cancels as `save_all`."""

    @abstractmethod
    def delete(self, key: str) -> Flow[bool]:
        """Remove the whole session; emits True if there was one. Cancels as `save_all`."""

    @abstractmethod
    def exists(self, key: str) -> Flow[bool]:
        """Emits True if the session has an entry. Cancels as `load_all`."""

    @abstractmethod
    def keys(self) -> Flow[list[str]]:
        """Emits the sorted keys of all sessions. Cancels as `load_all`."""

    def save(self, key: str, name: str, value: object) -> Flow[None]:
        """Replace the entry by one value. Emits None once it is stored; cancels as `save_all`."""
        return self.save_all(key, {name: value}).pipe(concat_map(_no_version))

    def save_list(self, key: str, name: str, items: Sequence[object]) -> Flow[None]:
        """Replace the entry by this list. Emits None once it is stored; cancels as `save_all`."""
        return self.save_all(key, {}, {name: items}).pipe(concat_map(_no_version))

    def load(self, key: str, name: str) -> Flow[object]:
        """Emits the value of an entry, None if there is none; `InvalidInputError` if it is a list."""

        def value(saved: Saved) -> object:
            if name in saved.lists:
                raise InvalidInputError(f"Entry {name!r} of session {key!r} is a list. Read it with load_list.")
            return saved.values.get(name)

        return self.load_all(key, [name]).pipe(concat_map(value))

    def load_list(self, key: str, name: str) -> Flow[list[object]]:
        """Emits the items of an entry, [] if there is none; `InvalidInputError` if it is a single value."""

        def items(saved: Saved) -> list[object]:
            if name in saved.values:
                raise InvalidInputError(f"Entry {name!r} of session {key!r} is a single value. Read it with load.")
            return saved.lists.get(name, [])

        return self.load_all(key, [name]).pipe(concat_map(items))

    # --- the history of a conversation ----------------------------------------------------------------------------

    def history(self, key: str) -> Flow[list[Checkpoint]]:
        """The saved states that an agent can go back to with `agent.load(session, key, at=...)`, oldest first.

        Signals: one list, empty without a history; `SavedStateError` if the entry is none.
        Cancels: as `load_all`.
        """
        return self.load_list(key, HISTORY).pipe(concat_map(lambda items: HistoryLog(key, items).checkpoints))

    def fork(self, key: str, *, to: str, at: Checkpoint | int | None = None) -> Flow[Checkpoint]:
        """Begin the new session `to` with the conversation as it was at a checkpoint (None: the last one).

        It has the history up to there, and grows apart from the old one. Entries that are not the conversation's are
        not copied.

        Signals: the checkpoint, once the new session is stored; `CheckpointError` if there is none,
        `SessionConflictError` if `to` exists.
        Cancels: as `save_all`.
        """
        id = None if at is None else checkpoint_id(at)
        if key == to:
            raise InvalidInputError(f"A fork of session {key!r} needs another key: to={to!r} is the same.")

        def fork(saved: Saved) -> Flow[Checkpoint]:
            records = saved.lists.get(HISTORY, [])
            log = HistoryLog(key, records)
            index = log.index_of(id)
            lists: dict[str, Items] = {**log.undo(index, lists_of_conversation(saved.lists), _as_it_is)}
            lists[HISTORY] = records[: index + 1]
            if JOURNAL in saved.lists:
                # a call that has begun must not run again in the fork, unless its caller says so
                lists[JOURNAL] = saved.lists[JOURNAL]
            saving = self.save_all(to, {STATE: log.records[index]["state"]}, lists, expected=None)
            return saving.pipe(concat_map(lambda version: just(log.checkpoints[index])))

        return self.load_all(key).pipe(concat_map(fork))

    def prune(self, key: str, *, keep: int) -> Flow[int]:
        """Drop the oldest checkpoints, so that the last `keep` ones are left.

        Signals: the number of dropped ones; `SessionConflictError` if others keep changing the session meanwhile.
        Cancels: as `save_all`.
        """
        if isinstance(keep, bool) or not isinstance(keep, int) or keep < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"keep must be a number of checkpoints of at least 0, not {keep!r:.60}.")

        def attempt(left: int) -> Flow[int]:
            return self.load_all(key, [HISTORY]).pipe(concat_map(drop), catch(lambda error: again(error, left)))

        def drop(saved: Saved) -> Flow[int]:
            records = saved.lists.get(HISTORY, [])
            if len(records) <= keep:
                return just(0)
            rest = records[len(records) - keep :]
            saving = self.save_all(key, {}, {HISTORY: rest}, expected=saved.version)
            return saving.pipe(concat_map(lambda version: just(len(records) - len(rest))))

        def again(error: Exception, left: int) -> Flow[int]:
            return attempt(left - 1) if left and isinstance(error, SessionConflictError) else throw(error)

        return defer(lambda: attempt(_PRUNE_TRIES))

    def close(self) -> Flow[None]:
        """Release the resources of the store; saved state stays. Idempotent."""
        return just(None)


_PRUNE_TRIES: Final = 5
"""How often `prune` begins again because the session was changed meanwhile."""


def _as_it_is(value: object) -> object:
    return value


def check_expected(key: str, expected: Expected, found: str | None) -> None:
    """Raise `SessionConflictError` if a save expects another version than `found`."""
    if expected is not ANY_VERSION and expected != found:
        raise SessionConflictError(key, expected, found)


def _no_version(version: str | None) -> None:
    """A save of one entry emits None."""
