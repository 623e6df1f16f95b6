"""`Tail`: the part of a stored conversation that is kept in this process: what `get` emits.

    needed, if they are older | the newest messages

Needed are: the messages of calls that have no result yet, the last user message, the message that carries the summary,
and transient messages, which the end of the run removes. The newest are at least the window, and at most about twice as
many: they grow with the conversation, and are cut back to the window, never between a call and its results, and never
within what follows the last user message. Of that, only what a summary stands for may go: so a run of any length that
compacts its conversation keeps a short tail.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, replace

from agentscope_rx.frozen_values import dataclass
from agentscope_rx.memory.views import groups, has_marks, summary_carrier, transient_in, without_dropped
from agentscope_rx.memory.window import ids_in
from agentscope_rx.messages import History, Msg, MsgRole


@dataclass(frozen=True, slots=True)
class Row:
    """A message in its place."""

    position: int
    message: Msg
    tokens: int


@dataclass(frozen=True, slots=True)
class Needed:
    """The positions that `get` reads although they are old, and what is known of the whole conversation."""

    groups: tuple[int, ...] = ()
    """Calls without a result, the group of the message that carries the summary, and transient messages."""
    user: int | None = None
    summary: int | None = None
    marked: bool = False

    @property
    def positions(self) -> frozenset[int]:
        """All of them."""
        return frozenset((*self.groups, *(each for each in (self.user, self.summary) if each is not None)))


@dataclass(frozen=True, slots=True)
class Tail:
    """The rows that are known, and the state of the conversation that they belong to; version 0: not stored yet."""

    id: int = 0
    version: int = 0
    next: int = 0
    count: int = 0
    needed: Needed = field(default_factory=Needed)
    rows: tuple[Row, ...] = ()
    dead: tuple[int, ...] = ()
    """Positions of transient messages that a process which has ended left behind: the next write deletes them."""
    messages: list[Msg] = field(default_factory=list[Msg])
    """Those of the rows."""

    @property
    def history(self) -> History:
        """What `get` emits."""
        return History(self.messages)

    def index_of(self, id: str) -> int | None:
        """The index of the last row with a message of this id."""
        return next((n for n in range(len(self.rows) - 1, -1, -1) if self.rows[n].message.id == id), None)

    def appended(self, rows: Sequence[Row]) -> Tail:
        """With these rows behind the others."""
        kept = (*self.rows, *rows)
        new = [row.message for row in rows]
        needed = self._needed(kept) if any(_matters(message) for message in new) else self.needed
        last, count = self.next + len(rows), self.count + len(rows)
        return replace(self, rows=kept, messages=[*self.messages, *new], needed=needed, next=last, count=count)

    def changed(self, rows: Iterable[Row], *, removed: int = 0, marked: bool = False) -> Tail:
        """With these rows instead; `removed` is the number of messages that the conversation has lost."""
        kept = tuple(rows)
        needed = self._needed(kept)
        if marked:
            needed = replace(needed, marked=True)
        return replace(
            self, rows=kept, messages=[row.message for row in kept], needed=needed, count=self.count - removed
        )

    def _needed(self, rows: Sequence[Row]) -> Needed:
        messages = [row.message for row in rows]
        users = (row.position for row in reversed(rows) if row.message.role is MsgRole.USER)
        carrier = summary_carrier(messages)
        at = next((n for n, message in enumerate(messages) if message is carrier), None)
        whole = {n for group in groups(messages) if group.open or at in group.members for n in group.members}
        gone = {id(message) for message in transient_in(messages)}
        whole.update(n for n, message in enumerate(messages) if id(message) in gone)
        return Needed(
            tuple(sorted(rows[n].position for n in whole)),
            next(users, None),
            None if at is None else rows[at].position,
            self.needed.marked or has_marks(messages),
        )

    def trimmed(self, window: int, *, by_tokens: bool) -> Tail:
        """Cut back to the window, if it has become twice as large."""
        sizes = [row.tokens if by_tokens else 1 for row in self.rows]
        if sum(sizes) <= 2 * window:
            return self
        if self.needed.summary is not None and (short := self._without_compressed()) is not self:
            return short.trimmed(window, by_tokens=by_tokens)
        user = self.needed.user
        orphans: frozenset[str] = frozenset()
        at = cut_at(self.rows, sizes, window)
        if at is None:
            # a result without a call must not hinder the cut for ever
            orphans = orphans_in(self.rows)
            at = cut_at(self.rows, sizes, window, orphans) or 0
        if user is not None and self.rows[at].position > user:
            # the run in progress still uses all of its messages
            at = next((n for n, row in enumerate(self.rows) if row.position >= user), 0)
            at = cut_at(self.rows, sizes, sum(sizes[at:]), orphans) or 0
        needed = self.needed.positions
        return self._with(tuple(row for n, row in enumerate(self.rows) if n >= at or row.position in needed))

    def _without_compressed(self) -> Tail:
        """Without the messages that the summary stands for: no request sends them."""
        left = {id(message) for message in without_dropped(self.messages, summarized=True)}
        needed = self.needed.positions
        kept = tuple(row for row in self.rows if id(row.message) in left or row.position in needed)
        return self._with(kept)

    def _with(self, kept: tuple[Row, ...]) -> Tail:
        if len(kept) == len(self.rows):
            return self
        return replace(self, rows=kept, messages=[row.message for row in kept])


def _matters(message: Msg) -> bool:
    """True if the message may change what is needed."""
    return message.role is not MsgRole.ASSISTANT or bool(message.metadata) or bool(message.tool_calls)


def orphans_in(rows: Sequence[Row]) -> frozenset[str]:
    """The ids of results that have no call before them."""
    known: set[str] = set()
    found: set[str] = set()
    for row in rows:
        results, calls = ids_in(row.message)
        found |= results - known
        known |= calls
    return frozenset(found)


def cut_at(rows: Sequence[Row], sizes: Sequence[int], window: int, orphans: frozenset[str] = frozenset()) -> int | None:
    """The last index from which on the rows fill the window, and no result is without its call; None if there is none.

    The index 0 counts only if it is known that nothing is before it: it is for the caller to say. The results `orphans`
    may be without a call.
    """
    waiting: set[str] = set()
    size = 0
    for n in range(len(rows) - 1, -1, -1):
        results, calls = ids_in(rows[n].message)
        waiting |= results - orphans
        waiting -= calls
        size += sizes[n]
        if size >= window and not waiting:
            return n
    return None


def without_dead(tail: Tail) -> Tail:
    """Without the transient messages, which no run uses any more: they come from a process that has ended."""
    gone = {id(message) for message in transient_in(tail.messages)} if tail.needed.marked else set[int]()
    if not gone:
        return tail
    dead = tuple(row.position for row in tail.rows if id(row.message) in gone)
    kept = [row for row in tail.rows if id(row.message) not in gone]
    return replace(tail.changed(kept, removed=len(dead)), dead=dead)
