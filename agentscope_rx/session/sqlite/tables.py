"""The tables of a store, and what an operation does in its transaction. The cost of a save is that of what is new.

    sessions    id, key, version, saved                  one row for each conversation; `saved` is a Unix time
    entries     id, session, name, line, items, crc      a value has its JSON in `line`; a list has NULL there
    items       entry, idx, line, crc                    the items of the lists, as JSON

Each `crc` is that of the line, begun with the `crc` of the line before it. That of a list is the one of its last item.
So a changed, missing or stale row is found when the list is read, and an append computes only the sums of new items.
"""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple
from zlib import crc32

from agentscope_rx.errors import SessionDamagedError
from agentscope_rx.session.entry import EntryKind, StoredEntry
from agentscope_rx.session.session import ANY_VERSION, Expected, check_expected

APPLICATION = 0x41535258
"""PRAGMA application_id: "ASRX"."""
FORMAT = 1
"""PRAGMA user_version: the number of these tables' form."""

SCHEMA = f"""
CREATE TABLE sessions (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, version TEXT NOT NULL, saved REAL NOT NULL);
CREATE TABLE entries (
    id INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES sessions (id), name TEXT NOT NULL,
    line TEXT, items INTEGER NOT NULL, crc INTEGER NOT NULL, UNIQUE (session, name));
CREATE TABLE items (
    entry INTEGER NOT NULL REFERENCES entries (id), idx INTEGER NOT NULL, line TEXT NOT NULL, crc INTEGER NOT NULL,
    UNIQUE (entry, idx));
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {FORMAT};
"""

_ENTRY = "SELECT id, name, line, items, crc FROM entries WHERE session = ?"
# text comes as bytes: a key may hold lone surrogates, which SQLite keeps and Python's UTF-8 refuses
_ADD_ENTRY = "INSERT INTO entries (session, name, line, items, crc) VALUES (?, CAST(? AS TEXT), CAST(? AS TEXT), ?, ?)"
_SET_ENTRY = "UPDATE entries SET line = CAST(? AS TEXT), items = ?, crc = ? WHERE id = ?"
_CUT_ITEMS = "DELETE FROM items WHERE entry = ? AND idx >= ?"
_ADD_ITEM = "INSERT INTO items (entry, idx, line, crc) VALUES (?, ?, CAST(? AS TEXT), ?)"


class _Row(NamedTuple):
    """An entry; `line` is None for a list."""

    id: int
    name: bytes
    line: bytes | None
    items: int
    crc: int

    @property
    def kind(self) -> EntryKind:
        return EntryKind.LIST if self.line is None else EntryKind.VALUE


class Tables:
    """The sessions in an opened file. All methods block, and need a transaction, which the caller begins and ends."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._db = connection
        self._path = path

    # --- reading

    def entries(self, key: str, names: Collection[str] | None) -> tuple[dict[str, StoredEntry], str | None]:
        """The entries of these names, or all, and the version of the session."""
        session, version = self._session(key)
        if session is None:
            return {}, None
        if names is None:
            rows = [_Row(*each) for each in self._db.execute(f"{_ENTRY} ORDER BY id", (session,))]
        else:
            found = (self._row(session, name) for name in dict.fromkeys(names))
            rows = [row for row in found if row is not None]
        return {(name := _text(row.name)): self._entry(key, name, row) for row in rows}, version

    def version(self, key: str) -> str | None:
        """The version of the session; None if it has no entry."""
        return self._session(key)[1]

    def checked(self, key: str, expected: Expected) -> str | None:
        """The version of the session; `SessionConflictError` if it is not the expected one."""
        version = self.version(key)
        check_expected(key, expected, version)
        return version

    def keys(self) -> list[str]:
        """The keys of all sessions, sorted."""
        # SQLite compares bytes, and UTF-8 sorts as code points do
        return [_text(key) for (key,) in self._db.execute("SELECT key FROM sessions ORDER BY key")]

    def latest(self) -> str | None:
        """The key of the session saved last."""
        found = self._db.execute("SELECT key FROM sessions ORDER BY saved DESC, id DESC LIMIT 1").fetchone()
        return None if found is None else _text(found[0])

    # --- changing

    def write(self, key: str, entries: Mapping[str, StoredEntry], expected: Expected = ANY_VERSION) -> str | None:
        """Replace these entries and return the new version; what is stored already is not written again.

        `SessionConflictError` if the version is not the expected one.
        """
        session, version = self._session(key)
        check_expected(key, expected, version)
        if session is None:
            insert = "INSERT INTO sessions (key, version, saved) VALUES (CAST(? AS TEXT), '', 0)"
            session = self._db.execute(insert, (_bytes(key),)).lastrowid or 0
        changed = [self._put(session, key, name, entry) for name, entry in entries.items()]
        return self._changed(session, version) if any(changed) else version

    def remove(self, key: str, name: str) -> bool:
        """Remove one entry, and the session with its last one; True if there was one."""
        session, version = self._session(key)
        row = None if session is None else self._row(session, name)
        if session is None or row is None:
            return False
        self._db.execute(_CUT_ITEMS, (row.id, 0))
        self._db.execute("DELETE FROM entries WHERE id = ?", (row.id,))
        if self._db.execute("SELECT 1 FROM entries WHERE session = ? LIMIT 1", (session,)).fetchone() is None:
            self._db.execute("DELETE FROM sessions WHERE id = ?", (session,))
        else:
            self._changed(session, version)
        return True

    def delete(self, key: str) -> bool:
        """Remove the session; True if there was one."""
        session, _ = self._session(key)
        if session is None:
            return False
        self._db.execute("DELETE FROM items WHERE entry IN (SELECT id FROM entries WHERE session = ?)", (session,))
        self._db.execute("DELETE FROM entries WHERE session = ?", (session,))
        self._db.execute("DELETE FROM sessions WHERE id = ?", (session,))
        return True

    def _changed(self, session: int, version: str | None) -> str:
        """Give the session a version that it has never had, also if it was deleted, or the file put back."""
        number = (version or "").partition("-")[0]
        fresh = f"{int(number) + 1 if number.isdecimal() else 1}-{secrets.token_hex(8)}"
        self._db.execute("UPDATE sessions SET version = ?, saved = ? WHERE id = ?", (fresh, time.time(), session))
        return fresh

    def _put(self, session: int, key: str, name: str, entry: StoredEntry) -> bool:
        row = self._row(session, name)
        if entry.kind is EntryKind.VALUE:
            return self._put_value(session, name, row, entry.lines[0].removesuffix(b"\n"))
        return self._put_list(session, key, name, row, entry)

    def _put_value(self, session: int, name: str, row: _Row | None, line: bytes) -> bool:
        crc = crc32(line)
        if row is None:
            self._db.execute(_ADD_ENTRY, (session, _bytes(name), line, 1, crc))
        elif (row.line, row.crc) == (line, crc):
            return False
        else:
            if row.kind is EntryKind.LIST:
                self._db.execute(_CUT_ITEMS, (row.id, 0))
            self._db.execute(_SET_ENTRY, (line, 1, crc, row.id))
        return True

    def _put_list(self, session: int, key: str, name: str, row: _Row | None, entry: StoredEntry) -> bool:
        count = row.items if row is not None and row.kind is EntryKind.LIST else 0
        start = entry.start_in(key, name, None if row is None else row.kind, count)
        if row is None:
            row = _Row(
                self._db.execute(_ADD_ENTRY, (session, _bytes(name), None, 0, 0)).lastrowid or 0, b"", None, 0, 0
            )
            fresh = True
        else:
            fresh = row.kind is EntryKind.VALUE
        crc = row.crc if 0 < start == count else self._crc_at(key, name, row.id, start - 1)
        at, crc = self._same(row.id, start, count, crc, entry.lines)
        new = entry.lines[at - start :]
        if not (new or fresh) and (at, crc) == (count, row.crc):
            return False
        rows: list[tuple[int, int, bytes, int]] = []
        for index, each in enumerate(new, at):
            line = each.removesuffix(b"\n")
            crc = crc32(line, crc)
            rows.append((row.id, index, line, crc))
        if at < count or start == 0:
            self._db.execute(_CUT_ITEMS, (row.id, at))
        self._db.executemany(_ADD_ITEM, rows)
        self._db.execute(_SET_ENTRY, (None, at + len(new), crc, row.id))
        return True

    def _same(self, entry: int, start: int, count: int, crc: int, lines: tuple[bytes, ...]) -> tuple[int, int]:
        """The index behind the stored items from `start` on that are these, and the sum up to there."""
        at = start
        if start < count:
            for (index, found, stored), line in zip(self._items(entry, start), lines, strict=False):
                given = line.removesuffix(b"\n")
                after = crc32(given, crc)
                # an item that is damaged is written again, and so is all behind it
                if (index, found, stored) != (at, given, after):
                    break
                at, crc = at + 1, after
        return at, crc

    # --- rows

    def _session(self, key: str) -> tuple[int | None, str | None]:
        select = "SELECT id, version FROM sessions WHERE key = CAST(? AS TEXT)"
        found = self._db.execute(select, (_bytes(key),)).fetchone()
        return (None, None) if found is None else (found[0], found[1].decode())

    def _row(self, session: int, name: str) -> _Row | None:
        found = self._db.execute(f"{_ENTRY} AND name = CAST(? AS TEXT)", (session, _bytes(name))).fetchone()
        return None if found is None else _Row(*found)

    def _items(self, entry: int, start: int) -> Iterator[tuple[int, bytes, int]]:
        return self._db.execute(
            "SELECT idx, line, crc FROM items WHERE entry = ? AND idx >= ? ORDER BY idx", (entry, start)
        )

    def _crc_at(self, key: str, name: str, entry: int, index: int) -> int:
        if index < 0:
            return 0
        found = self._db.execute("SELECT crc FROM items WHERE entry = ? AND idx = ?", (entry, index)).fetchone()
        if found is None:
            raise self._damaged(key, name, f"item {index} is missing")
        return found[0]

    def _entry(self, key: str, name: str, row: _Row) -> StoredEntry:
        if row.line is not None:
            if crc32(row.line) != row.crc:
                raise self._damaged(key, name, "its content has changed since it was written")
            return StoredEntry(EntryKind.VALUE, (row.line,))
        lines: list[bytes] = []
        crc = 0
        for index, line, stored in self._items(row.id, 0):
            crc = crc32(line, crc)
            if index != len(lines) or crc != stored:
                raise self._damaged(key, name, f"item {len(lines)} is missing or has changed since it was written")
            lines.append(line)
        if (len(lines), crc) != (row.items, row.crc):
            raise self._damaged(key, name, f"it has {len(lines)} of {row.items} items, or others than were written")
        return StoredEntry(EntryKind.LIST, tuple(lines))

    def _damaged(self, key: str, name: str, what: str) -> SessionDamagedError:
        advice = f"Put back a copy of the file, or remove what the entry held with remove({key!r}, {name!r})."
        return SessionDamagedError(key, self._path, f"entry {name!r}: {what}", advice)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
