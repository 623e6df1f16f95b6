"""`Passages`: what a retrieval has found, and what failed on the way."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Sequence

from agentscope_rx.frozen_values import dataclass
from agentscope_rx.knowledge.passage import Passage
from agentscope_rx.messages.redaction import error_text

_LOG = logging.getLogger("agentscope_rx.knowledge")


@dataclass(frozen=True, slots=True)
class Scale:
    """What the scores of a result mean: the search "hybrid", "vector" or "keyword" with the embedding model `by`, or
    "reranked" with the reranker `by`."""

    kind: str
    by: Hashable = None


class Passages(tuple[Passage, ...]):
    """A tuple of passages, best first. `problems` are errors that made the result worse, but did not end the retrieval.

    Such as: a base that failed beside others, a base without documents, or a reranker that failed. `problems_of` reads
    them from any tuple. `scale` says with which other results the scores can be compared, None if that is not known.
    """

    problems: tuple[Exception, ...]
    scale: Scale | None

    def __new__(
        cls, passages: Iterable[Passage] = (), problems: Iterable[Exception] = (), scale: Scale | None = None
    ) -> Passages:
        made = super().__new__(cls, passages)
        made.problems = tuple(problems)
        made.scale = scale
        return made


def problems_of(passages: Sequence[Passage]) -> tuple[Exception, ...]:
    """The errors that did not end this retrieval; () if there are none."""
    return passages.problems if isinstance(passages, Passages) else ()


def scale_of(passages: Sequence[Passage]) -> Scale | None:
    """What their scores mean; None if that is not known."""
    return passages.scale if isinstance(passages, Passages) else None


def log_problem(error: Exception, where: str) -> None:
    """A retrieval goes on without something that failed. The caller has the error in `Passages.problems`, too."""
    _LOG.warning("%s: %s", where, error_text(error), extra={"error_type": type(error).__name__})
