"""`InMemoryChunkStore`: chunks in this process, for tests and small collections. Nothing is left when it ends.

A search looks at every chunk: some ten thousand are a matter of a second. `SqliteChunkStore` searches more, and keeps
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from heapq import nsmallest
from math import log
from operator import mul

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.knowledge.document import Chunk, Document, EmbeddedChunk
from agentscope_rx.knowledge.passage import Found
from agentscope_rx.knowledge.store import ChunkStore, Indexed, IndexInfo
from agentscope_rx.knowledge.stores.arguments import (
    check_batch,
    check_ids,
    check_info,
    check_limit,
    check_new,
    check_text,
    check_vector,
    refuse_other,
)
from agentscope_rx.knowledge.stores.best import rounded
from agentscope_rx.knowledge.stores.records import storable
from agentscope_rx.knowledge.stores.vectors import unit
from agentscope_rx.knowledge.where import Where, check_where, matches
from agentscope_rx.messages.terms import Term, index_terms, query_terms
from agentscope_rx.reactive import Flow, defer, from_iterable, just, map_at_most, then
from agentscope_rx.reactive.kernel.forking import new_lock

# BM25, with the constants that are in use everywhere
_K1, _B = 1.2, 0.75


@dataclass(frozen=True, slots=True)
class _Entry:
    chunk: Chunk
    vector: Sequence[float]
    words: Counter[str]
    length: int


@dataclass(frozen=True, slots=True)
class _Kept:
    indexed: Indexed
    entries: tuple[_Entry, ...]


class InMemoryChunkStore(ChunkStore):
    """Keeps chunks in this process, for tests and small collections: a search looks at every chunk."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._info: IndexInfo | None = None
        self._kept: dict[str, _Kept] = {}

    def open(self, info: IndexInfo) -> Flow[IndexInfo]:
        def begin() -> Flow[IndexInfo]:
            check_info(info)
            with self._lock:
                if self._info is not None and self._kept:
                    refuse_other(repr(self), self._info, info)
                self._info = info
            return just(info)

        return defer(begin)

    def put(self, document: Document, batches: Flow[Sequence[EmbeddedChunk]], fingerprint: str = "") -> Flow[Indexed]:
        def begin() -> Flow[Indexed]:
            info = self._opened()
            entries: dict[int, _Entry] = {}
            seen: set[int] = set()

            def add(batch: Sequence[EmbeddedChunk]) -> Flow[object]:
                for each in check_batch(batch, document):
                    check_new(each.chunk, seen)
                    entries[each.chunk.number] = _entry(document, each, info)
                return just(None)

            def finish() -> Flow[Indexed]:
                indexed = Indexed(document=document, chunks=len(entries), fingerprint=fingerprint)
                with self._lock:
                    if self._info is not None:
                        refuse_other(repr(self), self._info, info)
                    self._kept[document.id] = _Kept(indexed, tuple(entries[each] for each in sorted(entries)))
                return just(indexed)

            return batches.pipe(map_at_most(add, 1), then(finish))

        return defer(begin)

    def remove(self, ids: Sequence[str]) -> Flow[int]:
        def begin() -> Flow[int]:
            given = check_ids(ids)
            with self._lock:
                return just(sum(self._kept.pop(each, None) is not None for each in given))

        return defer(begin)

    def documents(self, prefix: str = "") -> Flow[Indexed]:
        def begin() -> Flow[Indexed]:
            with self._lock:
                found = [kept.indexed for id, kept in self._kept.items() if id.startswith(prefix)]
            return from_iterable(sorted(found, key=lambda each: each.document.id))

        return defer(begin)

    def nearest(self, vector: Sequence[float], limit: int, where: Where | None = None) -> Flow[tuple[Found, ...]]:
        def begin() -> Flow[tuple[Found, ...]]:
            check_limit(limit)
            entries = self._entries(where)
            like = self._likeness(vector)
            found = [Found(chunk=entry.chunk, similarity=like(entry)) for entry in entries]
            return just(tuple(nsmallest(limit, found, key=lambda each: (-(each.similarity or 0.0), *_place(each)))))

        return defer(begin)

    def matching(
        self, text: str, limit: int, where: Where | None = None, vector: Sequence[float] | None = None
    ) -> Flow[tuple[Found, ...]]:
        def begin() -> Flow[tuple[Found, ...]]:
            check_limit(limit)
            terms = query_terms(check_text(text), names=True)
            entries = self._entries(where)
            like = None if vector is None else self._likeness(vector)
            scored = [(score, entry) for entry, score in zip(entries, _relevances(entries, terms), strict=True)]
            found = [
                Found(chunk=entry.chunk, relevance=score, similarity=like and like(entry))
                for score, entry in scored
                if score > 0
            ]
            return just(tuple(nsmallest(limit, found, key=lambda each: (-(each.relevance or 0.0), *_place(each)))))

        return defer(begin)

    def between(self, document_id: str, first: int, last: int) -> Flow[tuple[Chunk, ...]]:
        def begin() -> Flow[tuple[Chunk, ...]]:
            with self._lock:
                kept = self._kept.get(document_id)
            entries = () if kept is None else kept.entries
            return just(tuple(each.chunk for each in entries if first <= each.chunk.number <= last))

        return defer(begin)

    def close(self) -> Flow[None]:
        return just(None)

    def _opened(self) -> IndexInfo:
        if self._info is None:
            raise InvalidInputError("This store has no kind of vectors yet: open(IndexInfo(...)) comes first.")
        return self._info

    def _entries(self, where: Where | None) -> list[_Entry]:
        check_where(where)
        with self._lock:
            kept = tuple(self._kept.values())
        return [entry for each in kept for entry in each.entries if matches(entry.chunk, where)]

    def _likeness(self, vector: Sequence[float]) -> Callable[[_Entry], float]:
        if self._info is None:
            return lambda entry: 0.0
        wanted = unit(check_vector(vector, self._info.dimensions))
        return lambda entry: rounded(sum(map(mul, entry.vector, wanted)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._kept)} documents)"


def _entry(document: Document, each: EmbeddedChunk, info: IndexInfo) -> _Entry:
    vector = unit(check_vector(each.vector, info.dimensions))
    chunk = storable(each.chunk, document)
    words = Counter(part for word in index_terms(chunk.in_context, names=True).split() for part in _parts(word))
    return _Entry(chunk, vector, words, words.total())


def _parts(word: str) -> list[str]:
    return [part for part in word.split("_") if part]


def _relevances(entries: Sequence[_Entry], terms: Sequence[Term]) -> Iterator[float]:
    average = sum(each.length for each in entries) / len(entries) if entries else 0.0
    asked = list(dict.fromkeys(Term(part, term.is_prefix) for term in terms for part in _parts(term.text)))
    counts = [[_count(entry, term) for entry in entries] for term in asked]
    weights = [log(1 + (len(entries) - n + 0.5) / (n + 0.5)) for n in (sum(map(bool, each)) for each in counts)]
    for place, entry in enumerate(entries):
        norm = _K1 * (1 - _B + _B * entry.length / (average or 1.0))
        yield sum(
            weight * count[place] * (_K1 + 1) / (count[place] + norm)
            for weight, count in zip(weights, counts, strict=True)
        )


def _count(entry: _Entry, term: Term) -> int:
    if not term.is_prefix:
        return entry.words[term.text]
    return sum(count for word, count in entry.words.items() if word.startswith(term.text))


def _place(found: Found) -> tuple[str, int]:
    return (found.chunk.document.id, found.chunk.number)
