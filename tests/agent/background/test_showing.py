"""The items of a job in the streams of runs: each exactly once, in order, over its promotion and from run to run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx import BackgroundHook, ReActAgent, Toolkit, hook, tool
from agentscope_rx.events import ActingChunkEvent, BackgroundEvent, Event, PostCallEvent
from agentscope_rx.hooks import DROP
from agentscope_rx.testing import Delay, ScriptedModel, run_virtual
from tests.agent.background.parts import ends_in, events_of, parts, use


def numbers_of(events: Sequence[Event], tool: str = "parts") -> list[str]:
    """The parts that the events show of the calls of this tool."""
    chunks = [event for event in events if isinstance(event, ActingChunkEvent) and event.tool_use.name == tool]
    return [chunk.chunk.text for chunk in chunks if chunk.chunk.text.startswith("part ")]


@given(
    after=st.sampled_from([0.0, 0.5, 1.0, 1.5, 3.0, 6.5]),
    count=st.integers(0, 6),
    pauses=st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.5]), max_size=4),
)
@settings(max_examples=40, deadline=None)
def test_law_each_chunk_is_shown_once_in_order(after: float, count: int, pauses: list[float]):
    async def main():
        model = ScriptedModel(use("parts", count=count), *([Delay(0.5), "x"] for _ in range(12)))
        friday = ReActAgent("Friday", model, tools=[parts], hooks=[BackgroundHook(after=after, wait="leave")])
        shown = list[Event]()
        for pause in [*pauses, 10.0, 0.0]:
            shown += await events_of(friday, "go")
            await asyncio.sleep(pause)
        assert numbers_of(shown) == [f"part {number}" for number in range(count)]
        ends = [event.state for event in shown if isinstance(event, BackgroundEvent)]
        assert ends in ([], ["started", "completed"], ["promoted", "completed"])

    run_virtual(main())


async def _late(count: int) -> AsyncIterator[str]:
    """Gives parts, and ends later."""
    for number in range(count):
        yield f"part {number}"
        await asyncio.sleep(1)
    await asyncio.sleep(5)


@pytest.mark.parametrize("after", [0.0, 1.5, 2.5])
@pytest.mark.parametrize("joined", [False, True])
def test_a_result_that_was_shown_before_is_not_shown_again(after: float, joined: bool):
    async def main():
        # the last part is shown in the foreground, or by the first run
        kit = Toolkit([tool(name="late", result="joined" if joined else "last")(_late)])
        turns = (use("late", count=3), [Delay(2.5), "x"], "y")
        hooks = [BackgroundHook(after=after, wait="leave")]
        friday = ReActAgent("Friday", ScriptedModel(*turns), toolkit=kit, hooks=hooks)
        shown = await events_of(friday, "go")
        await asyncio.sleep(9)
        shown += await events_of(friday, "on")
        assert numbers_of(shown, "late") == ["part 0", "part 1", "part 2"]
        whole = "part 0part 1part 2" if joined else "part 2"
        assert await ends_in(friday) == [("completed", whole)]

    run_virtual(main())


@tool
async def slow(seconds: float) -> str:
    """Takes its time."""
    await asyncio.sleep(seconds)
    return "slow is done"


def boss(*turns: Any, after: float, wait: Any = "wait") -> ReActAgent:
    lines = ([Delay(1), use("slow", "s", seconds=3)], [Delay(1), use("parts", "p", count=3)], [Delay(1), "helped"])
    helper = ReActAgent("helper", ScriptedModel(*lines), tools=[slow, parts])
    hooks = [BackgroundHook(after=after, tools=["ask"], wait=wait)]
    return ReActAgent("boss", ScriptedModel(*turns), tools=[helper.as_tool("ask", "Asks the helper.")], hooks=hooks)


def nested(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if event.agent == "helper"]


@pytest.mark.parametrize("wait", ["wait", "leave"])
@pytest.mark.parametrize("after", [0.0, 0.5, 1.0, 2.0, 4.5, 6.0, 8.5])
def test_each_event_of_a_sub_agent_is_shown_once(after: float, wait: Any):
    async def main():
        alone = boss(use("ask", message="m"), "done", after=1000.0)
        expected = [type(event) for event in nested(await events_of(alone, "go"))]

        friday = boss(use("ask", message="m"), "begun", "on", "on", "on", "on", after=after, wait=wait)
        shown = list[Event]()
        for pause in (2.0, 3.0, 20.0, 0.0):
            events = await events_of(friday, "go")
            assert [event.seq for event in events] == list(range(len(events)))
            assert len({id(event) for event in events}) == len(events)
            shown += events
            await asyncio.sleep(pause)
        assert [type(event) for event in nested(shown)] == expected
        assert sum(isinstance(event, PostCallEvent) for event in nested(shown)) == 1
        assert numbers_of(shown) == ["part 0", "part 1", "part 2"]

    run_virtual(main())


@given(
    taken=st.lists(st.sampled_from([0.0, 0.7, 1.6, 3.2]), min_size=1, max_size=3),
    ends=st.lists(st.sampled_from([0.6, 1.1, 2.7, 4.1]), max_size=4),
    dropped=st.sampled_from([None, "part 1", "part 3"]),
)
@settings(max_examples=30, deadline=None)
def test_law_chunks_in_a_slow_hook_are_shown_later(taken: list[float], ends: list[float], dropped: str | None):
    async def main():
        @hook(ActingChunkEvent)
        async def slowly(event: ActingChunkEvent) -> Any:
            text = event.chunk.text
            await asyncio.sleep(taken[ord(text[-1:] or "0") % len(taken)])
            return DROP if text == dropped else event.replace(elapsed=event.elapsed)

        model = ScriptedModel(use("parts", count=4, seconds=0.5), *([Delay(end), "x"] for end in (*ends, 30.0)), "x")
        friday = ReActAgent("Friday", model, tools=[parts], hooks=[BackgroundHook(after=0, wait="leave"), slowly])
        shown = list[Event]()
        for _ in (*ends, 0):
            shown += await events_of(friday, "go")
        expected = [f"part {number}" for number in range(4)]
        assert numbers_of(shown) == [text for text in expected if text != dropped]
        assert sum(isinstance(event, BackgroundEvent) for event in shown) == 2

    run_virtual(main())
