"""A store in memory, an embedding model of a few words, and documents of short chunks, for tests of retrieval."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reactivex import operators as ops

from agentscope_rx.knowledge import Chunk, ChunkStore, Document, EmbeddedChunk, Found, Indexed, IndexInfo, Where
from agentscope_rx.knowledge.where import matches
from agentscope_rx.models.embedding import EmbeddingInput, EmbeddingModel, Embeddings, cosine
from agentscope_rx.reactive import Flow, defer, from_iterable, just, then, throw, timer

TOPICS = ("cat", "dog", "train", "ticket", "winter", "zoo")
"""The dimensions of the vectors: how often a text has the word."""


class TopicEmbedding(EmbeddingModel):
    """Counts the topics in a text; "kitten" is a cat."""

    def __init__(self, name: str = "topics", delay: float = 0.0, error: Exception | None = None) -> None:
        super().__init__(name)
        self.delay = delay
        self.error = error
        self.asked: list[EmbeddingInput] = []

    def do_embed(self, batch: Sequence[EmbeddingInput]) -> Flow[Embeddings]:
        self.asked += batch
        if self.error is not None:
            return throw(self.error)
        found = just(Embeddings(tuple(map(vector_of, map(str, batch)))))
        return timer(self.delay).pipe(then(lambda: found)) if self.delay else found


def vector_of(text: str) -> tuple[float, ...]:
    words = text.lower().replace("kitten", "cat").replace(".", " ").split()
    return tuple(float(words.count(each)) for each in TOPICS)


class MemoryStore(ChunkStore):
    """Documents in a dict. `delay` are the seconds of each search, `failing` the methods that fail with `error`."""

    def __init__(self, *chunks: Chunk, delay: float = 0.0, failing: Sequence[str] = (), error: Exception | None = None):
        self.chunks = list(chunks)
        self.delay = delay
        self.failing = set(failing)
        self.error = error or RuntimeError("the store is broken")
        self.calls: list[tuple[str, object]] = []
        self.active = 0
        self.opened: list[IndexInfo] = []

    def _ask(self, name: str, detail: object, answer: Callable[[], Flow]) -> Flow:
        def begin() -> Flow:
            self.calls.append((name, detail))
            self.active += 1
            if name in self.failing:
                return throw(self.error)
            return timer(self.delay).pipe(then(answer)) if self.delay else answer()

        def end() -> None:
            self.active -= 1

        from agentscope_rx.reactive import flow

        return flow(defer(begin).pipe(ops.finally_action(end)))

    def open(self, info: IndexInfo) -> Flow[IndexInfo]:
        self.opened.append(info)
        return self._ask("open", info, lambda: just(info))

    def nearest(self, vector: Sequence[float], limit: int, where: Where | None = None) -> Flow[tuple[Found, ...]]:
        def search() -> Flow[tuple[Found, ...]]:
            found = [
                Found(chunk=each, similarity=cosine(tuple(vector), vector_of(each.in_context)))
                for each in self.chunks
                if matches(each, where)
            ]
            found.sort(key=lambda each: (-each.similarity, each.chunk.document.id, each.chunk.number))
            return just(tuple(found[:limit]))

        return self._ask("nearest", limit, search)

    def matching(
        self, text: str, limit: int, where: Where | None = None, vector: Sequence[float] | None = None
    ) -> Flow[tuple[Found, ...]]:
        def search() -> Flow[tuple[Found, ...]]:
            words = set(text.lower().split())
            found = [
                Found(
                    chunk=each,
                    relevance=float(common),
                    similarity=None if vector is None else cosine(tuple(vector), vector_of(each.in_context)),
                )
                for each in self.chunks
                if matches(each, where)
                and (common := len(words & set(each.in_context.lower().replace(".", " ").split())))
            ]
            found.sort(key=lambda each: (-each.relevance, each.chunk.document.id, each.chunk.number))
            return just(tuple(found[:limit]))

        return self._ask("matching", (text, limit), search)

    def between(self, document_id: str, first: int, last: int) -> Flow[tuple[Chunk, ...]]:
        def search() -> Flow[tuple[Chunk, ...]]:
            found = [each for each in self.chunks if each.document.id == document_id and first <= each.number <= last]
            return just(tuple(sorted(found, key=lambda each: each.number)))

        return self._ask("between", (document_id, first, last), search)

    def put(self, document: Document, batches: Flow[Sequence[EmbeddedChunk]], fingerprint: str = "") -> Flow[Indexed]:
        raise NotImplementedError

    def remove(self, ids: Sequence[str]) -> Flow[int]:
        raise NotImplementedError

    def documents(self, prefix: str = "") -> Flow[Indexed]:
        known = {each.document.id: each.document for each in self.chunks if each.document.id.startswith(prefix)}
        found = [Indexed(document=each, chunks=1) for each in known.values()]
        return self._ask("documents", prefix, lambda: from_iterable(found))

    def close(self) -> Flow[None]:
        return just(None)


def chunks_of(id: str, *texts: str, overlap: int = 0, digest: str = "", **metadata: str) -> list[Chunk]:
    """A document of these chunks, one after the other; each begins with the last `overlap` characters before it."""
    document = Document(id=id, digest=digest or f"digest of {id}", metadata=metadata)
    found: list[Chunk] = []
    whole = ""
    for number, text in enumerate(texts):
        start = max(0, len(whole) - overlap) if number else 0
        whole += text
        found.append(Chunk(document=document, number=number, text=whole[start:], start=start, end=len(whole)))
    return found
