"""`SqlSession`: sessions in the tables of a database (`tables`), by the statements in `changes`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import select

from agentscope_rx.reactive import Flow, defer
from agentscope_rx.session.entry import check_key, check_name, check_names, decode, encode
from agentscope_rx.session.server_client import TIMEOUT, ServerClient, check_timeout
from agentscope_rx.session.session import ANY_VERSION, Expected, Items, Saved, Session, check_expected
from agentscope_rx.session.sql.changes import Changes
from agentscope_rx.session.sql.database import Database, place_of
from agentscope_rx.session.sql.tables import text_of

if TYPE_CHECKING:
    from sqlalchemy import URL
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

PREFIX = "agentscope_"


class SqlSession(Session):
    """Keeps sessions in a database: `SqlSession("postgresql://user:password@host/database")`, for several machines.

    The database is a URL (PostgreSQL by asyncpg, SQLite by aiosqlite, or another asynchronous driver), or an
    `AsyncEngine`, whose settings are used for connections of its own. The tables, whose names begin with `prefix`, are
    made at the first use. A save is one transaction, and is reported when it is committed.

    Each operation ends within `timeout` seconds, at worst with a `SessionServerError`. Nothing is repeated by itself.
    Any loop and any thread may use the store; a forked child opens its own connections.
    """

    def __init__(self, database: str | URL | AsyncEngine, *, prefix: str = PREFIX, timeout: float = TIMEOUT) -> None:
        check_timeout(timeout)
        place = self._place = place_of(database, prefix)
        # (no reference to this object: it is closed when this is garbage)
        self._database = ServerClient(lambda: Database(place, timeout), Database.close, f"sessions in {place.server}")

    def __repr__(self) -> str:
        return f"<SqlSession in {self._place.server}, tables {self._place.prefix}*>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SqlSession) and self._place == other._place

    def __hash__(self) -> int:
        return hash(self._place)

    def save_all(
        self,
        key: str,
        values: Mapping[str, object],
        lists: Mapping[str, Items] | None = None,
        *,
        expected: Expected = ANY_VERSION,
    ) -> Flow[str | None]:
        def save() -> Flow[str | None]:
            entries = encode(key, values, lists)
            if not entries:
                return self._database.look(lambda database: _checked(database, key, expected))

            async def write(database: Database) -> str | None:
                return await database.write(
                    key, lambda connection: Changes(database, key, connection).save(entries, expected)
                )

            return self._database.change(key, write)

        return defer(save)

    def load_all(self, key: str, names: Sequence[str] | None = None) -> Flow[Saved]:
        def load() -> Flow[Saved]:
            check_key(key)
            wanted = check_names(names)

            async def read(database: Database) -> Saved:
                entries, version = await database.read(
                    key, lambda connection: Changes(database, key, connection).load(wanted)
                )
                return decode(key, entries, version)

            return self._database.look(read)

        return defer(load)

    def remove(self, key: str, name: str) -> Flow[bool]:
        def remove() -> Flow[bool]:
            check_key(key)
            check_name(name)

            async def write(database: Database) -> bool:
                return await database.write(key, lambda connection: Changes(database, key, connection).remove(name))

            return self._database.change(key, write)

        return defer(remove)

    def delete(self, key: str) -> Flow[bool]:
        def delete() -> Flow[bool]:
            check_key(key)

            async def write(database: Database) -> bool:
                return await database.write(key, lambda connection: Changes(database, key, connection).delete())

            return self._database.change(key, write)

        return defer(delete)

    def exists(self, key: str) -> Flow[bool]:
        def exists() -> Flow[bool]:
            check_key(key)

            async def read(database: Database) -> bool:
                found = await database.read(key, lambda connection: Changes(database, key, connection).version())
                return found is not None

            return self._database.look(read)

        return defer(exists)

    def keys(self) -> Flow[list[str]]:
        """Emits the sorted keys of all sessions. Cancels as `load_all`."""

        async def read(database: Database) -> list[str]:
            async def names(connection: AsyncConnection) -> list[str]:
                found = await connection.scalars(select(database.tables.sessions.c.name))
                return sorted(text_of(name) for name in found)

            return await database.read(None, names)

        return self._database.look(read)

    def close(self) -> Flow[None]:
        """Close the connections, when the work that has begun has ended. The next use opens others."""
        return self._database.close()


async def _checked(database: Database, key: str, expected: Expected) -> str | None:
    """The version of a save without entries."""
    found = await database.read(key, lambda connection: Changes(database, key, connection).version())
    check_expected(key, expected, found)
    return found
