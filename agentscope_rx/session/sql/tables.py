"""The tables of `SqlSession`.

    <prefix>schema     format                                        one row
    <prefix>sessions   session | name, version                       one row for each session
    <prefix>entries    session, entry | name, kind, length, value    one row for each entry; a value is in its row
    <prefix>items      session, entry, place | line                  one row for each item of a list

Keys and names may be longer than an index allows, differ only in case, and hold characters that PostgreSQL's text
refuses. So rows are found by the codes that `JsonSession` has for file names (at most 100 characters of lower-case
ASCII), and keys, names and JSON are stored as bytes.
"""

from __future__ import annotations

from sqlalchemy import Column, Integer, LargeBinary, MetaData, String, Table
from sqlalchemy.dialects.mysql import LONGBLOB

from agentscope_rx.frozen_values import dataclass

FORMAT = 1
_CODE = String(100)
_VERSION = String(32)
# MySQL's BLOB ends at 64 KB
_BYTES = LargeBinary().with_variant(LONGBLOB(), "mysql", "mariadb")


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables with one prefix."""

    metadata: MetaData
    schema: Table
    sessions: Table
    entries: Table
    items: Table


def make_tables(prefix: str) -> Tables:
    """The tables of the names with this prefix."""
    metadata = MetaData()

    def code(name: str) -> Column[str]:
        return Column(name, _CODE, primary_key=True)

    return Tables(
        metadata,
        Table(f"{prefix}schema", metadata, Column("format", Integer, primary_key=True, autoincrement=False)),
        Table(
            f"{prefix}sessions",
            metadata,
            code("session"),
            Column("name", _BYTES, nullable=False),
            Column("version", _VERSION, nullable=False),
        ),
        Table(
            f"{prefix}entries",
            metadata,
            code("session"),
            code("entry"),
            Column("name", _BYTES, nullable=False),
            Column("kind", String(10), nullable=False),
            Column("length", Integer, nullable=False),
            Column("value", _BYTES),
        ),
        Table(
            f"{prefix}items",
            metadata,
            code("session"),
            code("entry"),
            Column("place", Integer, primary_key=True, autoincrement=False),
            Column("line", _BYTES, nullable=False),
        ),
    )


def bytes_of(text: str) -> bytes:
    """A key or a name as bytes: any text, with NUL and lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def text_of(data: bytes) -> str:
    """The key or name of these bytes."""
    return data.decode("utf-8", "surrogatepass")
