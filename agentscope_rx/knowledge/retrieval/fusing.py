"""Joining searches: reciprocal rank fusion of what is near by meaning and what has the words.

    nearest    1. a   2. b   3. c
    matching   1. b   2. d                 weight / (60 + rank), summed        b, a, d, c

Ranks are joined, not scores, because BM25 and cosines have no common scale. Equal values have one rank.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from agentscope_rx.knowledge.document import Chunk
from agentscope_rx.knowledge.passage import Found, Passage

K = TypeVar("K", bound=Hashable)

RANK_CONSTANT = 60.0
"""The constant of reciprocal rank fusion, as in the paper of Cormack, Clarke and Buettcher (2009): the greater, the
less the first places of one search weigh against being found by both."""

Place = tuple[str, int]
"""A chunk in a store: the id of its document, and its number."""


def place_of(chunk: Chunk) -> Place:
    """Names the chunk in its store."""
    return (chunk.document.id, chunk.number)


def ranks(values: Iterable[tuple[K, float]]) -> dict[K, int]:
    """The ranks from 1 of these keys with their values, which are given best first; equal values have one rank."""
    found: dict[K, int] = {}
    last, rank = None, 0
    for count, (key, value) in enumerate(values, 1):
        rounded = round(value, 9)
        if rounded != last:
            last, rank = rounded, count
        found.setdefault(key, rank)
    return found


def fused_scores(rankings: Sequence[tuple[float, dict[K, int]]], constant: float = RANK_CONSTANT) -> dict[K, float]:
    """Key -> score: 1 for what is first in every one of these rankings, which come with their weights."""
    best = sum(weight for weight, _ in rankings) / (constant + 1) or 1.0
    scores: dict[K, float] = {}
    for weight, ranking in rankings:
        for key, rank in ranking.items():
            scores[key] = scores.get(key, 0.0) + weight / (constant + rank) / best
    return scores


def fuse(
    nearest: Sequence[Found], matching: Sequence[Found], *, weight: float, constant: float = RANK_CONSTANT
) -> list[tuple[Found, float]]:
    """The chunks of both searches with their scores, best first; `weight` is that of the nearest, 0 to 1."""
    near = ranks((place_of(each.chunk), each.similarity or 0.0) for each in nearest)
    words = ranks((place_of(each.chunk), each.relevance or 0.0) for each in matching)
    scores = fused_scores([(weight, near), (1 - weight, words)], constant)
    found = {place_of(each.chunk): each for each in nearest}
    for each in matching:
        place = place_of(each.chunk)
        other = found.get(place)
        found[place] = each if other is None else replace(other, relevance=each.relevance)
    return best_first((found[place], score) for place, score in scores.items())


def best_first(scored: Iterable[tuple[Found, float]]) -> list[tuple[Found, float]]:
    """By score; equal ones by document and number, so that a search gives the same order each time."""
    return sorted(scored, key=lambda each: (-round(each[1], 9), place_of(each[0].chunk)))


def without_copies(passages: Iterable[Passage]) -> list[Passage]:
    """The passages without those whose text, below the same headings, came before: the first of them stays.

    A picture without text is compared by its document's content.
    """
    seen: set[Hashable] = set()
    kept: list[Passage] = []
    for each in passages:
        chunk, document = each.chunk, each.chunk.document
        text = " ".join(chunk.text.split())
        key = (chunk.headings, text) if text else (document.digest or document.id, chunk.number)
        if key not in seen:
            kept.append(each)
            seen.add(key)
    return kept
