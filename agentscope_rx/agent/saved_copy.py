"""`SavedCopy`: the copy of a conversation in a session. A save replaces only entries that this conversation knows.

    load        -> notes the version, and the entries that were taken over
    save        -> expects that version, and writes what is new; saves follow one another
    a conflict  -> the entries are read again:   as this conversation knows them             saved at the new version
                                                 as a save with unknown outcome wrote them   saved at the new version
                                                 anything else                               SessionConflictError

The version is that of the whole session. A session may hold entries of others, too: these make no conflict. As the
lists at the expected version are known, a save writes their new ends only, at the cost of these. A save is not repeated
if another holder has the lease of the session, or has taken over that of this conversation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Final, Literal, cast

from agentscope_rx.agent.saved_items import SavedItems
from agentscope_rx.errors import (
    ConfigurationError,
    InvalidInputError,
    SavedStateError,
    SessionConflictError,
    SessionValueError,
)
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.reactive import Flow, Semaphore, catch, concat_map, defer, throw
from agentscope_rx.session import Checkpoint, Items, ListTail, Saved, Session
from agentscope_rx.session.entry import StoredEntry, encode
from agentscope_rx.session.history import HISTORY, MEMORY, STATE, ListChange, lists_of_conversation, new_record
from agentscope_rx.session.lease.policy import check_free
from agentscope_rx.session.lease.record import LEASE, read_lease
from agentscope_rx.session.lease.session_lease import SessionLease

CHECKPOINT: Final = "checkpoint"
"""The field of the state with the id of the last checkpoint."""
_OF_THE_SAVE: Final = frozenset({CHECKPOINT, "settled"})
"""The fields of the state that tell of the save, and not of the conversation."""
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
    """The place where a conversation is saved at the end of each of its runs, or after every stage, too.

    `file_root` is the folder whose files its messages may read; files elsewhere come back locked. With `history` each
    save adds a checkpoint to the session's history. With a `lease` a run begins when it has that.
    """

    session: Session
    key: str
    file_root: str | None = None
    history: bool = True
    lease: SessionLease | None = None
    checkpoint: Literal["run", "stage"] = "run"

    def is_at(self, other: Binding) -> bool:
        """True if both are the same place."""
        return self.key == other.key and self.session == other.session


@dataclass(frozen=True, slots=True)
class Note:
    """What a checkpoint tells of its save: its stage, and the run, if it belongs to one."""

    stage: str
    run: str | None


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries as a conversation knows them."""

    values: Mapping[str, object] = field(default_factory=dict[str, object])
    lists: Mapping[str, SavedItems] = field(default_factory=dict[str, SavedItems])

    @classmethod
    def of(cls, saved: Saved) -> Entries:
        """The entries that were read."""
        return cls(saved.values, {name: SavedItems.of(items) for name, items in saved.lists.items()})

    def only(self, names: Collection[str]) -> Entries:
        """Those of these names."""
        values = {name: value for name, value in self.values.items() if name in names}
        return Entries(values, {name: items for name, items in self.lists.items() if name in names})

    def has(self, name: str) -> bool:
        """True if there is such an entry."""
        return name in self.values or name in self.lists

    @property
    def empty(self) -> bool:
        """True if there is none."""
        return not (self.values or self.lists)

    @property
    def checkpoint(self) -> int:
        """The id of the last checkpoint, 0 if there was none. The state may be that of another program."""
        state = self.values.get(STATE)
        id = cast("Mapping[str, object]", state).get(CHECKPOINT) if isinstance(state, Mapping) else None
        return id if isinstance(id, int) else 0


class SavedCopy:
    """The copy of one conversation under one key; `entries` are compared after a conflict."""

    __slots__ = (
        "_restored",
        "entries",
        "key",
        "known",
        "lease",
        "left",
        "logged",
        "parent",
        "session",
        "turn",
        "unsure",
        "version",
    )

    def __init__(self, session: Session, key: str, entries: Collection[str]) -> None:
        self.session: Session = session
        self.key: str = key
        self.entries: Collection[str] = entries
        self.turn: Semaphore = Semaphore(1)
        """Held by a save or a load: each begins when the one before it has ended, whichever run it belongs to."""
        self.lease: SessionLease | None = None
        """The lease that the runs of a bound conversation hold."""
        self.version: str | None = None
        self.known: Entries = Entries()
        """What the session holds, as far as this conversation has read or written it."""
        self.parent: int = 0
        """The checkpoint that the conversation goes on from, 0 without one."""
        self.logged: bool = False
        """True if there was a history at the last reading, also if the state was not taken over."""
        self.left: frozenset[str] = frozenset()
        """Entries that exist and were not taken over: a save that would replace one compares first."""
        # saves that failed without the certainty that nothing was written
        self.unsure: deque[Entries] = deque(maxlen=_UNSURE)
        self._restored: tuple[str | None, object] | None = None

    def is_at(self, session: Session, key: str) -> bool:
        """True if this is the copy under the key of that session."""
        return self.key == key and self.session == session

    def lease_by(self, lease: SessionLease | None) -> None:
        """The runs of the conversation hold this lease from now on: its writes and the saves know of each other."""
        self.lease = lease
        if lease is not None:
            lease.turn = self.turn
            lease.on_moved = self._moved
            lease.on_fork = self._forget_version
            lease.is_saved = lambda: not self.empty

    def _moved(self, before: str | None, after: str | None) -> None:
        if self.version == before:
            self.version = after

    def _forget_version(self) -> None:
        # of a forked child: a save compares first, and finds that its parent has the lease
        self.version = ""

    @property
    def is_current(self) -> bool:
        """True if no other writer had changed the session when its lease was acquired."""
        return self.lease is not None and self.version == self.lease.version

    def read(self, found: Entries, version: str | None, taken: Collection[str], at: int | None = None) -> None:
        """The conversation continues from the entries in `taken`, as they were read, and ignores the others.

        `at` is the checkpoint that it has gone back to.
        """
        self.left = frozenset(name for name in self.entries if name not in taken and found.has(name))
        self.version = version
        self.known = found.only([*taken, *(lists_of_conversation(found.lists) if MEMORY in taken else ())])
        self.parent = self.known.checkpoint if at is None else at
        self.logged = found.checkpoint > 0
        self.unsure.clear()
        self._restored = None

    def restored_as(self, state: object) -> None:
        """The conversation that was read goes on from this state: it has what calls had left since it was saved."""
        self._restored = (self.version, state)

    def holds(self, given: Entries) -> bool:
        """True if the session held just these entries when this conversation last read or wrote it."""
        known = self.known
        if self._restored is not None and self._restored[0] == self.version and STATE in known.values:
            known = Entries({**known.values, STATE: self._restored[1]}, known.lists)
        if same_state(given, known) and _same_lists(given.lists, known.lists):
            return True
        names = (*given.values, *given.lists)
        return self.text(_without_checkpoint(given)) == self.text(_without_checkpoint(known.only(names)))

    @property
    def empty(self) -> bool:
        """True if nothing was read or written yet, and nothing was left in the session."""
        return self.known.empty and not (self.left or self.unsure)

    def append(self, name: str, items: Sequence[object]) -> Flow[None]:
        """Add items to a list of the session that is not the conversation's own. The caller holds the turn.

        Signals and cancels: as `write`; the conversation's own entries must be as it knows them.
        """
        return self.write(Entries(), None, besides={name: ListTail(items)})

    def write(
        self,
        given: Entries,
        note: Note | None,
        *,
        overwrite: bool = False,
        besides: Mapping[str, Items] | None = None,
    ) -> Flow[None]:
        """Save these entries, with a checkpoint if there is a `note`. The caller holds the turn.

        The lists in `besides` are saved in the same step, and neither noted nor compared.

        Signals: one None when they are kept; `SessionConflictError` if the session holds entries that this
        conversation has neither read nor written, unless `overwrite` is true; another `SessionError`.
        Cancels: as `Session.save_all`.
        """
        return _Write(self, given, note, besides or {}, overwrite=overwrite).begin()

    def confirm(self) -> Flow[None]:
        """Continue from the stored version, if its entries are as this conversation knows them; with the turn held.

        Signals: one None; `SessionConflictError` if another writer has changed them.
        Cancels: the read.
        """

        def confirm(saved: Saved) -> None:
            known = self.known_as(saved, self.entries)
            if known is not self.known:
                # a save with unknown outcome has arrived: what follows goes on from it
                self.known, self.parent = known, known.checkpoint
            self.version = saved.version

        return self.reread().pipe(concat_map(confirm))

    def reread(self) -> Flow[Saved]:
        """What is compared after a conflict, with the lease. Cancels: the read."""
        return self.session.load_all(self.key, [*self.entries, LEASE])

    def fence(self, saved: Saved) -> None:
        """Raise the error of a save that another holder of the lease excludes."""
        if self.lease is None:
            check_free(self.key, read_lease(self.key, saved.values))
        else:
            self.lease.fence(saved)

    def known_as(self, saved: Saved, names: Collection[str]) -> Entries:
        """The entries that this conversation knows as these; `SessionConflictError` if it does not."""
        found = Entries.of(saved)
        for each in (self.known, *self.unsure):
            if self.same(found, each, names):
                self.left = frozenset(name for name in self.entries if not self.same(found, each, [name]))
                return each
        raise SessionConflictError(self.key, self.version, saved.version, _ADVICE)

    def same(self, one: Entries, other: Entries, names: Collection[str]) -> bool:
        """True if both have equal entries of these names."""
        return self.text(one.only(names)) == self.text(other.only(names))

    def text(self, entries: Entries) -> dict[str, StoredEntry]:
        """The entries as a store keeps them."""
        return encode(self.key, entries.values, entries.lists)


class _Write:
    """One save: its attempts at the version that the session has."""

    __slots__ = ("_besides", "_copy", "_given", "_note", "_overwrite")

    def __init__(
        self, copy: SavedCopy, given: Entries, note: Note | None, besides: Mapping[str, Items], *, overwrite: bool
    ) -> None:
        self._copy = copy
        self._given = given
        self._note = note
        self._besides = besides
        self._overwrite = overwrite

    def begin(self) -> Flow[None]:
        copy = self._copy
        if self._overwrite:
            return self._replace(_TRIES - 1)
        unread = any(self._given.has(name) for name in copy.left)
        version = None if unread else copy.version
        if self._note is None or version is None or copy.known.checkpoint:
            return self._attempt(copy.known, version, copy.parent, _TRIES - 1)

        def begun(history: object) -> Flow[None]:
            return self._attempt(copy.known, version, copy.parent, _TRIES - 1)

        # the first checkpoint in this session: an entry of that name may be another's
        return copy.session.history(copy.key).pipe(catch(self._not_ours), concat_map(begun))

    def _not_ours(self, error: Exception) -> Flow[list[Checkpoint]]:
        if not isinstance(error, (SavedStateError, InvalidInputError)):
            return throw(error)
        mine = ConfigurationError(
            f"Entry {HISTORY!r} of session {self._copy.key!r} is not the history of a conversation, and would be lost. "
            "Remove it or save it under another name, or bind the agent with history=False."
        )
        mine.__cause__ = error
        return throw(mine)

    def _replace(self, left: int) -> Flow[None]:
        """Read what there is, whatever it is, so that the history tells what is replaced."""
        copy = self._copy

        def over(saved: Saved) -> Flow[None]:
            found = Entries.of(Saved(saved.values, lists_of_conversation(saved.lists)))
            lists = {name: self._as_given(name, items) for name, items in found.lists.items()}
            return self._attempt(Entries(found.values, lists), saved.version, copy.parent, left)

        return copy.session.load_all(copy.key).pipe(concat_map(over))

    def _as_given(self, name: str, items: SavedItems) -> SavedItems:
        """These items, with those that are given at its beginning in place of equal ones."""
        given = self._given.lists.get(name)
        if given is None:
            return items
        lines = self._copy.text(Entries({}, {"0": items, "1": given}))
        pairs = enumerate(zip(lines["0"].lines, lines["1"].lines, strict=False))
        same = next((at for at, (a, b) in pairs if a != b), min(len(items), len(given)))
        return SavedItems([*given[:same], *items[same:]])

    def _attempt(self, base: Entries, version: str | None, parent: int, left: int) -> Flow[None]:
        """Save what is new, if the session is at this version, with these entries."""
        copy = self._copy
        after, lists = self._changes(base, parent)
        values = {name: after.values[name] for name in self._given.values}
        lists |= self._besides
        lease = copy.lease
        closing = {} if lease is None else lease.closing_values()

        def record(saved_as: str | None) -> None:
            if lease is not None:
                lease.saved(copy.version, saved_as, closing)
            copy.version = saved_as
            copy.left = copy.left.difference(self._given.values, self._given.lists)
            copy.known = after
            copy.parent = parent if self._given.empty else after.checkpoint
            copy.unsure.clear()

        def failed(error: Exception) -> Flow[None]:
            if isinstance(error, SessionConflictError) and left:
                return self._replace(left - 1) if self._overwrite else self._compare(left - 1)
            if not (self._given.empty or isinstance(error, (SessionConflictError, SessionValueError))):
                copy.unsure.append(after)
            return throw(error)

        saving = defer(lambda: copy.session.save_all(copy.key, {**values, **closing}, lists, expected=version))
        return saving.pipe(concat_map(record), catch(failed))

    def _compare(self, left: int) -> Flow[None]:
        """After a conflict: go on if the entries are as this conversation knows them."""
        copy = self._copy
        compared = copy.known if self._given.empty else self._given
        names = [name for name in copy.entries if compared.has(name)]

        def compare(saved: Saved) -> Flow[None]:
            copy.fence(saved)
            each = copy.known_as(saved, names)
            parent = copy.parent if each is copy.known else each.checkpoint
            return self._attempt(each, saved.version, parent, left)

        return copy.reread().pipe(concat_map(compare))

    def _changes(self, base: Entries, parent: int) -> tuple[Entries, dict[str, Items]]:
        """The entries after the save, and what is to be written of the lists."""
        given, last = self._given, base.checkpoint
        wanted = dict(given.lists)
        if STATE in given.values and MEMORY in given.lists:
            # of conversations that are dropped: their place may be used again, and their end is to be told
            wanted |= {name: SavedItems() for name, items in base.lists.items() if items and name not in wanted}
        changes = {name: _change(base.lists.get(name), items) for name, items in wanted.items()}
        lists: dict[str, Items] = {
            name: ListTail(wanted[name][change["kept"] :], change["kept"])
            for name, change in changes.items()
            if name == MEMORY or name not in base.lists or _is_change(change, base.lists[name])
        }
        after = Entries({**base.values, **given.values}, {**base.lists, **wanted})
        if STATE in given.values:
            after = _at(after, last)
        if self._note is None:
            if (last or self._copy.logged) and not given.empty:
                # the records do not fit these lists any longer
                lists[HISTORY] = ListTail([], 0)
            return after, lists
        same = all(not _is_change(change, base.lists.get(name)) for name, change in changes.items())
        if last and same and same_state(given, base):
            return after, lists
        after = _at(after, last + 1)
        written = {name: change for name, change in changes.items() if name in lists}
        record = new_record(
            (last + 1, parent or None),
            (self._note.stage, self._note.run),
            len(after.lists[MEMORY]),
            written,
            after.values[STATE],
        )
        # without an id in the state the records, if there are any, are not those of this conversation
        lists[HISTORY] = ListTail([record], None if last else 0)
        return after, lists


def _change(before: SavedItems | None, now: SavedItems) -> ListChange:
    kept = 0 if before is None else now.begins_as(before)
    cut = [] if before is None else [item.value for item in before[kept:]]
    return {"kept": kept, "length": len(now), "cut": cut}


def _is_change(change: ListChange, before: SavedItems | None) -> bool:
    return not change["kept"] == change["length"] == len(before or ())


def _at(entries: Entries, checkpoint: int) -> Entries:
    """The entries with a state that names the checkpoint."""
    state = {**cast("Mapping[str, object]", entries.values[STATE]), CHECKPOINT: checkpoint}
    return Entries({**entries.values, STATE: state}, entries.lists)


def same_state(one: Entries, other: Entries) -> bool:
    """True if both have the same state of a conversation, saved at whichever checkpoint."""
    return _without_checkpoint(one).values == _without_checkpoint(other).values


def _without_checkpoint(entries: Entries) -> Entries:
    state = entries.values.get(STATE)
    if not isinstance(state, Mapping):
        return entries
    rest = {name: value for name, value in cast("Mapping[str, object]", state).items() if name not in _OF_THE_SAVE}
    return Entries({**entries.values, STATE: rest}, entries.lists)


def _same_lists(one: Mapping[str, SavedItems], other: Mapping[str, SavedItems]) -> bool:
    names = {name for lists in (one, other) for name, items in lists.items() if items}
    return all(one.get(name, _NONE).same_as(other.get(name, _NONE)) for name in names)


_NONE: Final = SavedItems()
