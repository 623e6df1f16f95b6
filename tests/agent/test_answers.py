"""What becomes of a model's answer: blocks and usage, the events that show it, and the calls that it makes."""

from __future__ import annotations

import asyncio

import pytest
from reactivex import operators as ops

from agentscope_rx import StreamOptions, tool
from agentscope_rx.errors import ConfigurationError, ModelConnectionError
from agentscope_rx.events import (
    ActingChunkEvent,
    ErrorEvent,
    Event,
    PostActingEvent,
    PostCallEvent,
    PostReasoningEvent,
    ReasoningChunkEvent,
    SummaryChunkEvent,
    event_from_json,
)
from agentscope_rx.events.chunk_event import ChunkEvent
from agentscope_rx.messages import ChatUsage, TextBlock, ThinkingBlock, ToolResultKind
from agentscope_rx.models.response import ChatResponse, ToolUseDelta
from agentscope_rx.reactive import just
from agentscope_rx.testing import Delay, ScriptedModel, run_virtual
from tests.agent.parts import count, events_of, remembered, weather
from tests.agent.shorthand import agent, said, trace, use


@pytest.mark.spec("case 56", "case 59", "W50")
def test_text_and_arguments_agree():
    """Departure: one truth, `input`; the text is kept only if it could not be read."""
    friday = agent([ToolUseDelta(0, "a", "weather", '{ "city" :\n'), ToolUseDelta(0, arguments='"Rome" }')], "done")
    run_virtual(friday.call("hi"))
    call = remembered(friday)[1].tool_calls[0]
    assert (call.input, call.raw, call.input_error) == ({"city": "Rome"}, None, None)


@pytest.mark.spec("case 60")
def test_metadata_belongs_to_its_call():
    turn = [
        ToolUseDelta(0, "a", "weather", "{}", {"sign": "A"}), ToolUseDelta(1, "b", "weather", "{}"),
        ToolUseDelta(1, metadata={"sign": "B"}), ToolUseDelta(0, metadata={"more": 1}),
    ]  # fmt: skip
    friday = agent(turn, "done")
    run_virtual(friday.call("hi"))
    metadata = [dict(call.metadata) for call in remembered(friday)[1].tool_calls]
    assert metadata == [{"sign": "A", "more": 1}, {"sign": "B"}]


@pytest.mark.spec("case 61", "case 62")
def test_the_last_usage_of_an_answer_counts():
    """Within one answer it is replaced, over the answers of a run summed."""
    friday = agent(
        [ChatResponse(usage=ChatUsage(1, 1)), use("a"), ChatResponse(usage=ChatUsage(9, 2)), TextBlock("x")],
        ["done", ChatResponse(usage=ChatUsage(1, 1))],
    )
    assert run_virtual(friday.call("hi")).usage == ChatUsage(10, 3)
    assert remembered(friday)[1].usage == ChatUsage(9, 2)


@pytest.mark.spec("case 63")
def test_no_piece_is_held_back():
    """Text, thinking and fragments of calls are shown when they come."""

    async def main():
        loop = asyncio.get_running_loop()
        turn = ["a", Delay(1), ToolUseDelta(0, "a", "weather", '{"ci'), Delay(1), "b", Delay(1), ThinkingBlock("c"),
                Delay(1), ToolUseDelta(0, arguments='ty":"Rome"}')]  # fmt: skip
        kinds = StreamOptions(kinds=ReasoningChunkEvent)
        times = [
            (loop.time(), e.delta.type) async for e in agent(turn, "x").stream("hi", kinds) if e.type != "post_call"
        ]
        assert times[:5] == [(0, "text"), (1, "tool_use"), (2, "text"), (3, "thinking"), (4, "tool_use")]

    run_virtual(main())


@pytest.mark.spec("case 74")
@pytest.mark.parametrize("turns", [["x"], [use("a"), "x"]])
def test_the_last_event_is_the_reply(turns):
    """`call()` is nothing else."""
    events = run_virtual(events_of(agent(*turns), "hi"))
    assert isinstance(events[-1], PostCallEvent) and not any(isinstance(e, PostCallEvent) for e in events[:-1])
    assert events[-1].message.text == run_virtual(agent(*turns).call("hi")).text


@pytest.mark.spec("case 75", "case 77", "case 78", "W41")
@pytest.mark.parametrize(
    ("kinds", "shown"),
    [
        (None, "pre_call pre_reasoning reasoning_chunk post_reasoning pre_acting acting_chunk*3 post_acting "
               "pre_summary summary_chunk*2 post_summary post_call"),
        ((), ""),
        (PostReasoningEvent, "post_reasoning"),
        ((PostActingEvent, ActingChunkEvent), "acting_chunk*3 post_acting"),
        (ChunkEvent, "reasoning_chunk summary_chunk*2"),
        ((SummaryChunkEvent, PostCallEvent), "summary_chunk*2 post_call"),
    ],
)  # fmt: skip
def test_kinds_of_events_are_chosen_one_by_one(kinds, shown: str):
    """Any set, exactly. No flags that contradict each other."""
    friday = agent(use("a", "count", upto=2), ["x", "y"], tools=[count], max_iters=1)
    assert trace(run_virtual(events_of(friday, "hi", StreamOptions(kinds=kinds)))) == shown
    with pytest.raises(ConfigurationError, match="kinds"):
        StreamOptions(kinds=["all"])


@pytest.mark.spec("case 76")
def test_an_error_of_the_run_is_the_streams():
    """The same error in the last event, on the stream and out of the call."""
    error = ModelConnectionError("gone")

    def friday():
        return agent(["x", error])

    seen: list[Event] = []
    with pytest.raises(ModelConnectionError) as caught:
        run_virtual(friday().stream("hi", StreamOptions(kinds=ErrorEvent)).pipe(ops.do_action(seen.append)))
    assert caught.value is error and isinstance(seen[-1], ErrorEvent) and seen[-1].error is error and len(seen) == 1
    with pytest.raises(ModelConnectionError):
        run_virtual(friday().call("hi"))


@pytest.mark.spec("case 79")
def test_every_event_of_a_run_is_written_and_read():
    """Departure: `is_last` only marks a tool's chunk that is its result; the end is known by kind."""
    friday = agent([ThinkingBlock("t"), "x", use("a", "count", upto=2)], "done", tools=[count])
    for event in run_virtual(events_of(friday, "hi")):
        again = event_from_json(event.to_json())
        assert again == event and again.to_json() == event.to_json()
        if isinstance(event, ActingChunkEvent):
            assert f'"is_last":{"true" if event.is_last else "false"}' in event.to_json()


@pytest.mark.spec("case 80", "case 81", "case 83", "W17")
@pytest.mark.parametrize(
    "error", [InterruptedError("x"), asyncio.CancelledError("x"), TimeoutError("x"), RecursionError("x"), OSError("x")]
)
@pytest.mark.parametrize("blocking", [True, False])
def test_an_interruption_inside_a_tool_is_an_ordinary_error(error: BaseException, blocking: bool):
    """A result, no interruption of the run; siblings are not touched."""

    @tool
    async def later() -> str:
        """Raises."""
        raise error

    @tool
    def now() -> str:
        """Raises."""
        raise error

    friday = agent([use("a", "now" if blocking else "later"), use("b")], "done", tools=[now, later, weather])
    assert run_virtual(friday.call("hi")).text == "done"
    assert said(friday)[2:4] == ["a!failed", "b=Sunny in Rome"]


@pytest.mark.spec("case 84", "W20")
def test_every_form_of_a_tool():
    """Sync, coroutine, generators, an Observable; values and failures alike; mixed in one batch."""

    def plain(fail: bool) -> str:
        """Plain."""
        return "x" if not fail else 1 / 0

    async def coroutine(fail: bool) -> str:
        """Coroutine."""
        await asyncio.sleep(1)
        return plain(fail)

    async def stream(fail: bool):
        """Async generator."""
        yield "part"
        yield plain(fail)

    def steps(fail: bool):
        """Generator."""
        yield "part"
        yield plain(fail)

    def rx(fail: bool):
        """Observable."""
        return just(fail).pipe(ops.map(plain))

    functions = [plain, coroutine, stream, steps, rx]
    calls = [use(f"{f.__name__}{fail:d}", f.__name__, fail=fail) for f in functions for fail in (False, True)]
    friday = agent(ScriptedModel(calls, "done"), tools=functions)
    assert run_virtual(friday.call("hi")).text == "done"
    results = {result.id: result for message in remembered(friday) for result in message.tool_results}
    for function in functions:
        assert results[f"{function.__name__}0"].text == "x"
        assert results[f"{function.__name__}1"].kind is ToolResultKind.FAILED
        assert "division by zero" in results[f"{function.__name__}1"].text
