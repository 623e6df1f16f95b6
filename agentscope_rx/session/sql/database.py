"""`Database`: an engine with its tables, on one loop; a read or a transaction in bounded time."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import field
from typing import Protocol, TypeVar

from sqlalchemy import URL, Connection, Engine, event, insert, inspect, make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError, DisconnectionError, InvalidRequestError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from agentscope_rx.errors import ConfigurationError, MissingExtraError, SessionFormatError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.session.sql.faults import Progress, our_errors
from agentscope_rx.session.sql.tables import FORMAT, Tables, make_tables

T = TypeVar("T")

_ASYNC_DRIVERS = {"postgresql": "postgresql+asyncpg", "postgres": "postgresql+asyncpg", "sqlite": "sqlite+aiosqlite"}
_EXTRA = ("asyncpg", "aiosqlite")
"""The drivers that come with the extra."""
_PORTS = {"postgresql": 5432, "mysql": 3306, "mariadb": 3306}
_PREFIX = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}|")
_CLOSE_SECONDS = 2.0
"""How long a connection may take to say goodbye to its server."""
_TRIES = 5
"""The number of attempts to make the tables, while other processes make them, too."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the sessions are. Two places are equal if they are the same tables of the same database."""

    server: str
    prefix: str
    # a password is in here
    url: URL = field(compare=False, repr=False)
    engine: Engine | None = field(default=None, compare=False, repr=False)


def place_of(database: str | URL | AsyncEngine, prefix: str) -> Place:
    """The place that the arguments name; `ConfigurationError` if they name none."""
    if not _PREFIX.fullmatch(prefix):
        raise ConfigurationError(f"prefix must be up to 40 letters, digits and _, and not {prefix!r:.60}.")
    if isinstance(database, AsyncEngine):
        engine, url = database.sync_engine, database.url
    else:
        engine, url = None, _parsed(database)
        _check_driver(url)
    if url.get_backend_name() == "sqlite" and _in_memory(url):
        raise ConfigurationError(
            "Connections do not share a SQLite database in memory. Give SqlSession a file, or use InMemorySession."
        )
    return Place(_address(url), prefix, url, engine)


def _in_memory(url: URL) -> bool:
    # a file may have "memory" in its name
    name = url.database or ""
    return name in ("", ":memory:") or name.startswith("file::memory:") or url.query.get("mode") == "memory"


def _parsed(database: str | URL) -> URL:
    try:
        url = make_url(database)
    except (ArgumentError, ValueError, AttributeError):
        # the cause would show the URL, with its password
        raise ConfigurationError(
            "This is no URL of a database. Give one such as 'postgresql://user:password@host/database' or "
            "'sqlite:///chat.db'."
        ) from None
    url = url.set(drivername=_ASYNC_DRIVERS.get(url.drivername, url.drivername))
    if url.get_backend_name() == "sqlite" and not _in_memory(url) and not (url.database or "").startswith("file:"):
        # of the working directory that there is now, not of that at the first use
        url = url.set(database=os.path.abspath(url.database or ""))
    return url


def _check_driver(url: URL) -> None:
    """Raise `ConfigurationError` unless SQLAlchemy knows the database and the driver is installed."""
    try:
        url.get_dialect().import_dbapi()
    except ModuleNotFoundError as error:
        if error.name in _EXTRA:
            raise MissingExtraError(error.name, "sql") from error
        raise ConfigurationError(
            f"The driver of {url.drivername!r} is not installed: {error}. It must be an asynchronous one, named in "
            "the URL, such as 'mysql+asyncmy://...'."
        ) from error
    except ArgumentError as error:
        raise ConfigurationError(f"SQLAlchemy knows no {url.drivername!r}: {error}.") from error


def _address(url: URL) -> str:
    """The address without user, password and options."""
    backend = url.get_backend_name()
    if backend == "sqlite":
        return f"sqlite:///{os.path.abspath(url.database or '')}"
    host = url.host or url.query.get("host") or "localhost"
    port = url.port or url.query.get("port") or _PORTS.get(backend, "")
    return f"{backend}://{host if isinstance(host, str) else ','.join(host)}:{port}/{url.database or ''}"


class Database:
    """The tables of a place. It belongs to the loop that it is made on."""

    def __init__(self, place: Place, timeout: float) -> None:
        self.server: str = place.server
        self.timeout: float = timeout
        self.tables: Tables = make_tables(place.prefix)
        self._engine = _own_engine(place, timeout)
        self.dialect: str = self._engine.dialect.name
        # one statement is of one moment; a transaction sees what others have committed once it has its lock
        self._reads = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        plain = self.dialect == "sqlite"
        self._writes = self._engine if plain else self._engine.execution_options(isolation_level="READ COMMITTED")
        event.listen(self._engine.sync_engine.pool, "connect", _note, insert=True)
        self._prepared = False
        self._preparing = asyncio.Lock()

    async def read(self, key: str | None, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """The result of the work with a connection on which each statement is a transaction."""
        with our_errors(key, self.server, self.timeout, Progress()):
            async with asyncio.timeout(self.timeout):
                await self._prepare()
                async with self._connected(self._reads) as connection:
                    return await work(connection)

    async def write(self, key: str, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """The result of the work in a transaction, once it is committed; an exception rolls it back."""
        progress = Progress()
        done: list[T] = []
        with our_errors(key, self.server, self.timeout, progress):
            try:
                async with asyncio.timeout(self.timeout):
                    await self._prepare()
                    async with self._connected(self._writes) as connection:
                        result = await work(connection)
                        # (another SQLite process is no answer that could get lost, but a timeout may come)
                        progress.unsure = True
                        await connection.commit()
                        done.append(result)
            except Exception as error:
                if not done:
                    raise
                # committed; only the connection was not given back
                report_dropped(error, f"a connection to {self.server}")
        return done[0]

    async def close(self) -> None:
        """Close the connections; those whose server does not answer are cut off."""
        while True:
            with suppress(TimeoutError, OSError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self._engine.dispose()
                return

    @asynccontextmanager
    async def _connected(self, engine: AsyncEngine) -> AsyncGenerator[AsyncConnection]:
        """A connection of the pool, or a new one."""
        fresh: list[_Terminable] = []
        token = _fresh.set(fresh)
        try:
            connection = await (self._opened(engine) if self.dialect == "sqlite" else engine.connect())
        except BaseException:
            # SQLAlchemy forgets a connection whose first statements fail or are cancelled, without closing it
            for each in fresh:
                each.terminate()
            raise
        finally:
            _fresh.reset(token)
        try:
            yield connection
        finally:
            # (a second cancellation must not keep it from the pool)
            await asyncio.shield(connection.close())

    @staticmethod
    async def _opened(engine: AsyncEngine) -> AsyncConnection:
        """A connection to a SQLite file: aiosqlite would leave one open whose opening is cancelled on its thread."""
        opening = asyncio.ensure_future(engine.connect())
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            await (await opening).close()
            raise

    # --- tables -------------------------------------------------------------------------------------------------------

    async def _prepare(self) -> None:
        """Make the tables that are missing."""
        if self._prepared:
            return
        async with self._preparing:
            for tries in range(1, _TRIES + 1):
                try:
                    async with self._connected(self._engine) as connection:
                        await connection.run_sync(self._make_tables)
                        found = (await connection.execute(select(self.tables.schema.c.format))).scalars().all()
                        await connection.commit()
                except DBAPIError:
                    # two processes that make them collide, whatever the statement says: look again
                    if tries == _TRIES:
                        raise
                    continue
                if (newest := max(found, default=FORMAT)) > FORMAT:
                    raise SessionFormatError(None, f"{self.server} ({self.tables.schema.name})", newest, FORMAT)
                self._prepared = True
                return

    def _make_tables(self, connection: Connection) -> None:
        if not inspect(connection).has_table(self.tables.schema.name):
            # it is made last: where it is, the others are, too
            others = [table for table in self.tables.metadata.sorted_tables if table is not self.tables.schema]
            self.tables.metadata.create_all(connection, tables=others)
            self.tables.schema.create(connection)
            connection.execute(insert(self.tables.schema).values(format=FORMAT))


class _Terminable(Protocol):
    """A connection of a driver, as SQLAlchemy's adapters have it."""

    def terminate(self) -> None: ...


class _Closable(Protocol):
    def is_closed(self) -> bool: ...


class _Asyncpg(Protocol):
    """SQLAlchemy's adapter of a connection of asyncpg."""

    driver_connection: _Closable


_fresh: ContextVar[list[_Terminable]] = ContextVar("fresh")


def _note(connection: _Terminable, record: object) -> None:
    """Called by the pool for each new connection, before it is used."""
    if (fresh := _fresh.get(None)) is not None and hasattr(connection, "terminate"):
        fresh.append(connection)


def _own_engine(place: Place, timeout: float) -> AsyncEngine:
    """An engine whose connections belong to this loop."""
    if (given := place.engine) is not None:
        # its connections belong to another loop: as many of our own, made in the same way
        return AsyncEngine(Engine(given.pool.recreate(), given.dialect, given.url, hide_parameters=True))
    backend = place.url.get_backend_name()
    waits = {"timeout": timeout} if backend in ("sqlite", "postgresql") else {}
    try:
        # asyncpg knows when its server has gone; a ping would take three round trips
        ping = not place.url.drivername.endswith("+asyncpg")
        engine = create_async_engine(place.url, pool_pre_ping=ping, hide_parameters=True, connect_args=waits)
    except (ArgumentError, InvalidRequestError) as error:
        raise ConfigurationError(
            f"{place.url.drivername!r} is no asynchronous driver for SQLAlchemy: {error}"
        ) from error
    if backend == "sqlite" and (path := place.url.database) and not path.startswith("file:"):
        with suppress(OSError):
            # a new file is its owner's only; SQLite reports what is wrong with the path
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    if not ping:
        event.listen(engine.sync_engine.pool, "checkout", _check_open)
    return engine


def _check_open(connection: _Asyncpg, record: object, proxy: object) -> None:
    """Called by the pool for each connection that it hands out: it takes another one for one that was lost."""
    if connection.driver_connection.is_closed():
        raise DisconnectionError("the server has closed the connection")
