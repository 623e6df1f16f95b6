"""`Damage`: a file holds what no `SqliteChunkStore` has written. It may come from others, with a folder of documents.

A database can hold programs: views and triggers run their SQL when tables of these names are used. So the definitions
of all that belongs to the store are compared with those that it makes, before anything is read, and values with the
types that they must have, as they are read. `Database` makes a `KnowledgeFormatError` of it.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from typing import TypeVar

from agentscope_rx.knowledge.stores.sqlite.tables import SCHEMA

T = TypeVar("T")

MOST_DIMENSIONS = 65_536
LAST_KEY = 2**62
"""No store comes so far; greater keys leave no room for those of a batch."""
_OBJECTS = (
    "SELECT lower(name), type, lower(tbl_name), sql FROM sqlite_master"
    " WHERE lower(name) GLOB 'kb_*' OR lower(tbl_name) GLOB 'kb_*'"
)
_FORMAT = "kb_format"
_INDEX_OF_WORDS = "kb_words_"


class Damage(Exception):
    """What is wrong with the file."""


UNEXPECTED = (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError)
"""What reading values of wrong types or forms raises."""


def damage_of(what: str, error: Exception) -> Damage:
    """The `Damage` for one of these in reading `what`. (A context manager would cost more than what it surrounds.)"""
    return Damage(f"{what} cannot be read ({type(error).__name__}: {error!s:.200})")


def of_type(value: object, kind: type[T], what: str) -> T:
    """The value, if it has exactly this type."""
    if type(value) is not kind:
        raise Damage(f"{what} is {value!r:.60}")
    return value


def is_whole(connection: sqlite3.Connection) -> bool:
    """True if the file has the tables of a store, False if it has none of them; `Damage` if they are others."""
    wanted = _definitions()
    # (a trigger is one of ours if its table is; others may have tables whose names begin like ours)
    found = {
        name: (kind, table, sql)
        for name, kind, table, sql in connection.execute(_OBJECTS)
        if name in wanted or table in wanted
    }
    if not found:
        return False
    for name in sorted(found.keys() | wanted.keys()):
        has, needs = found.get(name), wanted.get(name)
        if has is None or needs is None:
            raise Damage(f"{name!r:.60} is missing" if has is None else f"{name!r:.60} does not belong to a store")
        # (the tables of the full-text index are written by SQLite, in the words of its version)
        same = has[:2] == needs[:2] if name.startswith(_INDEX_OF_WORDS) else has == needs
        if not same:
            raise Damage(f"{name!r:.60} is defined in another way")
    return True


def format_of(connection: sqlite3.Connection) -> object:
    """The format of the file, None without one; `Damage` if it is not in a plain table."""
    query = "SELECT type, sql FROM sqlite_master WHERE lower(name) = ?"
    found = connection.execute(query, (_FORMAT,)).fetchone()
    if found is None:
        return None
    kind, _, sql = _definitions()[_FORMAT]
    if found != (kind, sql):
        raise Damage(f"{_FORMAT!r} is defined in another way")
    row = connection.execute("SELECT version FROM kb_format").fetchone()
    if row is None:
        raise Damage(f"{_FORMAT!r} is empty")
    return row[0]


@cache
def _definitions() -> dict[str, tuple[str, str, str | None]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in SCHEMA.split(";"):
            connection.execute(statement)
        return {name: (kind, table, sql) for name, kind, table, sql in connection.execute(_OBJECTS)}
