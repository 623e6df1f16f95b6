"""`SqlMemory`: one conversation in a database, of which this process keeps the newest part (see `tail`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Generic, TypeVar
from uuid import uuid4
from weakref import WeakValueDictionary

from agentscope_rx.errors import ConfigurationError, MemoryConflictError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.memory.changes import (
    Change,
    checked_ids,
    checked_messages,
    compressed,
    handed_on,
    remarked,
    replaced_by,
    selected,
)
from agentscope_rx.memory.memory import Memory, check_summary
from agentscope_rx.memory.short_forms import sent_form
from agentscope_rx.memory.sql.rows import Plan, Rows
from agentscope_rx.memory.sql.tables import MemoryDatabase
from agentscope_rx.memory.sql.tail import Needed, Row, Tail, cut_at, without_dead
from agentscope_rx.memory.views import has_marks
from agentscope_rx.memory.window import TokenWindow
from agentscope_rx.messages import COMPRESSED, Msg
from agentscope_rx.messages.marks import check_marks, summary_in
from agentscope_rx.messages.sources import reading
from agentscope_rx.models.tokens import EstimatedTokens
from agentscope_rx.reactive import Flow, concat_map, defer, from_async_iterable, just
from agentscope_rx.reactive.kernel.forking import new_lock
from agentscope_rx.session.entry import check_key
from agentscope_rx.session.server_client import TIMEOUT, ServerClient, check_timeout
from agentscope_rx.session.sql.database import Place, place_of

if TYPE_CHECKING:
    from sqlalchemy import URL
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

T = TypeVar("T")

PREFIX = "agentscope_memory_"
WINDOW = 200
PAGE = 100
"""The number of messages that `read` selects at once."""
_MORE = 32
"""The number of messages selected at once beyond a window of messages, to find where it may begin."""


@dataclass(frozen=True, slots=True)
class _Step(Generic[T]):
    """What a change makes of the tail, and what it emits; without a plan nothing is written."""

    result: T
    tail: Tail | None = None
    plan: Plan | None = None


class SqlMemory(Memory):
    """Keeps one conversation in a database: `SqlMemory("postgresql://user:password@host/database", "ann")`.

    - `database`: a URL (PostgreSQL by asyncpg, SQLite by aiosqlite, or another asynchronous driver), or an
      `AsyncEngine`, whose settings are used for connections of its own
    - `key`: names the conversation
    - `window`: the part that `get` emits: a number of messages, or a `TokenWindow`
    - `prefix`: of the names of the tables, which are made at the first use
    - `timeout`: the seconds after which an operation fails
    - `file_root`: messages that are read may name files below this folder; other `FileSource`s are locked

    How it works:

    - `get` emits the newest messages, and older ones that a request needs: calls without a result with their group, the
      last user message, the message with the summary. All that follows the last user message is there, so a run has its
      own messages. `read` streams the whole conversation, 100 messages at a time.
    - The newest messages stay in the process: a round writes its message and reads nothing. Beyond twice the window
      they are cut back to it.
    - Each change is one transaction. If the answer to one is lost, the next operation reads which state was stored.
    - One process writes a conversation at a time. If another one has changed it, a change fails with
      `MemoryConflictError`, and nothing is written; `reload` takes over the stored conversation.
    - Transient messages are stored until their run ends, and are not read again if their process has died.
    - Memories of one database share their connections. A SQLite file is written with a write-ahead log.
    - It is durable: with a session, the agent saves its state there and not the messages. An agent with a durable
      memory refuses a session that has messages (`SavedStateError`): load it into an `InMemoryMemory`, and `add` its
      messages here. The memories of sub-agents are saved in the session of the parent in any case.
    """

    durable = True

    def __init__(
        self,
        database: str | URL | AsyncEngine,
        key: str,
        *,
        window: int | TokenWindow = WINDOW,
        prefix: str = PREFIX,
        timeout: float = TIMEOUT,
        file_root: str | PathLike[str] | None = None,
    ) -> None:
        check_key(key)
        by_count = type(window) is int and window > 0
        if not by_count and not isinstance(window, TokenWindow):
            raise ConfigurationError(f"window is a number of messages >= 1 or a TokenWindow, not {window!r:.60}.")
        check_timeout(timeout)
        self.key: str = key
        self.window: int | TokenWindow = window
        self._place = place_of(database, prefix)
        self._client: ServerClient[MemoryDatabase] = _client_of(self._place, timeout)
        self._files = reading(file_root, lock=True)
        self._measure = window.measure if isinstance(window, TokenWindow) else EstimatedTokens().message
        # until the tail is known
        self.marked: bool = True
        self._tail: Tail | None = None
        self._again = False
        """True if the tail has become shorter than the window: it is read again."""
        self._doubt: str | None = None
        """The writer of a change that failed, and may have been stored."""

    def __repr__(self) -> str:
        return f"<SqlMemory {self.key!r} in {self._place.server}>"

    # --- the port -----------------------------------------------------------------------------------------------------

    def add(self, messages: Sequence[Msg], marks: Collection[str] = ()) -> Flow[None]:
        """Append the messages, all or none; with `marks`, each gets these marks. Signals and cancels as the port."""
        if marks:
            check_marks(marks)

        def add() -> Flow[None]:
            checked = [message.marked(*marks) for message in checked_messages(messages)]

            async def append(tail: Tail, database: MemoryDatabase) -> _Step[None]:
                rows = [self._row(tail.next + number, message) for number, message in enumerate(checked)]
                return _Step(None, tail.appended(rows), Plan(added=rows)) if rows else _Step(None)

            return self._change(append)

        return defer(add)

    def get(self) -> Flow[Sequence[Msg]]:
        def get() -> Flow[Sequence[Msg]]:
            return self._known().pipe(concat_map(lambda tail: just(tail.history)))

        return defer(get)

    def replace(self, message: Msg) -> Flow[bool]:
        async def replace(tail: Tail, database: MemoryDatabase) -> _Step[bool]:
            index = tail.index_of(message.id)
            found = [] if index is None else [tail.rows[index]]
            if index is None and tail.id:
                found = await self._read(database, lambda rows: rows.of_ids(tail.id, [message.id]))
            if not found:
                return _Step(False)
            row = self._row(found[-1].position, message)
            return _Step(True, _with_rows(tail, [row]), Plan(changed=[row]))

        return defer(lambda: self._change(replace))

    def replace_all(self, messages: Sequence[Msg]) -> Flow[int]:
        checked = checked_messages(messages)
        ids = {message.id for message in checked}

        async def select(tail: Tail, rows: Rows) -> list[Row]:
            return await rows.of_ids(tail.id, ids)

        return self._rewrite(select, lambda known: replaced_by(known, checked)) if checked else just(0)

    def delete(self, ids: Sequence[str]) -> Flow[int]:
        async def delete(tail: Tail, database: MemoryDatabase) -> _Step[int]:
            found = await self._read(database, lambda rows: rows.of_ids(tail.id, ids)) if ids and tail.id else []
            if not found:
                return _Step(0)
            gone = {row.position for row in found}
            heirs: list[Row] = []
            carrier = next((row.message for row in found if row.position == tail.needed.summary), None)
            if carrier is not None:
                left = await self._read(database, lambda rows: rows.last_marked(tail.id, COMPRESSED, gone))
                change = handed_on([row.message for row in left], carrier)
                heirs = [] if change is None else [self._row(left[0].position, change[1])]
            kept = _with_rows(tail, heirs, await self._carried(database, tail, heirs)).rows
            new = tail.changed([row for row in kept if row.position not in gone], removed=len(gone))
            return _Step(len(gone), new, Plan(changed=heirs, removed=gone))

        return defer(lambda: self._change(delete))

    def clear(self) -> Flow[None]:
        async def clear(tail: Tail, database: MemoryDatabase) -> _Step[None]:
            if not tail.version:
                return _Step(None)
            empty = replace(tail, count=0, needed=Needed(), rows=(), messages=[])
            return _Step(None, empty, Plan(everything=True))

        return defer(lambda: self._change(clear))

    # --- the whole ----------------------------------------------------------------------------------------------------

    def read(self, *, mark: str | None = None, exclude_mark: str | None = None) -> Flow[Msg]:
        """The whole conversation, `PAGE` messages at a time, as fast as there is demand. Signals as the port.

        Each page is selected when the one before it is used up, so it shows the conversation of that moment.
        """
        check_marks([each for each in (mark, exclude_mark) if each is not None])

        async def pages() -> AsyncIterator[Msg]:
            tail = await self._known()
            last = -1
            while tail.id:
                rows = await self._look(lambda rows, last=last: rows.after(tail.id, last, PAGE, mark, exclude_mark))
                for row in rows:
                    if row.position not in tail.dead:
                        yield row.message
                if len(rows) < PAGE:
                    return
                last = rows[-1].position

        return from_async_iterable(pages)

    def count(self) -> Flow[int]:
        """The number of messages in the whole conversation, counted by the database. Cancels the read."""
        return defer(lambda: self._known().pipe(concat_map(lambda tail: just(tail.count))))

    # --- marks --------------------------------------------------------------------------------------------------------

    def update_messages_mark(
        self, new_mark: str | None, old_mark: str | None = None, msg_ids: Collection[str] | None = None
    ) -> Flow[int]:
        check_marks([mark for mark in (new_mark, old_mark) if mark is not None])
        ids = None if msg_ids is None else checked_ids(msg_ids)

        async def select(tail: Tail, rows: Rows) -> list[Row]:
            if ids is not None:
                return await rows.of_ids(tail.id, ids)
            return await rows.after(tail.id, -1, tail.next, old_mark)

        return self._rewrite(select, lambda messages: remarked(messages, new_mark, old_mark, msg_ids))

    def compress(self, msg_ids: Collection[str], summary: str) -> Flow[int]:
        check_summary(summary)
        ids = checked_ids(msg_ids)

        async def select(tail: Tail, rows: Rows) -> list[Row]:
            carriers = await rows.carriers(tail.id)
            return await rows.of_ids(tail.id, ids) + carriers + await rows.last_marked(tail.id, COMPRESSED)

        def change(messages: Sequence[Msg]) -> list[Change]:
            return compressed(messages, selected(messages, ids), summary)

        return self._rewrite(select, change, lambda old, new: old.marks != new.marks)

    def _rewrite(
        self,
        select: Callable[[Tail, Rows], Awaitable[list[Row]]],
        change: Callable[[Sequence[Msg]], list[Change]],
        counts: Callable[[Msg, Msg], bool] = lambda old, new: True,
    ) -> Flow[int]:
        """Select messages, in any order, and replace those that change, in one transaction."""

        async def rewrite(tail: Tail, database: MemoryDatabase) -> _Step[int]:
            selected = await self._read(database, lambda rows: select(tail, rows)) if tail.id else []
            found = {row.position: row for row in selected}
            found |= {row.position: row for row in tail.rows if row.position in found}
            messages = {position: found[position].message for position in sorted(found)}
            changes = change(list(messages.values()))
            positions = {id(message): position for position, message in messages.items()}
            rows = [self._row(positions[id(old)], new) for old, new in changes]
            number = sum(counts(old, new) for old, new in changes)
            if not rows:
                return _Step(number)
            carried = await self._carried(database, tail, rows)
            return _Step(number, _with_rows(tail, rows, carried), Plan(changed=rows))

        return defer(lambda: self._change(rewrite))

    # --- others -------------------------------------------------------------------------------------------------------

    def reload(self) -> Flow[None]:
        """Take over the stored conversation, after a `MemoryConflictError`.

        Signals: one None.
        Cancels: nothing that has begun.
        """

        async def reload(database: MemoryDatabase) -> None:
            self._tail, self._doubt, self._again = None, None, False
            await self._load(database)

        return self._client.change(self.key, reload)

    def close(self) -> Flow[None]:
        """Close the connections that the memories of this database share. The next use opens others."""
        return self._client.close()

    # --- the tail -----------------------------------------------------------------------------------------------------

    def _row(self, position: int, message: Msg) -> Row:
        return Row(position, message, self._measure(sent_form(message)))

    def _known(self) -> Flow[Tail]:
        """The tail: at once if it is there."""
        if self._tail is not None and not self._again and self._doubt is None:
            return just(self._tail)
        return self._client.change(self.key, self._load)

    async def _load(self, database: MemoryDatabase) -> Tail:
        """The tail, as it is known or stored. The caller holds the turn."""
        known = self._tail
        if known is not None and not self._again and self._doubt is None:
            return known

        async def load(rows: Rows) -> Tail:
            head = await rows.head()
            stored, writer = head or (Tail(), "")
            if known is not None:
                ours = self._doubt is not None and stored.version == known.version + 1 and writer == self._doubt
                if not ours and stored.version != known.version:
                    raise MemoryConflictError(self.key, known.version, stored.version or None)
            filled = await self._filled(rows, stored)
            # (transient messages that this process knows are those of its own run)
            return without_dead(filled) if known is None else filled

        tail = await self._read(database, load)
        self._tail, self._doubt, self._again = tail, None, False
        self.marked = tail.needed.marked
        return tail

    async def _filled(self, rows: Rows, head: Tail) -> Tail:
        """The tail with the messages that it has to know."""
        by_tokens = isinstance(self.window, TokenWindow)
        size = self.window.max_tokens if isinstance(self.window, TokenWindow) else self.window
        found: list[Row] = []
        cut: int | None = None
        while cut is None and len(found) < head.count:
            first = found[0].position if found else head.next
            page = await rows.before(head.id, first, _MORE if found or by_tokens else size)
            if not page:
                break
            found[:0] = page
            sizes = [row.tokens if by_tokens else 1 for row in found]
            cut = cut_at(found, sizes, size)
            if cut is None and sum(sizes) > 2 * size + _MORE:
                # a result whose call is that far back, or nowhere: it is not looked for
                cut = 0
        found = found[cut or 0 :]
        older = head.needed.positions.difference(row.position for row in found)
        extra = await rows.at(head.id, older) if older else []
        every = sorted([*extra, *found], key=lambda row: row.position)
        return replace(head, rows=tuple(every), messages=[row.message for row in every])

    async def _carried(self, database: MemoryDatabase, tail: Tail, rows: Sequence[Row]) -> list[Row]:
        """The carrier of the summary among these rows, with its group, if the tail does not have it yet."""
        known = {row.position for row in tail.rows}
        new = [row for row in rows if row.position not in known and summary_in(row.message.metadata)]
        return await self._read(database, lambda each: each.group_of(tail.id, new[-1], PAGE)) if new else []

    # --- uses of the database -----------------------------------------------------------------------------------------

    def _look(self, work: Callable[[Rows], Awaitable[T]]) -> Flow[T]:
        return self._client.look(lambda database: self._read(database, work))

    async def _read(self, database: MemoryDatabase, work: Callable[[Rows], Awaitable[T]]) -> T:
        return await database.read(self.key, lambda connection: work(self._rows(database, connection)))

    def _rows(self, database: MemoryDatabase, connection: AsyncConnection) -> Rows:
        return Rows(database.memory, connection, self.key, self._files)

    def _change(self, change: Callable[[Tail, MemoryDatabase], Awaitable[_Step[T]]]) -> Flow[T]:
        """One change after the other, each in one transaction. What has begun runs to its end."""

        async def write(database: MemoryDatabase) -> T:
            known = await self._load(database)
            step = await change(known, database)
            if step.tail is None or step.plan is None:
                return step.result
            new, plan, writer = replace(step.tail, version=known.version + 1), step.plan, uuid4().hex

            async def transaction(connection: AsyncConnection) -> Tail:
                return await self._rows(database, connection).write(known, new, plan, writer)

            try:
                stored = await database.write(self.key, transaction)
            except MemoryConflictError:
                raise
            except BaseException:
                # it may have been stored although the answer is lost
                self._doubt = writer
                raise
            self._keep(stored, shorter=len(stored.rows) < len(known.rows))
            return step.result

        return self._client.change(self.key, write)

    def _keep(self, tail: Tail, *, shorter: bool) -> None:
        by_tokens = isinstance(self.window, TokenWindow)
        size = self.window.max_tokens if isinstance(self.window, TokenWindow) else self.window
        # (those that are needed may be far back, and do not fill the window)
        newest = [row for row in tail.rows if row.position not in tail.needed.positions]
        held = sum(row.tokens for row in newest) if by_tokens else len(newest)
        self._tail = tail.trimmed(size, by_tokens=by_tokens)
        self._again = shorter and held < size and tail.count > len(tail.rows)
        self.marked = tail.needed.marked


def _with_rows(tail: Tail, rows: Sequence[Row], carried: Sequence[Row] = ()) -> Tail:
    """The tail with these rows in the place of the old ones, and with those that carry the summary now."""
    if not rows:
        return tail
    known = {row.position: row for row in (*carried, *tail.rows)}
    known |= {row.position: row for row in rows if row.position in known}
    every = [known[position] for position in sorted(known)]
    return tail.changed(every, marked=has_marks([row.message for row in rows]))


_CLIENTS: WeakValueDictionary[tuple[object, ...], ServerClient[MemoryDatabase]] = WeakValueDictionary()
_LOCK = new_lock()


def _client_of(place: Place, timeout: float) -> ServerClient[MemoryDatabase]:
    """The connections that the memories of one database share; they are closed with the last of these."""
    key = (place, place.url, id(place.engine) if place.engine is not None else None, timeout)
    with _LOCK:
        found = _CLIENTS.get(key)
        if found is None:
            where = f"memories in {place.server}"
            found = ServerClient(lambda: MemoryDatabase(place, timeout), MemoryDatabase.close, where)
            _CLIENTS[key] = found
        return found
