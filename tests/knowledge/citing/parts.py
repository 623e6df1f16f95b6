"""What the tests of citing share: a knowledge that finds what it is told, and the passages in a request."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from reactivex import operators as ops

from agentscope_rx import Msg, ReActAgent
from agentscope_rx.events import Event
from agentscope_rx.knowledge import Chunk, Document, Knowledge, Passage
from agentscope_rx.messages import ChatUsage, ImageBlock
from agentscope_rx.reactive import Flow, defer, just
from agentscope_rx.testing import ScriptedModel, run_virtual


class Told(Knowledge):
    """Finds `texts`; `before` may return a flow that a search waits for, or raise. `asked` are the queries."""

    def __init__(
        self,
        *texts: str,
        name: str = "docs",
        description: str = "",
        before: Callable[[str], Flow[Any] | None] = lambda query: None,
        find: Callable[[str], Sequence[Passage]] | None = None,
    ) -> None:
        self.name = name
        self.description = description
        self.before = before
        self.asked: list[str] = []
        self.wheres: list[Any] = []
        self.limits: list[int] = []
        self._find = find or (lambda query: [passage(text, number, name) for number, text in enumerate(texts)])

    def retrieve(
        self, query: Any, limit: int = 5, *, threshold: float | None = None, where: Any = None
    ) -> Flow[tuple[Passage, ...]]:
        def find(_: object) -> tuple[Passage, ...]:
            return tuple(self._find(query)[:limit])

        def begin() -> Flow[Any]:
            self.asked.append(query)
            self.wheres.append(where)
            self.limits.append(limit)
            return self.before(query) or just(None)

        return defer(begin).pipe(ops.map(find))


def passage(
    text: str,
    number: int = 0,
    base: str = "docs",
    *,
    document: str = "guide.md",
    title: str = "",
    page: int | None = None,
    headings: tuple[str, ...] = (),
    image: ImageBlock | None = None,
    digest: str = "",
) -> Passage:
    found = Document(id=document, title=title, digest=digest)
    chunk = Chunk(
        document=found, number=number, text=text, start=100 * number, end=100 * number + len(text), page=page,
        headings=headings, image=image,
    )  # fmt: skip
    return Passage(chunk=chunk, score=1 / (number + 1), text=text, start=chunk.start, end=chunk.end, base=base)


class Rewrites:
    """A rewriter that gives these queries, or fails."""

    def __init__(self, *queries: str, error: Exception | None = None) -> None:
        self.queries = queries
        self.error = error
        self.asked: list[tuple[str, list[str]]] = []

    def rewrite(self, question: str, history: Sequence[Msg]) -> Flow[Any]:
        from agentscope_rx.knowledge import Rewritten

        self.asked.append((question, [each.text for each in history]))
        if self.error is not None:
            raise self.error
        return just(Rewritten(queries=self.queries, usage=ChatUsage(20, 5), model_name="small"))


def agent(model: ScriptedModel, **options: Any) -> ReActAgent:
    """An agent named Friday."""
    return ReActAgent("Friday", model, "You are Friday.", **options)


def events_of(friday: ReActAgent, text: Any = "What does it cost?", **options: Any) -> list[Event]:
    return run_virtual(friday.stream(text, **options).pipe(ops.to_list()))


def knowledge_in(model: ScriptedModel, request: int = 0) -> str:
    """The message of a request that holds passages; '' if there is none."""
    found = [each.text for each in model.requests[request].messages if "<knowledge>" in each.text]
    assert len(found) < 2
    return found[0] if found else ""


def numbers_in_request(model: ScriptedModel, request: int = 0) -> dict[int, str]:
    """The passages of a request by their numbers."""
    found = re.findall(r'<passage number="(\d+)"[^>]*>\n(.*?)\n</passage>', knowledge_in(model, request), re.DOTALL)
    return {int(number): text for number, text in found}
