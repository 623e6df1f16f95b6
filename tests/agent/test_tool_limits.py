"""Limits of tools in a run: queue time in events, ends while a call waits, many conversations; memory stays whole."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import Msg, Toolkit, UsageLimits, fold, tool
from agentscope_rx.agent import GracefulShutdown
from agentscope_rx.errors import AgentShuttingDownError, RunDeadlineError
from agentscope_rx.events import ActingChunkEvent, Event, PostActingEvent, event_from_json
from agentscope_rx.memory import InMemoryMemory
from agentscope_rx.messages import ToolResultKind, ToolUseBlock
from agentscope_rx.testing import ScriptedModel, run_virtual
from agentscope_rx.tools import Rate
from tests.agent.parts import agent, assert_whole, events_of, remembered
from tests.reactive.recorder import turns

begun: list[tuple[float, str]] = []


@pytest.fixture(autouse=True)
def nothing_begun():
    begun.clear()


def call(name: str, id: str, /, **arguments: object) -> ToolUseBlock:
    return ToolUseBlock(id, name, arguments)


def work(name: str, **options: Any):
    """A tool that takes its time."""

    @tool(name=name, **options)
    async def working(seconds: float = 1.0, as_: str = "", fails: bool = False) -> str:
        """Works."""
        begun.append((asyncio.get_running_loop().time(), as_ or name))
        await asyncio.sleep(seconds)
        if fails:
            raise ValueError("no luck")
        return f"{as_ or name} done"

    return working


def friday(*tools: Any, model: Any, memory: Any = None, **options: Any):
    kit = {key: options.pop(key) for key in ("max_concurrency", "on_failure", "parallel") if key in options}
    if memory is not None:
        options["memory"] = memory
    return agent(model, tools=None, toolkit=Toolkit(tools, **kit), **options)


def posts(events: list[Event]) -> list[PostActingEvent]:
    return [each for each in events if isinstance(each, PostActingEvent)]


def test_events_say_how_long_a_call_has_waited_and_run():
    one, free = work("one", max_concurrency=1), work("free")
    model = ScriptedModel(
        [call("one", "a", seconds=2), call("one", "b", seconds=3), call("free", "c"), call("one", "d", seconds="?")],
        "done",
    )

    async def main() -> None:
        events = await events_of(friday(one, free, model=model), "go")
        assert [(p.tool_use.id, p.queued, p.elapsed) for p in posts(events)] == [
            ("a", 0, 2),
            ("b", 2, 3),
            ("c", 0, 1),
            ("d", 0, 0),
        ]
        last = {e.tool_use.id: e for e in events if isinstance(e, ActingChunkEvent) and e.is_last}
        assert (last["b"].queued, last["b"].elapsed) == (2, 3)
        post = posts(events)[1]
        again = event_from_json(post.to_json())
        assert again == post and isinstance(again, PostActingEvent) and (again.queued, again.elapsed) == (2, 3)
        assert post.replace(queued=1.0) != post

    run_virtual(main())


def test_the_place_in_a_round_and_the_turn_are_waited_for_too():
    def waited(**kit: Any) -> list[float | None]:
        model = ScriptedModel([call("t", "a"), call("t", "b"), call("t", "c")], "done")

        async def main() -> list[float | None]:
            return [p.queued for p in posts(await events_of(friday(work("t"), model=model, **kit), "go"))]

        return run_virtual(main())

    assert waited() == [0, 0, 0]
    assert waited(max_concurrency=2) == [0, 0, 1]
    assert waited(parallel=False) == [0, 1, 2]


def test_stats_tell_waiting_calls_from_running_ones():
    model = ScriptedModel(
        [call("one", "a", seconds=5), call("one", "b"), call("alone", "c"), call("free", "d")], "done"
    )
    ada = friday(work("one", max_concurrency=1), work("alone", exclusive=True), work("free"), model=model)

    async def main() -> None:
        task = ada.call("go").as_task()
        seen = []
        for seconds in (2, 3.5, 1, 1):
            await asyncio.sleep(seconds)
            (run,) = ada.runs
            stats = run.stats()
            seen.append(([c.id for c in stats.in_flight], [c.id for c in stats.waiting], stats.tool_calls))
        assert (
            seen == [(["a"], ["b", "c", "d"], 1), (["a"], ["b", "c", "d"], 1), (["c"], ["d"], 3), ([], [], 4)] or seen
        )
        await task
        assert run.stats().waiting == ()

    run_virtual(main())


LIMITS = {
    "permit": {"max_concurrency": 1},
    "rate": {"rate": Rate(1, per=100.0)},
    "barrier": {"exclusive": True},
}


@pytest.mark.parametrize("interruptible", [True, False])
@pytest.mark.parametrize("limit", LIMITS)
def test_an_interruption_ends_the_wait(limit: str, interruptible: bool):
    """The call that waits gets its result, which says that it had not begun; what has begun ends as it would."""
    model = ScriptedModel([call("t", "a", seconds=50, as_="a"), call("t", "b", as_="b")], "again")
    ada = friday(work("t", interruptible=interruptible, **LIMITS[limit]), model=model)

    async def main() -> None:
        task = asyncio.create_task(events_of(ada, "go"))
        await asyncio.sleep(10)
        ada.interrupt()
        events = await task
        assert asyncio.get_running_loop().time() == (10 if interruptible else 50)
        first, second = posts(events)
        assert first.result.kind is (ToolResultKind.INTERRUPTED if interruptible else None)
        assert second.result.kind is ToolResultKind.INTERRUPTED and "had begun" in second.result.text
        assert second.elapsed is None and second.queued is not None and second.queued >= 10
        assert [name for _, name in begun] == ["a"]
        assert_whole(ada)
        assert fold(events).history == tuple(remembered(ada))
        assert (await ada.call("more")).text == "again"

    run_virtual(main())


@pytest.mark.parametrize("limit", LIMITS)
def test_a_deadline_ends_the_wait(limit: str):
    model = ScriptedModel([call("t", "a", seconds=50), call("t", "b")])
    ada = friday(work("t", **LIMITS[limit]), model=model, limits=UsageLimits(deadline=10))

    async def main() -> None:
        with pytest.raises(RunDeadlineError):
            await ada.call("go")
        assert asyncio.get_running_loop().time() == 10 and len(begun) == 1
        assert_whole(ada)

    run_virtual(main())


@pytest.mark.parametrize("limit", LIMITS)
def test_what_waits_at_a_shutdown_stays_pending_and_runs_later(limit: str):
    shutdown = GracefulShutdown(timeout=10)
    model = ScriptedModel([call("t", "a", seconds=50, as_="a"), call("t", "b", as_="b")])
    memory = InMemoryMemory()
    ada = friday(work("t", **LIMITS[limit]), model=model, shutdown=shutdown, memory=memory)

    async def main() -> None:
        task = ada.call("go").as_task()
        await asyncio.sleep(1)
        await shutdown.begin()
        with pytest.raises(AgentShuttingDownError):
            await task
        assert_whole(ada, pending=["b"])
        later = friday(work("t", **LIMITS[limit]), model=ScriptedModel("done"), memory=memory)
        assert (await later.call()).text == "done"
        assert [name for _, name in begun] == ["a", "b"]
        assert_whole(later)

    run_virtual(main())


@pytest.mark.parametrize("at", [0.5, 1.5, 2.5])
@pytest.mark.parametrize("limit", LIMITS)
def test_disposal_while_it_waits(limit: str, at: float):
    t = work("t", **LIMITS[limit])
    model = ScriptedModel([call("t", f"{n}", as_=f"{n}") for n in range(4)], "again")
    ada = friday(t, model=model)

    async def main() -> None:
        task = ada.call("go").as_task()
        await asyncio.sleep(at)
        task.cancel()
        await asyncio.wait([task])
        await ada.idle()
        seen = len(begun)
        await asyncio.sleep(500)
        assert len(begun) == seen
        assert_whole(ada)
        if t.limits.permits is not None:
            assert t.limits.permits.statistics() == (1, 0, 0)
        assert (await ada.call("more")).text == "again"

    run_virtual(main())


def test_a_failure_may_end_the_others_of_its_round():
    model = ScriptedModel(
        [
            call("t", "a", seconds=1, fails=True),
            call("t", "b", seconds=9),
            call("kept", "k", seconds=3),
            call("one", "c", seconds=9),
            call("one", "d"),
        ],
        "so it goes",
    )
    tools = work("t"), work("one", max_concurrency=1), work("kept", interruptible=False)

    async def main() -> None:
        ada = friday(*tools, model=model, on_failure="cancel_siblings")
        events = await events_of(ada, "go")
        kinds = {p.tool_use.id: p.result.kind for p in posts(events)}
        cut = ToolResultKind.INTERRUPTED
        assert kinds == {"a": ToolResultKind.FAILED, "b": cut, "k": None, "c": cut, "d": cut}
        texts = {p.tool_use.id: p.result.text for p in posts(events)}
        assert texts["b"] == "Error: It was cancelled: the call of 't' (a) beside it failed."
        assert texts["d"].startswith("Error: It had not begun")
        assert asyncio.get_running_loop().time() == 3 and len(begun) == 4
        assert remembered(ada)[-1].text == "so it goes"
        assert_whole(ada)
        assert fold(events).history == tuple(remembered(ada))

    run_virtual(main())


def test_conversations_share_a_tools_limit():
    """Field P4: the limit protects the resource, not the run."""
    one = work("one", max_concurrency=2)
    memories = [InMemoryMemory() for _ in range(6)]
    model = ScriptedModel(*[[call("one", f"c{n}")] for n in range(6)], *["done"] * 6)
    ada = friday(one, model=model)

    async def main() -> None:
        await asyncio.gather(*[ada.call("go", memory=memory).as_task() for memory in memories])
        await turns()
        assert [when for when, _ in begun] == [0, 0, 1, 1, 2, 2]
        assert one.limits.permits is not None and one.limits.permits.statistics() == (2, 0, 0)

    run_virtual(main())


def test_a_slow_reader_keeps_no_permit():
    """The permit is given back when the tool has ended, and not when its events have been read."""
    one = work("one", max_concurrency=1)
    turn = [call("one", "a"), call("one", "b")]

    async def slowly(ada: Any) -> int:
        read = 0
        async for _ in ada.stream("go").buffered(1):
            read += 1
            await asyncio.sleep(10)
        return read

    async def main() -> None:
        first, second = friday(one, model=ScriptedModel(turn, "done")), friday(one, model=ScriptedModel(turn, "done"))
        reading = asyncio.create_task(slowly(first))
        await asyncio.sleep(25)
        # it has not read that its calls have begun
        assert (await second.call("go")).text == "done"
        assert asyncio.get_running_loop().time() < 30
        assert await reading > 5
        assert one.limits.permits is not None and one.limits.permits.statistics() == (1, 0, 0)
        assert_whole(first)

    run_virtual(main())


ROUND = st.lists(
    st.tuples(
        st.sampled_from(["free", "one", "rated", "alone", "kept"]), st.integers(0, 3), st.sampled_from([False, True])
    ),
    min_size=1,
    max_size=7,
)


@given(
    ROUND,
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from(["collect", "cancel_siblings"]),
    st.sampled_from(["nothing", "interrupt", "cancel"]),
    st.floats(0.01, 10),
)
def test_law_memory_is_whole_whatever_waits(
    calls: list[Any], at_once: int, parallel: bool, on_failure: str, way: str, moment: float
):
    tools = (
        work("free"),
        work("one", max_concurrency=1),
        work("rated", rate=Rate(2, per=3.0)),
        work("alone", exclusive=True),
        work("kept", max_concurrency=1, interruptible=False),
    )
    asked = [call(name, f"{n}", seconds=seconds, fails=fails) for n, (name, seconds, fails) in enumerate(calls)]
    ada = friday(
        *tools,
        model=ScriptedModel(asked, "done"),
        max_concurrency=at_once,
        parallel=parallel,
        on_failure=on_failure,
    )

    async def main() -> None:
        events: list[Event] = []
        task = asyncio.create_task(collect(ada, events))
        if way != "nothing":
            await asyncio.sleep(moment)
            ada.interrupt() if way == "interrupt" else task.cancel()
        await asyncio.wait([task])
        await ada.idle()
        await turns()
        assert_whole(ada)
        if way != "cancel":
            assert [p.tool_use.id for p in posts(events)] == [each.id for each in asked]
            assert fold(events).history == tuple(remembered(ada))
            for post in posts(events):
                began = post.elapsed is not None
                assert began or post.result.kind is ToolResultKind.INTERRUPTED
        assert all(t.limits.permits.statistics()[1:] == (0, 0) for t in tools if t.limits.permits is not None)

    run_virtual(main())


async def collect(ada: Any, events: list[Event]) -> None:
    async for event in ada.stream(Msg.user("go")):
        events.append(event)
