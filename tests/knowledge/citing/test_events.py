"""What shows the events of knowledge: the console, the timeline, the fold, the attributes of spans."""

from __future__ import annotations

from agentscope_rx.console.timeline import timeline_of
from agentscope_rx.events import (
    CitationEvent,
    EventSource,
    PostCallEvent,
    PreActingEvent,
    PreCallEvent,
    PreReasoningEvent,
    RetrievalEvent,
    fold,
)
from agentscope_rx.messages import ChatUsage, Citation, Msg, MsgRole, ToolUseBlock, citations_of
from agentscope_rx.tracing.attributes import of_event
from tests.console.logs import at
from tests.test_console import events_shown

GUIDE = Citation(number=1, base="docs", document="guide.md", page=3, headings=("Prices",), start=4, end=9, score=0.5)
FAQ = Citation(number=2, base="docs", document="faq\x1b.md")


def test_the_console_shows_each_event_on_one_line():
    found = RetrievalEvent(question="ticket\nprice", passages=(GUIDE, FAQ))
    assert events_shown([found]) == ('## retrieved 2 passages for "ticket price": [1] guide.md p. 3, [2] faq\\x1b.md\n')
    failed = RetrievalEvent(question="?", error_text="docs: gone\naway")
    assert events_shown([failed]) == '## retrieved 0 passages for "?"; failed: docs: gone away\n'
    cited = CitationEvent(citations=(GUIDE,), unknown=(7,))
    assert events_shown([cited]) == "## the reply cites [1] guide.md p. 3; not retrieved: [7]\n"
    assert events_shown([CitationEvent(unknown=(7,))]) == "## the reply cites nothing; not retrieved: [7]\n"
    many = RetrievalEvent(question="?", passages=(GUIDE,) * 7)
    assert events_shown([many]).endswith("... 2 more\n")


def test_a_retrieval_is_a_lane_between_two_rounds():
    use = ToolUseBlock("c", "retrieve_knowledge", {"query": "price"})
    seen = [
        at(0, PreCallEvent),
        at(2, RetrievalEvent, bases=("docs",), passages=(GUIDE,), usage=ChatUsage(5, 1), model_name="small"),
        at(2, PreReasoningEvent),
        at(3, PreActingEvent, tool_use=use),
        at(4, RetrievalEvent, call_id="c", question="price", passages=(GUIDE,), usage=ChatUsage(2, 1)),
        at(5, CitationEvent, citations=(GUIDE,)),
    ]
    timeline = timeline_of(seen)
    (lane,) = (each for each in timeline.walk() if each.kind == "retrieval")
    assert (lane.name, lane.text, lane.begin, lane.last, lane.state) == ("docs", "1 passage", 0, 2, "done")
    assert timeline.totals.usage == ChatUsage(7, 2) == fold(seen).usage
    (call,) = (each for each in timeline.walk() if each.kind == "tool")
    assert [mark.kind for mark in call.marks] == ["retrieval"]
    (run,) = timeline.lanes
    assert [mark.text for mark in run.marks if mark.kind == "citation"] == ["the reply cites [1] guide.md p. 3"]


def test_a_failed_retrieval_is_a_failed_lane():
    (lane,) = (
        each
        for each in timeline_of([at(0, PreCallEvent), at(1, RetrievalEvent, error_text="away")]).walk()
        if each.kind == "retrieval"
    )
    assert (lane.state, lane.error) == ("failed", "away")


def test_the_tokens_of_retrievals_of_sub_agents_count():
    outer, inner = EventSource("r", "a", ("r",)), EventSource("s", "b", ("r", "c", "s"))
    seen = [PreCallEvent(source=outer), RetrievalEvent(source=inner, usage=ChatUsage(5, 1))]
    assert fold(seen).usage == ChatUsage(5, 1)
    seen.append(PostCallEvent(source=outer, usage=ChatUsage(5, 1)))
    assert fold(seen).usage == ChatUsage(5, 1)


def test_spans_note_documents_and_no_text():
    found = RetrievalEvent(
        question="secret", queries=("secret",), bases=("docs",), passages=(GUIDE, GUIDE), call_id="c",
        usage=ChatUsage(5, 1), error_text="away",
    )  # fmt: skip
    name, given = of_event(found)
    assert name == "agentscope.retrieval" and "secret" not in repr(given)
    assert given["documents"] == ("guide.md",) and given["passages"] == 2 and given["failed"] is True
    assert given["gen_ai.usage.input_tokens"] == 5 and given["gen_ai.tool.call.id"] == "c"
    assert of_event(CitationEvent(citations=(GUIDE,), unknown=(3,))) == (
        "agentscope.citation",
        {"documents": ("guide.md",), "cited": 1, "unknown": 1},
    )


def test_citations_of_a_message_are_read_back():
    reply = Msg(
        "Friday", "It costs 5 euros [1].", MsgRole.ASSISTANT, metadata={"citations": [GUIDE.to_dict(), FAQ.to_dict()]}
    )
    assert citations_of(reply) == (GUIDE, FAQ) and citations_of(Msg.user("hi")) == ()
