"""The tables of `SqlMemory`.

    <prefix>schema          format                                                  one row
    <prefix>conversations   id | code, key, version, writer, next, count, needed    one row for each conversation
    <prefix>messages        conversation, position | code, role, tokens, body       one row for each message
    <prefix>marks           conversation, mark, position                            one row for each mark of a message

`code` is a text in characters that every database compares in the same way (see `session.manifest`). Positions grow,
and have gaps where messages were deleted. `needed` is JSON: the positions that `get` reads although they are old.
"""

from __future__ import annotations

from typing import Protocol

from sqlalchemy import Column, Index, Integer, LargeBinary, MetaData, String, Table, event
from sqlalchemy.dialects.mysql import LONGBLOB

from agentscope_rx.frozen_values import dataclass
from agentscope_rx.session.manifest import file_name
from agentscope_rx.session.sql.database import Database, Place
from agentscope_rx.session.sql.tables import Tables, bytes_of

_CODE = String(100)
_BYTES = LargeBinary().with_variant(LONGBLOB(), "mysql", "mariadb")

__all__ = ["MemoryDatabase", "MemoryTables", "bytes_of", "code_of", "make_tables"]


def code_of(text: str) -> str:
    """The text as a code of at most 100 characters, another one for each text."""
    return file_name(text)


@dataclass(frozen=True, slots=True)
class MemoryTables:
    """The tables with one prefix."""

    metadata: MetaData
    schema: Table
    conversations: Table
    messages: Table
    marks: Table


def make_tables(prefix: str) -> MemoryTables:
    """The tables of the names with this prefix."""
    metadata = MetaData()

    def number(name: str) -> Column[int]:
        return Column(name, Integer, primary_key=True, autoincrement=False)

    messages = Table(
        f"{prefix}messages",
        metadata,
        number("conversation"),
        number("position"),
        Column("code", _CODE, nullable=False),
        Column("role", String(16), nullable=False),
        Column("tokens", Integer, nullable=False),
        Column("body", _BYTES, nullable=False),
    )
    Index(f"{prefix}messages_by_code", messages.c.conversation, messages.c.code)
    return MemoryTables(
        metadata,
        Table(f"{prefix}schema", metadata, Column("format", Integer, primary_key=True, autoincrement=False)),
        Table(
            f"{prefix}conversations",
            metadata,
            Column("id", Integer, primary_key=True, autoincrement=True),
            Column("code", _CODE, nullable=False, unique=True),
            Column("key", _BYTES, nullable=False),
            Column("version", Integer, nullable=False),
            Column("writer", String(32), nullable=False),
            Column("next", Integer, nullable=False),
            Column("count", Integer, nullable=False),
            Column("needed", _BYTES, nullable=False),
        ),
        messages,
        Table(
            f"{prefix}marks",
            metadata,
            number("conversation"),
            Column("mark", _CODE, primary_key=True),
            number("position"),
        ),
    )


class _Connection(Protocol):
    def cursor(self) -> _Cursor: ...


class _Cursor(Protocol):
    def execute(self, statement: str) -> object: ...
    def close(self) -> None: ...


def _write_ahead(connection: _Connection, record: object) -> None:
    # readers and the writer of a SQLite file do not wait for each other, and a commit needs one sync
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.close()


class MemoryDatabase(Database):
    """A database with the tables of memories."""

    def __init__(self, place: Place, timeout: float) -> None:
        super().__init__(place, timeout)
        if self.dialect == "sqlite":
            event.listen(self._engine.sync_engine, "connect", _write_ahead)
        own = make_tables(place.prefix)
        self.memory: MemoryTables = own
        # those that are made at the first use
        self.tables: Tables = Tables(own.metadata, own.schema, own.conversations, own.marks, own.messages)
