"""`SqliteVecChunkStore`: chunks in a SQLite file, compared by sqlite-vec. It needs the extra `sqlite-vec`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, TypeVar

from agentscope_rx.errors import MissingExtraError
from agentscope_rx.errors.text import is_encodable
from agentscope_rx.knowledge.document import Chunk, Document, EmbeddedChunk
from agentscope_rx.knowledge.passage import Found
from agentscope_rx.knowledge.store import ChunkStore, Indexed, IndexInfo
from agentscope_rx.knowledge.stores.arguments import (
    check_ids,
    check_info,
    check_limit,
    check_text,
    refuse_other,
)
from agentscope_rx.knowledge.stores.best import Best
from agentscope_rx.knowledge.stores.records import chunk_of, document_of
from agentscope_rx.knowledge.stores.spool import Spool, opened, put_spooled
from agentscope_rx.knowledge.where import Where, check_where
from agentscope_rx.messages.terms import index_terms, match_of
from agentscope_rx.reactive import Flow, defer, iterate_on_worker, just, on_worker, shield

try:
    from agentscope_rx.knowledge.stores.sqlite_vec_file import VecFile, info_of, rows
except ModuleNotFoundError as _error:
    raise MissingExtraError(_error.name or "sqlite_vec", "sqlite-vec") from _error

from agentscope_rx.knowledge.stores.sqlite_vec_rows import documents_from, forget, matching, nearest, replace

if TYPE_CHECKING:
    import apsw

T = TypeVar("T")


class SqliteVecChunkStore(ChunkStore):
    """Keeps chunks in one SQLite file: `SqliteVecChunkStore("knowledge.db")`. Extra `sqlite-vec`.

    Searches are exact and read the file, so they need little memory. Several processes can use the file at once; a put
    is one transaction.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self._file = VecFile(path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._file.path!r})"

    @property
    def path(self) -> str:
        """The path of its file."""
        return self._file.path

    def open(self, info: IndexInfo) -> Flow[IndexInfo]:
        return defer(lambda: _whole(lambda: self._file.open(check_info(info))))

    def put(self, document: Document, batches: Flow[Sequence[EmbeddedChunk]], fingerprint: str = "") -> Flow[Indexed]:
        return put_spooled(
            on_worker(lambda: self._read(info_of)),
            lambda info: Spool(document, info, _words),
            batches,
            lambda spool: on_worker(lambda: self._write(spool, fingerprint)),
        )

    def remove(self, ids: Sequence[str]) -> Flow[int]:
        def remove() -> Flow[int]:
            given = [each for each in check_ids(ids) if is_encodable(each)]

            def work() -> int:
                with self._file.writing() as db:
                    return sum(forget(db, each) for each in given)

            return _whole(work)

        return defer(remove)

    def documents(self, prefix: str = "") -> Flow[Indexed]:
        def pages() -> Iterator[Indexed]:
            # (no id has half a character)
            page = self._from(">=", prefix) if is_encodable(prefix) else ()
            while page:
                for each in page:
                    if not each.document.id.startswith(prefix):
                        return
                    yield each
                page = self._from(">", page[-1].document.id)

        return iterate_on_worker(pages)

    def nearest(self, vector: Sequence[float], limit: int, where: Where | None = None) -> Flow[tuple[Found, ...]]:
        def search() -> Flow[tuple[Found, ...]]:
            best = Best(check_limit(limit), check_where(where), "similarity")
            return on_worker(lambda: self._read(lambda db: nearest(db, vector, best, where)) or ())

        return defer(search)

    def matching(
        self, text: str, limit: int, where: Where | None = None, vector: Sequence[float] | None = None
    ) -> Flow[tuple[Found, ...]]:
        def search() -> Flow[tuple[Found, ...]]:
            best = Best(check_limit(limit), check_where(where), "relevance")
            match = match_of(check_text(text), names=True)
            if not match:
                return just(())
            return on_worker(lambda: self._read(lambda db: matching(db, match, best, where, vector)) or ())

        return defer(search)

    def between(self, document_id: str, first: int, last: int) -> Flow[tuple[Chunk, ...]]:
        def find(db: apsw.Connection) -> tuple[Chunk, ...]:
            found = rows(
                db,
                "SELECT d.record, c.record FROM documents d JOIN chunks c ON c.document = d.number "
                "WHERE d.id = ? AND c.place BETWEEN ? AND ? ORDER BY c.place",
                *(document_id, first, last),
            )
            return tuple(chunk_of(document_of(document), chunk) for document, chunk in found)

        return on_worker(lambda: self._read(find) or ())

    def close(self) -> Flow[None]:
        """Nothing is open between operations."""
        return just(None)

    def _read(self, work: Callable[[apsw.Connection], T]) -> T | None:
        with self._file.reading() as db:
            return None if db is None else work(db)

    def _from(self, sign: str, id: str) -> Sequence[Indexed]:
        return self._read(lambda db: documents_from(db, sign, id)) or ()

    def _write(self, spool: Spool, fingerprint: str) -> Indexed:
        document = spool.document
        with self._file.writing() as db:
            refuse_other(self._file.path, opened(info_of(db)), spool.info)
            replace(db, spool, fingerprint)
        return Indexed(document=document, chunks=spool.count, fingerprint=fingerprint)


def _words(text: str) -> bytes:
    return index_terms(text, names=True).encode()


def _whole(work: Callable[[], T]) -> Flow[T]:
    """A change, which runs to its end once it has begun."""
    return shield(on_worker(work))
