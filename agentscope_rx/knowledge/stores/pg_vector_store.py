"""`PgVectorChunkStore`: chunks in PostgreSQL with pgvector. It needs the extra `pgvector`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial

from agentscope_rx.errors import MissingExtraError
from agentscope_rx.errors.text import is_encodable
from agentscope_rx.knowledge.document import Chunk, Document, EmbeddedChunk
from agentscope_rx.knowledge.passage import Found
from agentscope_rx.knowledge.store import ChunkStore, Indexed, IndexInfo
from agentscope_rx.knowledge.stores.arguments import check_ids, check_info, check_limit, check_text
from agentscope_rx.knowledge.stores.best import Best
from agentscope_rx.knowledge.stores.sparse import index_words, query_words
from agentscope_rx.knowledge.stores.spool import Spool, put_spooled
from agentscope_rx.knowledge.where import Where, check_where
from agentscope_rx.reactive import Flow, defer, from_async_iterable, just, shield
from agentscope_rx.session.server_client import TIMEOUT, ServerClient, check_timeout

try:
    from agentscope_rx.knowledge.stores.pg_database import Index, PgDatabase, place_of
except ModuleNotFoundError as _error:
    raise MissingExtraError(_error.name or "asyncpg", "pgvector") from _error

from agentscope_rx.knowledge.stores import pg_rows

COLLECTION = "knowledge"


class PgVectorChunkStore(ChunkStore):
    """Keeps chunks in PostgreSQL with pgvector: `PgVectorChunkStore("postgresql://user:password@host/database")`.

    The tables, whose names begin with `collection`, are made at the first use, and the extension `vector` if the user
    may. A search compares with each vector and is exact; with `index="hnsw"` it takes less time, and misses some. Each
    operation ends within `timeout` seconds, at worst with an error; a put has 10 ms more for each chunk. Extra
    `pgvector`.
    """

    def __init__(
        self, url: str, *, collection: str = COLLECTION, index: Index = "exact", timeout: float = TIMEOUT
    ) -> None:
        check_timeout(timeout)
        place = self._place = place_of(url, collection, index)
        # (no reference to this object: it is closed when this is garbage)
        self._database = ServerClient(lambda: PgDatabase(place, timeout), PgDatabase.close, f"chunks in {place.server}")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._place.name}>"

    def open(self, info: IndexInfo) -> Flow[IndexInfo]:
        def begin() -> Flow[IndexInfo]:
            wanted = check_info(info)
            return shield(self._database.look(lambda database: database.open(wanted)))

        return defer(begin)

    def put(self, document: Document, batches: Flow[Sequence[EmbeddedChunk]], fingerprint: str = "") -> Flow[Indexed]:
        return put_spooled(
            self._database.look(pg_rows.info),
            lambda info: Spool(document, info, lambda text: index_words(text).pack()),
            batches,
            lambda spool: self._database.look(partial(pg_rows.replace, spool=spool, fingerprint=fingerprint)),
        )

    def remove(self, ids: Sequence[str]) -> Flow[int]:
        def begin() -> Flow[int]:
            given = [each.encode() for each in check_ids(ids) if is_encodable(each)]
            return shield(self._database.look(partial(pg_rows.remove, ids=given))) if given else just(0)

        return defer(begin)

    def documents(self, prefix: str = "") -> Flow[Indexed]:
        async def pages() -> AsyncIterator[Indexed]:
            # (no id has half a character)
            page = await self._from(">=", prefix) if is_encodable(prefix) else ()
            while page:
                for each in page:
                    if not each.document.id.startswith(prefix):
                        return
                    yield each
                page = await self._from(">", page[-1].document.id)

        return from_async_iterable(pages)

    def nearest(self, vector: Sequence[float], limit: int, where: Where | None = None) -> Flow[tuple[Found, ...]]:
        def search() -> Flow[tuple[Found, ...]]:
            best = Best(check_limit(limit), check_where(where), "similarity")
            return self._database.look(partial(pg_rows.nearest, vector=vector, best=best, where=where))

        return defer(search)

    def matching(
        self, text: str, limit: int, where: Where | None = None, vector: Sequence[float] | None = None
    ) -> Flow[tuple[Found, ...]]:
        def search() -> Flow[tuple[Found, ...]]:
            best = Best(check_limit(limit), check_where(where), "relevance")
            words = query_words(check_text(text))
            if not words:
                return just(())
            return self._database.look(partial(pg_rows.matching, words=words, vector=vector, best=best, where=where))

        return defer(search)

    def between(self, document_id: str, first: int, last: int) -> Flow[tuple[Chunk, ...]]:
        if not is_encodable(document_id):
            return just(())
        return self._database.look(partial(pg_rows.between, id=document_id.encode(), first=first, last=last))

    def close(self) -> Flow[None]:
        """Close the connections, when the work that has begun has ended. The next use opens others."""
        return self._database.close()

    def _from(self, sign: str, id: str) -> Flow[Sequence[Indexed]]:
        return self._database.look(partial(pg_rows.documents_from, sign=sign, id=id.encode()))
