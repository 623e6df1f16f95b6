"""`retrieve_all`: several queries in one knowledge base at once, their passages joined.

passages = await retrieve_all(base, ("opening hours of the zoo", "ticket prices of the zoo"), limit=5)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reactivex import operators as ops

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.knowledge.knowledge import LIMIT, Knowledge, check_limit
from agentscope_rx.knowledge.passage import Passage
from agentscope_rx.knowledge.retrieval.fusing import fused_scores, without_copies
from agentscope_rx.knowledge.retrieval.passages import Passages, problems_of
from agentscope_rx.knowledge.where import Where
from agentscope_rx.messages.queries import Query
from agentscope_rx.models.checks import check_count
from agentscope_rx.reactive import Flow, concat_map, defer, just, merge_ordered

Place = tuple[str, str, int]


def retrieve_all(
    knowledge: Knowledge,
    queries: Sequence[Query],
    limit: int = LIMIT,
    *,
    threshold: float | None = None,
    where: Where | None = None,
    max_concurrency: int = 4,
) -> Flow[tuple[Passage, ...]]:
    """At most `limit` passages for all of these queries together, best first.

    The places of a passage in the results are joined (reciprocal rank fusion). The first passage for one query comes
    before the second for another; a passage that fits several queries comes before both. The first passage for every
    query has the score 1. With one query this is `retrieve`, whose options it takes.

    Signals: one `Passages`, with the problems of all queries; `InvalidInputError`; the first error of a retrieval.
    Cancels: the retrievals in progress; others do not begin.
    """

    def begin() -> Flow[tuple[Passage, ...]]:
        check_limit(limit)
        check_count("max_concurrency", max_concurrency)
        asked = _asked(queries)
        found = [knowledge.retrieve(each, limit, threshold=threshold, where=where) for each in asked]
        if len(found) == 1:
            return found[0]
        together = merge_ordered(found, max_concurrency=max_concurrency)
        return together.pipe(ops.to_list(), concat_map(lambda results: just(_joined(results, limit))))

    return defer(begin)


def _asked(queries: Sequence[Query]) -> list[Query]:
    if isinstance(queries, str):
        raise InvalidInputError(f"retrieve_all takes a list of queries, not one text: [{queries!r:.60}].")
    # the same text twice is one query
    return list({each if isinstance(each, str) else index: each for index, each in enumerate(queries)}.values())


def _joined(results: Sequence[Sequence[Passage]], limit: int) -> Passages:
    passages: dict[Place, Passage] = {}
    rankings: list[tuple[float, dict[Place, int]]] = []
    for result in results:
        rankings.append((1.0, {_place(each): rank for rank, each in enumerate(result, 1)}))
        for each in result:
            passages.setdefault(_place(each), each)
    scores = fused_scores(rankings)
    # (sorted is stable: of equal scores, the one of the earlier query comes first)
    order = sorted(passages, key=lambda place: -round(scores[place], 9))
    best = without_copies(replace(passages[place], score=min(1.0, scores[place])) for place in order)
    return Passages(best[:limit], (problem for result in results for problem in problems_of(result)))


def _place(passage: Passage) -> Place:
    return (passage.base, passage.chunk.document.id, passage.chunk.number)
