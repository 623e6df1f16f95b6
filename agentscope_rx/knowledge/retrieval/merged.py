"""`MergedKnowledge`: several knowledge bases that are asked as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from reactivex import operators as ops

from agentscope_rx.errors import ConfigurationError, KnowledgeError, KnowledgeTimeoutError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.knowledge.knowledge import LIMIT, Knowledge, check_limit, check_names, check_threshold
from agentscope_rx.knowledge.passage import Passage
from agentscope_rx.knowledge.retrieval.fusing import RANK_CONSTANT, between_least_and_best, without_copies
from agentscope_rx.knowledge.retrieval.passages import Passages, log_problem, problems_of, scale_of
from agentscope_rx.knowledge.retrieval.reranking import Reranker, rerank
from agentscope_rx.knowledge.where import Where, check_where
from agentscope_rx.messages.queries import Query, query_text
from agentscope_rx.models.checks import check_count, check_one_of, check_seconds
from agentscope_rx.reactive import (
    Flow,
    append_if_missing,
    catch,
    concat_map,
    defer,
    just,
    merge_ordered,
    throw,
    timeout,
)

OnError = Literal["report", "fail"]


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a base gave: passages, or an error."""

    passages: Sequence[Passage] = ()
    error: Exception | None = None


class MergedKnowledge(Knowledge):
    """Asks several bases at once, at most `max_concurrency` of them, and joins their passages. Their names must differ.

        query --> base a --> a1 a2 a3 --+
              --> base b --> b1 b2    --+--> without copies --> joined by place --> first `limit`
              --> base c --X  (reported)

    With `on_error="report"`, the error of a base is among the problems of the result (`problems_of`), and the others
    answer; if all fail, the retrieval fails with the error of the first one. With "fail", the first error ends it.
    `timeout` are the seconds of each base. `reranker` orders the passages of all bases together.

    | the bases | their passages are ordered by |
    |---|---|
    | have one reranker | its scores |
    | search both ways, with one embedding model | score and similarity, equally |
    | search both ways, with different models | score |
    | search by words | score |
    | search by meaning, with one model | score, which is the similarity |
    | all others | place in their base (reciprocal rank fusion) |
    """

    def __init__(
        self,
        bases: Sequence[Knowledge],
        *,
        name: str = "knowledge",
        description: str = "",
        on_error: OnError = "report",
        reranker: Reranker | None = None,
        max_concurrency: int = 8,
        timeout: float | None = 60.0,
    ) -> None:
        check_one_of("on_error", on_error, ("report", "fail"), optional=False)
        check_seconds("timeout", timeout, optional=True)
        check_count("max_concurrency", max_concurrency)
        is_list = isinstance(bases, Sequence) and bases  # pyright: ignore[reportUnnecessaryIsInstance]
        if not is_list or not all(isinstance(each, Knowledge) for each in bases):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"MergedKnowledge takes a list of Knowledge, at least one, not {bases!r:.100}.")
        self.bases: tuple[Knowledge, ...] = tuple(bases)
        check_names(self.bases)
        self.name = name
        self.description: str = description or "\n".join(
            f"{each.name}: {each.description}" for each in self.bases if each.description
        )
        self.on_error: OnError = on_error
        self.reranker = reranker
        self.max_concurrency = max_concurrency
        self.timeout = timeout

    def retrieve(
        self, query: Query, limit: int = LIMIT, *, threshold: float | None = None, where: Where | None = None
    ) -> Flow[tuple[Passage, ...]]:
        """At most `limit` passages of all bases, best first; a `Passages`, with the problems that there were.

        Signals: one `Passages`; `InvalidInputError`; the error of a base, as `on_error` says.
        Cancels: the retrievals in progress; others do not begin.
        """

        def begin() -> Flow[tuple[Passage, ...]]:
            check_limit(limit)
            check_threshold(threshold)
            check_where(where)
            if not query_text(query):
                return just(Passages())
            asked = [
                self._ask(base, partial(base.retrieve, query, limit, threshold=threshold, where=where))
                for base in self.bases
            ]
            together = merge_ordered(asked, max_concurrency=self.max_concurrency)
            merged: Flow[tuple[Passage, ...]] = together.pipe(ops.to_list(), concat_map(self._merged))
            if self.reranker is not None:
                merged = merged.pipe(rerank(self.reranker, query))
            return merged.pipe(concat_map(lambda found: just(Passages(found[:limit], problems_of(found)))))

        return defer(begin)

    def _ask(self, base: Knowledge, retrieve: Callable[[], Flow[tuple[Passage, ...]]]) -> Flow[_Answer]:
        def silent() -> _Answer:
            return _Answer(error=KnowledgeError(f"The knowledge base {base.name!r} completed without an answer."))

        answered = defer(retrieve).pipe(ops.take(1), concat_map(lambda passages: just(_Answer(passages))))
        answered = answered.pipe(append_if_missing(_Answer, silent))
        if self.timeout is not None:
            answered = answered.pipe(timeout(total=self.timeout, error=partial(_late, base.name)))
        return answered if self.on_error == "fail" else answered.pipe(catch(lambda error: just(_Answer(error=error))))

    def _merged(self, answers: Sequence[_Answer]) -> Flow[tuple[Passage, ...]]:
        errors = [each.error for each in answers if each.error is not None]
        if errors and (self.on_error == "fail" or len(errors) == len(answers)):
            return throw(errors[0])
        for base, answer in zip(self.bases, answers, strict=True):
            if answer.error is not None:
                log_problem(answer.error, f"knowledge base {base.name!r} gave nothing")
        problems = [problem for each in answers for problem in problems_of(each.passages)]
        return just(Passages(self._joined([each.passages for each in answers]), [*problems, *errors]))

    def _joined(self, results: Sequence[Sequence[Passage]]) -> list[Passage]:
        """All passages, best first."""
        passages = [each for result in results for each in result]
        # (sorted is stable: of equal scores, the passage of the base that was given first comes first)
        scored = sorted(zip(passages, _scores(results, passages), strict=True), key=lambda each: -round(each[1], 9))
        return without_copies(replace(passage, score=min(1.0, score)) for passage, score in scored)

    def __repr__(self) -> str:
        return f"<MergedKnowledge of {', '.join(each.name for each in self.bases)}>"


def _late(base: str, which: str, limit: float) -> Exception:
    return KnowledgeTimeoutError(base, limit)


def _scores(results: Sequence[Sequence[Passage]], passages: Sequence[Passage]) -> Sequence[float]:
    """A score for each of the passages of these results, by which all can be ordered."""
    scales = {scale_of(result) for result in results if result}
    kinds = {scale and scale.kind for scale in scales}
    kind = next(iter(kinds)) if len(kinds) == 1 else None
    if kind is None or (len(scales) > 1 and kind not in ("hybrid", "keyword")):
        best = RANK_CONSTANT + 1
        return [best / (RANK_CONSTANT + place) for result in results for place in range(1, len(result) + 1)]
    scores = [each.score for each in passages]
    if kind != "hybrid" or len(scales) > 1:
        return scores
    near = between_least_and_best([each.similarity for each in passages])
    return [(one + other) / 2 for one, other in zip(scores, near, strict=True)]
