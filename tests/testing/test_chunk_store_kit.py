"""`check_chunk_store`: the store in memory keeps the laws, and each kind of fault is found."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TypeAlias, cast

import pytest
from reactivex import operators as ops

from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.knowledge import (
    Chunk,
    Document,
    EmbeddedChunk,
    Found,
    Indexed,
    IndexInfo,
    InMemoryChunkStore,
    SqliteChunkStore,
    Where,
)
from agentscope_rx.reactive import (
    Flow,
    Outcome,
    catch,
    concat,
    concat_map,
    defer,
    flat_map_iterable,
    from_callable,
    from_iterable,
    just,
    map_at_most,
    throw,
    using,
)
from agentscope_rx.testing import check_chunk_store
from tests.testing.faults import broken

Batches: TypeAlias = Flow[Sequence[EmbeddedChunk]]


def test_the_store_in_memory_keeps_the_laws():
    report = check_chunk_store(InMemoryChunkStore)
    assert {"stored", "nearest", "matching", "put 1.08", "documents loops, second"} <= set(report.checked)
    assert {"again", "reopened"} <= {rule for rule, _ in report.skipped}
    assert "skipped" in str(report)


def test_the_kit_takes_functions_that_make_stores():
    with pytest.raises(ConfigurationError, match="a function that returns a new ChunkStore at each call"):
        check_chunk_store(InMemoryChunkStore())  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"^again must be a function"):
        check_chunk_store(InMemoryChunkStore, again=InMemoryChunkStore())  # type: ignore[arg-type]


def test_the_sqlite_store_keeps_the_laws(tmp_path: Path):
    numbers = count()
    report = check_chunk_store(
        lambda: SqliteChunkStore(tmp_path / f"{next(numbers)}.db"),
        again=lambda store: SqliteChunkStore(cast("SqliteChunkStore", store).path),
    )
    assert {"again", "reopened", "threads", "put 1.08"} <= set(report.checked)


# --- faults -----------------------------------------------------------------------------------------------------------


class Faulty(InMemoryChunkStore):
    """The base of stores with one fault each."""

    def changed(self, found: tuple[Found, ...]) -> tuple[Found, ...]:
        return found

    def nearest(self, vector: Sequence[float], limit: int, where: Where | None = None) -> Flow[tuple[Found, ...]]:
        return super().nearest(vector, limit, where).pipe(ops.map(self.changed))


class CountsWrong(Faulty):
    def put(self, document: Document, batches: Batches, fingerprint: str = "") -> Flow[Indexed]:
        return super().put(document, batches, fingerprint).pipe(ops.map(lambda each: replace(each, chunks=7)))


class ForgetsPages(Faulty):
    def between(self, document_id: str, first: int, last: int) -> Flow[tuple[Chunk, ...]]:
        found = super().between(document_id, first, last)
        return found.pipe(ops.map(lambda chunks: tuple(replace(each, page=None) for each in chunks)))


class Hot(Faulty):
    def documents(self, prefix: str = "") -> Flow[Indexed]:
        listed = sorted((kept.indexed for kept in self._kept.values()), key=lambda each: each.document.id)
        return from_iterable([each for each in listed if each.document.id.startswith(prefix)])


class Early(Faulty):
    """Shows the chunks as they come."""

    def put(self, document: Document, batches: Batches, fingerprint: str = "") -> Flow[Indexed]:
        plain = super().put

        def begin() -> Flow[Indexed]:
            so_far: list[EmbeddedChunk] = []

            def one(batch: Sequence[EmbeddedChunk]) -> Flow[Indexed]:
                so_far.extend(batch)
                return plain(document, from_iterable([list(so_far)]), fingerprint)

            empty = plain(document, from_iterable(()), fingerprint)
            return concat(empty, batches.pipe(map_at_most(one, 1))).pipe(ops.last())

        return defer(begin)


class DropsOnFailure(Faulty):
    def put(self, document: Document, batches: Batches, fingerprint: str = "") -> Flow[Indexed]:
        def drop(error: Exception) -> Flow[Indexed]:
            if not isinstance(error, InvalidInputError):
                self._kept.pop(document.id, None)
            return throw(error)

        return super().put(document, batches, fingerprint).pipe(catch(drop))


class DropsOnDisposal(Faulty):
    def put(self, document: Document, batches: Batches, fingerprint: str = "") -> Flow[Indexed]:
        def release(_: None, ending: Outcome) -> None:
            if ending is Outcome.DISPOSED:
                self._kept.pop(document.id, None)

        plain = super().put(document, batches, fingerprint)
        return using(lambda: just(None), lambda _: plain, release)


class Greedy(Faulty):
    def put(self, document: Document, batches: Batches, fingerprint: str = "") -> Flow[Indexed]:
        plain = super().put
        every = batches.pipe(ops.to_list())
        return every.pipe(concat_map(lambda given: plain(document, from_iterable(given), fingerprint)))


class TakesAnyId(Faulty):
    def remove(self, ids: Sequence[str]) -> Flow[int]:
        return super().remove([each for each in ids or () if isinstance(each, str)])


class RemovesAll(Faulty):
    def remove(self, ids: Sequence[str]) -> Flow[int]:
        return super().remove([*self._kept] if isinstance(ids, list) and len(ids) > 1 else ids)


class InAnyOrder(Faulty):
    def documents(self, prefix: str = "") -> Flow[Indexed]:
        def by_words(source: list[Indexed]) -> list[Indexed]:
            return sorted(source, key=lambda each: (each.document.id.lower(), each.document.id))

        return super().documents(prefix).pipe(ops.to_list()).pipe(flat_map_iterable(by_words))


class Strips(Faulty):
    def between(self, document_id: str, first: int, last: int) -> Flow[tuple[Chunk, ...]]:
        found = super().between(document_id, first, last)
        return found.pipe(ops.map(lambda chunks: tuple(replace(each, text=each.text.strip()) for each in chunks)))


class LeavesOutTheLast(Faulty):
    def between(self, document_id: str, first: int, last: int) -> Flow[tuple[Chunk, ...]]:
        return super().between(document_id, first, last if last > 900 else last - 1)


class TakesAnyModel(Faulty):
    def open(self, info: IndexInfo) -> Flow[IndexInfo]:
        def begin() -> Flow[IndexInfo]:
            self._info = info
            return just(info)

        return defer(begin)


class ForgetsOnClose(Faulty):
    def close(self) -> Flow[None]:
        def begin() -> Flow[None]:
            self._kept.clear()
            return just(None)

        return defer(begin)


class MixesVersions(Faulty):
    def put(self, document: Document, batches: Batches, fingerprint: str = "") -> Flow[Indexed]:
        if document.id != "same.md":
            return super().put(document, batches, fingerprint)
        plain, other = super().put, Document(id="mixed")

        def mix(_: Indexed) -> Flow[Indexed]:
            kept, before = self._kept["mixed"], self._kept.get(document.id)
            longest = kept if before is None or len(before.entries) < 3 else before
            entries = (*kept.entries[:1], *longest.entries[1:])
            mixed = tuple(replace(each, chunk=replace(each.chunk, document=document)) for each in entries)
            indexed = Indexed(document=document, chunks=len(mixed))
            self._kept[document.id] = type(kept)(indexed, mixed)
            del self._kept["mixed"]
            return just(indexed)

        def moved(batch: Sequence[EmbeddedChunk]) -> list[EmbeddedChunk]:
            return [replace(each, chunk=replace(each.chunk, document=other)) for each in batch]

        return defer(lambda: plain(other, batches.pipe(ops.map(moved))).pipe(concat_map(mix)))


class OneThread(Faulty):
    def __init__(self) -> None:
        super().__init__()
        self.thread = threading.get_ident()

    def put(self, document: Document, batches: Batches, fingerprint: str = "") -> Flow[Indexed]:
        if threading.get_ident() != self.thread:
            raise RuntimeError("used on another thread than that it was made on")
        return super().put(document, batches, fingerprint)


class StaysLocked(Faulty):
    locked = False

    def matching(
        self, text: str, limit: int, where: Where | None = None, vector: Sequence[float] | None = None
    ) -> Flow[tuple[Found, ...]]:
        plain = super().matching(text, limit, where, vector)
        if (text, limit) != ("alpha", 3):
            return plain

        async def find() -> tuple[Found, ...]:
            while self.locked:  # noqa: ASYNC110 (its fault)
                await asyncio.sleep(100)
            self.locked = True
            await asyncio.sleep(0)
            found = await plain
            self.locked = False
            return found

        return from_callable(find)


class WorstFirst(Faulty):
    def changed(self, found: tuple[Found, ...]) -> tuple[Found, ...]:
        return found[::-1] if len({each.chunk.document.id for each in found}) > 4 else found


class TiesInAnyOrder(Faulty):
    def changed(self, found: tuple[Found, ...]) -> tuple[Found, ...]:
        if {each.chunk.text for each in found} == set("xyz"):
            return tuple(sorted(found, key=lambda each: (-each.chunk.number, each.chunk.document.id)))
        return found


class NoConditions(Faulty):
    def nearest(self, vector: Sequence[float], limit: int, where: Where | None = None) -> Flow[tuple[Found, ...]]:
        return super().nearest(vector, limit, where if where and "document_id" in where else None)


class AnyLimit(Faulty):
    def nearest(self, vector: Sequence[float], limit: int, where: Where | None = None) -> Flow[tuple[Found, ...]]:
        return super().nearest(vector, limit if type(limit) is int and limit > 0 else 1, where)


class ZeroIsBest(Faulty):
    def changed(self, found: tuple[Found, ...]) -> tuple[Found, ...]:
        if not any(each.chunk.text == "zero" for each in found):
            return found
        return tuple(replace(each, similarity=each.similarity or 1e-2) for each in found)


class Spaced(Faulty):
    """Words are what is between spaces."""

    def matching(
        self, text: str, limit: int, where: Where | None = None, vector: Sequence[float] | None = None
    ) -> Flow[tuple[Found, ...]]:
        found = super().matching(text, limit, where, vector)
        if not re.search("[\u4e00-\u9fff]", text):
            return found
        return found.pipe(ops.map(lambda every: tuple(each for each in every if text in each.chunk.text.split())))


class NoRelevance(Faulty):
    def matching(
        self, text: str, limit: int, where: Where | None = None, vector: Sequence[float] | None = None
    ) -> Flow[tuple[Found, ...]]:
        found = super().matching(text, limit, where, vector)
        return found.pipe(ops.map(lambda every: tuple(replace(each, relevance=None) for each in every)))


class Touchy(Faulty):
    def matching(
        self, text: str, limit: int, where: Where | None = None, vector: Sequence[float] | None = None
    ) -> Flow[tuple[Found, ...]]:
        if isinstance(text, str) and '"' in text:
            return throw(RuntimeError("unterminated string"))
        return super().matching(text, limit, where, vector)


FAULTS: list[tuple[type[InMemoryChunkStore], str]] = [
    (CountsWrong, "stored"),
    (ForgetsPages, "round trip"),
    (Hot, "cold"),
    (Early, "replaced"),
    (DropsOnFailure, "failed"),
    (DropsOnDisposal, "disposed"),
    (Greedy, "back-pressure"),
    (TakesAnyId, "refused"),
    (RemovesAll, "removed"),
    (InAnyOrder, "ordered"),
    (Strips, "odd texts"),
    (LeavesOutTheLast, "between"),
    (TakesAnyModel, "format"),
    (ForgetsOnClose, "closed"),
    (MixesVersions, "concurrent"),
    (OneThread, "threads"),
    (StaysLocked, "left"),
    (WorstFirst, "nearest"),
    (TiesInAnyOrder, "ties"),
    (NoConditions, "conditions"),
    (AnyLimit, "limits"),
    (ZeroIsBest, "zero vectors"),
    (Spaced, "matching"),
    (NoRelevance, "scores"),
    (Touchy, "hostile queries"),
]


@pytest.mark.parametrize(("make", "rule"), FAULTS, ids=lambda each: getattr(each, "__name__", each))
def test_a_fault_of_a_chunk_store_is_found(make: type[InMemoryChunkStore], rule: str):
    broken(lambda: check_chunk_store(make), rule)


def test_stores_that_do_not_share_their_place_are_found():
    broken(lambda: check_chunk_store(InMemoryChunkStore, again=lambda store: InMemoryChunkStore()), "again")


def test_each_rule_has_a_fault():
    checked = check_chunk_store(InMemoryChunkStore).checked
    own = {rule for rule in checked if not rule.startswith(("nearest ", "put ", "documents "))}
    # a list that cannot be left would be found by the rules of publishers
    assert own - {"left early"} == {rule for _, rule in FAULTS}
