"""A PostgreSQL database with pgvector, on one loop: its pool of connections, its tables, its errors as ours.

| table                    | a row                                                                           |
|--------------------------|---------------------------------------------------------------------------------|
| `<collection>_info`      | the format, and the model of the vectors                                        |
| `<collection>_documents` | a document: its record, and its fields for conditions                           |
| `<collection>_chunks`    | a chunk: its record, its words (GIN) with their weights                         |
| `<collection>_vectors`   | the vector of a chunk; it is a table of its own, because a search reads all     |

Ids and records are bytes: PostgreSQL's texts have no NUL, and are ordered by its locale.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import field
from hashlib import sha256
from typing import Literal, NoReturn
from urllib.parse import parse_qs, urlsplit

from agentscope_rx.errors import ConfigurationError, KnowledgeFormatError, KnowledgeStorageError, SetupError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.knowledge.store import IndexInfo
from agentscope_rx.knowledge.stores.arguments import refuse_other
from agentscope_rx.knowledge.stores.pg_protocols import (
    ClientErrors,
    Connection,
    Pool,
    PostgresError,
    create_pool,
    register_vector,
)

Index = Literal["exact", "hnsw"]

FORMAT = 1
CONNECTIONS = 8
"""The most connections of a store."""
_COLLECTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
_RETRYABLE = ("08", "40", "53", "55P03", "57", "0A000")
"""SQLSTATE: no connection, rolled back, too few resources, no lock, shut down, a plan that has become invalid."""
_NEVER_RETRYABLE = ("53100",)
"""SQLSTATE: the disk is full."""
_INLINE = 1900
"""Dimensions of the longest vector that fits into a page beside its neighbours' addresses."""
_HNSW, _HNSW_HALF = 2000, 4000
"""The most dimensions of an index of `vector` and of `halfvec`."""
_CLOSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where the chunks are."""

    server: str
    collection: str
    # a password is in here
    url: str = field(compare=False, repr=False)
    index: Index = field(default="exact", compare=False)

    @property
    def name(self) -> str:
        """The place as errors name it."""
        return f"{self.collection} in {self.server}"


def place_of(url: str, collection: str, index: Index) -> Place:
    """The place that the arguments name; `ConfigurationError` if they name none."""
    if not isinstance(collection, str) or not _COLLECTION.fullmatch(collection):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"collection must be up to 40 letters, digits and _, and not {collection!r:.60}.")
    if index not in ("exact", "hnsw"):
        raise ConfigurationError(f"index must be 'exact' or 'hnsw', not {index!r:.60}.")
    try:
        # (a URL of SQLAlchemy names its driver)
        parts = urlsplit(url.replace("+asyncpg", "", 1))
        host = parts.hostname or parse_qs(parts.query).get("host", ["localhost"])[0]
        port = parts.port or 5432
        known = parts.scheme in ("postgresql", "postgres")
    except (ValueError, AttributeError):
        known, host, port, parts = False, "", 0, urlsplit("")
    if not known:
        # (without the URL, which may have a password)
        raise ConfigurationError(
            "This is no URL of a PostgreSQL database. Give one such as 'postgresql://user:password@host/database'."
        )
    return Place(f"postgresql://{host}:{port}{parts.path}", collection, parts.geturl(), index)


class PgDatabase:
    """The tables of a place. It belongs to the loop that it is made on."""

    def __init__(self, place: Place, timeout: float) -> None:
        self.place: Place = place
        self.timeout: float = timeout
        self._pool: Pool | None = None
        self._opening = asyncio.Lock()
        self._schema = ""

    @asynccontextmanager
    async def connected(self, seconds: float | None = None) -> AsyncGenerator[Connection]:
        """A connection of the pool, for so many seconds; the block's errors are raised as ours."""
        seconds = self.timeout if seconds is None else seconds
        with self._our_errors(seconds):
            async with asyncio.timeout(seconds):
                pool = self._pool or await self._opened()
                connection = await pool.acquire(timeout=seconds)
                try:
                    yield connection
                finally:
                    # (a second cancellation must not keep it from the pool, and a silent server not this from its end)
                    await asyncio.shield(_released(pool, connection, min(_CLOSE_SECONDS, self.timeout)))

    @asynccontextmanager
    async def changing(self, seconds: float | None = None) -> AsyncGenerator[Connection]:
        """A connection in a transaction, which commits at the end of the block."""
        async with self.connected(seconds) as connection, _transaction(connection):
            yield connection

    async def close(self) -> None:
        """Close the connections; those whose server does not answer are cut off."""
        pool, self._pool = self._pool, None
        if pool is not None:
            with suppress(TimeoutError, PostgresError, *ClientErrors):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await pool.close()
            pool.terminate()

    # --- tables -------------------------------------------------------------------------------------------------------

    async def info(self, connection: Connection, lock: str = "") -> IndexInfo | None:
        """What the vectors are made with, None before the first `open`."""
        found = await connection.fetchrow(self.sql(f"{_INFO} {lock}"))
        if found is None:
            return None
        if found["format"] != FORMAT:
            what = f"it has format {found['format']}, this version of agentscope-rx knows {FORMAT}."
            raise KnowledgeFormatError(self.place.name, what)
        return IndexInfo(embedding=found["embedding"], dimensions=found["dimensions"])

    async def open(self, wanted: IndexInfo) -> IndexInfo:
        """Make the store one of these vectors, unless it has others."""
        self._check_dimensions(wanted.dimensions)
        async with self.connected() as connection:
            if await self.info(connection) == wanted:
                return wanted
        async with self.changing() as connection:
            await self._lock(connection, "")
            # (a put reads the row for its share)
            has = await self.info(connection, "FOR UPDATE")
            if has is not None and has != wanted:
                if await connection.fetchval(self.sql("SELECT EXISTS (SELECT FROM @_documents)")):
                    refuse_other(self.place.name, has, wanted)
                await connection.execute(self.sql("DELETE FROM @_info; DROP TABLE @_vectors"))
            if has != wanted:
                await self._make_vectors(connection, wanted)
        return wanted

    async def lock_documents(self, connection: Connection, ids: list[bytes]) -> None:
        """Wait for the other writers of these documents; the locks end with the transaction."""
        for each in sorted(set(ids)):
            await self._lock(connection, each.hex())

    def sql(self, text: str) -> str:
        """The statement with the names of the tables: `@_info` is the one of the collection."""
        return text.replace("@_", f"{self.place.collection}_")

    async def _lock(self, connection: Connection, what: str) -> None:
        digest = sha256(f"agentscope {self.place.collection} {what}".encode()).digest()
        await connection.execute("SELECT pg_advisory_xact_lock($1)", int.from_bytes(digest[:8], "big", signed=True))

    async def _opened(self) -> Pool:
        async with self._opening:
            if self._pool is None:
                self._pool = await create_pool(
                    self.place.url, min_size=0, max_size=CONNECTIONS, timeout=self.timeout, init=self._ready
                )
            return self._pool

    async def _ready(self, connection: Connection) -> None:
        """Called by the pool for each new connection."""
        async with self._opening:
            # (the extension comes first: without it there are no types to register)
            self._schema = self._schema or await self._prepare(connection)
        await register_vector(connection, schema=self._schema)

    async def _prepare(self, connection: Connection) -> str:
        """Make what is missing; returns the schema of the extension."""
        async with _transaction(connection):
            # (two that make the same at once collide, whatever the statement says)
            await connection.execute("SELECT pg_advisory_xact_lock(7233181241)")
            schema = await connection.fetchval(_SCHEMA)
            if schema is None:
                await connection.execute("CREATE EXTENSION vector")
                schema = await connection.fetchval(_SCHEMA)
            await connection.execute(self.sql(_TABLES))
        return schema

    async def _make_vectors(self, connection: Connection, info: IndexInfo) -> None:
        size = info.dimensions
        columns = f"document bigint, place int, vector vector({size}) NOT NULL, PRIMARY KEY (document, place)"
        await connection.execute(self.sql(f"CREATE TABLE @_vectors ({columns})"))
        if size <= _INLINE:
            # in the row, so that a search reads the table alone
            await connection.execute(self.sql("ALTER TABLE @_vectors ALTER COLUMN vector SET STORAGE PLAIN"))
        if self.place.index == "hnsw":
            await connection.execute(self.sql(f"CREATE INDEX ON @_vectors USING hnsw ({self.comparison(size)}_ip_ops)"))
        await connection.execute(
            self.sql("INSERT INTO @_info (format, embedding, dimensions) VALUES ($1, $2, $3)"),
            *(FORMAT, info.embedding, size),
        )

    def comparison(self, dimensions: int) -> str:
        """What is compared of a vector, and indexed; and behind a blank its type."""
        if self.place.index == "exact" or dimensions <= _HNSW:
            return "vector vector"
        return f"(vector::halfvec({dimensions})) halfvec"

    def _check_dimensions(self, dimensions: int) -> None:
        most = _HNSW_HALF if self.place.index == "hnsw" else 16_000
        if dimensions > most:
            raise ConfigurationError(
                f"pgvector has vectors of up to {most} dimensions with index={self.place.index!r}, not {dimensions}."
            )

    # --- errors -------------------------------------------------------------------------------------------------------

    @contextmanager
    def _our_errors(self, seconds: float) -> Generator[None]:
        try:
            yield
        except TimeoutError as error:
            raise self._error(error, f"there was no answer within {seconds:g} s", retryable=True) from error
        except PostgresError as error:
            self._raise_ours(error)
        except ClientErrors as error:
            # (the connection was lost, or there is none)
            raise self._error(error, str(error) or type(error).__name__, retryable=True) from error

    def _raise_ours(self, error: Exception) -> NoReturn:
        state = str(getattr(error, "sqlstate", None) or "")
        if "vector" in str(error) and ("control file" in str(error) or "is not available" in str(error)):
            raise SetupError(
                f"The database {self.place.server} has no pgvector. Install it there: "
                "https://github.com/pgvector/pgvector#installation"
            ) from error
        retryable = state.startswith(_RETRYABLE) and not state.startswith(_NEVER_RETRYABLE)
        raise self._error(error, str(error), retryable=retryable) from error

    def _error(self, error: Exception, reason: str, *, retryable: bool) -> KnowledgeStorageError:
        return KnowledgeStorageError(self.place.name, reason.rstrip("."), retryable=retryable)


async def _released(pool: Pool, connection: Connection, seconds: float) -> None:
    # (one that does not come to rest is cut off)
    with suppress(TimeoutError, PostgresError, *ClientErrors):
        await pool.release(connection, timeout=seconds)


@asynccontextmanager
async def _transaction(connection: Connection) -> AsyncGenerator[None]:
    """A transaction. A block that is cancelled ends the connection: a silent server would not answer to ROLLBACK."""
    try:
        await connection.execute("BEGIN")
        yield
        await connection.execute("COMMIT")
    except Exception:
        with suppress(PostgresError, *ClientErrors):
            await connection.execute("ROLLBACK")
        raise
    except BaseException:
        connection.terminate()
        raise


_INFO = "SELECT format, embedding, dimensions FROM @_info"
_SCHEMA = """
SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'
"""
_TABLES = """
CREATE TABLE IF NOT EXISTS @_info (format int NOT NULL, embedding text NOT NULL, dimensions int NOT NULL);
CREATE TABLE IF NOT EXISTS @_documents (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id bytea NOT NULL UNIQUE, chunks int NOT NULL,
    fingerprint bytea NOT NULL, record bytea NOT NULL, fields jsonb NOT NULL
);
CREATE TABLE IF NOT EXISTS @_chunks (
    document bigint, place int, page bigint, kind text NOT NULL, record bytea NOT NULL,
    words int[] NOT NULL, weights sparsevec(1000000000), PRIMARY KEY (document, place)
);
CREATE INDEX IF NOT EXISTS @_words ON @_chunks USING gin (words);
"""
