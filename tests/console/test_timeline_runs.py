"""What becomes lanes: waits, approvals, lost runs, compactions, work in the background, hubs, clocks that jump."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from reactivex import operators as ops

from agentscope_rx import Approve, ReActAgent, Toolkit, tool
from agentscope_rx.console.timeline import Lane, TimelineFold, timeline_of
from agentscope_rx.errors import AgentScopeError
from agentscope_rx.events import (
    ActingChunkEvent,
    BackgroundEvent,
    ContextEvent,
    ErrorEvent,
    Event,
    HubEvent,
    InputEvent,
    PostActingEvent,
    PostCallEvent,
    PostReasoningEvent,
    PreActingEvent,
    PreCallEvent,
    PreReasoningEvent,
    ReasoningChunkEvent,
    ResumedRun,
    RetryEvent,
    fold,
)
from agentscope_rx.messages import ChatUsage, Msg, TextBlock, ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.models import RateLimitedModel
from agentscope_rx.reactive import Rate
from agentscope_rx.testing import HANG, Delay, ScriptedModel, call, run_virtual
from tests.agent.parts import slow
from tests.console.logs import at, busy_log, on_the_clock
from tests.support.assertions import in_cpu_time

CALL = ToolUseBlock("c", "work", {"n": 1})


def lane(events: list[Event], kind: str, name: str = "") -> Lane:
    """The only lane of this kind."""
    (found,) = (each for each in timeline_of(events).walk() if each.kind == kind and name in each.name)
    return found


def done(seconds: float, *path: str, use: ToolUseBlock = CALL, **fields: Any) -> Event:
    message = Msg.tool(ToolResultBlock(use.id, use.name, "done", fields.pop("kind", None)))
    return at(seconds, PostActingEvent, *path, tool_use=use, message=message, **fields)


def recorded(main: Any) -> list[Event]:
    seen: list[Event] = []

    async def record() -> None:
        async for stream in main():
            with contextlib.suppress(AgentScopeError):
                await on_the_clock(stream).pipe(ops.do_action(seen.append))

    run_virtual(record())
    return seen


# --- real runs --------------------------------------------------------------------------------------------------------


def test_a_wait_for_approval_lies_between_two_runs():
    @tool(requires_approval=True)
    async def send() -> str:
        """Sends."""
        return "sent"

    async def main():
        inner = ReActAgent("Inner", ScriptedModel(call("send"), "It is sent."), toolkit=Toolkit([send]))
        agent = ReActAgent("Friday", ScriptedModel(call("call_inner", message="x"), "Done."), tools=[inner.as_tool()])
        seen: list[Event] = []
        yield agent.stream("Send it.").pipe(ops.do_action(seen.append))
        last = seen[-1]
        assert isinstance(last, PostCallEvent)
        await asyncio.sleep(60)
        yield agent.stream([Approve(each.id) for each in last.message.pending_calls])

    events = recorded(main)
    first, second = timeline_of(events).lanes
    (wait,) = second.waits
    assert (first.state, first.outcome, second.state) == ("waiting", "approval_required", "done")
    assert (wait.kind, wait.text, wait.begin, wait.end) == ("approval", "send", first.last, second.begin)
    assert second.waited == 0 and second.text == "approve: send" and wait.seconds == 60
    assert timeline_of(events).totals.between == 60
    waiting = [each.name for each in first.walk() if each.state == "waiting"]
    assert waiting == ["Friday", "call_inner", "Inner"]


def test_a_wait_for_a_rate_limit_is_in_the_model_call():
    async def main():
        model = RateLimitedModel(ScriptedModel([Delay(1), "a"], [Delay(1), "b"]), rate=Rate(1, per=10.0))
        agent = ReActAgent("Friday", model)
        yield agent.stream("one")
        yield agent.stream("two")

    _, second = (each for each in timeline_of(recorded(main)).walk() if each.kind == "model")
    assert [(wait.kind, wait.seconds) for wait in second.waits] == [("queue", pytest.approx(9.0))]
    assert (second.first_chunk, second.seconds) == (pytest.approx(10.0), pytest.approx(10.0))


def test_an_interrupted_run_closes_what_is_open():
    async def main():
        agent = ReActAgent("Friday", ScriptedModel(call("slow", seconds=60.0)), tools=[slow])
        asyncio.get_running_loop().call_later(2, agent.interrupt)
        yield agent.stream("go")

    (run,) = timeline_of(recorded(main)).lanes
    assert {each.kind: each.state for each in run.walk()} == {
        "run": "interrupted",
        "round": "done",
        "model": "done",
        "tool": "interrupted",
    }


def test_a_model_that_fails_has_the_error():
    async def main():
        yield ReActAgent("Friday", ScriptedModel([Delay(1), AgentScopeError("no\x07answer")])).stream("go")

    events = recorded(main)
    run, model = lane(events, "run"), lane(events, "model")
    assert (run.state, model.state) == ("failed", "failed") and timeline_of(events).ended
    assert run.error == model.error == "AgentScopeError: no\\x07answer"


def test_a_run_that_was_left_has_no_end():
    async def main():
        yield ReActAgent("Friday", ScriptedModel(["a", Delay(1), "b", HANG])).stream("go").pipe(ops.take(4))

    timeline = timeline_of(recorded(main))
    assert not timeline.ended and {each.state for each in timeline.walk()} == {"open"} and timeline.seconds == 1.0


# --- events by hand ---------------------------------------------------------------------------------------------------


def test_a_lost_run_ends_where_another_one_goes_on():
    seen = [
        at(0, PreCallEvent, "a"),
        at(0, PreReasoningEvent, "a"),
        at(2, PostReasoningEvent, "a", usage=ChatUsage(10, 1)),
        at(2, PreActingEvent, "a", tool_use=CALL),
        at(9, PreCallEvent, "b", resumes=ResumedRun("a", 1)),
        at(9, PreReasoningEvent, "b", iteration=1),
        at(10, PostReasoningEvent, "b", iteration=1, usage=ChatUsage(20, 2)),
    ]
    lost, resumed = timeline_of(seen).lanes
    assert {each.state for each in lost.walk()} == {"lost", "done"} and lost.last == 2
    assert resumed.text == "goes on from the lost run a"
    assert timeline_of(seen).totals.usage == fold(seen).usage == ChatUsage(30, 3)
    seen.append(at(11, PostCallEvent, "b", usage=ChatUsage(25, 3)))
    assert timeline_of(seen).totals.usage == fold(seen).usage == ChatUsage(25, 3)


def test_a_compaction_lies_between_two_stages():
    seen = [
        at(0, PreCallEvent),
        at(3, ContextEvent, step="summarize", tokens_before=81_000, tokens_after=12_300, usage=ChatUsage(9, 1)),
        at(4, ContextEvent, step="shorten", error="too long"),
        at(4, PreReasoningEvent),
    ]
    first, second = (each for each in timeline_of(seen).walk() if each.kind == "compaction")
    assert (first.begin, first.last, first.text, first.state) == (0, 3, "81,000 -> 12,300 tokens", "done")
    assert (second.begin, second.last, second.error) == (3, 4, "too long")
    totals = timeline_of(seen).totals
    assert (totals.models, totals.tools, totals.usage) == (3, 1, ChatUsage(9, 1))


def test_work_in_the_background_goes_on_behind_its_run():
    job = {"job": "j1", "tool_use": CALL}
    seen = [
        at(0, PreCallEvent, "a"),
        at(0, PreActingEvent, "a", tool_use=CALL),
        at(0, PreCallEvent, "a", "c", "s", agent="Inner"),
        at(2, BackgroundEvent, "a", state="promoted", elapsed=2.0, **job),
        done(2, "a"),
        at(3, PostCallEvent, "a"),
        at(10, PreCallEvent, "b"),
        at(11, PreReasoningEvent, "b", "c", "s", agent="Inner"),
        at(12, ActingChunkEvent, "b", "c", "j1", tool_use=CALL, is_last=True),
        at(12, PostCallEvent, "b", "c", "s", agent="Inner"),
        at(12, BackgroundEvent, "b", state="completed", elapsed=12.0, **job),
        done(12, "b", "c", "j1"),
        at(13, PostCallEvent, "b"),
    ]
    first, second = timeline_of(seen).lanes
    assert second.lanes == () and first.last == 3 and timeline_of(seen).ended
    work, inner = lane(seen, "job"), lane(seen, "run", "Inner")
    assert (work.id, work.begin, work.end, work.state, work.lanes) == ("j1", 0, 12, "done", (inner,))
    assert (inner.end, inner.state) == (12, "done")
    (foreground,) = (each for each in first.walk() if each.kind == "tool")
    assert (foreground.seconds, foreground.lanes) == (2, ())


@pytest.mark.parametrize(("state", "shown"), [("failed", "failed"), ("stopped", "interrupted"), ("in_doubt", "lost")])
def test_work_in_the_background_has_its_end(state: str, shown: str):
    job = {"job": "j1", "tool_use": CALL}
    result = ToolResultBlock.error(CALL, ToolResultKind.FAILED, "no")
    seen = [at(0, PreCallEvent), at(1, BackgroundEvent, state="started", **job)]
    seen.append(at(5, BackgroundEvent, state=state, result=result, elapsed=4.0, **job))
    work = lane(seen, "job")
    assert (work.state, work.seconds, work.error) == (shown, 4, "Error: no")
    assert timeline_of(seen).totals.tools == 4


def test_messages_of_a_hub_are_marks():
    said = {"hub": "table", "member": "Ann", "heard_by": ("Bob",)}
    inside = [at(0, PreCallEvent), at(1, HubEvent, **said), at(2, HubEvent, **said)]
    outside = [HubEvent(timestamp=5, **said), HubEvent(timestamp=6, **said)]
    for seen in (inside, outside):
        hub = lane(seen, "hub")
        assert hub.name == "table" and [mark.text for mark in hub.marks] == ["hub table: Ann said, heard by Bob"] * 2
        assert hub.seconds == 1


def test_input_to_a_run_is_a_mark():
    run = lane([at(0, PreCallEvent), at(1, InputEvent, input=(Msg.user("Only\ndirect flights."),))], "run")
    assert [(mark.kind, mark.at, mark.text) for mark in run.marks] == [("input", 1, "Only direct flights.")]


def test_the_delay_of_an_attempt_ends_with_its_step():
    retry = {"stage": "tool", "tool_use_id": "c", "delay": 60.0, "error_type": "OSError", "error_text": "no"}
    seen = [at(0, PreCallEvent), at(0, PreActingEvent, tool_use=CALL), at(1, RetryEvent, **retry)]
    assert lane(seen, "tool").waited == 0
    work = lane([*seen, done(3, kind=ToolResultKind.INTERRUPTED)], "tool")
    assert (work.attempts, work.waited, work.state) == (2, 2, "interrupted")


def test_a_clock_that_is_set_back_does_not_turn_time_around():
    times = [10, 11, 12, 5, 6, 7]
    seen = [at(each, RetryEvent) for each in times]
    timeline = timeline_of([at(10, PreCallEvent), *seen])
    assert timeline.clock_jumps == 1 and [mark.at for mark in timeline.lanes[0].marks] == [0, 1, 2, 2, 3, 4]


@pytest.mark.parametrize("time", [float("nan"), float("inf"), -1e300, 1e300])
def test_times_that_are_none_do_not_count(time: float):
    seen = [at(0, PreCallEvent), at(1, RetryEvent), RetryEvent(source=at(0, PreCallEvent).source, timestamp=time)]
    assert timeline_of(seen).seconds == 1


def test_a_log_may_begin_anywhere():
    seen = [
        at(5, ReasoningChunkEvent, "a", "c", "s", iteration=3, delta=TextBlock("x")),
        at(6, PostReasoningEvent, "a", "c", "s", iteration=3),
        at(7, ActingChunkEvent, "a", "c", "s", iteration=3, tool_use=CALL, is_last=True),
        done(7, "a", "c", "s", iteration=3),
        at(8, PostCallEvent, "a", "c", "s"),
    ]
    (run,) = timeline_of(seen).lanes
    assert [(each.kind, each.name, each.state) for each in run.walk()] == [
        ("run", "Friday", "done"),
        ("round", "4", "done"),
        ("model", "", "done"),
        ("tool", "work", "done"),
    ]


def test_an_id_of_a_call_may_come_again():
    seen = [at(0, PreCallEvent)]
    for number in range(3):
        seen += [at(number, PreActingEvent, iteration=number, tool_use=CALL), done(number + 0.5, iteration=number)]
    seen.append(done(4, iteration=3, kind=ToolResultKind.REJECTED))
    tools = [each for each in timeline_of(seen).walk() if each.kind == "tool"]
    assert [(each.seconds, each.state, each.outcome) for each in tools] == [(0.5, "done", "")] * 3 + [
        (0, "failed", "rejected")
    ]


def test_an_error_may_follow_the_reply():
    seen = [at(0, PreCallEvent), at(1, PostCallEvent), at(2, ErrorEvent, error_type="SessionError", error_text="full")]
    run = lane(seen, "run")
    assert (run.state, run.error, run.end) == ("failed", "SessionError: full", 1)


def test_lanes_beyond_the_most_are_counted():
    made, seen = TimelineFold(max_lanes=6), busy_log()
    for event in seen:
        made.add(event)
    whole, cut = timeline_of(seen), made.timeline
    assert len(list(cut.walk())) == 6 and sum(each.omitted for each in cut.walk()) >= 2
    assert cut.totals == whole.totals
    for number in range(9):
        made.add(at(number, PreCallEvent, f"r{number}"))
        made.add(at(number + 0.5, PostCallEvent, f"r{number}", usage=ChatUsage(1, 0)))
    assert made.timeline.omitted == 9
    assert made.timeline.totals.usage.input_tokens == whole.totals.usage.input_tokens + 9


def test_runs_nested_without_end_are_bounded():
    path, seen = ("r",), list[Event]()
    for number in range(200):
        seen.append(at(number, PreCallEvent, *path))
        path = (*path, "c", f"r{number}")
    timeline = timeline_of(seen)
    assert len(list(timeline.walk())) == 200 and timeline.to_dict()


def test_the_cost_of_an_event_does_not_grow():
    use = [ToolUseBlock(f"c{number}", "work") for number in range(25_000)]

    def run() -> None:
        made = TimelineFold()
        made.add(at(0, PreCallEvent))
        for number, each in enumerate(use):
            made.add(at(number, PreReasoningEvent, iteration=number))
            made.add(at(number, PreActingEvent, iteration=number, tool_use=each))
            made.add(done(number + 0.5, iteration=number, use=each))
            made.add(at(number, RetryEvent))
        assert made.timeline.totals.tool_calls == 25_000

    in_cpu_time(run, 30.0)
