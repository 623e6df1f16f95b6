"""How runs and their work in the background end: by themselves, by policy, by interruption, disposal and shutdown."""

from __future__ import annotations

import asyncio
import gc
from typing import Any
from weakref import ref

import pytest

from agentscope_rx import (
    BackgroundHook,
    GracefulShutdown,
    InMemoryMemory,
    InMemorySession,
    ReActAgent,
    UsageLimits,
    tool,
)
from agentscope_rx.agent.background.job import Job
from agentscope_rx.agent.background.jobs import KEPT_ENDED
from agentscope_rx.errors import AgentShuttingDownError, InvalidInputError, RunEndedError
from agentscope_rx.events import ActingChunkEvent, BackgroundEvent, InputEvent
from agentscope_rx.messages import GenerateReason
from agentscope_rx.testing import HANG, Delay, ScriptedModel, collect_dropped, run_virtual
from tests.agent.background.parts import RUNS, agent, ends_in, events_of, states, use
from tests.agent.parts import assert_whole


def friday(*turns: Any, wait: Any = "wait", **options: Any) -> ReActAgent:
    RUNS.clear()
    return agent(*turns, background=True, hooks=[BackgroundHook(wait=wait)], **options)


def now() -> float:
    return asyncio.get_running_loop().time()


# --- the policy -----------------------------------------------------------------------------------------------------


def test_leave_ends_the_run_and_the_next_call_gets_the_result():
    async def main():
        one = friday(use("work"), "I go.", "There it is.", wait="leave")
        assert (await one.call("go")).text == "I go." and now() == pytest.approx(0)
        assert one.background().in_progress and await ends_in(one) == []
        await one.background().wait()
        events = await events_of(one, "and?")
        assert await ends_in(one) == [("completed", "w is done")] and states(events) == ["completed"]
        shown = [event.type for event in events[:5]]
        assert shown == ["pre_call", "acting_chunk", "background", "post_acting", "input"]

    run_virtual(main())


def test_what_is_left_is_shown_by_the_next_run():
    async def main():
        one = friday(use("parts", count=9), "I go.", [Delay(3), "x"], "y", wait="leave")
        await one.call("go")
        await asyncio.sleep(4.5)
        events = await events_of(one, "and?")
        chunks = [event for event in events if isinstance(event, ActingChunkEvent)]
        assert [chunk.chunk.text for chunk in chunks] == [f"part {n}" for n in range(7)]
        assert {chunk.path[0] for chunk in chunks} == {events[0].run_id}
        one.background().stop()

    run_virtual(main())


def test_stop_stops_at_the_end_and_the_next_call_is_told():
    async def main():
        one = friday(use("work"), "I go.", "Oh.", wait="stop")
        await one.call("go")
        await asyncio.sleep(0)
        assert RUNS == ["w begun", "w cancelled"]
        await one.call("and?")
        assert (await ends_in(one))[0][0] == "stopped"

    run_virtual(main())


def test_input_wakes_a_run_that_waits():
    async def main():
        one = friday(use("work"), "I wait.", "Hello.", "Done.")
        task = asyncio.ensure_future(events_of(one, "go"))
        await asyncio.sleep(1)
        one.enqueue("Are you there?")
        events = await task
        assert next(event.input[0].text for event in events if isinstance(event, InputEvent)) == "Are you there?"
        assert events[-1].message.text == "Done." and now() == pytest.approx(5)
        with pytest.raises(RunEndedError):
            one.enqueue("more")

    run_virtual(main())


@pytest.mark.parametrize("limit", [{"max_iters": 2}, {"limits": UsageLimits(model_calls=2)}])
def test_a_run_without_further_rounds_leaves_the_work(limit: dict[str, Any]):
    async def main():
        one = friday(use("work"), "I wait.", **limit)
        assert (await one.call("go")).text == "I wait." and now() == pytest.approx(0)
        assert len(one.background().in_progress) == 1
        one.background().stop()

    run_virtual(main())


# --- ends from outside ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", [0.5, 1.0, 2.5, 4.0])
def test_an_interruption_leaves_work_in_the_background(moment: float):
    async def main():
        RUNS.clear()
        one = agent(use("work"), [Delay(1), "I wait."], "x", background=1)
        task = asyncio.ensure_future(events_of(one, "go"))
        await asyncio.sleep(moment)
        assert one.interrupt()
        events = await task
        assert events[-1].message.generate_reason is GenerateReason.INTERRUPTED and now() == pytest.approx(moment)
        assert_whole(one)
        await asyncio.sleep(9)
        if moment < 1:
            assert RUNS == ["w begun", "w cancelled"] and not one.background().all
            return
        assert RUNS[:2] == ["w begun", "w done"]
        one.model = ScriptedModel("There.", "x")
        await one.call("and?")
        assert await ends_in(one) == [("completed", "w is done")]

    run_virtual(main())


@pytest.mark.parametrize("moment", [0.5, 1.0, 1.5, 2.5, 4.0])
def test_a_disposal_leaves_work_in_the_background(moment: float):
    async def main():
        RUNS.clear()
        one = agent(use("work"), [Delay(1), "I wait."], "x", background=1)
        seen: list[Any] = []
        subscription = one.stream("go").subscribe(seen.append)
        await asyncio.sleep(moment)
        subscription.dispose()
        await one.idle()
        assert_whole(one)
        assert not one.running
        await asyncio.sleep(9)
        assert RUNS[1] == ("w cancelled" if moment < 1 else "w done")
        one.model = ScriptedModel("There.", "x")
        await one.call("and?")
        assert await ends_in(one) == ([] if moment < 1 else [("completed", "w is done")])

    run_virtual(main())


def test_a_disposal_stops_it_under_the_policy_stop():
    async def main():
        one = friday(use("work"), HANG, wait="stop")
        subscription = one.stream("go").subscribe(lambda event: None)
        await asyncio.sleep(1)
        subscription.dispose()
        await one.idle()
        await asyncio.sleep(0)
        assert RUNS == ["w begun", "w cancelled"] and not one.background().in_progress

    run_virtual(main())


def test_a_throwing_subscriber_leaves_memory_whole():
    async def main():
        one = friday(use("parts", count=4), "I wait.", "x")

        def throw(event: object) -> None:
            if isinstance(event, ActingChunkEvent) and event.depth:
                raise ValueError("mine")

        with collect_dropped() as dropped:
            one.stream("go").subscribe(throw)
            await asyncio.sleep(2)
            await one.idle()
        assert dropped.where == ["a subscriber's callback"]
        assert_whole(one)
        await one.background().wait()
        await one.call("and?")
        assert await ends_in(one) == [("completed", "part 3")]

    run_virtual(main())


def test_a_slow_reader_slows_the_work_and_no_queue_grows():
    async def main():
        made: list[int] = []

        @tool(background=True)
        async def flood():
            for number in range(2000):
                made.append(number)
                yield f"{number}"

        one = agent(use("flood"), "I wait.", *["x"] * 3, tools=[flood])
        seen = 0
        async for event in one.stream("go"):
            seen += isinstance(event, ActingChunkEvent) and event.depth > 0
            if seen == 5:
                await asyncio.sleep(1)
                assert len(made) < 1000
        assert len(made) == 2000 and seen == 2001

    run_virtual(main())


def test_without_a_run_the_log_keeps_the_last_items():
    async def main():
        @tool(background=True)
        async def flood():
            for number in range(2000):
                yield f"{number}"
            await asyncio.sleep(1)

        one = friday(use("flood"), "I go.", wait="leave", tools=[flood])
        await one.call("go")
        await one.background().wait()
        (job,) = one.background().all
        assert len(job.log.values) <= 256
        assert job.read()[-1].output[0].text == "1999"

    run_virtual(main())


def test_a_deadline_ends_a_run_that_waits_with_its_answer():
    async def main():
        one = friday(use("work"), "I wait.")
        reply = await one.call("go", limits=UsageLimits(deadline=3, on_limit="summary", summary_reserve=1))
        assert reply.text == "I wait." and now() == pytest.approx(2)
        one.background().stop()

    run_virtual(main())


def test_a_shutdown_hands_the_work_over():
    async def main():
        session = InMemorySession()
        shutdown = GracefulShutdown(timeout=1, grace=1)
        one = friday(use("work"), "I wait.", shutdown=shutdown, session=session, session_key="k")
        task = asyncio.ensure_future(events_of(one, "go"))
        await asyncio.sleep(1)
        report = await shutdown.begin()
        assert (await task)[-1].message.text == "I wait." and not report.undrained and not report.stuck
        assert RUNS == ["w begun", "w cancelled"]
        with pytest.raises(AgentShuttingDownError):
            await one.call("more")
        other = friday("It is in doubt.", "x", session=session, session_key="k")
        await other.call("and?")
        assert [state for state, _ in await ends_in(other)] == ["in_doubt"]

    run_virtual(main())


@pytest.mark.parametrize("levels", [1, 2])
def test_a_shutdown_reaches_the_work_of_sub_agents_alone(levels: int):
    async def main():
        shutdown = GracefulShutdown(timeout=1, grace=1)
        inner = friday(use("work"), "I have begun.", wait="leave")
        for level in range(levels):
            last = level == levels - 1
            ask = inner.as_tool("ask", "Asks.")
            model = ScriptedModel(use("ask", message="m"), "Asked.")
            inner = ReActAgent(f"boss{level}", model, tools=[ask], shutdown=shutdown if last else None)
        assert (await inner.call("go")).text == "Asked."
        assert RUNS == ["w begun"] and len(inner.background().in_progress_within) == 1
        report = await shutdown.begin()
        assert RUNS == ["w begun", "w cancelled"] and not report.undrained
        assert inner.background().in_progress_within == ()

    run_virtual(main())


def test_overlapping_runs_show_and_get_each_job_once():
    async def main():
        one = agent(
            use("work", "a", name="a"),
            use("work", "b", name="b"),
            *["x"] * 6,
            background=True,
            check_running=False,
            hooks=[BackgroundHook()],
        )
        shown = await asyncio.gather(events_of(one, "one"), events_of(one, "two"))
        assert sorted(await ends_in(one)) == [("completed", "a is done"), ("completed", "b is done")]
        told = [event for events in shown for event in events if isinstance(event, BackgroundEvent)]
        ends = [event.job for event in told if event.result is not None]
        assert len(ends) == 2 and len(set(ends)) == 2

    run_virtual(main())


def test_programs_list_stop_and_wait():
    async def main():
        one = friday([use("work", "a", name="a"), use("work", "b", seconds=9)], "I go.", "x", wait="leave")
        assert one.background().all == ()
        await one.call("go")
        jobs = one.background()
        first, second = jobs.all
        await jobs.wait(until="any")
        assert (first.state, second.state) == ("completed", "running") and now() == pytest.approx(5)
        assert jobs.stop(second.id) == (second.id,) and jobs.stop() == ()
        await jobs.wait(first.id, timeout=1)
        with pytest.raises(InvalidInputError, match="There is no background job 'nope'"):
            jobs.stop("nope")
        with pytest.raises(RunEndedError):
            jobs.send(first.id, "hi")
        assert one.background(memory=InMemoryMemory()).all == ()

    run_virtual(main())


def test_a_shared_run_holds_its_jobs_events():
    async def main():
        one = friday(use("parts", count=3), "I wait.", "x")
        run = one.start("go")
        await run.result()
        events = [event async for event in run.events()]
        assert states(events) == ["started", "completed"] and events[-1].type == "post_call"
        again = [event async for event in run.events(from_seq=events[8].seq)]
        assert again == events[8:]

    run_virtual(main())


def test_the_end_of_the_loop_leaves_the_work_in_doubt():
    one = friday(use("work", seconds=60), "I go.", "x", "y", wait="leave")

    async def go() -> None:
        await one.call("go")

    asyncio.run(go())
    assert RUNS == ["w begun", "w cancelled"] and not one.background().in_progress
    run_virtual(one.call("and?"))
    assert [state for state, _ in run_virtual(ends_in(one))] == ["in_doubt"]


def test_an_exit_in_the_background_is_a_failure_of_the_job():
    async def main():
        @tool(background=True)
        async def leave() -> str:
            await asyncio.sleep(1)
            raise SystemExit(3)

        one = friday(use("leave"), "I wait.", "x", tools=[leave])
        await one.call("go")
        ((state, text),) = await ends_in(one)
        assert state == "failed" and "SystemExit" in text

    run_virtual(main())


@pytest.mark.parametrize("seconds", [True, 10], ids=["in the background", "in the foreground"])
def test_a_long_run_does_not_keep_the_calls_that_have_ended(seconds: Any):
    async def main():
        kept: list[int] = []

        def count(_: Any) -> str:
            gc.collect()
            kept.append(sum(type(each) is Job for each in gc.get_objects()))
            return "done"

        rounds = [turn for number in range(80) for turn in (use("work", f"c{number}"), "I wait.")]
        turns = rounds if seconds is True else rounds[::2]
        before = sum(type(each) is Job for each in gc.get_objects())
        one = agent(*turns, count, background=seconds, hooks=[BackgroundHook()], max_iters=200)
        await one.call("go")
        assert kept[0] - before <= KEPT_ENDED + 1

    run_virtual(main())


def test_nothing_keeps_a_conversation_whose_work_has_ended():
    async def main():
        one = friday(*[use("work"), "I wait.", "x"] * 2)
        memory = InMemoryMemory()
        await one.call("go", memory=memory)
        gone = ref(memory)
        del memory
        await asyncio.sleep(1)
        gc.collect()
        assert gone() is None

    run_virtual(main())
