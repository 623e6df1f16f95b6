"""What retrieval with its defaults finds in some pages of the docs, beside plain BM25 and plain vectors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("wordllama")

from agentscope_rx.knowledge import KnowledgeBase, SqliteChunkStore
from agentscope_rx.models.embedding import StaticEmbeddingModel
from benchmarks.knowledge import measure
from benchmarks.knowledge.measure import Collection, collected, filled, plain_vectors, plain_words, retrieved

PAGES = ("hooks.md", "human-in-the-loop.md", "memory.md", "models.md", "reliability.md", "sessions.md", "tools.md")


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "names_of", lambda _: list(PAGES))
        patch.setattr(measure, "KEPT", tmp_path_factory.mktemp("kept"))
        found = collected("docs", StaticEmbeddingModel())
    about = [each for each in zip(found.questions, found.asked, strict=True) if each[0].expected[0].document in PAGES]
    questions, asked = zip(*about, strict=True)
    return replace(found, questions=tuple(questions), asked=tuple(asked))


def test_hybrid_search_finds_more_than_its_halves(collection: Collection, tmp_path: Path):
    with filled(collection, SqliteChunkStore(tmp_path / "docs.db")) as (store, _):
        hybrid = retrieved(collection, KnowledgeBase(store, collection.model))
        wide = retrieved(collection, KnowledgeBase(store, collection.model, window=1))
    words, vectors = plain_words(collection), plain_vectors(collection)
    assert hybrid.recall >= 0.5
    assert hybrid.mrr > words.mrr and hybrid.mrr > vectors.mrr
    assert hybrid.recall >= words.recall and hybrid.recall >= vectors.recall
    assert wide.recall >= hybrid.recall
