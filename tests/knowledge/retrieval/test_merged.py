"""`MergedKnowledge` and `retrieve_all`: several bases, or several queries, become one result."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentscope_rx.errors import (
    ConfigurationError,
    EmptyKnowledgeError,
    InvalidInputError,
    KnowledgeError,
    KnowledgeStorageError,
)
from agentscope_rx.knowledge import Knowledge, KnowledgeBase, MergedKnowledge, Passage, problems_of, retrieve_all
from agentscope_rx.reactive import empty, never
from agentscope_rx.testing import run_virtual
from tests.knowledge.retrieval.parts import MemoryStore, TopicEmbedding, chunks_of
from tests.knowledge.retrieval.test_reranking import Given

BROKEN = KnowledgeStorageError("k.db", "disk I/O error")
ANIMALS = chunks_of("animals.md", "A cat sleeps. ", "A dog barks. ", "A cat and a dog play. ")
TRAINS = chunks_of("trains.md", "The train ticket is cheap. ", "The train is late. ", "A train in winter. ")


def base(name: str, *chunks: Any, store: Any = (), model: str = "topics", **options: Any) -> KnowledgeBase:
    return KnowledgeBase(MemoryStore(*chunks, **dict(store)), TopicEmbedding(model), name=name, **options)


def both(**options: Any) -> MergedKnowledge:
    return MergedKnowledge([base("animals", *ANIMALS), base("trains", *TRAINS)], **options)


def shown(passages: tuple[Passage, ...]) -> list[tuple[str, int]]:
    return [(each.base, each.chunk.number) for each in passages]


@pytest.mark.spec("case 160")
def test_several_bases_are_asked_as_one():
    copy = chunks_of("copy.md", "The train ticket is cheap. ")
    knowledge = MergedKnowledge([base("animals", *ANIMALS), base("trains", *TRAINS), base("copies", *copy)])
    found = knowledge.retrieve("train ticket", 3).run()
    scores = [each.score for each in found]
    assert shown(found)[0] == ("trains", 0) and len(found) == 3
    assert scores == sorted(scores, reverse=True) and all(0 <= each <= 1 for each in scores)
    texts = [each.text for each in found]
    assert len(set(texts)) == 3


def test_base_without_an_answer_stands_behind():
    assert shown(both().retrieve("train in winter", 4).run())[:2] == [("trains", 2), ("trains", 1)]


def test_scores_that_cannot_be_compared_are_joined_by_place():
    by_meaning = base("animals", *ANIMALS, search="vector")
    others = [
        base("trains", *TRAINS, search="vector", model="other"),
        base("trains", *TRAINS, search="keyword"),
        both(),
    ]
    for other in others:
        found = MergedKnowledge([by_meaning, other], name="all").retrieve("train in winter", 4).run()
        assert [each.base == "animals" for each in found[:2]] == [True, False]
        assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)


def test_similarities_of_one_model_are_compared():
    for search in ("vector", "hybrid"):
        bases = [base("animals", *ANIMALS, search=search), base("trains", *TRAINS, search=search)]
        found = MergedKnowledge(bases).retrieve("train in winter", 3).run()
        assert [each.base for each in found] == ["trains"] * 3


def test_bases_are_asked_at_once():
    bases = [base(f"b{number}", *ANIMALS, store={"delay": 1.0}) for number in range(6)]

    async def elapsed(most: int) -> float:
        begun = asyncio.get_running_loop().time()
        await MergedKnowledge(bases, max_concurrency=most).retrieve("cat")
        return asyncio.get_running_loop().time() - begun

    assert run_virtual(elapsed(6)) == pytest.approx(2.0)
    assert run_virtual(elapsed(3)) == pytest.approx(2.0)  # (opened by now: one second each)
    assert all(each.store.active == 0 for each in bases)


def test_one_base_fails_and_the_others_answer():
    broken = base("broken", store={"failing": ["nearest"], "error": BROKEN})
    knowledge = MergedKnowledge([broken, base("trains", *TRAINS)])
    found = run_virtual(knowledge.retrieve("train"))
    assert {each.base for each in found} == {"trains"} and problems_of(found) == (BROKEN,)
    with pytest.raises(KnowledgeStorageError):
        run_virtual(MergedKnowledge([broken, base("trains", *TRAINS)], on_error="fail").retrieve("train"))
    with pytest.raises(KnowledgeStorageError):
        run_virtual(MergedKnowledge([broken]).retrieve("train"))


def test_one_base_is_empty_and_the_others_answer():
    empty = KnowledgeBase(MemoryStore(), TopicEmbedding(), name="typo")
    found = run_virtual(MergedKnowledge([base("trains", *TRAINS), empty]).retrieve("train"))
    (problem,) = problems_of(found)
    assert {each.base for each in found} == {"trains"} and isinstance(problem, EmptyKnowledgeError)


def test_one_base_is_late_and_the_others_answer():
    late = base("late", *ANIMALS, store={"delay": 60.0}, timeout=5.0)
    found = run_virtual(MergedKnowledge([late, base("trains", *TRAINS)]).retrieve("train"))
    assert len(found) == 3 and "within 5 s" in str(problems_of(found)[0]) and late.store.active == 0


class Wrapped(Knowledge):
    """Another base under its name."""

    def __init__(self, inner: Knowledge) -> None:
        self.inner = inner
        self.name = inner.name

    def retrieve(self, query: Any, limit: int = 5, *, threshold: Any = None, where: Any = None) -> Any:
        return self.inner.retrieve(query, limit, threshold=threshold, where=where)


def test_wrapped_bases_are_compared_like_themselves():
    bases = [base("animals", *ANIMALS), base("trains", *TRAINS)]
    plain = MergedKnowledge(bases).retrieve("train in winter", 4).run()
    assert MergedKnowledge([Wrapped(each) for each in bases]).retrieve("train in winter", 4).run() == plain


class Silent(Knowledge):
    """A service that never answers, without a timeout of its own."""

    name = "silent"

    def retrieve(self, query: Any, limit: int = 5, *, threshold: Any = None, where: Any = None) -> Any:
        return never()


class Rude(Silent):
    """Breaks the port: raises before there is a Flow, or completes without a value."""

    name = "rude"

    def __init__(self, raises: bool) -> None:
        self.raises = raises

    def retrieve(self, query: Any, limit: int = 5, *, threshold: Any = None, where: Any = None) -> Any:
        if self.raises:
            raise RuntimeError("rude")
        return empty()


@pytest.mark.parametrize("raises", [True, False])
def test_a_base_that_breaks_the_port_is_reported(raises: bool):
    found = run_virtual(MergedKnowledge([Rude(raises), base("trains", *TRAINS)]).retrieve("train"))
    assert len(found) == 3 and "rude" in str(problems_of(found)[0])
    with pytest.raises(RuntimeError if raises else KnowledgeError, match="rude"):
        run_virtual(MergedKnowledge([base("trains", *TRAINS), Rude(raises)], on_error="fail").retrieve("train"))


def test_a_base_that_never_answers_is_given_up():
    found = run_virtual(MergedKnowledge([Silent(), base("trains", *TRAINS)], timeout=9.0).retrieve("train"))
    assert len(found) == 3 and "'silent' gave no passages within 9 s" in str(problems_of(found)[0])


def test_reranker_sees_the_passages_of_all_bases():
    reranker = Given(0.1, 0.2, 0.3, 0.4)
    found = both(reranker=reranker).retrieve("train", 2).run()
    assert reranker.asked == [("train", 4)] and [each.rank_score for each in found] == [0.4, 0.3]


def test_scores_of_one_reranker_are_compared():
    class ByLength(Given):
        def rerank(self, query: str, passages: Any) -> Any:
            self.scores = tuple(len(each.text) / 100 for each in passages)
            return super().rerank(query, passages)

    reranker = ByLength()
    bases = [base("animals", *ANIMALS, reranker=reranker), base("trains", *TRAINS, reranker=reranker)]
    found = run_virtual(MergedKnowledge(bases).retrieve("train cat", 3))
    assert [each.score for each in found] == [0.27, 0.22, 0.19]


def test_a_merged_base_can_be_merged():
    knowledge = MergedKnowledge([both(), base("more", *chunks_of("zoo.md", "The zoo. "))], name="all")
    assert {each.base for each in knowledge.retrieve("zoo train cat", 9).run()} == {"animals", "trains", "more"}


@pytest.mark.parametrize("given", [{"limit": 0}, {"threshold": 7}, {"where": "x"}], ids=str)
def test_invalid_input(given: Any):
    with pytest.raises(InvalidInputError):
        both().retrieve("cat", **given).run()


def test_invalid_bases():
    for bases in ([], ["x"], [base("a"), base("a")], base("a"), None):
        with pytest.raises(ConfigurationError):
            MergedKnowledge(bases)  # pyright: ignore
    assert both().retrieve(" ").run() == ()


def test_description_names_the_bases():
    knowledge = MergedKnowledge([base("a", description="about cats"), base("b", description="about dogs")])
    assert knowledge.description == "a: about cats\nb: about dogs"


@pytest.mark.parametrize("after", [0.0, 0.5, 1.5])
def test_disposal_at_each_point(after: float):
    bases = [base(f"b{number}", *ANIMALS, store={"delay": 1.0}) for number in range(3)]

    async def leave() -> None:
        task = MergedKnowledge(bases, max_concurrency=2).retrieve("cat").as_task()
        await asyncio.sleep(after)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert all(each.store.active == 0 for each in bases)

    run_virtual(leave())


# --- several queries --------------------------------------------------------------------------------------------------


def test_each_query_has_its_best_passage():
    found = retrieve_all(base("all", *ANIMALS, *TRAINS), ["dog barks", "train ticket"], 2).run()
    assert {each.text for each in found} == {"A dog barks. ", "The train ticket is cheap. "}


def test_passage_for_several_queries_comes_first():
    found = retrieve_all(base("all", *ANIMALS, search="keyword"), ["cat play", "dog play"], 3).run()
    assert found[0].chunk.number == 2 and found[0].score == 1.0
    assert len({each.chunk.number for each in found}) == len(found) == 3


def test_one_query_is_asked_as_it_is():
    knowledge = base("all", *ANIMALS)
    assert retrieve_all(knowledge, ["cat", "cat"], 2).run() == knowledge.retrieve("cat", 2).run()
    assert retrieve_all(knowledge, [], 2).run() == ()


def test_queries_are_searched_at_once():
    knowledge = base("all", *ANIMALS, store={"delay": 1.0})

    async def elapsed(queries: list[Any]) -> float:
        begun = asyncio.get_running_loop().time()
        await retrieve_all(knowledge, queries, 2)
        return asyncio.get_running_loop().time() - begun

    run_virtual(elapsed(["zoo"]))
    assert run_virtual(elapsed(["cat", "dog", "zoo"])) == pytest.approx(1.0)


def test_problems_of_all_queries_are_kept():
    knowledge = base("all", *ANIMALS, reranker=Given(error=BROKEN))
    assert problems_of(run_virtual(retrieve_all(knowledge, ["cat", "dog"]))) == (BROKEN, BROKEN)


def test_a_text_is_no_list_of_queries():
    with pytest.raises(InvalidInputError, match="list of queries"):
        retrieve_all(base("all"), "cat").run()
    with pytest.raises(InvalidInputError):
        retrieve_all(base("all", *ANIMALS), ["cat"], 0).run()
