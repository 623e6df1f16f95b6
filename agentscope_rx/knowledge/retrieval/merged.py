"""`MergedKnowledge`: several knowledge bases that are asked as one.

    query --> base a --> a1 a2 a3 --+
          --> base b --> b1 b2    --+--> without copies --> joined by place --> first `limit`
          --> base c --X  (reported)

The scores of two bases cannot be compared: each has a best passage, however little it fits. So places are joined. If
all bases embed by the same model, the order of all passages by their similarity counts, too, so that a base that has
nothing on the question stands behind one that has. A reranker sees all passages, and its scores can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from reactivex import operators as ops

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.knowledge.knowledge import LIMIT, Knowledge, Question, check_limit, check_threshold, question_text
from agentscope_rx.knowledge.passage import Passage
from agentscope_rx.knowledge.retrieval.fusing import fused_scores, ranks, without_copies
from agentscope_rx.knowledge.retrieval.passages import Passages, log_problem, problems_of
from agentscope_rx.knowledge.retrieval.reranking import Reranker, rerank
from agentscope_rx.knowledge.where import Where, check_where
from agentscope_rx.models.checks import check_count, check_one_of
from agentscope_rx.models.embedding import EmbeddingModel
from agentscope_rx.reactive import Flow, catch, concat_map, defer, just, merge_ordered, throw

OnError = Literal["report", "fail"]

Place = tuple[int, str, int]
"""The number of a base, the id of a document in it, and the number of a chunk."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a base gave: passages, or an error."""

    passages: Sequence[Passage] = ()
    error: Exception | None = None


class MergedKnowledge(Knowledge):
    """Asks its bases at once, at most `max_concurrency` of them, and joins what they give.

    With `on_error="report"`, the error of a base is among the problems of the result (`problems_of`), and the others'
    passages are given; if all fail, the retrieval fails with the error of the first one. With "fail", the first error
    ends it. `reranker` orders the passages of all bases together. The names of the bases must differ.
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
    ) -> None:
        check_one_of("on_error", on_error, ("report", "fail"), optional=False)
        check_count("max_concurrency", max_concurrency)
        self.bases: tuple[Knowledge, ...] = tuple(bases)
        if not self.bases or not all(isinstance(each, Knowledge) for each in self.bases):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"MergedKnowledge takes a list of Knowledge, at least one, not {bases!r:.100}.")
        names = [each.name for each in self.bases]
        if again := {each for each in names if names.count(each) > 1}:
            raise ConfigurationError(
                f"Several knowledge bases have the name {min(again)!r}: citations could not tell them apart. Give each "
                "one a name=... of its own."
            )
        self.name = name
        self.description = description or "\n".join(
            f"{each.name}: {each.description}" for each in self.bases if each.description
        )
        self.on_error: OnError = on_error
        self.reranker = reranker
        self.max_concurrency = max_concurrency

    def retrieve(
        self, query: Question, limit: int = LIMIT, *, threshold: float | None = None, where: Where | None = None
    ) -> Flow[tuple[Passage, ...]]:
        """At most `limit` passages of all bases, best first; a `Passages`, with the problems that there were.

        Signals: one `Passages`; `InvalidInputError`; the error of a base, as `on_error` says.
        Cancels: the retrievals in progress; others do not begin.
        """

        def begin() -> Flow[tuple[Passage, ...]]:
            check_limit(limit)
            check_threshold(threshold)
            check_where(where)
            if not question_text(query):
                return just(Passages())
            asked = [self._ask(base.retrieve(query, limit, threshold=threshold, where=where)) for base in self.bases]
            together = merge_ordered(asked, max_concurrency=self.max_concurrency)
            merged: Flow[tuple[Passage, ...]] = together.pipe(ops.to_list(), concat_map(self._merged))
            if self.reranker is not None:
                merged = merged.pipe(rerank(self.reranker, query))
            return merged.pipe(concat_map(lambda found: just(Passages(found[:limit], problems_of(found)))))

        return defer(begin)

    def _ask(self, retrieval: Flow[tuple[Passage, ...]]) -> Flow[_Answer]:
        answered = retrieval.pipe(concat_map(lambda passages: just(_Answer(passages))))
        return answered if self.on_error == "fail" else answered.pipe(catch(lambda error: just(_Answer(error=error))))

    def _merged(self, answers: Sequence[_Answer]) -> Flow[tuple[Passage, ...]]:
        errors = [each.error for each in answers if each.error is not None]
        if errors and len(errors) == len(answers):
            return throw(errors[0])
        for base, answer in zip(self.bases, answers, strict=True):
            if answer.error is not None:
                log_problem(answer.error, f"knowledge base {base.name!r} gave nothing")
        problems = [problem for each in answers for problem in problems_of(each.passages)]
        return just(Passages(self._joined([each.passages for each in answers]), [*problems, *errors]))

    def _joined(self, results: Sequence[Sequence[Passage]]) -> list[Passage]:
        """All passages, best first."""
        passages = {
            (base, each.chunk.document.id, each.chunk.number): each
            for base, result in enumerate(results)
            for each in result
        }
        if self._reranked_alike(passages.values()):
            return without_copies(sorted(passages.values(), key=lambda each: -(each.rank_score or 0.0)))
        own = {
            place: rank
            for base in range(len(results))
            for rank, place in enumerate((place for place in passages if place[0] == base), 1)
        }
        rankings: list[tuple[float, dict[Place, int]]] = [(1.0, own)]
        if self._embedded_alike(passages.values()):
            near = sorted(passages, key=lambda place: -(passages[place].similarity or 0.0))
            rankings.append((1.0, ranks((place, passages[place].similarity or 0.0) for place in near)))
        scores = fused_scores(rankings)
        # (sorted is stable: of equal scores, the passage of the base that was given first comes first)
        order = sorted(passages, key=lambda place: -round(scores[place], 9))
        return without_copies(replace(passages[place], score=min(1.0, scores[place])) for place in order)

    def _embedded_alike(self, passages: Iterable[Passage]) -> bool:
        """True if all passages have a similarity, by one model."""
        if any(each.similarity is None for each in passages):
            return False
        models = {_model_of(each) for each in self.bases}
        return len(models) == 1 and None not in models

    def _reranked_alike(self, passages: Iterable[Passage]) -> bool:
        """True if all passages have a score by one reranker."""
        if any(each.rank_score is None for each in passages):
            return False
        return len({id(getattr(each, "reranker", None)) for each in self.bases}) == 1

    def __repr__(self) -> str:
        return f"<MergedKnowledge of {', '.join(each.name for each in self.bases)}>"


def _model_of(base: Knowledge) -> tuple[str, str, object] | None:
    """Names the model that a base embeds with; None if it is not known."""
    model = getattr(base, "embedding", None)
    if not isinstance(model, EmbeddingModel):
        return None
    return (model.provider, model.model_name, getattr(model, "dimensions", None))
