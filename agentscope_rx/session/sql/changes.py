"""The statements of `SqlSession`. Each change takes the row of its session first, so that others wait for it.

save     UPDATE sessions SET version (WHERE version = expected), or INSERT     the lock, and compare-and-set
         SELECT entries of these names
         DELETE items from their start on, INSERT items, UPDATE or INSERT entries
load     one SELECT of all three tables: one statement is of one moment
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import cast
from uuid import uuid4

from sqlalchemy import Insert, and_, bindparam, delete, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from agentscope_rx.errors import SessionConflictError, SessionDamagedError
from agentscope_rx.session.entry import EntryKind, StoredEntry
from agentscope_rx.session.manifest import file_name
from agentscope_rx.session.session import ANY_VERSION, Expected, check_expected
from agentscope_rx.session.sql.database import Database
from agentscope_rx.session.sql.tables import bytes_of, text_of

_VERSION = re.compile(r"[0-9a-f]{32}")
_Row = dict[str, object]
_NAMES = 10_000
"""The most names in one statement; databases have limits of some ten thousand."""
_TRIES = 10
"""The number of attempts to find or make the row of a session that others make and delete."""


class Changes:
    """What is done to one session in one transaction."""

    def __init__(self, database: Database, key: str, connection: AsyncConnection) -> None:
        self._tables = database.tables
        self._dialect = database.dialect
        self._server = database.server
        self._key = key
        self._code = file_name(key)
        self._connection = connection

    async def version(self) -> str | None:
        """The version of the session, None if there is none."""
        sessions = self._tables.sessions
        return await self._connection.scalar(select(sessions.c.version).where(sessions.c.session == self._code))

    # --- changes ------------------------------------------------------------------------------------------------------

    async def save(self, entries: Mapping[str, StoredEntry], expected: Expected) -> str:
        """Write entries; returns the new version."""
        version = await self._lock(expected)
        found = await self._lengths(list(entries))
        cleared: list[_Row] = []
        items: list[_Row] = []
        fresh: list[_Row] = []
        changed: list[_Row] = []
        for name, entry in entries.items():
            code = file_name(name)
            kind, count = found.get(code, (None, 0))
            start = entry.start_in(self._key, name, kind, count)
            is_list = entry.kind is EntryKind.LIST
            if kind is EntryKind.LIST and start < count:
                cleared.append({"e": code, "p": start})
            if is_list:
                for place, line in enumerate(entry.lines, start):
                    items.append({"session": self._code, "entry": code, "place": place, "line": line})
            row: _Row = {
                "kind": entry.kind.value,
                "length": start + len(entry.lines) if is_list else 1,
                "value": None if is_list else entry.lines[0],
            }
            if kind is None:
                fresh.append({"session": self._code, "entry": code, "name": bytes_of(name), **row})
            else:
                changed.append({"e": code, **row})
        await self._write(cleared, items, fresh, changed)
        return version

    async def remove(self, name: str) -> bool:
        """Remove one entry, and the session with its last one; False if there is none of this name."""
        entries = self._tables.entries
        if not await self._advance():
            return False
        of_name = and_(entries.c.session == self._code, entries.c.entry == file_name(name))
        if not (await self._connection.execute(delete(entries).where(of_name))).rowcount:
            # the version stays
            await self._connection.rollback()
            return False
        items = self._tables.items
        await self._connection.execute(
            delete(items).where(items.c.session == self._code, items.c.entry == file_name(name))
        )
        left = select(entries.c.entry).where(entries.c.session == self._code).limit(1)
        if await self._connection.scalar(left) is None:
            sessions = self._tables.sessions
            await self._connection.execute(delete(sessions).where(sessions.c.session == self._code))
        return True

    async def delete(self) -> bool:
        """Remove the session; False if there is none."""
        for number, table in enumerate((self._tables.sessions, self._tables.entries, self._tables.items)):
            done = await self._connection.execute(delete(table).where(table.c.session == self._code))
            if number == 0 and not done.rowcount:
                return False
        return True

    async def _write(
        self,
        cleared: list[_Row],
        items: list[_Row],
        fresh: list[_Row],
        changed: list[_Row],
    ) -> None:
        tables, execute = self._tables, self._connection.execute
        if cleared:
            table = tables.items
            tail = and_(table.c.session == self._code, table.c.entry == bindparam("e"), table.c.place >= bindparam("p"))
            await execute(delete(table).where(tail), cleared)
        if items:
            await execute(insert(tables.items), items)
        if fresh:
            await execute(insert(tables.entries), fresh)
        if changed:
            table = tables.entries
            of_name = and_(table.c.session == self._code, table.c.entry == bindparam("e"))
            # (the columns to set are those that the rows have)
            await execute(update(table).where(of_name), changed)

    async def _lock(self, expected: Expected) -> str:
        """Replace the version that is expected, which locks the session's row; returns the new one."""
        version = uuid4().hex
        if isinstance(expected, str):
            if _VERSION.fullmatch(expected) and await self._advance(version, expected):
                return version
            raise SessionConflictError(self._key, expected, await self.version())
        row = {"session": self._code, "name": bytes_of(self._key), "version": version}
        new = self._insert_if_absent().values(row)
        for _ in range(_TRIES):
            if expected is ANY_VERSION and await self._advance(version):
                return version
            if (await self._connection.execute(new)).rowcount:
                return version
            # it was made meanwhile
            if expected is None:
                check_expected(self._key, None, await self.version())
        raise SessionConflictError(self._key, None, await self.version())

    async def _advance(self, version: str | None = None, expected: str | None = None) -> bool:
        sessions = self._tables.sessions
        change = update(sessions).where(sessions.c.session == self._code).values(version=version or uuid4().hex)
        if expected is not None:
            change = change.where(sessions.c.version == expected)
        return bool((await self._connection.execute(change)).rowcount)

    def _insert_if_absent(self) -> Insert:
        sessions = self._tables.sessions
        if self._dialect == "postgresql":
            return postgresql.insert(sessions).on_conflict_do_nothing()
        if self._dialect == "sqlite":
            return sqlite.insert(sessions).on_conflict_do_nothing()
        return insert(sessions).prefix_with("IGNORE", dialect="mysql").prefix_with("IGNORE", dialect="mariadb")

    async def _lengths(self, names: Sequence[str]) -> dict[str, tuple[EntryKind, int]]:
        """Kind and length of the entries of these names that exist, by their codes."""
        entries = self._tables.entries
        found: dict[str, tuple[EntryKind, int]] = {}
        for at in range(0, len(names), _NAMES):
            codes = [file_name(name) for name in names[at : at + _NAMES]]
            query = select(entries.c.entry, entries.c.kind, entries.c.length).where(
                entries.c.session == self._code, entries.c.entry.in_(codes)
            )
            rows = (await self._connection.execute(query)).all()
            found |= {code: (EntryKind(kind), length) for code, kind, length in rows}
        return found

    # --- reading ------------------------------------------------------------------------------------------------------

    async def load(self, names: Sequence[str] | None) -> tuple[dict[str, StoredEntry], str | None]:
        """The entries (of these names) and the version, of one moment."""
        if names is not None and not names:
            return {}, await self.version()
        sessions, entries, items = self._tables.sessions, self._tables.entries, self._tables.items
        wanted = entries.c.session == sessions.c.session
        if names is not None and len(names) <= _NAMES:
            wanted = and_(wanted, entries.c.entry.in_([file_name(name) for name in names]))
        own = and_(items.c.session == entries.c.session, items.c.entry == entries.c.entry)
        query = (
            select(sessions.c.version, entries.c.name, entries.c.kind, entries.c.length, entries.c.value, items.c.line)
            .select_from(sessions.outerjoin(entries, wanted).outerjoin(items, own))
            .where(sessions.c.session == self._code)
            .order_by(entries.c.entry, items.c.place)
        )
        found, version = self._read(tuple(row) for row in await self._connection.execute(query))
        if names is not None and len(names) > _NAMES:
            # one statement is of one moment, so all of them were read
            named = set(names)
            found = {name: entry for name, entry in found.items() if name in named}
        return found, version

    def _read(self, found: Iterable[tuple[object, ...]]) -> tuple[dict[str, StoredEntry], str | None]:
        version: str | None = None
        rows: dict[bytes, tuple[EntryKind, int]] = {}
        lines: dict[bytes, list[bytes]] = {}
        for row in cast("Iterable[tuple[str, bytes | None, str, int, bytes | None, bytes | None]]", found):
            version, name, kind, length, value, line = row
            if name is None:
                continue
            if name not in rows:
                rows[name], lines[name] = (EntryKind(kind), length), []
            content = value if value is not None else line
            if content is not None:
                lines[name].append(content)
        entries: dict[str, StoredEntry] = {}
        for name, (kind, length) in rows.items():
            text = text_of(name)
            if len(lines[name]) != length:
                what = f"entry {text!r} of session {self._key!r} has {len(lines[name])} of {length} items"
                advice = f"Restore a copy, or give it up with remove({self._key!r}, {text!r})."
                raise SessionDamagedError(self._key, self._server, what, advice)
            entries[text] = StoredEntry(kind, tuple(lines[name]))
        return entries, version
