"""`Reranker`: the port to a second, closer look at passages. `rerank` is the operator that orders them by it.

passages       a 0.9   b 0.8   c 0.7
scores            0.1     0.9     0.5
rerank         b 0.9   c 0.5   a 0.1

found = base.retrieve(question, 20).pipe(rerank(ModelReranker(model), question, limit=5))
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, cast

from reactivex import Observable
from reactivex import operators as ops

from agentscope_rx.errors import RerankingError
from agentscope_rx.knowledge.knowledge import check_limit
from agentscope_rx.knowledge.passage import Passage
from agentscope_rx.knowledge.retrieval.passages import Passages, Scale, log_problem, problems_of, scale_of
from agentscope_rx.messages.queries import Query, query_text
from agentscope_rx.models.checks import check_one_of, is_number
from agentscope_rx.reactive import Flow, append_if_missing, catch, concat_map, defer, flow, just, throw

OnError = Literal["keep", "fail"]
"""What a failing reranker does: the passages keep their order, and the error is among their problems; or it fails."""


class Reranker(ABC):
    """Scores passages for a query. Implementations can be called from several threads and loops at once."""

    @abstractmethod
    def rerank(self, query: str, passages: Sequence[Passage]) -> Flow[Sequence[float]]:
        """The scores of these passages for the query, in the order of the passages; a higher score fits better.

        Scores are from 0 to 1. If one lies outside, all are taken for logits.

        Signals: one list, with a score for each passage; `RerankingError`, a `ModelError`.
        Cancels: the request.
        """


def rerank(
    reranker: Reranker, query: Query, *, limit: int | None = None, on_error: OnError = "keep"
) -> Callable[[Observable[tuple[Passage, ...]]], Flow[tuple[Passage, ...]]]:
    """Orders passages by the scores of the reranker, and gives the first `limit`. Equal ones keep their order.

        passages       a 0.9   b 0.8   c 0.7
        scores            0.1     0.9     0.5
        rerank         b 0.9   c 0.5   a 0.1

        found = base.retrieve(question, 20).pipe(rerank(ModelReranker(model), question, limit=5))

    `rank_score` of a passage is the reranker's score, `score` the same from 0 to 1. If the reranker fails, the
    passages keep their order.

    Signals: a `Passages` for each tuple of the source; its errors; with `on_error="fail"` those of the reranker.
    Cancels: the source, or the request of the reranker.
    """
    check_one_of("on_error", on_error, ("keep", "fail"), optional=False)
    if limit is not None:
        check_limit(limit)
    text = query_text(query)

    def ranked(passages: tuple[Passage, ...]) -> Flow[tuple[Passage, ...]]:
        if not passages or not text:
            return just(Passages(passages[:limit], problems_of(passages), scale_of(passages)))

        def scored(scores: Sequence[float]) -> tuple[Passage, ...]:
            found = _by_score(passages, _checked(scores, passages))[:limit]
            return Passages(found, problems_of(passages), Scale("reranked", id(reranker)))

        def failed(error: Exception) -> Flow[tuple[Passage, ...]]:
            if on_error == "fail":
                return throw(error)
            log_problem(error, "passages keep their order, because the reranker failed")
            return just(Passages(passages[:limit], (*problems_of(passages), error), scale_of(passages)))

        def silent() -> tuple[Passage, ...]:
            raise RerankingError(f"{reranker!r:.100} completed without scores")

        asked = defer(lambda: reranker.rerank(text, passages)).pipe(ops.take(1), concat_map(scored))
        return asked.pipe(append_if_missing(Passages, silent), catch(failed))

    return lambda source: flow(source).pipe(concat_map(ranked))


def passage_text(passage: Passage) -> str:
    """The text of a passage below its title and headings, as rerankers read it."""
    return replace(passage.chunk, text=passage.text).in_context


def _by_score(passages: Sequence[Passage], scores: Sequence[float]) -> list[Passage]:
    within = all(0 <= each <= 1 for each in scores)
    found = [
        replace(passage, score=score if within else _logistic(score), rank_score=score)
        for passage, score in zip(passages, scores, strict=True)
    ]
    return sorted(found, key=lambda each: -cast("float", each.rank_score))


def _logistic(logit: float) -> float:
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, logit))))


def _checked(scores: object, passages: Sequence[Passage]) -> list[float]:
    """The scores; `RerankingError` unless there is a finite number for each passage."""
    given: object = list(cast("Sequence[object]", scores)) if isinstance(scores, (list, tuple)) else scores
    numbers = [each for each in cast("list[object]", given) if is_number(each)] if isinstance(given, list) else []
    if len(numbers) != len(passages) or not all(map(math.isfinite, numbers)):
        raise RerankingError(f"{len(passages)} passages need a number each, not {given!r:.200}")
    return [float(each) for each in numbers]
