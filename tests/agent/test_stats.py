"""`run.stats()` and `agent.runs`: where a run is, at known moments, from any thread."""

from __future__ import annotations

import asyncio
import threading

from agentscope_rx import Price, UsageLimits, tool
from agentscope_rx.events import PreCallEvent, StreamOptions
from agentscope_rx.messages import ChatUsage
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.testing import HANG, Delay, ScriptedModel, call, run_virtual
from tests.agent.parts import agent, events_of


def costs(input: int, output: int) -> ChatResponse:
    return ChatResponse((), usage=ChatUsage(input, output))


def only(friday):
    (run,) = friday.runs
    return run.stats()


def test_the_course_of_a_run():
    limits = UsageLimits(prices={"scripted": Price(100_000, 1_000_000)})
    first = [Delay(2), call("slow", seconds=3), call("slow", seconds=5), call("weather", city="Rome"), costs(10, 2)]
    friday = agent(ScriptedModel(first, [Delay(4), "done", costs(20, 1)]), limits=limits)

    async def main() -> None:
        assert friday.runs == () and not friday.running
        task = friday.call("go").as_task()
        await asyncio.sleep(1)  # 1: the model is silent
        assert friday.running
        stats = only(friday)
        run_id = stats.run_id
        assert (stats.agent, stats.turn, stats.model_calls, stats.tool_calls) == ("Friday", 0, 0, 0)
        assert stats.in_flight == () and stats.usage == ChatUsage() and stats.cost == 0 and not stats.interrupted
        # PreCall and PreReasoning were said at once
        assert (stats.events, stats.age, stats.event_age) == (2, 1, 1)

        await asyncio.sleep(2)  # 3: three tools, one of them through
        stats = only(friday)
        assert stats.run_id == run_id and (stats.turn, stats.model_calls, stats.tool_calls) == (0, 1, 3)
        assert [each.input.get("seconds") for each in stats.in_flight] == [3, 5]
        assert (stats.usage, stats.cost) == (ChatUsage(10, 2), 3.0)
        assert (stats.age, stats.event_age) == (3, 1)

        await asyncio.sleep(3)  # 6: one is left
        assert [each.input.get("seconds") for each in only(friday).in_flight] == [5]
        assert only(friday).event_age == 1

        await asyncio.sleep(3)  # 9: the second round
        stats = only(friday)
        assert (stats.turn, stats.model_calls, stats.in_flight) == (1, 1, ())
        assert (stats.age, stats.event_age) == (9, 2)
        (run,) = friday.runs
        reply = await task
        assert reply.text == "done" and friday.runs == ()
        # and what it has come to, for who has kept it
        assert (run.stats().model_calls, run.stats().usage, run.stats().cost) == (2, reply.usage, 6.0)

    run_virtual(main())


def test_events_that_wait_for_a_slow_reader_are_counted():
    friday = agent(ScriptedModel(["x"] * 50))

    async def main() -> None:
        stream = friday.stream("go").buffered(4)
        await anext(stream)
        await asyncio.sleep(10)
        stats = only(friday)
        assert stats.queued == stream.statistics().waiting >= 4
        assert stats.event_age == 10
        for _ in range(3):
            await anext(stream)
        await asyncio.sleep(1)
        assert only(friday).queued >= 3
        await stream.aclose()
        assert friday.runs == ()

        # one that is never late has none
        depths = []
        async for _ in friday.stream("go"):
            depths += [run.stats().queued for run in friday.runs]
        assert max(depths) <= 51

    friday.model.repeat = True
    run_virtual(main())


def test_only_events_that_are_shown_count():
    async def main() -> None:
        friday = agent(ScriptedModel(["a", Delay(5), "b", HANG]))
        task = asyncio.ensure_future(events_of(friday, "go", StreamOptions(kinds=PreCallEvent)))
        await asyncio.sleep(10)
        assert only(friday).events == 1 and only(friday).event_age == 10
        friday.interrupt()
        assert len(await task) == 1

    run_virtual(main())


def test_an_interrupted_run_says_so_while_it_ends():
    async def main() -> None:
        friday = agent(ScriptedModel(call("careful")), tools=[careful()])
        task = friday.call("go").as_task()
        await asyncio.sleep(1)
        friday.interrupt()
        await asyncio.sleep(1)
        stats = only(friday)
        assert stats.interrupted and [each.name for each in stats.in_flight] == ["careful"]
        await task

    run_virtual(main())


def careful():
    @tool(name="careful")
    async def takes_time() -> str:
        """Takes time to clean up."""
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(3)
        return ""

    return takes_time


def test_a_run_that_is_closing_is_still_there():
    async def main() -> None:
        friday = agent(ScriptedModel(call("careful")), tools=[careful()])
        task = friday.call("go").as_task()
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.sleep(1)
        assert friday.running and only(friday).age == 2
        await friday.idle()
        assert friday.runs == ()

    run_virtual(main())


def test_from_another_thread_while_it_runs():
    """A monitor's thread may ask at any time; what it gets is consistent."""
    friday = agent(ScriptedModel(*([[call("weather", city="Rome"), call("weather", city="Oslo")]] * 200), "done"))
    friday.max_iters = 300
    seen, problems, over = [], [], threading.Event()

    def watch() -> None:
        while not over.is_set():
            try:
                for run in friday.runs:
                    stats = run.stats()
                    seen.append(stats)
                    if stats.tool_calls > 400 or len(stats.in_flight) > 2 or stats.age < 0:
                        problems.append(stats)
            except Exception as error:
                problems.append(error)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        assert friday.call("go").run().text == "done"
    finally:
        over.set()
        thread.join(10)
    assert problems == []
    turns = [stats.turn for stats in seen]
    assert turns == sorted(turns)


def test_overlapping_runs_are_all_shown():
    async def main() -> None:
        friday = agent(ScriptedModel(HANG, HANG), check_running=False)
        tasks = [friday.call("go").as_task() for _ in range(2)]
        await asyncio.sleep(1)
        assert len({run.id for run in friday.runs}) == 2
        friday.interrupt()
        await asyncio.wait(tasks)
        assert friday.runs == ()

    run_virtual(main())


def test_a_run_names_itself_its_agent_and_how_far_it_is():
    async def main() -> None:
        friday = agent(ScriptedModel(["Hm", HANG]))
        task = friday.call("go").as_task()
        await asyncio.sleep(1)
        (run,) = friday.runs
        shown = f"<Run {run.id} of agent 'Friday', round 0, {run.seq} events"
        assert repr(run) == f"{shown}>"
        friday.interrupt()
        assert repr(run) == f"{shown}, interrupted>"
        await task
        assert repr(run).endswith(", ended>")

    run_virtual(main())
