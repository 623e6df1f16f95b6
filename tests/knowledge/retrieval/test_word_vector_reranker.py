"""`WordVectorReranker`: passages that cover the question, by the word vectors of the static model."""

from __future__ import annotations

import pytest

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.knowledge import Passage, WordVectorReranker, rerank
from agentscope_rx.reactive import just
from tests.knowledge.retrieval.parts import chunks_of

pytest.importorskip("wordllama")

TEXTS = ("The museum shows paintings.", "An inexpensive hotel in Rome.", "A hotel in Oslo.", "")
PASSAGES = tuple(
    Passage(chunk=each, score=0.5, text=each.text, start=each.start, end=each.end) for each in chunks_of("a.md", *TEXTS)
)


def order(weight: float, query: str = "cheap hotels in Rome") -> list[int]:
    found = just(PASSAGES).pipe(rerank(WordVectorReranker(weight), query)).run()
    assert all(0 <= each.score <= 1 for each in found)
    return [each.chunk.number for each in found]


def test_passages_that_cover_the_question_come_first():
    assert order(0.2) == [1, 2, 0, 3]


def test_without_weight_the_order_stays():
    assert order(0.0) == [0, 1, 2, 3]


def test_score_that_was_there_counts():
    found = WordVectorReranker(0.5).rerank("cheap hotels in Rome", PASSAGES).run()
    assert found[1] == pytest.approx(0.75) and found[3] == pytest.approx(0.25)


def test_nothing_to_read():
    assert WordVectorReranker().rerank("x", ()).run() == ()
    assert order(0.2, "\u200b")  # a question without a word that the model knows


@pytest.mark.parametrize("options", [{"weight": 2}, {"weight": "x"}, {"max_chars": 0}], ids=str)
def test_invalid_options(options: dict[str, float]):
    with pytest.raises(ConfigurationError):
        WordVectorReranker(**options)  # pyright: ignore
