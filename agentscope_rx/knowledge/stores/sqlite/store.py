"""`SqliteChunkStore`: a knowledge base in one file, for one process or many. It needs the extra `knowledge` (NumPy).

    store = SqliteChunkStore("knowledge.db")

Vectors are compared in memory: 4 bytes a number, so 100,000 chunks of 256 dimensions take 100 MB in each process that
searches. They are loaded by the first search, and later searches load what was added since, by any process.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from os import PathLike
from typing import Any, TypeVar

from agentscope_rx.errors import KnowledgeStorageError
from agentscope_rx.errors.text import is_encodable
from agentscope_rx.knowledge.document import Chunk, Document, EmbeddedChunk
from agentscope_rx.knowledge.passage import Found
from agentscope_rx.knowledge.store import ChunkStore, Indexed, IndexInfo
from agentscope_rx.knowledge.stores.arguments import check_ids, check_info, check_limit, check_text, check_vector
from agentscope_rx.knowledge.stores.sqlite import search, writing
from agentscope_rx.knowledge.stores.sqlite.conditions import next_text
from agentscope_rx.knowledge.stores.sqlite.database import BUSY_SECONDS, Database, path_of
from agentscope_rx.knowledge.stores.sqlite.matrix import Matrix
from agentscope_rx.knowledge.stores.sqlite.rows import CHUNK, DOCUMENT, chunks_of, indexed_of
from agentscope_rx.knowledge.where import Where, check_where
from agentscope_rx.reactive import (
    ENGINE_WORKERS,
    Flow,
    Outcome,
    RetryPolicy,
    flat_map_iterable,
    iterate_on_worker,
    just,
    map_at_most,
    on_worker,
    retry,
    shield,
    then,
    using,
)

T = TypeVar("T")

PAGE = 200
"""The documents that are read at once."""
_PAUSE, _LONGEST_PAUSE = 0.002, 0.05
_MOST = 2**31


class SqliteChunkStore(ChunkStore):
    """Keeps documents in the SQLite file at `path`, which is made with the first one; its folder must be there.

    Any number of processes, threads and loops can use one file. Readers wait for no writer. A writer waits up to
    `busy_seconds` for another one, then there is a `KnowledgeStorageError` that is `retryable`.

    Vectors are compared in memory: 4 bytes a number, so 100,000 chunks of 256 dimensions take 100 MB in each process
    that searches. The first search loads them; later ones load the additions since, by any process. The space of
    removed documents is used again, but the file does not shrink. Only its owner can read it. Extra `knowledge`
    (NumPy).
    """

    def __init__(self, path: str | PathLike[str], *, busy_seconds: float = BUSY_SECONDS) -> None:
        self.path: str = path_of(path)
        self._database = Database(self.path)
        self._matrix = Matrix()
        self._policy = _until_free(busy_seconds)

    def open(self, info: IndexInfo) -> Flow[IndexInfo]:
        def open_it() -> IndexInfo:
            check_info(info)
            with self._database.read() as connection:
                ready = connection is not None and writing.info_of(connection) == info
                swept = connection is None or not writing.has_hidden(connection)
            if not ready:
                with self._database.write() as connection:
                    writing.set_info(connection, info, self.path)
            if not swept:
                writing.sweep(self._database)
            return info

        return self._to_end(open_it)

    def put(self, document: Document, batches: Flow[Sequence[EmbeddedChunk]], fingerprint: str = "") -> Flow[Indexed]:
        def append(staging: writing.Staging, batch: Sequence[EmbeddedChunk]) -> Flow[None]:
            return self._to_end(partial(self._append, staging, batch))

        def use(staging: writing.Staging) -> Flow[Indexed]:
            show = self._to_end(partial(self._show, staging))
            return batches.pipe(map_at_most(partial(append, staging), 1), then(lambda: show))

        def release(staging: writing.Staging, ending: Outcome) -> Flow[None] | None:
            if staging.key is None:
                return None
            return self._to_end(partial(self._discard, staging))

        return using(lambda: just(writing.Staging(document, fingerprint)), use, release)

    def remove(self, ids: Sequence[str]) -> Flow[int]:
        def remove() -> int:
            given = [each for each in check_ids(ids) if is_encodable(each)]
            with self._database.read() as connection:
                if connection is None or not given:
                    return 0
            with self._database.write() as connection:
                removed = writing.remove(connection, given)
            self._sweep()
            return removed

        return self._to_end(remove)

    def documents(self, prefix: str = "") -> Flow[Indexed]:
        if not is_encodable(prefix):
            return iterate_on_worker(tuple[Indexed, ...], ENGINE_WORKERS)
        pages = iterate_on_worker(lambda: self._pages(prefix), ENGINE_WORKERS)
        return pages.pipe(flat_map_iterable(lambda page: page))

    def nearest(self, vector: Sequence[float], limit: int, where: Where | None = None) -> Flow[tuple[Found, ...]]:
        def find() -> tuple[Found, ...]:
            check_where(where)
            most = min(check_limit(limit), _MOST)
            check_vector(vector)
            return search.nearest(self._database, self._matrix, vector, most, where)

        return self._work(find)

    def matching(
        self, text: str, limit: int, where: Where | None = None, vector: Sequence[float] | None = None
    ) -> Flow[tuple[Found, ...]]:
        def find() -> tuple[Found, ...]:
            check_where(where)
            most = min(check_limit(limit), _MOST)
            if vector is not None:
                check_vector(vector)
            return search.matching(self._database, self._matrix, check_text(text), most, where, vector)

        return self._work(find)

    def between(self, document_id: str, first: int, last: int) -> Flow[tuple[Chunk, ...]]:
        def read() -> tuple[Chunk, ...]:
            with self._database.read() as connection:
                if connection is None or not is_encodable(document_id):
                    return ()
                rows = connection.execute(
                    f"SELECT {CHUNK} FROM kb_documents d JOIN kb_chunks c ON c.document = d.key"  # noqa: S608
                    " JOIN kb_texts t ON t.key = c.key"
                    " WHERE d.id = ? AND d.state = 1 AND c.number BETWEEN ? AND ? ORDER BY c.number",
                    (document_id, max(first, -_MOST), min(last, _MOST)),
                )
                return tuple(chunks_of(rows).values())

        return self._work(read)

    def close(self) -> Flow[None]:
        def close() -> None:
            self._matrix.forget()
            self._database.close()

        return on_worker(close, ENGINE_WORKERS)

    # --- writing ------------------------------------------------------------------------------------------------------

    def _append(self, staging: writing.Staging, batch: Sequence[EmbeddedChunk]) -> None:
        before = staging.key, staging.chunks
        try:
            with self._database.write() as connection:
                writing.append(connection, staging, batch, self.path)
        except BaseException:
            # nothing of the batch is in the file
            staging.key, staging.chunks = before
            raise

    def _show(self, staging: writing.Staging) -> Indexed:
        before = staging.key
        try:
            with self._database.write() as connection:
                shown = writing.show(connection, staging, self.path)
        except BaseException:
            staging.key = before
            raise
        staging.key = None
        self._sweep()
        return shown

    def _discard(self, staging: writing.Staging) -> None:
        with self._database.write() as connection:
            writing.discard(connection, staging)
        self._sweep()

    def _sweep(self) -> None:
        """Delete what is not visible any more. What cannot be deleted now is deleted by a later sweep."""
        try:
            with self._database.read() as connection:
                hidden = connection is not None and writing.has_dead(connection)
            if hidden:
                writing.sweep(self._database)
        except KnowledgeStorageError:
            return

    # --- reading ------------------------------------------------------------------------------------------------------

    def _pages(self, prefix: str) -> Iterator[list[Indexed]]:
        begin, end = prefix, next_text(prefix)
        comparison = ">="
        while page := self._page(comparison, begin, end):
            yield page
            begin, comparison = page[-1].document.id, ">"

    def _page(self, comparison: str, begin: str, end: str | None) -> list[Indexed]:
        with self._database.read() as connection:
            if connection is None:
                return []
            bound, values = ("", (begin, PAGE)) if end is None else (" AND d.id < ?", (begin, end, PAGE))
            rows: list[Any] = connection.execute(
                f"SELECT {DOCUMENT}, d.chunks, d.fingerprint FROM kb_documents d WHERE d.state = 1"  # noqa: S608
                f" AND d.id {comparison} ?{bound} ORDER BY d.id LIMIT ?",
                values,
            ).fetchall()
            return [indexed_of(row) for row in rows]

    # --- workers ------------------------------------------------------------------------------------------------------

    def _work(self, call: Callable[[], T]) -> Flow[T]:
        """The call on a worker, again while another writer is at work."""
        return on_worker(call, ENGINE_WORKERS).pipe(retry(self._policy))

    def _to_end(self, call: Callable[[], T]) -> Flow[T]:
        """As `_work`, to its end also if the subscriber leaves."""
        return shield(self._work(call))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"


def _until_free(seconds: float) -> RetryPolicy:
    return RetryPolicy(
        stop=lambda state: (state.seconds_since_start or 0.0) >= seconds,
        # jitter needs no secure random numbers
        wait=lambda state: min(_LONGEST_PAUSE, _PAUSE * state.attempt_number) * random.uniform(0.5, 1.0),  # noqa: S311
        retry=lambda state: _is_busy(state.outcome and state.outcome.exception()),
    )


def _is_busy(error: BaseException | None) -> bool:
    return isinstance(error, KnowledgeStorageError) and error.retryable
