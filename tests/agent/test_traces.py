"""The canonical traces of §18: the events of a run in order, and the memory after it.

Two departures throughout: a call's result is shown as it comes, in a last `acting_chunk`, before its `post_acting`; and
whatever ends a run otherwise than by failing, `post_call` is its last event (T8: an interruption, too).
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentscope_rx import GenerateReason, Msg, ReActAgent, hook
from agentscope_rx.errors import ModelConnectionError, ToolSuspend
from agentscope_rx.events import Event, PostActingEvent, PostCallEvent, PostReasoningEvent, StreamOptions
from agentscope_rx.messages import MsgRole
from agentscope_rx.testing import HANG, ScriptedModel, run_virtual
from tests.agent.parts import remembered, weather
from tests.agent.shorthand import agent, assert_good, given, said, trace, use
from tests.support.assertions import assert_one_truth


@hook(PostReasoningEvent)
def stop_at_calls(event: PostReasoningEvent) -> PostReasoningEvent | None:
    return event.stop() if event.message.tool_calls and not event.history[:-1] else None


@hook(PostActingEvent)
def stop_at_results(event: PostActingEvent) -> PostActingEvent:
    return event.stop()


def run(friday: ReActAgent, *given: Any, raises: type[Exception] | None = None) -> list[Event]:
    """The events of one run, which amount to what was remembered."""
    before = list(remembered(friday))

    async def main() -> list[Event]:
        seen: list[Event] = []
        try:
            async for event in friday.stream(*given):
                seen.append(event)
        except Exception as error:
            if raises is None or not isinstance(error, raises):
                raise
        else:
            assert raises is None
        return seen

    events = run_virtual(main())
    assert_one_truth(events, before, remembered(friday))
    return events


def reason(events: list[Event]) -> GenerateReason:
    return events[-1].message.generate_reason


ROUND = "pre_reasoning reasoning_chunk post_reasoning"


@pytest.mark.spec("T1", "case 1", "case 2")
def test_trace_of_a_plain_answer() -> None:
    """The reply is the only message, under the agent's name."""
    friday = agent(["Hel", "lo"])
    assert trace(run(friday, "hi")) == "pre_call pre_reasoning reasoning_chunk*2 post_reasoning post_call"
    assert said(friday) == ["user hi", "Friday Hello"]
    assert_good(friday)


@pytest.mark.spec("T2", "W39")
def test_trace_of_two_tools() -> None:
    """All calls are announced before one begins; results and memory are in call order, each as it comes."""
    friday = agent([use("a"), use("b", "slow", seconds=1.0)], "done")
    assert trace(run(friday, "hi")) == (
        "pre_call pre_reasoning reasoning_chunk*2 post_reasoning "
        "pre_acting*2 acting_chunk post_acting acting_chunk post_acting "
        f"{ROUND} post_call"
    )
    assert said(friday) == ["user hi", "Friday [a b]", "a=Sunny in Rome", "b=finally", "Friday done"]
    assert_good(friday)


@pytest.mark.spec("T3", "case 34")
def test_a_stop_after_reasoning_and_how_it_goes_on() -> None:
    """`call()` runs the pending call; a given result has no acting events."""
    for then, acting, result in (
        ((), "pre_acting acting_chunk post_acting ", "a=Sunny in Rome"),
        ((Msg.tool(given("a")),), "", "a=from outside"),
    ):
        friday = agent(use("a"), "done", hooks=[stop_at_calls])
        first = run(friday, "hi")
        assert trace(first) == f"pre_call {ROUND} post_call"
        assert reason(first) is GenerateReason.REASONING_STOP_REQUESTED
        assert said(friday) == ["user hi", "Friday [a]"]
        assert trace(run(friday, *then)) == f"pre_call {acting}{ROUND} post_call"
        assert said(friday) == ["user hi", "Friday [a]", result, "Friday done"]
        assert_good(friday)


@pytest.mark.spec("T4", "case 36")
def test_trace_of_partial_results() -> None:
    """Only the call without a given result runs."""
    friday = agent([use("a"), use("b")], "done", hooks=[stop_at_calls])
    run(friday, "hi")
    events = run(friday, Msg.tool(given("a")))
    assert trace(events) == f"pre_call pre_acting acting_chunk post_acting {ROUND} post_call"
    assert events[1].tool_use.id == "b"
    assert said(friday)[2:] == ["a=from outside", "b=Sunny in Rome", "Friday done"]
    assert_good(friday)


@pytest.mark.spec("T5")
def test_a_stop_after_acting() -> None:
    """The reply is the TOOL message, in memory as everywhere; `call()` goes on with reasoning."""
    friday = agent(use("a"), "done", hooks=[stop_at_results])
    events = run(friday, "hi")
    assert trace(events) == f"pre_call {ROUND} pre_acting acting_chunk post_acting post_call"
    assert reason(events) is GenerateReason.ACTING_STOP_REQUESTED
    assert events[-1].message.role is MsgRole.TOOL
    assert said(friday) == ["user hi", "Friday [a]", "a=Sunny in Rome"]
    assert trace(run(friday)) == f"pre_call {ROUND} post_call"
    assert_good(friday)


@pytest.mark.spec("T6")
def test_trace_of_one_of_two_is_suspended() -> None:
    """The finished sibling is kept; the reply pairs the call with its placeholder, and is not remembered."""

    async def ask_a_person() -> str:
        """Asks."""
        raise ToolSuspend("which one?")

    friday = agent([use("a"), use("b", "ask_a_person")], "done", tools=[weather, ask_a_person])
    events = run(friday, "hi")
    assert trace(events) == (
        "pre_call pre_reasoning reasoning_chunk*2 post_reasoning "
        "pre_acting*2 acting_chunk post_acting acting_chunk post_call"
    )
    reply = events[-1].message
    assert reply.generate_reason is GenerateReason.TOOL_SUSPENDED and reply.role is MsgRole.ASSISTANT
    assert [call.id for call in reply.tool_calls] == [result.id for result in reply.tool_results] == ["b"]
    assert reply.tool_results[0].text == "which one?"
    assert said(friday) == ["user hi", "Friday [a b]", "a=Sunny in Rome"]
    assert trace(run(friday, Msg.tool(given("b", "this one", "ask_a_person")))) == f"pre_call {ROUND} post_call"
    assert said(friday)[3:] == ["b=this one", "Friday done"]
    assert_good(friday)


@pytest.mark.spec("T7", "case 7", "case 18")
@pytest.mark.parametrize("rounds", [1, 3])
def test_trace_of_endless_tools(rounds: int) -> None:
    """N rounds, one question more without tools, which is not remembered; its answer is."""
    turns = [use(f"c{number}") for number in range(rounds)]
    friday = agent(*turns, ["that ", "is all"], max_iters=rounds)
    acting = f"{ROUND} pre_acting acting_chunk post_acting "
    events = run(friday, "hi")
    assert trace(events) == f"pre_call {acting * rounds}pre_summary summary_chunk*2 post_summary post_call"
    assert reason(events) is GenerateReason.MAX_ITERATIONS
    assert isinstance(friday.model, ScriptedModel)
    assert len(friday.model.requests) == rounds + 1 and friday.model.requests[-1].tools == ()
    assert [each for each in said(friday) if each.startswith("user")] == ["user hi"]
    assert said(friday)[-1] == "Friday that is all"
    assert_good(friday)


@pytest.mark.spec("T8", "W47")
def test_an_interruption_while_the_model_speaks() -> None:
    """What was said is kept. Departure: PostReasoning and PostCall happen, the reason is INTERRUPTED."""

    async def main() -> None:
        friday = agent(["so ", "far", HANG], "next")
        events: list[Event] = []
        async for event in friday.stream("hi"):
            events.append(event)
            if len(events) == 4:
                friday.interrupt()
        assert trace(events) == "pre_call pre_reasoning reasoning_chunk*2 post_reasoning post_call"
        assert events[4].interrupted and reason(events) is GenerateReason.INTERRUPTED
        assert said(friday)[:2] == ["user hi", "Friday so far"] and len(said(friday)) == 3
        assert_one_truth(events, (), remembered(friday))
        assert (await friday.call("go on")).text == "next"
        assert_good(friday)

    run_virtual(main())


@pytest.mark.spec("T9", "case 9")
def test_trace_of_a_failing_model() -> None:
    """An ErrorEvent, then the error; nothing of the broken answer is remembered."""
    friday = agent(["par", ModelConnectionError("gone")])
    events = run(friday, "hi", raises=ModelConnectionError)
    assert trace(events) == "pre_call pre_reasoning reasoning_chunk error"
    assert said(friday) == ["user hi"]
    assert_good(friday)


@pytest.mark.spec("T10", "W66")
def test_trace_of_a_structured_output() -> None:
    """The call and its result are gone at the end, also after a reminder; the reply is the last message.

    Departure: the reminder is a hint of one round and never in memory, so that nothing of it need be taken out.
    """
    friday = agent(use("g", "generate_response", response=[1, 2]))
    before = list(remembered(friday))

    async def events_of() -> list[Event]:
        return [event async for event in friday.stream("hi", output=list[int])]

    events = run_virtual(events_of())
    assert trace(events) == (
        "pre_call pre_reasoning reasoning_chunk output_chunk post_reasoning "
        "pre_acting acting_chunk post_acting memory post_call"
    )
    assert said(friday) == ["user hi", "Friday [1,2]"]
    assert events[-1].message.structured(list[int]) == [1, 2]
    assert_one_truth(events, before, remembered(friday))
    friday.model = ScriptedModel("one and two", use("h", "generate_response", response=[1, 2]))
    run_virtual(friday.call("again", output=list[int]))
    assert said(friday)[2:] == ["user again", "Friday one and two", "Friday [1,2]"]
    assert "generate_response" in friday.model.requests[1].messages[-1].text
    assert_good(friday)


@pytest.mark.spec("T11")
def test_trace_of_goto() -> None:
    """The answer, then the messages of the goto, then the next round."""

    @hook(PostReasoningEvent)
    def once(event: PostReasoningEvent) -> PostReasoningEvent | None:
        return event.goto_reasoning("sure?") if event.iteration == 0 else None

    friday = agent("maybe", "yes", hooks=[once])
    assert trace(run(friday, "hi")) == f"pre_call {ROUND} {ROUND} post_call"
    assert said(friday) == ["user hi", "Friday maybe", "user sure?", "Friday yes"]
    assert_good(friday)


@pytest.mark.spec("T12", "W22", "T2")
def test_the_stream_is_the_run() -> None:
    """A stream of T2 with defaults shows all of it, in one order, gapless; its last event is the reply.

    Departure: no separate vocabulary of shown events; `StreamOptions.kinds` chooses among those that hooks see.
    """

    async def main() -> None:
        friday = agent(["I ", "ask", use("a"), use("b")], "done")
        kinds = (PostReasoningEvent, PostActingEvent, PostCallEvent)
        seen = [event async for event in friday.stream("hi", StreamOptions(kinds=kinds))]
        assert trace(seen) == "post_reasoning post_acting*2 post_reasoning post_call"
        assert [event.seq for event in seen] == list(range(5))
        assert seen[-1].message == remembered(friday)[-1]
        shared: list[list[Event]] = [[], []]
        friday = agent("x", "y", check_running=False)
        await asyncio.gather(*(_into(friday, seen) for seen in shared))
        assert [len({event.run_id for event in seen}) for seen in shared] == [1, 1]

    async def _into(friday: ReActAgent, seen: list[Event]) -> None:
        async for event in friday.stream("hi"):
            seen.append(event)

    run_virtual(main())
