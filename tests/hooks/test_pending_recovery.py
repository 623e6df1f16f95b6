"""`PendingToolRecovery`: plain input closes what is pending; consent, answers and results do not (§6.4, W42)."""

from __future__ import annotations

import pytest

from agentscope_rx import Approve, Msg, ReActAgent, Reject, ToolResultBlock, hook
from agentscope_rx.errors import PendingCallsError
from agentscope_rx.events import PostActingEvent, PostReasoningEvent, PreCallEvent
from agentscope_rx.hooks import PendingToolRecovery
from agentscope_rx.messages import ToolResultKind, ToolUseBlock
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from tests.agent.parts import assert_whole, events_of, remembered, weather

PENDING = (ToolUseBlock("c1", "weather", {"city": "Rome"}), ToolUseBlock("c2", "weather", {"city": "Oslo"}))
HELLO = Msg.user("Never mind.")


def left(event: PreCallEvent) -> PreCallEvent:
    return PendingToolRecovery().on_event(event) or event


@pytest.mark.spec("W42")
@pytest.mark.parametrize(
    ("event", "why"),
    [
        (PreCallEvent(input=(HELLO,)), "nothing is pending"),
        (PreCallEvent(pending=PENDING), "a bare call() is consent"),
        (PreCallEvent(pending=PENDING, input=(Msg.tool(ToolResultBlock.of(PENDING[0], "x")),)), "results"),
        (PreCallEvent(pending=PENDING, input=(HELLO, Msg.tool(ToolResultBlock.of(PENDING[0], "x")))), "some results"),
        (PreCallEvent(pending=PENDING, input=(HELLO,), answers=(Approve("c1"),)), "an approval"),
        (PreCallEvent(pending=PENDING, answers=(Reject("c1"),)), "a rejection"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_it_leaves_alone(event, why):
    """W42 b: in Java a bare `call()` that is meant as consent is turned into error results."""
    assert left(event) is event


def test_each_pending_call_is_closed_before_the_input():
    event = PreCallEvent(pending=PENDING, input=(HELLO,))
    after = left(event)
    assert event.input == (HELLO,)
    assert after.input[1] is HELLO and len(after.input) == 2
    assert [(result.id, result.kind) for result in after.input[0].tool_results] == [
        ("c1", ToolResultKind.INTERRUPTED),
        ("c2", ToolResultKind.INTERRUPTED),
    ]


def test_text_kind_and_priority_are_the_callers():
    custom = PendingToolRecovery(priority=3, text="Gone.", kind=ToolResultKind.FAILED)
    after = custom.on_event(PreCallEvent(pending=PENDING[:1], input=(HELLO,)))
    assert after is not None
    [result] = after.input[0].tool_results
    assert (result.text, result.kind, custom.priority) == ("Error: Gone.", ToolResultKind.FAILED, 3)
    assert PendingToolRecovery().priority == 10


@hook(PostReasoningEvent)
def stop_at_calls(event: PostReasoningEvent):
    return event.stop() if event.message.tool_calls else None


def stopped(*turns, **options) -> ReActAgent:
    """An agent that was stopped with one call pending, after an older one has had its result."""
    model = ScriptedModel(call("weather", city="Bonn"), call("weather", city="Rome"), *turns)
    agent = ReActAgent("Friday", model, tools=[weather], hooks=[stop_at_calls, *options.pop("hooks", ())], **options)
    run_virtual(agent.call("hi"))
    run_virtual(agent.call())
    return agent


@pytest.mark.spec("W42", "case 37")
@pytest.mark.parametrize("pending", ["recover", "error"])
def test_plain_input_passes_pending_calls_despite_older_results(pending):
    """§22.3 case 37; W42 a: in Java it never recovers once memory holds any tool result."""
    agent = stopped("Fine.", hooks=[PendingToolRecovery(text="Closed.")], pending=pending)
    events = run_virtual(events_of(agent, "Never mind."))
    assert events[-1].message.text == "Fine."
    assert events[0].input[0].tool_results[0].text == "Error: Closed."
    assert not [event for event in events if isinstance(event, PostActingEvent)]
    assert [message.tool_results[0].text for message in remembered(agent) if message.tool_results] == [
        "Sunny in Bonn",
        "Error: Closed.",
    ]
    assert_whole(agent)


@pytest.mark.spec("W42")
def test_a_bare_call_runs_what_is_pending():
    """W42 b."""
    agent = stopped("Fine.", hooks=[PendingToolRecovery()], pending="error")
    run_virtual(agent.call())
    assert remembered(agent)[-2].tool_results[0].text == "Sunny in Rome"
    assert_whole(agent)


def test_results_are_taken():
    agent = stopped("Fine.", hooks=[PendingToolRecovery()], pending="error")
    [pending] = remembered(agent)[-1].tool_calls
    run_virtual(agent.call(Msg.tool(ToolResultBlock.of(pending, "Rain."))))
    assert remembered(agent)[-2].tool_results[0].text == "Rain."


def test_without_the_hook_an_agent_that_is_to_refuse_refuses():
    agent = stopped("Fine.", pending="error")
    with pytest.raises(PendingCallsError):
        run_virtual(agent.call("Never mind."))
