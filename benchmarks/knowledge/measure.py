"""Indexes a collection in each store, asks its questions in each mode, and counts what was found.

All rows of a collection have the same chunks: those of the default readers and the default chunker. Their vectors are
made once and kept beside the collections, because E5 takes minutes for them: those of texts that have changed are made
again.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from statistics import median

import numpy as np
from reactivex import operators as ops

from agentscope_rx.knowledge import Chunk, ChunkStore, Document, DocumentSource, EmbeddedChunk, IndexInfo, KnowledgeBase
from agentscope_rx.models.embedding import EmbeddingModel, EmbeddingRole, StaticEmbeddingModel
from agentscope_rx.reactive import Flow, from_iterable
from benchmarks.knowledge.plain import PlainBM25, PlainVectors
from benchmarks.knowledge.questions import Question, questions_of
from benchmarks.knowledge.sources import KEPT, folder_of, names_of

LIMIT = 5
DEEP = 10
_AT_ONCE = 64
Vector = Sequence[float]
Found = Sequence[tuple[str, str]]
"""Passages, best first: document and text."""


@dataclass(frozen=True, slots=True)
class Score:
    """Recall at 5, the mean of 1 / rank among the first ten, and the median of the milliseconds of a question."""

    recall: float
    mrr: float
    milliseconds: float


@dataclass(frozen=True)
class Collection:
    """Chunks with their vectors, and questions with theirs."""

    name: str
    chunks: tuple[Chunk, ...]
    vectors: tuple[Vector, ...]
    questions: tuple[Question, ...]
    asked: tuple[Vector, ...]
    model: EmbeddingModel

    @cached_property
    def documents(self) -> dict[str, list[EmbeddedChunk]]:
        """The chunks of each document."""
        found: dict[str, list[EmbeddedChunk]] = {}
        for chunk, vector in zip(self.chunks, self.vectors, strict=True):
            found.setdefault(chunk.document.id, []).append(EmbeddedChunk(chunk, tuple(vector)))
        return found

    def plain(self, numbers: Sequence[int]) -> Found:
        """The passages with these numbers."""
        return [(self.chunks[each].document.id, self.chunks[each].text) for each in numbers]


def chunks_of(name: str) -> tuple[Chunk, ...]:
    """The chunks of all documents of a collection."""
    from agentscope_rx.knowledge import default_chunker, reader_of

    chunker, folder = default_chunker(), folder_of(name)

    def chunked(path: str) -> Sequence[Chunk]:
        document = Document(id=path, title=Path(path).stem)
        sections = reader_of(path).read(DocumentSource(document=document, path=folder / path))
        return chunker.chunk(document, sections).pipe(ops.to_list()).run()

    return tuple(chunk for path in names_of(name) for chunk in chunked(path))


def collected(name: str, model: EmbeddingModel) -> Collection:
    """A collection with the vectors of this model."""
    chunks, questions = chunks_of(name), questions_of(name)
    vectors = _vectors(model, [chunk.in_context for chunk in chunks], "document")
    asked = _vectors(model, [question.text for question in questions], "query")
    return Collection(name, chunks, vectors, questions, asked, model)


def _vectors(model: EmbeddingModel, texts: Sequence[str], role: EmbeddingRole) -> tuple[Vector, ...]:
    """The vectors of these texts; those that were kept are not made again, so that a run that was ended goes on."""
    keys = {sha256("\0".join((model.model_name, role, each)).encode()).digest(): each for each in texts}
    KEPT.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(KEPT / "vectors.db", timeout=60)) as kept:
        kept.execute("create table if not exists vectors (key blob primary key, vector blob not null) without rowid")
        found: dict[bytes, bytes] = dict(kept.execute("select key, vector from vectors"))
        new = [(key, text) for key, text in keys.items() if key not in found]
        if len(new) > _AT_ONCE and not isinstance(model, StaticEmbeddingModel):
            print(
                f"({len(new):,} texts are embedded with {model.model_name}, once; each takes up to a second)",
                flush=True,
            )
        for some in (new[at : at + _AT_ONCE] for at in range(0, len(new), _AT_ONCE)):
            made = model.embed([text for _, text in some], role=role).run().vectors
            rows = [(key, np.array(each, "float32").tobytes()) for (key, _), each in zip(some, made, strict=True)]
            with kept:
                kept.executemany("insert or replace into vectors values (?, ?)", rows)
            found |= rows
    of_text = {text: tuple(np.frombuffer(found[key], "float32").tolist()) for key, text in keys.items()}
    return tuple(of_text[each] for each in texts)


def scored(collection: Collection, ask: Callable[[int, Question], Found], first: int = LIMIT) -> Score:
    """Ask all questions, one after the other; the recall is that of so many passages."""
    ask(0, collection.questions[0])
    ranks: list[int | None] = []
    seconds: list[float] = []
    for number, question in enumerate(collection.questions):
        begun = time.perf_counter()
        found = ask(number, question)
        seconds.append(time.perf_counter() - begun)
        ranks.append(question.rank(found[: max(DEEP, first)]))
    count = len(ranks)
    return Score(
        sum(rank is not None and rank <= first for rank in ranks) / count,
        sum(1 / rank for rank in ranks if rank and rank <= DEEP) / count,
        median(seconds) * 1000,
    )


def plain_words(collection: Collection) -> Score:
    """BM25 in its plain form."""
    words = PlainBM25([chunk.in_context for chunk in collection.chunks])
    return scored(collection, lambda _, question: collection.plain(words.best(question.text, DEEP)))


def plain_vectors(collection: Collection) -> Score:
    """The nearest vectors, without the time that the question's takes."""
    near = PlainVectors(collection.vectors)
    return scored(collection, lambda number, _: collection.plain(near.best(collection.asked[number], DEEP)))


@contextmanager
def filled(collection: Collection, store: ChunkStore) -> Generator[tuple[ChunkStore, float]]:
    """The store with the collection in it, and how many chunks it took in a second."""
    info = IndexInfo(embedding=collection.model.model_name, dimensions=len(collection.vectors[0]))
    try:
        store.open(info).run()
        begun = time.perf_counter()
        for chunks in collection.documents.values():
            store.put(chunks[0].chunk.document, _batches(chunks)).run()
        yield store, len(collection.chunks) / (time.perf_counter() - begun)
    finally:
        store.close().run()


def _batches(chunks: Sequence[EmbeddedChunk], size: int = 256) -> Flow[Sequence[EmbeddedChunk]]:
    return from_iterable([chunks[at : at + size] for at in range(0, len(chunks), size)])


def retrieved(collection: Collection, base: KnowledgeBase, first: int = LIMIT) -> Score:
    """Ask a base, the embedding of the question included."""

    def ask(_: int, question: Question) -> Found:
        return [(each.chunk.document.id, each.text) for each in base.retrieve(question.text, max(DEEP, first)).run()]

    return scored(collection, ask, first)


@contextmanager
def folder() -> Generator[Path]:
    """A folder for the files of a store."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)
