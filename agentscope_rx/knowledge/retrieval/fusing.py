"""Joining searches: what is near by meaning and what has the words; and the results of several retrievals.

    by value    0.4 * (similarity, from the least of these chunks to the best) + 0.6 * (relevance / the best one)
    by place    1 / (60 + place), summed over the results: reciprocal rank fusion

The two searches of one query are joined by value, for all chunks that one of them has found. Similarities are placed
between the least and the best, because models differ in their range: 0 to 0.7 for one, 0.75 to 0.9 for another.
Results whose values cannot be compared are joined by place.
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


def fused_scores(rankings: Sequence[tuple[float, dict[K, int]]], constant: float = RANK_CONSTANT) -> dict[K, float]:
    """Key -> score: 1 for what is first in every one of these rankings, which come with their weights."""
    best = sum(weight for weight, _ in rankings) / (constant + 1) or 1.0
    scores: dict[K, float] = {}
    for weight, ranking in rankings:
        for key, rank in ranking.items():
            scores[key] = scores.get(key, 0.0) + weight / (constant + rank) / best
    return scores


def fuse(nearest: Sequence[Found], matching: Sequence[Found], *, weight: float) -> list[tuple[Found, float]]:
    """The chunks of both searches with their scores, best first; `weight` is that of the similarity, 0 to 1.

    The score is 1 for a chunk that is the best in both, at most the weight of a search for one that only it has found.
    """
    found = {place_of(each.chunk): each for each in nearest}
    for each in matching:
        other = found.get(place_of(each.chunk))
        found[place_of(each.chunk)] = each if other is None else replace(other, relevance=each.relevance)
    near = between_least_and_best([each.similarity for each in found.values()])
    best = max((each.relevance or 0.0 for each in found.values()), default=0.0) or 1.0
    words = [(each.relevance or 0.0) / best for each in found.values()]
    scores = (weight * one + (1 - weight) * other for one, other in zip(near, words, strict=True))
    return best_first(zip(found.values(), scores, strict=True))


def between_least_and_best(values: Sequence[float | None]) -> list[float]:
    """Each value from 0 for the least to 1 for the best; 0 for None, 1 if all are the same."""
    known = [each for each in values if each is not None]
    least, best = min(known, default=0.0), max(known, default=0.0)
    width = best - least
    return [0.0 if each is None else (each - least) / width if width else 1.0 for each in values]


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
