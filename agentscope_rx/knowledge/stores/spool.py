"""`Spool`: the chunks of a document while they come, on this machine; a database takes all of them in one step.

    batches --a--b--c--|          each is written to a file that has no name: nothing is left of it, whatever happens
    commit             --1--|     one transaction, which lasts as long as the writing, not as long as the embedding

So a document that is put needs no connection while its vectors are made, and a failure on the way leaves nothing in
the database.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterator, Sequence
from tempfile import SpooledTemporaryFile
from typing import NamedTuple

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.knowledge.document import Document, EmbeddedChunk
from agentscope_rx.knowledge.store import Indexed, IndexInfo
from agentscope_rx.knowledge.stores.arguments import check_batch, check_new, check_vector
from agentscope_rx.knowledge.stores.records import chunk_record, storable
from agentscope_rx.knowledge.stores.vectors import unit
from agentscope_rx.reactive import Flow, concat_map, just, map_at_most, on_worker, shield, then, using
from agentscope_rx.reactive.kernel.forking import new_lock

IN_MEMORY = 4 << 20
"""The bytes of a document that need no file."""
_HEAD = struct.Struct("=qqIIII")


class Row(NamedTuple):
    """A chunk as it is written; `vector` has length 1, in 4-byte floats; `words` is what a store makes of its text."""

    number: int
    page: int | None
    kind: str
    record: bytes
    vector: bytes
    words: bytes


class Spool:
    """The rows of one document."""

    def __init__(self, document: Document, info: IndexInfo, words: Callable[[str], bytes]) -> None:
        self.document: Document = document
        self.info: IndexInfo = info
        self.count: int = 0
        self._words = words
        self._seen: set[int] = set()
        # a worker that was abandoned may still write when it is closed
        self._lock = new_lock()
        self._file = SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 (it is closed by `close`)

    def add(self, batch: Sequence[EmbeddedChunk]) -> None:
        """Write the chunks of a batch."""
        for each in check_batch(batch, self.document):
            check_new(each.chunk, self._seen)
            chunk = storable(each.chunk, self.document)
            vector = unit_floats(check_vector(each.vector, self.info.dimensions)).tobytes()
            parts = (chunk.kind.encode(), chunk_record(chunk), vector, self._words(chunk.in_context))
            head = _HEAD.pack(chunk.number, -1 if chunk.page is None else chunk.page, *map(len, parts))
            with self._lock:
                if self._file.closed:
                    return
                self._file.write(b"".join((head, *parts)))
            self.count += 1

    def rows(self) -> Iterator[Row]:
        """What was written, from its begin."""
        self._file.seek(0)
        while head := self._file.read(_HEAD.size):
            number, page, *lengths = _HEAD.unpack(head)
            kind, record, vector, words = (self._file.read(length) for length in lengths)
            yield Row(number, None if page < 0 else page, kind.decode(), record, vector, words)

    def close(self) -> None:
        """Forget what was written."""
        with self._lock:
            self._file.close()


def put_spooled(
    info: Flow[IndexInfo | None],
    spool: Callable[[IndexInfo], Spool],
    batches: Flow[Sequence[EmbeddedChunk]],
    commit: Callable[[Spool], Flow[Indexed]],
) -> Flow[Indexed]:
    """Spools the batches, one at a time, and emits what `commit` emits. `info` is what the store has.

    Signals: those of `commit`; errors of `info` and `batches`; `InvalidInputError` if the store was never opened.
    Cancels: `batches`; a commit that has begun runs to its end.
    """

    def use(spool: Spool) -> Flow[Indexed]:
        def add(batch: Sequence[EmbeddedChunk]) -> Flow[None]:
            return on_worker(lambda: spool.add(batch))

        return batches.pipe(map_at_most(add, 1), then(lambda: shield(commit(spool))))

    def begin(info: IndexInfo | None) -> Flow[Indexed]:
        known = opened(info)
        return using(lambda: just(spool(known)), use, lambda spool, _: spool.close())

    return info.pipe(concat_map(begin))


def unit_floats(vector: Sequence[float]) -> array[float]:
    """The vector with length 1, in 4-byte floats; one of zeros stays as it is."""
    return array("f", unit(vector))


def opened(info: IndexInfo | None) -> IndexInfo:
    """What the store has; `InvalidInputError` for None."""
    if info is None:
        raise InvalidInputError("This store has no kind of vectors yet: open(IndexInfo(...)) comes first.")
    return info
