"""The questions of the retrieval benchmark: enough of them, and each with an answer that is there."""

from __future__ import annotations

from functools import cache

import pytest

from benchmarks.knowledge.questions import Expected, Question, bare, questions_of
from benchmarks.knowledge.sources import COLLECTIONS, DOCS, LAWS


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_there_are_sixty_different_questions(collection: str):
    questions = questions_of(collection)
    assert len({question.text for question in questions}) == len(questions) >= 60
    assert {question.kind for question in questions} <= {"question", "words", "name"}


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_each_question_expects_a_passage(collection: str):
    for question in questions_of(collection):
        assert question.expected, question.text
        for expected in question.expected:
            assert len(bare(expected.phrase)) >= 4, question.text


@cache
def _page(name: str) -> str:
    return bare((DOCS / name).read_text("utf-8"))


def test_expected_phrases_are_on_their_pages():
    gone = [
        f"{question.text} {expected}"
        for question in questions_of("docs")
        for expected in question.expected
        if bare(expected.phrase) not in _page(expected.document)
    ]
    assert not gone, "These phrases are not on their pages: see benchmarks/knowledge/collections/docs.toml."


def test_questions_do_not_quote_their_answers():
    for collection in COLLECTIONS:
        for question in questions_of(collection):
            for expected in question.expected:
                # a question that is a name is found by it
                assert question.kind == "name" or bare(question.text) != bare(expected.phrase)


def test_statutes_asked_about_are_in_the_collection():
    assert {each.document for question in questions_of("laws") for each in question.expected} <= {
        f"{name}.md" for name in LAWS
    }


def test_the_rank_is_that_of_the_first_answer():
    expected = (Expected("a.md", "a **phrase**, here"), Expected("b.md", "other"))
    question = Question("?", "question", expected)
    assert question.rank([("b.md", "a phrase here"), ("a.md", "It is `A phrase`\nhere."), ("b.md", "other")]) == 2
    assert question.rank([("a.md", "nothing")]) is None
