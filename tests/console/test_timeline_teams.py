"""Timelines of several agents and of work in the background: each call once, with the tokens of `fold`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine

import pytest
from reactivex import Observable
from reactivex import operators as ops

from agentscope_rx import BackgroundHook, Msg, MsgHub, ReActAgent, Toolkit, tool
from agentscope_rx.console.timeline import Timeline, timeline_of
from agentscope_rx.console.timeline.drawing import Look, timeline_lines
from agentscope_rx.console.wording import input_line
from agentscope_rx.events import Event, PostReasoningEvent, PreActingEvent, PreCallEvent, PreReasoningEvent, fold
from agentscope_rx.messages import ChatUsage, ToolUseBlock
from agentscope_rx.pipeline import FanOutPipeline, Handoffs, SequentialPipeline
from agentscope_rx.testing import Delay, ScriptedModel, call, run_virtual
from tests.console.logs import on_the_clock, used


@tool
async def build(seconds: float = 20.0) -> str:
    """Takes a while."""
    await asyncio.sleep(seconds)
    return "built"


def turn(item: str | ToolUseBlock, n: int, *more: ToolUseBlock) -> list[object]:
    """An answer after half a second, with its own number of tokens."""
    return [Delay(0.5), item, *more, used(10**n, n)]


def member(name: str, *turns: object, **options: object) -> ReActAgent:
    return ReActAgent(name, ScriptedModel(*turns), toolkit=Toolkit([build]), **options)  # type: ignore[arg-type]


async def recorded(*streams: Observable[Event]) -> list[Event]:
    seen: list[Event] = []
    for stream in streams:
        await on_the_clock(stream).pipe(ops.do_action(seen.append))
    return seen


def friday(*turns: object, **options: object) -> ReActAgent:
    """An agent whose tool and sub-agent go on in the background after 5 seconds."""
    expert = member("Expert", turn(call("build", "e1"), 2), turn("It is.", 3))
    model = ScriptedModel(turn(call("build", "c1", seconds=15), 1, call("call_expert", "c2", message="hi")), *turns)  # type: ignore[arg-type]
    hooks = [BackgroundHook(5, **options)]  # type: ignore[arg-type]
    return ReActAgent("Friday", model, toolkit=Toolkit([build, expert.as_tool()]), hooks=hooks)


async def promoted() -> list[Event]:
    return await recorded(friday(turn("Going on.", 4), turn("One.", 5), turn("Two.", 6)).stream("go"))


async def left() -> list[Event]:
    agent = friday(turn("On.", 4), [Delay(30), "One.", used(5, 5)], turn("Two.", 6), wait="leave")
    seen = await recorded(agent.stream("go"))
    return seen + await recorded(agent.stream("and?"))


async def hub() -> list[Event]:
    members = [member(name, turn(name, n + 1)) for n, name in enumerate(("Ann", "Bob", "Cid"))]
    async with MsgHub(members, name="table", announcement=Msg.user("welcome")):
        return await recorded(*(each.stream("speak") for each in members))


async def pipeline() -> list[Event]:
    fan = FanOutPipeline([member("B", turn(call("build", "b1"), 2), turn("b", 3)), member("C", turn("c", 4))])
    return await recorded(SequentialPipeline([member("A", turn("a", 1)), fan, member("D", turn("d", 5))]).stream("go"))


async def handoffs() -> list[Event]:
    front = member("Front", turn(call("transfer_to_back", "h1"), 1), "never")
    back = member("Back", turn(call("build", "b1"), 2), turn("Back says.", 3))
    return await recorded(Handoffs("Desk", [front, back]).stream("go"))


def folded(seen: list[Event]) -> ChatUsage:
    """The usage of the replies of all outermost runs."""
    outermost = dict.fromkeys(event.path[0] for event in seen if event.path)
    runs = ([event for event in seen if event.path[:1] == (each,)] for each in outermost)
    return sum((fold(run).usage or ChatUsage() for run in runs), ChatUsage())


@pytest.mark.parametrize("log", [promoted, left, hub, pipeline, handoffs], ids=lambda log: log.__name__)
def test_each_call_has_one_lane(log: Callable[[], Coroutine[object, object, list[Event]]]):
    seen = run_virtual(log())
    timeline = timeline_of(seen)
    lanes, totals = list(timeline.walk()), timeline.totals
    asked = sum(isinstance(event, PreReasoningEvent) for event in seen)
    assert asked == totals.model_calls == sum(lane.kind == "model" for lane in lanes)
    calls = Counter(event.tool_use.id for event in seen if isinstance(event, PreActingEvent))
    assert calls == Counter(lane.id for lane in lanes if lane.kind == "tool")
    assert set(calls.values()) <= {1} and totals.tool_calls == len(calls)
    models = [lane.usage for lane in lanes if lane.kind == "model"]
    answers = (event.usage for event in seen if isinstance(event, PostReasoningEvent) and event.usage)
    assert totals.usage == sum(models, ChatUsage()) == sum(answers, ChatUsage())
    # (what a job uses behind its run is in no reply)
    assert totals.usage == folded(seen) + (ChatUsage(1000, 3) if log is left else ChatUsage())
    runs = {event.run_id for event in seen if isinstance(event, PreCallEvent)}
    assert runs == {lane.id for lane in lanes if lane.kind == "run"}
    assert all(lane.end is not None for lane in lanes)


def drawn(timeline: Timeline) -> list[str]:
    return ["".join(cell.text for cell in line).rstrip() for line in timeline_lines(timeline, Look(width=100))]


def test_a_promoted_call_has_its_tokens_once():
    lanes = list(timeline_of(run_virtual(promoted())).walk())
    first, job = (
        next(lane for lane in lanes if lane.kind == kind and lane.name == "call_expert") for kind in ("tool", "job")
    )
    (expert,) = job.lanes
    assert first.usage == ChatUsage() and job.usage == expert.usage == ChatUsage(1100, 5)


def test_the_result_of_a_job_is_named():
    timeline = timeline_of(run_virtual(promoted()))
    job = {lane.name: lane.id for lane in timeline.walk() if lane.kind == "job"}
    (row,) = (line for line in drawn(timeline) if line.startswith("Friday"))
    assert row.endswith(f"input: build {job['build']} completed; input: call_expert {job['call_expert']} completed")


@pytest.mark.parametrize("metadata", [{}, {"background": "x"}, {"background": {"tool": "a", "job": 3}}])
def test_other_input_is_its_text(metadata: dict[str, object]):
    assert input_line(Msg.user("one\ntwo").replace(metadata=metadata)) == "one two"


def test_members_in_turn_share_an_axis():
    lines = drawn(timeline_of(run_virtual(hub())))
    assert lines[0].endswith("  3 runs") and not any(line.endswith(" later") for line in lines)
    assert sum(" time │" in line for line in lines) == 1


def test_many_runs_in_turn_have_several_axes():
    async def main() -> list[Event]:
        agent = member("Ann", *(turn("a", 1) for _ in range(20)))
        return await recorded(*(agent.stream("go") for _ in range(20)))

    lines = drawn(timeline_of(run_virtual(main())))
    assert sum(" time │" in line for line in lines) == 3
