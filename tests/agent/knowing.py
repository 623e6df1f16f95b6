"""`Library`: a knowledge base that is slow, fails or never answers by chance; and the laws of passages and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from reactivex import operators as ops

from agentscope_rx import Msg
from agentscope_rx.errors import KnowledgeError
from agentscope_rx.events import CitationEvent, Event, PostCallEvent, RetrievalEvent
from agentscope_rx.hooks import Hook
from agentscope_rx.knowledge import Knowledge, KnowledgeHook, Passage
from agentscope_rx.messages import Citation, citations_of
from agentscope_rx.messages.citation import CITATIONS
from agentscope_rx.reactive import Flow, concat_map, defer, just, never, throw, timer
from agentscope_rx.tools.background import BACKGROUND
from tests.knowledge.citing.parts import passage

LOOKUP = "look it up"
"""What the model searches for with the tool."""
SHOWN = "SHOWN FOR ONE CALL"
"""In the passages for a call: these are in no memory, no session and no summary."""


class Library(Knowledge):
    """Finds some of its few passages."""

    def __init__(self, name: str, random: Random) -> None:
        self.name = name
        self.description = ""
        self.random = random
        self.searching = 0

    def retrieve(self, query: Any, limit: int = 5, **options: Any) -> Flow[tuple[Passage, ...]]:
        def begin() -> Flow[tuple[Passage, ...]]:
            self.searching += 1
            kind, random = self.random.random(), self.random
            if kind < 0.1:
                return never()
            waiting = timer(random.choice((0, 0.1, 0.7, 1.5)))
            if kind < 0.2:
                return waiting.pipe(concat_map(lambda _: throw(KnowledgeError("the disk is away"))))
            text = "looked up" if query == LOOKUP else SHOWN
            numbers = random.sample(range(6), random.randrange(4))
            found = tuple(passage(f"{text} {each}", each, self.name, document=f"{self.name}.md") for each in numbers)
            return waiting.pipe(concat_map(lambda _: just(found)))

        def end() -> None:
            self.searching -= 1

        return defer(lambda: begin().pipe(ops.finally_action(end)))


class Reading:
    """The knowledge of one conversation, and its laws."""

    def __init__(self, seed: int) -> None:
        self.libraries = [Library(name, Random(f"{name} {seed}")) for name in ("docs", "faq")]
        self.problems: list[Exception] = []
        self.hook: KnowledgeHook | None = None

    def hooks(self, random: Random) -> list[Hook]:
        """The hook, made by the seed; none in some lives."""
        self.hook = KnowledgeHook(
            self.libraries[: random.choice((1, 2))],
            mode=random.choice(("generic", "agentic", "both", "both")),
            rewrite=random.choice((None, True)),
            timeout=1,
            on_error=random.choice(("fail", self.problems.append, self.problems.append)),
            in_sub_agents=random.random() < 0.5,
        )
        return [self.hook]

    def check(self, messages: Iterable[Msg], saved: object, summaries: Sequence[str]) -> None:
        """Nothing that was retrieved for one call is kept, and no search goes on."""
        assert not any(SHOWN in repr(each) for each in messages)
        assert SHOWN not in repr(saved)
        assert not any(SHOWN in each for each in summaries)

    def check_idle(self) -> None:
        """Nothing of a run is kept."""
        assert not any(library.searching for library in self.libraries)
        assert self.hook is None or not any(call.shown for call in self.hook._calls.values())

    def check_requests(self, messages: Sequence[Msg]) -> None:
        """The passages are in one message, before all that was said."""
        # (the result of a search that went on in the background is a message, too)
        shown = (BACKGROUND not in each.metadata and "<knowledge>" in each.text for each in messages)
        found = [place for place, is_shown in enumerate(shown) if is_shown]
        assert len(found) < 2
        assert not any(each.tool_calls or each.tool_results for each in messages[: found[0] if found else 0])

    def check_events(self, events: Sequence[Event]) -> None:
        """A number has one meaning, and the reply's citations are those of the event before it."""
        numbers: dict[int, tuple[object, ...]] = {}
        cited: CitationEvent | None = None
        for event in (each for each in events if each.depth == 0):
            if isinstance(event, RetrievalEvent):
                for each in event.passages:
                    assert numbers.setdefault(each.number, _place(each)) == _place(each)
            elif isinstance(event, CitationEvent):
                cited = event
                assert not set(event.unknown) & numbers.keys()
                assert all(numbers.get(each.number, _place(each)) == _place(each) for each in event.citations)
            elif isinstance(event, PostCallEvent):
                own = cited is not None and cited.message_id == event.message.id
                assert own or CITATIONS not in event.message.metadata or not cited
                if own and cited is not None:
                    assert citations_of(event.message) == cited.citations


def _place(citation: Citation) -> tuple[object, ...]:
    return citation.base, citation.document, citation.chunk
