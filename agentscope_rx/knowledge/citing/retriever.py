"""`Retriever`: passages for a question from one or several bases, by the queries that a model has made of it.

    question --rewrite--> queries --each base, each query--> passages, joined |> within `timeout` --> Retrieved

A base that fails or is late is left out: its error is among the problems, and the others' passages are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from agentscope_rx.errors import ConfigurationError, KnowledgeTimeoutError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.knowledge.knowledge import LIMIT, Knowledge, check_names
from agentscope_rx.knowledge.passage import Passage
from agentscope_rx.knowledge.where import Where
from agentscope_rx.messages import ChatUsage, Msg
from agentscope_rx.messages.queries import Query
from agentscope_rx.messages.redaction import error_text
from agentscope_rx.reactive import Flow, catch, concat_map, defer, just, timeout
from agentscope_rx.reactive.kernel.deadlines import clock_of
from agentscope_rx.reactive.kernel.observer import Sink, attach
from agentscope_rx.reactive.kernel.scope import Scope

if TYPE_CHECKING:
    from agentscope_rx.knowledge.retrieval.rewriting import Rewritten

T = TypeVar("T")

TIMEOUT = 30.0
"""Seconds for the search of a base: the first one may load vectors and a model."""


class Rewriter(Protocol):
    """Makes search queries of a question, such as a `QueryRewriter`."""

    def rewrite(self, question: str, history: Sequence[Msg]) -> Flow[Rewritten]:
        """At least one query for the question, which comes after the history.

        Signals: one `Rewritten`.
        Cancels: the model call.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieved:
    """What was found for `queries`, best first, and what failed on the way."""

    queries: tuple[str, ...]
    passages: tuple[Passage, ...] = ()
    problems: tuple[Exception, ...] = ()
    usage: ChatUsage | None = None
    model_name: str = ""
    rewriting_problem: str = ""
    elapsed: float = 0.0

    @property
    def error_text(self) -> str:
        """What failed, without secrets; '' for nothing."""
        texts = [self.rewriting_problem, *(error_text(each) for each in self.problems)]
        return "; ".join(text for text in texts if text)


class Retriever:
    """The bases of one hook or tool. `timeout` are the seconds for each base; None is no limit."""

    def __init__(self, bases: Sequence[Knowledge], *, threshold: float | None, timeout: float | None) -> None:
        self.bases: tuple[Knowledge, ...] = tuple(bases)
        self._threshold = threshold
        self._timeout = timeout

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the bases."""
        return tuple(each.name for each in self.bases)

    def search(
        self, queries: Sequence[str], limit: int = LIMIT, *, where: Where | None = None, base: str = ""
    ) -> Flow[Retrieved]:
        """Search all bases, or the one of this name, for all queries.

        Signals: one `Retrieved`; its problems have the errors.
        Cancels: the searches.
        """
        asked = tuple(queries)

        def found(passages: tuple[Passage, ...]) -> Retrieved:
            from agentscope_rx.knowledge.retrieval.passages import problems_of

            # (several queries have the same problem)
            problems = {(type(each), str(each)): each for each in problems_of(passages)}
            return Retrieved(queries=asked, passages=passages, problems=tuple(problems.values()))

        def failed(error: Exception) -> Flow[Retrieved]:
            return just(Retrieved(queries=asked, problems=(error,)))

        def begin() -> Flow[tuple[Passage, ...]]:
            from agentscope_rx.knowledge.retrieval.several_queries import retrieve_all

            return retrieve_all(self._knowledge(base), asked, limit, threshold=self._threshold, where=where)

        return _with_seconds(defer(begin).pipe(concat_map(found), catch(failed)))

    def rewritten(self, rewriter: Rewriter | None, question: str, history: Sequence[Msg]) -> Flow[Retrieved]:
        """The queries for the question, without passages; the question itself without a rewriter, or if it fails.

        Signals: one `Retrieved`.
        Cancels: the model call.
        """
        plain = Retrieved(queries=(question,))
        if rewriter is None:
            return just(plain)

        def read(rewritten: Rewritten) -> Retrieved:
            return Retrieved(
                queries=rewritten.queries or (question,),
                usage=rewritten.usage,
                model_name=rewritten.model_name,
                rewriting_problem=f"rewriting: {rewritten.error_text}" if rewritten.error_text else "",
            )

        def failed(error: Exception) -> Flow[Retrieved]:
            return just(replace(plain, rewriting_problem=f"rewriting: {error_text(error)}"))

        return _with_seconds(defer(lambda: rewriter.rewrite(question, history)).pipe(concat_map(read), catch(failed)))

    def _knowledge(self, base: str) -> Knowledge:
        from agentscope_rx.knowledge.retrieval.merged import MergedKnowledge

        asked = [each for each in self.bases if base in ("", each.name)]
        # (the bases themselves: it joins what they find by what kind of base they are)
        return _Timed(asked[0], self._timeout) if len(asked) == 1 else MergedKnowledge(asked, timeout=self._timeout)


class _Timed(Knowledge):
    """A base with a deadline."""

    def __init__(self, base: Knowledge, seconds: float | None) -> None:
        self.name = base.name
        self.description = base.description
        self._base = base
        self._seconds = seconds

    def retrieve(
        self, query: Query, limit: int = LIMIT, *, threshold: float | None = None, where: Where | None = None
    ) -> Flow[tuple[Passage, ...]]:
        found = defer(lambda: self._base.retrieve(query, limit, threshold=threshold, where=where))
        if self._seconds is None:
            return found
        return found.pipe(
            timeout(total=self._seconds, error=lambda which, seconds: KnowledgeTimeoutError(self.name, seconds))
        )


def _with_seconds(source: Flow[Retrieved]) -> Flow[Retrieved]:
    """The result with the seconds that it took, by the clock of the loop."""

    def connect(sink: Sink[Retrieved], scope: Scope) -> None:
        clock = clock_of(scope.loop)
        began = clock()
        timed: Flow[Retrieved] = source.pipe(concat_map(lambda each: replace(each, elapsed=clock() - began)))
        attach(timed, sink, scope)

    return Flow(connect)


def bases_of(knowledge: object, what: str) -> tuple[Knowledge, ...]:
    """One base or several as a tuple; `ConfigurationError` for anything else, and for two of one name."""
    given = (knowledge,) if isinstance(knowledge, Knowledge) else knowledge
    if not isinstance(given, (list, tuple)) or not given or not all(isinstance(each, Knowledge) for each in given):  # pyright: ignore[reportUnknownVariableType]
        raise ConfigurationError(
            f"{what} must be a Knowledge, such as KnowledgeBase('docs.db'), or a list of these, not {knowledge!r:.60}."
        )
    bases = tuple(cast("Sequence[Knowledge]", given))
    check_names(bases)
    return bases
