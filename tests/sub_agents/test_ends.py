"""Whatever ends a run, its sub-agents end first: memories are whole, flags free, nothing is left."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx import ExecutionConfig, GenerateReason, GracefulShutdown, ReActAgent, UsageLimits
from agentscope_rx.errors import AgentShuttingDownError, RunDeadlineError
from agentscope_rx.events import ActingChunkEvent, Event
from agentscope_rx.messages import ToolResultKind
from agentscope_rx.sub_agents import SubAgent, SubagentsHook
from agentscope_rx.testing import HANG, Delay, ScriptedModel, call, collect_dropped, run_virtual
from tests.agent.parts import remembered
from tests.agent.sub.parts import assert_all_whole, child_of, history
from tests.sub_agents.parts import INTERRUPTED, Log, assert_free, boss, helper, said, send, spawn
from tests.support.assertions import results_in


def nested(log: Log) -> ReActAgent:
    """Two side by side, one of which has started another one; each takes its time."""
    low = helper([Delay(1), call("slow", seconds=2)], [Delay(1), "low"], name="low", tools=["slow"])
    mid = helper([Delay(1), spawn("l", "low", label="deep")], "mid", name="mid", spawns=True)
    flat = helper([Delay(1), call("slow", seconds=3)], "flat", name="flat", tools=["slow"])
    calls = [spawn("m", "mid"), spawn("f", "flat")]
    return boss(SubagentsHook(low, mid, flat), calls, [Delay(1), "Done."], "Again.", tools=[log])


async def assert_ended(agent: ReActAgent, log: Log) -> None:
    await agent.idle()
    await assert_all_whole(agent.conversation(), remembered(agent))
    assert_free(agent)
    assert log.done.count("began") == log.done.count("ended")
    # the conversation goes on
    agent.model = ScriptedModel("Again.")
    assert (await agent.call("again")).text == "Again."


def test_a_success():
    log = Log()

    async def main() -> None:
        agent = nested(log)
        assert (await agent.call("go")).text == "Done."
        assert said(agent)["m"][1].endswith("mid") and said(agent)["f"][1].endswith("flat")
        await assert_ended(agent, log)

    run_virtual(main())


@pytest.mark.parametrize("at", [step / 4 for step in range(26)])
def test_a_disposal_at_each_point(at: float):
    log = Log()

    async def main() -> None:
        agent = nested(log)
        subscription = agent.stream("go").subscribe()
        await asyncio.sleep(at)
        subscription.dispose()
        await assert_ended(agent, log)

    run_virtual(main())


@pytest.mark.parametrize("at", [step / 4 for step in range(26)])
def test_an_interruption_at_each_point(at: float):
    log = Log()

    async def main() -> None:
        agent = nested(log)
        task = agent.call("go").as_task()
        await asyncio.sleep(at)
        interrupted = agent.interrupt()
        reply = await task
        assert (reply.generate_reason is GenerateReason.INTERRUPTED) or not interrupted or at >= 6
        await assert_ended(agent, log)

    run_virtual(main())


@pytest.mark.parametrize("deadline", [1.5, 2.5, 4.5])
def test_a_deadline_of_the_parent(deadline: float):
    log = Log()

    async def main() -> None:
        agent = nested(log)
        with pytest.raises(RunDeadlineError):
            await agent.call("go", limits=UsageLimits(deadline=deadline))
        await assert_ended(agent, log)

    run_virtual(main())


def test_a_deadline_of_its_own_is_a_result():
    async def main() -> None:
        agent = boss(helper([HANG], limits=UsageLimits(deadline=5)), spawn("s"), "Done.")
        assert (await agent.call("go")).text == "Done."
        kind, text = said(agent)["s"]
        assert kind is not None and "5 s" in text and child_of(agent).id in text
        assert_free(agent)

    run_virtual(main())


def test_a_failure_of_one_leaves_the_others():
    async def main() -> None:
        bad = helper(RuntimeError("no luck"), "Better now.", name="bad")
        hook = SubagentsHook(helper([Delay(1), "fine"]), bad)
        agent = boss(hook, [spawn("b", "bad", label="b"), spawn("s")], send("t", "b"), "Done.")
        assert (await agent.call("go")).text == "Done."
        assert said(agent)["b"][0] is ToolResultKind.FAILED and "no luck" in said(agent)["b"][1]
        assert said(agent)["s"][1].endswith("fine") and said(agent)["t"][1].endswith("Better now.")
        await assert_all_whole(agent.conversation(), remembered(agent))

    run_virtual(main())


def test_an_interrupted_one_keeps_its_words_and_goes_on():
    log = Log()

    async def main() -> None:
        agent = boss(helper(call("slow"), "Better late."), spawn("s", label="h"), tools=[log])
        task = agent.call("go").as_task()
        await asyncio.sleep(1)
        agent.interrupt()
        await task
        kind, text = said(agent)["s"]
        assert kind is INTERRUPTED and "status: interrupted\nlabel: h\nconversation_id: " in text
        assert [kind for kind, _ in results_in(await history(child_of(agent))).values()] == [INTERRUPTED]
        agent.model = ScriptedModel(send("t", "h"), "Done.")
        await agent.call("go on")
        assert said(agent)["t"][1].endswith("Better late.")

    run_virtual(main())


def test_a_shutdown_cuts_it_off_and_it_goes_on():
    log = Log()

    async def main() -> None:
        shutdown = GracefulShutdown(timeout=2, grace=20)
        turns = (call("slow", seconds=60), "Helped.")
        agent = boss(helper(*turns), spawn("s"), "Done.", tools=[log], shutdown=shutdown)
        task = agent.call("go").as_task()
        await asyncio.sleep(1)
        await shutdown.begin()
        with pytest.raises(AgentShuttingDownError):
            await task
        assert_free(agent)
        assert [each.name for each in await agent.pending_calls()] == ["agent_spawn"]
        agent.shutdown = None
        assert (await agent.call()).text == "Done."
        assert said(agent)["s"][1].endswith("Helped.")
        await assert_ended(agent, log)

    run_virtual(main())


def test_a_slow_reader_gets_all_of_it():
    log = Log()

    async def main() -> None:
        agent = nested(log)
        events: list[Event] = []
        async for event in agent.stream("go"):
            await asyncio.sleep(0.2)
            events.append(event)
        assert events[-1].message.text == "Done."  # pyright: ignore[reportAttributeAccessIssue]
        assert {len(event.path) for event in events} == {1, 3, 5}
        await assert_ended(agent, log)

    run_virtual(main())


def test_a_subscriber_that_raises_ends_all_levels():
    log = Log()

    async def main() -> None:
        agent = nested(log)

        def boom(event: Event) -> None:
            if isinstance(event, ActingChunkEvent) and len(event.path) == 3:
                raise RuntimeError("mine")

        with collect_dropped() as dropped:
            agent.stream("go").subscribe(boom)
            await asyncio.sleep(20)
        assert any("mine" in str(each) for each in dropped)
        await assert_ended(agent, log)

    run_virtual(main())


def test_a_tool_timeout_bounds_a_call():
    log = Log()

    async def main() -> None:
        agent = boss(helper(call("slow"), "late"), spawn("s"), "Done.", tools=[log])
        tool = agent.toolkit.get("agent_spawn")
        assert tool is not None
        tool.execution_config = ExecutionConfig(timeout=2)
        assert (await agent.call("go")).text == "Done."
        assert said(agent)["s"][0] is ToolResultKind.TIMEOUT
        await assert_ended(agent, log)

    run_virtual(main())


# --- random lives -----------------------------------------------------------------------------------------------------

STEP = st.sampled_from(["text", "slow", "look", "spawn", "two", "send", "list", "delete", "unknown"])
SCRIPT = st.lists(STEP, max_size=3)
WAY = st.sampled_from(["call", "call", "dispose", "interrupt", "deadline"])


def turns_of(steps: list[str], level: str) -> list[object]:
    found: list[object] = []
    for number, step in enumerate(steps):
        id = f"{level}{number}"
        made: dict[str, object] = {
            "text": [Delay(0.5), "text"],
            "slow": [Delay(0.25), call("slow", id, seconds=1)],
            "look": call("look", id, path="x"),
            "delete": call("delete", id, path="x"),
            "spawn": spawn(id, "again", label=f"{id}"),
            "two": [spawn(f"{id}a", "again"), spawn(f"{id}b", "leaf")],
            "send": send(id, "again-1"),
            "list": call("agent_list", id),
            "unknown": spawn(id, "gone"),
        }
        found.append(made[step])
    return [*found, "end"]


@given(SCRIPT, SCRIPT, SCRIPT, st.lists(st.tuples(WAY, st.integers(0, 24)), min_size=1, max_size=4), st.booleans())
@settings(max_examples=120, deadline=None)
def test_random_lives_leave_nothing_behind(
    top: list[str], mid: list[str], low: list[str], lives: list[tuple[str, int]], spawns: bool
):
    log = Log()

    async def main() -> None:
        again = SubAgent(
            "again", "Again.", "Again.", model=ScriptedModel(*turns_of(mid, "m"), repeat=True), spawns=spawns
        )
        leaf = SubAgent("leaf", "Leaf.", "Leaf.", model=ScriptedModel(*turns_of(low, "l"), repeat=True))
        agent = ReActAgent(
            "Boss",
            ScriptedModel(*turns_of(top, "t"), repeat=True),
            tools=[log],
            hooks=[SubagentsHook(again, leaf)],
            max_iters=5,
        )
        for way, at in lives:
            limits = UsageLimits(deadline=0.1 + at / 8) if way == "deadline" else None
            task = agent.call("go", limits=limits).as_task()
            if way in ("dispose", "interrupt"):
                await asyncio.sleep(at / 8)
                _ = task.cancel() if way == "dispose" else agent.interrupt()
            with suppress(RunDeadlineError, asyncio.CancelledError):
                await task
            await agent.idle()
            assert_free(agent)
        assert log.done.count("began") == log.done.count("ended")
        # what waits is closed by a call that goes on
        agent.model = ScriptedModel("Bye.")
        await agent.call("bye")
        await assert_all_whole(agent.conversation(), remembered(agent))

    run_virtual(main())
