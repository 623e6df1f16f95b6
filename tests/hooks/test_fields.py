"""What each event carries when a hook meets it: input, history, options, usage, iteration, the tool's schema."""

from __future__ import annotations

import pytest

from agentscope_rx import GenerateOptions, Hook, InMemoryMemory, Msg, ReActAgent, hook
from agentscope_rx.events import (
    Event,
    PostActingEvent,
    PostCallEvent,
    PostReasoningEvent,
    PostSummaryEvent,
    PreActingEvent,
    PreCallEvent,
    PreReasoningEvent,
    PreSummaryEvent,
)
from agentscope_rx.messages import ChatUsage, ToolUseBlock
from agentscope_rx.models.response import ChatResponse, FinishReason
from agentscope_rx.reactive import Flow, defer, just
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from tests.agent.parts import events_of, weather

OPTIONS = GenerateOptions(temperature=0.3)


class Noting(Hook):
    """Keeps what it sees."""

    def __init__(self, *kinds: type[Event]) -> None:
        self.kinds = kinds or None
        self.seen: list[Event] = []

    def on_event(self, event: Event) -> None:
        self.seen.append(event)

    def of(self, kind: type[Event]) -> Event:
        return next(event for event in self.seen if type(event) is kind)


def made(*turns: object, hooks: tuple[Hook, ...] = (), **options) -> ReActAgent:
    model = ScriptedModel(*turns)
    return ReActAgent("Friday", model, "You are Friday.", tools=[weather], hooks=hooks, **options)


def told(messages) -> list[str]:
    return [message.text or ", ".join(call.name for call in message.tool_calls) or "result" for message in messages]


@pytest.mark.spec("W35")
def test_the_summary_says_how_it_was_asked_for_and_what_it_cost():
    """W35, java-core.md §6.3: what PostReasoning has, and the limit that was reached."""
    noting = Noting()
    last = ["Sun.", ChatResponse(usage=ChatUsage(7, 2), finish_reason=FinishReason.STOP)]
    agent = made(call("weather", city="Rome"), last, hooks=(noting,), max_iters=1, generate_options=OPTIONS)
    reply = run_virtual(agent.call("hi"))
    pre, post = noting.of(PreSummaryEvent), noting.of(PostSummaryEvent)
    assert isinstance(pre, PreSummaryEvent) and isinstance(post, PostSummaryEvent)
    assert (post.iteration, post.max_iterations) == (pre.iteration, pre.max_iterations) == (1, 1)
    assert post.model_name == agent.model.model_name
    assert (post.finish_reason, post.usage) == (FinishReason.STOP, ChatUsage(7, 2))
    assert post.options is not None and post.options.temperature == 0.3
    assert told(post.history) == ["hi", "weather", "result"]
    assert list(post.messages) == list(agent.model.requests[-1].messages)
    assert post.message.text == reply.text == "Sun."


def test_a_summary_hooks_options_are_those_of_the_post_event():
    noting = Noting(PostSummaryEvent)
    warm = hook(PreSummaryEvent)(lambda event: event.replace(options=GenerateOptions(temperature=0.9)))
    agent = made(call("weather", city="Rome"), "Sun.", hooks=(warm, noting), max_iters=1, generate_options=OPTIONS)
    run_virtual(agent.call("hi"))
    event = noting.of(PostSummaryEvent)
    assert isinstance(event, PostSummaryEvent) and event.options is not None and event.options.temperature == 0.9


@pytest.mark.spec("W33")
def test_the_last_event_has_remembered_input_and_whole_history():
    """Input and history apart, at the end of a call as at its beginning."""
    noting = Noting(PostCallEvent)
    polite = hook(PreCallEvent)(lambda event: event.replace(input=(*event.input, Msg.user("Please."))))
    agent = made("One.", "Two.", hooks=(polite, noting))
    for text in ("first", "second"):
        run_virtual(agent.call(text))
    one, two = (event for event in noting.seen if isinstance(event, PostCallEvent))
    assert told(one.input) == ["first", "Please."]
    assert told(two.input) == ["second", "Please."]
    assert told(two.history) == ["first", "Please.", "One.", "second", "Please.", "Two."]
    assert "input" not in two.to_dict() and "history" not in two.to_dict()


def test_what_a_hook_puts_into_read_only_fields_goes_nowhere():
    emptied = {
        PreActingEvent: {"schema": None, "history": ()},
        PostActingEvent: {"schema": None, "history": ()},
        PostCallEvent: {"input": (), "history": ()},
        PostReasoningEvent: {"messages": (), "options": None, "history": ()},
    }
    hooks = tuple(hook(kind)(lambda event, fields=fields: event.replace(**fields)) for kind, fields in emptied.items())
    agent = made(call("weather", city="Rome"), "Sunny.", hooks=hooks)
    assert run_virtual(agent.call("hi")).text == "Sunny."
    assert told(agent.memory.messages) == ["hi", "weather", "result", "Sunny."]


def test_acting_events_have_the_tools_schema_and_the_history():
    """java-core.md §6.3 gives acting events the toolkit: here what the model was told of the tool, read-only."""
    noting = Noting(PreActingEvent, PostActingEvent)
    two = [ToolUseBlock("a", "weather", {"city": "Rome"}), ToolUseBlock("b", "weather", {"city": "Oslo"})]
    agent = made(two, "Sunny.", hooks=(noting,))
    run_virtual(agent.call("hi"))
    pre_a, pre_b, post_a, post_b = noting.seen
    assert all(event.schema is agent.toolkit.schema("weather") is not None for event in noting.seen)
    assert told(pre_a.history) == told(pre_b.history) == ["hi", "weather, weather"]
    assert told(post_a.history) == ["hi", "weather, weather"]
    assert told(post_b.history) == ["hi", "weather, weather", "result"]


def test_the_schema_is_that_of_the_tool_that_ran_or_none():
    noting = Noting(PostActingEvent)
    agent = made(call("nothing"), "Sorry.", hooks=(noting,))
    run_virtual(agent.call("hi"))
    assert noting.of(PostActingEvent).schema is None
    other = hook(PreActingEvent)(lambda e: e.replace(tool_use=ToolUseBlock(e.tool_use.id, "weather", {"city": "Rome"})))
    agent = made(call("nothing"), "Sunny.", hooks=(other, noting))
    run_virtual(agent.call("hi"))
    assert noting.seen[-1].schema is agent.toolkit.schema("weather")


class Counted(InMemoryMemory):
    """Counts how often it is read."""

    reads = 0

    def get(self) -> Flow:
        def get() -> Flow:
            self.reads += 1
            return just(self.messages)

        return defer(get)


@pytest.mark.parametrize("kind", [PreActingEvent, PostActingEvent, PostCallEvent])
def test_memory_is_read_for_hooks_alone(kind: type[Event]):
    """A memory may be far away: a history that no hook uses is not read."""
    reads: list[int] = []
    for hooks in ((), (Noting(kind),), (Noting(PreReasoningEvent),)):
        memory = Counted()
        agent = made(call("weather", city="Rome"), "Sunny.", hooks=hooks, memory=memory)
        events = run_virtual(events_of(agent, "hi"))
        reads.append(memory.reads)
        (event,) = (event for event in events if type(event) is kind)
        assert bool(event.history) == (len(hooks) > 0 and hooks[0].kinds == (kind,))
    assert reads[1] == reads[0] + 1 and reads[2] == reads[0]
