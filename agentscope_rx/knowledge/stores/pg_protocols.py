"""What is used of asyncpg, which has no types."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Coroutine, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol

Record = Mapping[str, Any]


class Connection(Protocol):
    """A connection of a pool."""

    async def execute(self, query: str, *args: object) -> str: ...

    async def fetch(self, query: str, *args: object) -> Sequence[Record]: ...

    async def fetchrow(self, query: str, *args: object) -> Record | None: ...

    async def fetchval(self, query: str, *args: object) -> Any: ...

    async def copy_records_to_table(
        self, table_name: str, *, records: AsyncIterable[tuple[object, ...]], columns: Sequence[str]
    ) -> str: ...

    def terminate(self) -> None: ...


class Pool(Protocol):
    """A pool of connections."""

    async def acquire(self, *, timeout: float) -> Connection: ...

    async def release(self, connection: Connection, *, timeout: float) -> None: ...

    async def close(self) -> None: ...

    def terminate(self) -> None: ...


_asyncpg = import_module("asyncpg")

create_pool: Callable[..., Coroutine[None, None, Pool]] = _asyncpg.create_pool
PostgresError: type[Exception] = _asyncpg.PostgresError
ClientErrors: tuple[type[Exception], ...] = (_asyncpg.InterfaceError, _asyncpg.InternalClientError, OSError)
"""Errors of a connection that was lost, or that there was not."""
register_vector: Callable[..., Coroutine[None, None, None]] = import_module("pgvector.asyncpg").register_vector
