"""`KnowledgeBase`: what is found by meaning, by words and by both, and what a retrieval leaves behind."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentscope_rx import Msg
from agentscope_rx.errors import (
    ConfigurationError,
    EmptyKnowledgeError,
    InvalidInputError,
    KnowledgeStorageError,
    KnowledgeTimeoutError,
    ModelConnectionError,
)
from agentscope_rx.knowledge import Found, IndexInfo, KnowledgeBase, Passage, Passages, Reranker, problems_of
from agentscope_rx.models.embedding import StaticEmbeddingModel
from agentscope_rx.reactive import Flow, just
from agentscope_rx.testing import collect_dropped, run_virtual
from tests.knowledge.retrieval.parts import MemoryStore, TopicEmbedding, chunks_of

ZOO = [
    *chunks_of("zoo.md", "The zoo has a cat. ", "A ticket costs ten. ", "In winter the zoo is closed. ", lang="en"),
    *chunks_of("rail.md", "The train is fast. ", "A train ticket costs five. ", lang="en"),
    *chunks_of("pets.md", "A kitten sleeps. ", "Every dog barks. ", lang="de"),
]


def base(*chunks: Any, **options: Any) -> KnowledgeBase:
    return KnowledgeBase(MemoryStore(*(chunks or ZOO)), TopicEmbedding(), **options)


def places(passages: tuple[Passage, ...]) -> list[tuple[str, int]]:
    return [(each.chunk.document.id, each.chunk.number) for each in passages]


def test_hybrid_prefers_what_both_searches_find():
    found = base().retrieve("train ticket", 2).run()
    assert places(found)[0] == ("rail.md", 1)
    first = found[0]
    assert first.score == 1.0 and first.similarity == pytest.approx(1.0) and first.relevance == 2.0
    assert first.base == "knowledge" and first.text == first.chunk.text
    assert isinstance(found, Passages) and problems_of(found) == ()


@pytest.mark.parametrize("search", ["hybrid", "vector", "keyword"])
def test_a_base_without_documents_is_a_problem(tmp_path: Path, search: Any):
    typo = KnowledgeBase(tmp_path / "typo.db", name="handbook", search=search)
    found = typo.retrieve("train ticket").run()
    (problem,) = problems_of(found)
    assert found == ()
    assert isinstance(problem, EmptyKnowledgeError) and problem.base == "handbook"
    assert all(each in str(problem) for each in (str(tmp_path / "typo.db"), "has no documents", "base.add("))
    typo.add("A train ticket costs five.").run()
    found = typo.retrieve("train ticket").run()
    assert len(found) == 1 and problems_of(found) == ()
    typo.store.close().run()


def test_documents_without_the_answer_are_no_problem():
    full = base()
    found = full.retrieve("train ticket", where={"lang": "fr"}).run()
    assert found == () and problems_of(found) == ()
    # (documents are looked for only then)
    full.retrieve("train ticket").run()
    assert [name for name, _ in full.store.calls].count("documents") == 1


def test_an_error_of_the_look_for_documents_is_raised():
    broken = KnowledgeBase(MemoryStore(failing=["documents"]), TopicEmbedding())
    with pytest.raises(RuntimeError, match="broken"):
        broken.retrieve("cat").run()


def test_vectors_find_what_has_other_words():
    assert places(base(search="vector").retrieve("cat", 2).run()) == [("pets.md", 0), ("zoo.md", 0)]
    assert places(base(search="keyword").retrieve("cat", 2).run()) == [("zoo.md", 0)]


def test_score_of_each_search():
    vector = base(search="vector").retrieve("zoo cat", 9).run()
    assert [each.score for each in vector] == [max(0.0, each.similarity or 0.0) for each in vector]
    keyword = base(search="keyword").retrieve("the zoo cat", 9).run()
    assert [each.score for each in keyword] == [1.0, pytest.approx(2 / 3), pytest.approx(1 / 3)]
    assert all(each.similarity is None for each in keyword)


def test_keyword_search_asks_no_model_without_threshold():
    embedding = TopicEmbedding()
    knowledge = KnowledgeBase(MemoryStore(*ZOO), embedding, search="keyword")
    assert knowledge.retrieve("ticket").run() and embedding.asked == []
    assert knowledge.retrieve("ticket", threshold=0.9).run() and embedding.asked == ["ticket"]


@pytest.mark.parametrize("search", ["hybrid", "vector", "keyword"])
def test_threshold_holds_for_each_search(search: Any):
    found = base(search=search).retrieve("train ticket", 9, threshold=0.8).run()
    assert places(found) == [("rail.md", 1)]
    assert base(search=search).retrieve("train ticket", 9, threshold=0.6).run() != found


def test_where_limits_the_documents():
    found = base().retrieve("a cat", 9, where={"lang": "de"}).run()
    assert {each.chunk.document.id for each in found} == {"pets.md"}


def test_weight_of_the_vectors():
    words = chunks_of("words.md", "costs costs of all")
    meaning = chunks_of("meaning.md", "A kitten sleeps.")
    asked = "costs of a cat"
    by_meaning = base(*words, *meaning, vector_weight=0.9).retrieve(asked, 1).run()
    by_words = base(*words, *meaning, vector_weight=0.1).retrieve(asked, 1).run()
    assert places(by_meaning) == [("meaning.md", 0)] and places(by_words) == [("words.md", 0)]


def test_unknown_words_are_near_to_nothing():
    assert base(search="vector").retrieve("xyzzy").run() == ()
    assert places(base().retrieve("closed", 3).run()) == [("zoo.md", 2)]


def test_same_text_in_two_documents_is_one_passage():
    copies = [*chunks_of("a.md", "The zoo opens at ten.", digest="1"), *chunks_of("b.md", "The zoo  opens at ten.")]
    assert places(base(*copies).retrieve("zoo").run()) == [("a.md", 0)]


@pytest.mark.parametrize("query", ["", "  \n", Msg.user(""), []])
def test_query_without_text_finds_nothing(query: Any):
    store = MemoryStore(*ZOO)
    assert KnowledgeBase(store, TopicEmbedding()).retrieve(query).run() == () and store.calls == []


def test_query_of_messages():
    found = base().retrieve([Msg.user("What costs"), Msg.user("a train ticket?")], 1).run()
    assert places(found) == [("rail.md", 1)]


def test_long_query_is_cut_in_its_middle():
    embedding = TopicEmbedding()
    KnowledgeBase(MemoryStore(*ZOO), embedding).retrieve("cat " + "x " * 50_000 + " ticket").run()
    (asked,) = embedding.asked
    assert isinstance(asked, str) and asked.startswith("cat ") and asked.endswith(" ticket") and len(asked) == 4_001


@pytest.mark.parametrize(
    "given",
    [{"limit": 0}, {"limit": True}, {"limit": "5"}, {"threshold": 2}, {"threshold": True}, {"where": ["x"]}],
    ids=str,
)
def test_invalid_input(given: Any):
    with pytest.raises(InvalidInputError):
        base().retrieve("cat", **given).run()


def test_query_must_be_text_or_messages():
    with pytest.raises(InvalidInputError, match="takes a text, a Msg"):
        base().retrieve(7).run()  # pyright: ignore


@pytest.mark.parametrize(
    "options",
    [{"search": "both"}, {"vector_weight": 1.5}, {"pool": 0}, {"window": -1}, {"timeout": 0}, {"name": " "}],
    ids=str,
)
def test_invalid_options(options: Any):
    with pytest.raises(ConfigurationError):
        base(**options)


def test_store_must_be_a_store_and_embedding_a_model():
    with pytest.raises(ConfigurationError, match="store must be"):
        KnowledgeBase(7)  # pyright: ignore
    with pytest.raises(ConfigurationError, match="embedding must be"):
        KnowledgeBase(MemoryStore(), "static")  # pyright: ignore


def test_store_is_opened_for_the_model_once():
    store = MemoryStore(*ZOO)
    knowledge = KnowledgeBase(store, TopicEmbedding())
    knowledge.retrieve("cat").run()
    knowledge.retrieve("dog").run()
    assert store.opened == [IndexInfo(embedding="topics", dimensions=6)]


def test_searches_run_at_once():
    store = MemoryStore(*ZOO, delay=1.0)
    knowledge = KnowledgeBase(store, TopicEmbedding(delay=1.0))

    async def elapsed() -> float:
        begun = asyncio.get_running_loop().time()
        await knowledge.retrieve("cat")
        return asyncio.get_running_loop().time() - begun

    # embed, open, then both searches together
    assert run_virtual(elapsed()) == pytest.approx(3.0) and store.active == 0


def test_timeout_ends_the_searches():
    store = MemoryStore(*ZOO, delay=100.0)
    knowledge = KnowledgeBase(store, TopicEmbedding(), timeout=150.0)
    with pytest.raises(KnowledgeTimeoutError, match="within 150 s") as caught:
        run_virtual(knowledge.retrieve("cat"))
    assert caught.value.retryable and store.active == 0


@pytest.mark.parametrize("after", [0.0, 0.5, 1.5, 2.5, 3.5])
def test_disposal_at_each_point(after: float):
    store = MemoryStore(*ZOO, delay=1.0)
    knowledge = KnowledgeBase(store, TopicEmbedding(delay=1.0), window=1)

    async def leave() -> None:
        task = knowledge.retrieve("cat").as_task()
        await asyncio.sleep(after)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert store.active == 0

    run_virtual(leave())


@pytest.mark.parametrize("failing", ["open", "nearest", "matching", "between"])
def test_error_of_the_store(failing: str):
    store = MemoryStore(*ZOO, failing=[failing], error=KnowledgeStorageError("k.db", "disk I/O error"))
    with pytest.raises(KnowledgeStorageError, match="disk I/O"):
        run_virtual(KnowledgeBase(store, TopicEmbedding(), window=1).retrieve("cat"))
    assert store.active == 0


def test_error_of_the_embedding_model():
    embedding = TopicEmbedding(error=ModelConnectionError("no route"))
    with pytest.raises(ModelConnectionError, match="no route"):
        run_virtual(KnowledgeBase(MemoryStore(*ZOO), embedding).retrieve("cat"))


def test_retrieval_can_be_subscribed_again():
    found = base().retrieve("cat", 1)
    assert found.run() == found.run()


def test_weight_depends_on_the_model():
    assert KnowledgeBase(MemoryStore(), StaticEmbeddingModel()).vector_weight == 0.4
    assert KnowledgeBase(MemoryStore()).embedding.provider == "wordllama"
    assert base().vector_weight == 0.6 and base(vector_weight=0).vector_weight == 0


def test_question_is_embedded_as_a_query():
    class TwoRoles(TopicEmbedding):
        def do_embed_queries(self, batch: Any) -> Any:
            return super().do_embed([f"query: {each}" for each in batch])

    embedding = TwoRoles()
    KnowledgeBase(MemoryStore(*ZOO), embedding).retrieve("cat").run()
    assert embedding.asked == ["query: cat"]


def test_half_a_surrogate_pair_is_searched_for():
    assert places(base().retrieve("train \ud83d", 1).run()) == [("rail.md", 0)]


def test_subscriber_that_throws_leaves_nothing():
    store = MemoryStore(*ZOO, delay=1.0)

    def fail(passages: object) -> None:
        raise ValueError("the subscriber failed")

    async def run() -> None:
        KnowledgeBase(store, TopicEmbedding(), window=1).retrieve("cat").subscribe(fail)
        await asyncio.sleep(10.0)

    with collect_dropped() as dropped:
        run_virtual(run())
    assert [str(each) for each in dropped] == ["the subscriber failed"] and store.active == 0


class OneOfEach(MemoryStore):
    """Finds one chunk by meaning, another by words."""

    def nearest(self, *args: Any, **options: Any) -> Any:
        return just((Found(chunk=self.chunks[0], similarity=0.9), Found(chunk=self.chunks[1], similarity=0.1)))

    def matching(self, *args: Any, **options: Any) -> Any:
        return just((Found(chunk=self.chunks[1], similarity=0.1, relevance=3.0),))


@pytest.mark.parametrize(
    ("query", "weight"),
    [("winter naïve", 0.4), ("冬天 Zoo 的票价是多少", 0.1), ("2026", 0.4)],
    ids=["latin", "chinese", "digits"],
)
def test_english_vectors_count_less_for_another_script(query: str, weight: float):
    pytest.importorskip("wordllama")
    near, words = chunks_of("near.md", "near"), chunks_of("words.md", "words")
    store = OneOfEach(*near, *words)
    found = KnowledgeBase(store, StaticEmbeddingModel()).retrieve(query, 2).run()
    scores = {each.text: each.score for each in found}
    assert scores == {"near": pytest.approx(weight), "words": pytest.approx(1 - weight)}
    fixed = KnowledgeBase(store, StaticEmbeddingModel(), vector_weight=0.5).retrieve(query, 2).run()
    assert [each.score for each in fixed] == [0.5, 0.5]


class LastFirst(Reranker):
    """Counts what it reads, and turns the order round."""

    def __init__(self) -> None:
        self.read = 0

    def rerank(self, query: str, passages: Sequence[Passage]) -> Flow[Sequence[float]]:
        self.read = len(passages)
        return just([number / self.read for number in range(self.read)])


@pytest.mark.parametrize(("limit", "most", "read"), [(1, 50, 20), (5, 50, 20), (20, 80, 60)])
def test_many_are_found_and_the_best_reranked(limit: int, most: int, read: int):
    reranker, store = LastFirst(), MemoryStore(*chunks_of("zoo.md", *(f"zoo {each}" for each in range(60))))
    KnowledgeBase(store, TopicEmbedding(), reranker=reranker).retrieve("zoo", limit).run()
    asked = {name: detail for name, detail in store.calls if name in ("nearest", "matching")}
    assert asked == {"nearest": most, "matching": ("zoo", most)}
    assert reranker.read == read
