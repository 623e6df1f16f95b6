"""The statements of `SqlMemory` on one conversation.

open      SELECT the conversation; SELECT messages, newest first, until the window is full; SELECT those needed
write     UPDATE the conversation WHERE version = the known one (or INSERT it): the lock, and compare-and-set
          DELETE, UPDATE, INSERT messages and marks
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from typing import TypeAlias, cast

from sqlalchemy import ColumnElement, Select, and_, bindparam, delete, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from agentscope_rx.errors import MemoryConflictError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.memory.sql.tables import MemoryTables, bytes_of, code_of
from agentscope_rx.memory.sql.tail import Needed, Row, Tail
from agentscope_rx.memory.views import groups
from agentscope_rx.messages import Msg
from agentscope_rx.messages.marks import summary_in
from agentscope_rx.messages.msg import read_message

_CARRIER = "+summary"
"""The code in the table of marks of a message that carries a summary; no mark has this code."""
_CHUNK = 400
"""The most parameters of one statement: SQLite may have a limit of 999."""

_Values: TypeAlias = dict[str, object]


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes of one transaction."""

    added: Sequence[Row] = ()
    changed: Sequence[Row] = ()
    removed: Collection[int] = ()
    """Positions."""
    everything: bool = False
    """True if all messages are removed."""


class Rows:
    """One conversation, on one connection."""

    def __init__(self, tables: MemoryTables, connection: AsyncConnection, key: str, files: dict[str, object]) -> None:
        self._tables = tables
        self._connection = connection
        self._key = key
        self._files = files

    # --- reading ------------------------------------------------------------------------------------------------------

    async def head(self) -> tuple[Tail, str] | None:
        """The conversation without messages, and its last writer; None if it is not stored."""
        table = self._tables.conversations
        query = select(table.c.id, table.c.version, table.c.next, table.c.count, table.c.needed, table.c.writer)
        row = (await self._connection.execute(query.where(table.c.code == code_of(self._key)))).first()
        if row is None:
            return None
        id, version, after, count, needed, writer = row
        known = cast("_Values", json.loads(needed))
        known["groups"] = tuple(cast("list[int]", known["groups"]))
        return Tail(id, version, after, count, Needed(**known)), writer  # pyright: ignore[reportArgumentType]

    async def before(self, id: int, position: int, limit: int) -> list[Row]:
        """At most `limit` messages before this position, the newest of these, in order."""
        table = self._tables.messages
        where = and_(table.c.conversation == id, table.c.position < position)
        return (await self._select(where, limit=limit, newest=True))[::-1]

    async def after(
        self, id: int, position: int, limit: int, mark: str | None = None, exclude_mark: str | None = None
    ) -> list[Row]:
        """At most `limit` messages after this position that have the mark, and not the other."""
        table = self._tables.messages
        where = and_(table.c.conversation == id, table.c.position > position)
        if mark is not None:
            where &= table.c.position.in_(self._marked(id, mark))
        if exclude_mark is not None:
            where &= table.c.position.not_in(self._marked(id, exclude_mark))
        return await self._select(where, limit=limit)

    async def at(self, id: int, positions: Collection[int]) -> list[Row]:
        """The messages in these positions."""
        table = self._tables.messages
        found: list[Row] = []
        for chunk in _chunks(sorted(positions)):
            found += await self._select(and_(table.c.conversation == id, table.c.position.in_(chunk)))
        return found

    async def group_of(self, id: int, row: Row, within: int) -> list[Row]:
        """The message, and the calls and results that belong to it, of `within` messages before and after it."""
        before = await self.before(id, row.position, within)
        around = [*before, row, *await self.after(id, row.position, within)]
        members = next((g.members for g in groups([each.message for each in around]) if len(before) in g.members), ())
        return [row, *(around[n] for n in members if n != len(before))]

    async def of_ids(self, id: int, ids: Collection[str]) -> list[Row]:
        """The messages with these ids, in order."""
        table = self._tables.messages
        found: list[Row] = []
        for chunk in _chunks(sorted({code_of(each) for each in ids})):
            found += await self._select(and_(table.c.conversation == id, table.c.code.in_(chunk)))
        return sorted(found, key=lambda row: row.position)

    async def last_marked(self, id: int, mark: str, without: Collection[int] = ()) -> list[Row]:
        """The last message with this mark that is in none of these positions; at most one."""
        newest = self._marked(id, mark).order_by(self._tables.marks.c.position.desc()).limit(len(without) + 1)
        found = (await self._connection.execute(newest)).all()
        last = next((row.position for row in found if row.position not in without), None)
        return [] if last is None else await self.at(id, [last])

    async def carriers(self, id: int) -> list[Row]:
        """The messages that carry a summary: more than one, if they were added so."""
        table = self._tables.messages
        marks = self._tables.marks
        carrying = select(marks.c.position).where(marks.c.conversation == id, marks.c.mark == _CARRIER)
        return await self._select(and_(table.c.conversation == id, table.c.position.in_(carrying)))

    def _marked(self, id: int, mark: str) -> Select[tuple[int]]:
        table = self._tables.marks
        return select(table.c.position).where(table.c.conversation == id, table.c.mark == code_of(mark))

    async def _select(self, where: ColumnElement[bool], *, limit: int | None = None, newest: bool = False) -> list[Row]:
        table = self._tables.messages
        query = select(table.c.position, table.c.body, table.c.tokens).where(where)
        query = query.order_by(table.c.position.desc() if newest else table.c.position)
        found = (await self._connection.execute(query if limit is None else query.limit(limit))).all()
        return [Row(position, self._message(body), tokens) for position, body, tokens in found]

    def _message(self, body: bytes) -> Msg:
        return read_message(cast("_Values", json.loads(body)), self._files)

    # --- writing ------------------------------------------------------------------------------------------------------

    async def write(self, known: Tail, new: Tail, plan: Plan, writer: str) -> Tail:
        """Replace the known state by the new one; `MemoryConflictError` if another one is stored."""
        id = await self._take(known, new, writer)
        messages, marks = self._tables.messages, self._tables.marks
        if plan.everything:
            for table in (messages, marks):
                await self._connection.execute(delete(table).where(table.c.conversation == id))
        gone = sorted({*plan.removed, *known.dead})
        for chunk in _chunks(gone):
            for table in (messages, marks):
                here = and_(table.c.conversation == id, table.c.position.in_(chunk))
                await self._connection.execute(delete(table).where(here))
        await self._replace(id, plan.changed)
        if plan.added:
            await self._connection.execute(insert(messages), [_values(id, row) for row in plan.added])
        if found := [each for row in (*plan.added, *plan.changed) for each in _mark_values(id, row)]:
            await self._connection.execute(insert(marks), found)
        return replace(new, id=id, dead=())

    async def _take(self, known: Tail, new: Tail, writer: str) -> int:
        """The lock of the conversation, and its id."""
        table = self._tables.conversations
        values: _Values = {
            "version": new.version,
            "writer": writer,
            "next": new.next,
            "count": new.count,
            "needed": json.dumps(asdict(new.needed)).encode(),
        }
        if known.version:
            here = and_(table.c.id == known.id, table.c.version == known.version)
            if (await self._connection.execute(update(table).where(here).values(values))).rowcount:
                return known.id
            raise MemoryConflictError(self._key, known.version, await self._version())
        values |= {"code": code_of(self._key), "key": bytes_of(self._key)}
        try:
            made = await self._connection.execute(insert(table).values(values))
        except IntegrityError as error:
            raise MemoryConflictError(self._key, 0, 1) from error
        key = made.inserted_primary_key
        assert key is not None
        return cast("int", key[0])

    async def _version(self) -> int | None:
        table = self._tables.conversations
        query = select(table.c.version).where(table.c.code == code_of(self._key))
        return cast("int | None", await self._connection.scalar(query))

    async def _replace(self, id: int, rows: Sequence[Row]) -> None:
        if not rows:
            return
        messages, marks = self._tables.messages, self._tables.marks
        here = and_(messages.c.conversation == id, messages.c.position == bindparam("p"))
        changed = [{"p": row.position, **_content(row)} for row in rows]
        await self._connection.execute(update(messages).where(here), changed)
        for chunk in _chunks([row.position for row in rows]):
            old = and_(marks.c.conversation == id, marks.c.position.in_(chunk))
            await self._connection.execute(delete(marks).where(old))


def _content(row: Row) -> _Values:
    body = row.message.to_json().encode()
    return {"role": row.message.role.value, "tokens": row.tokens, "body": body}


def _values(id: int, row: Row) -> _Values:
    return {"conversation": id, "position": row.position, "code": code_of(row.message.id), **_content(row)}


def _mark_values(id: int, row: Row) -> list[_Values]:
    codes = [code_of(mark) for mark in sorted(row.message.marks)]
    if summary_in(row.message.metadata):
        codes.append(_CARRIER)
    return [{"conversation": id, "mark": code, "position": row.position} for code in codes]


def _chunks(values: Sequence[object]) -> list[Sequence[object]]:
    return [values[at : at + _CHUNK] for at in range(0, len(values), _CHUNK)]
