"""Fusion: laws of joining two searches, and of joining results by place."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx.knowledge import Found, Passage
from agentscope_rx.knowledge.retrieval.fusing import between_least_and_best, fuse, fused_scores, without_copies
from tests.knowledge.retrieval.parts import chunks_of

CHUNKS = chunks_of("a.md", *(f"Chunk {number}. " for number in range(8)))
SIMILAR = st.dictionaries(st.sampled_from(range(8)), st.floats(-1, 1), max_size=8)
RELEVANT = st.dictionaries(st.sampled_from(range(8)), st.floats(0.01, 50), max_size=8)


@settings(max_examples=150, deadline=None)
@given(SIMILAR, RELEVANT, st.floats(0, 1))
def test_every_chunk_once_with_a_score(similar: dict[int, float], relevant: dict[int, float], weight: float):
    nearest = [Found(chunk=CHUNKS[number], similarity=value) for number, value in similar.items()]
    matching = [
        Found(chunk=CHUNKS[number], relevance=value, similarity=similar.get(number))
        for number, value in relevant.items()
    ]
    found = fuse(nearest, matching, weight=weight)
    assert {each.chunk.number for each, _ in found} == set(similar) | set(relevant)
    assert len(found) == len(set(similar) | set(relevant))
    scores = [score for _, score in found]
    assert all(-1e-9 <= score <= 1 + 1e-9 for score in scores)
    assert all(one >= other - 1e-8 for one, other in pairwise(scores))
    for each, _ in found:
        assert each.similarity == similar.get(each.chunk.number)
        assert each.relevance == relevant.get(each.chunk.number)
    assert fuse(nearest[::-1], matching[::-1], weight=weight) == found


def test_weight_is_what_each_search_counts_for():
    nearest = [Found(chunk=CHUNKS[0], similarity=0.9), Found(chunk=CHUNKS[1], similarity=0.5)]
    matching = [Found(chunk=CHUNKS[1], similarity=0.5, relevance=8.0), Found(chunk=CHUNKS[2], relevance=2.0)]
    scores = {each.chunk.number: score for each, score in fuse(nearest, matching, weight=0.6)}
    assert scores == {0: pytest.approx(0.6), 1: pytest.approx(0.4), 2: pytest.approx(0.1)}


def test_values_between_the_least_and_the_best():
    assert between_least_and_best([0.7, 0.9, None, 0.8]) == [0.0, 1.0, 0.0, pytest.approx(0.5)]
    assert between_least_and_best([0.3, 0.3]) == [1.0, 1.0] and between_least_and_best([]) == []


def test_first_of_every_result_has_all_of_the_score():
    scores = fused_scores([(1.0, {"a": 1, "b": 2}), (1.0, {"a": 1, "c": 2})])
    assert scores["a"] == 1.0 and scores["b"] == scores["c"] < 0.5


def test_copies_differ_by_their_headings():
    one, other = chunks_of("a.md", "Returns nothing."), chunks_of("b.md", "Returns  nothing.")
    passages = [Passage(chunk=each, score=1, text=each.text, start=each.start, end=each.end) for each in (*one, *other)]
    assert without_copies(passages) == passages[:1]
    passages[1] = replace(passages[1], chunk=replace(other[0], headings=("close",)))
    assert without_copies(passages) == passages
