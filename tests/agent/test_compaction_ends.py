"""Wherever a compaction ends - failure, interruption, deadline, disposal - memory is whole and the flag is free."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from agentscope_rx import GenerateReason, InMemoryMemory, Memory, Msg, UsageLimits, hook
from agentscope_rx.errors import ContextOverflowError, RunDeadlineError
from agentscope_rx.events import ContextEvent, Event, MemoryEvent, fold
from agentscope_rx.hooks.compaction import Compaction, CompactionRequest
from agentscope_rx.memory import sent
from agentscope_rx.memory.sql import SqlMemory
from agentscope_rx.messages import COMPRESSED
from agentscope_rx.reactive import Flow, from_callable
from agentscope_rx.testing import collect_dropped, run_virtual
from agentscope_rx.testing.scripted_model import ScriptedModel, Turn
from tests.agent.compacting import SUMMARY, Compacts, look, requests, summarized, texts
from tests.agent.parts import agent, assert_whole, events_of, remembered
from tests.memory.test_replace_all import OneByOne


class SlowWrites(InMemoryMemory):
    """Takes two seconds to replace messages, which are there at the end of these."""

    def __init__(self, messages: Sequence[Msg] = ()) -> None:
        super().__init__(messages)
        self.error: Exception | None = None

    def replace_all(self, messages: Sequence[Msg]) -> Flow[int]:
        async def write() -> int:
            await asyncio.sleep(2)
            if self.error is not None:
                raise self.error
            return await super(SlowWrites, self).replace_all(messages)

        return from_callable(write)


def too_long() -> ContextOverflowError:
    return ContextOverflowError("too long", status=400)


def friday(*turns: Turn, compacts: Compacts | None = None, **options):
    """An agent whose second round compacts: 3 s of work from 0 s on, and a write of 2 s."""
    hooks = [compacts or Compacts(lambda request: summarized(request, 0), above=2, delay=3), *options.pop("more", ())]
    return agent(ScriptedModel(*(turns or (look(1), "done"))), hooks=hooks, memory=SlowWrites(), **options)


def compressed_in(memory: InMemoryMemory) -> list[bool]:
    return [COMPRESSED in each.marks for each in memory.messages]


async def at(seconds: float, act: Callable[[], object], running: asyncio.Future[object]) -> object:
    await asyncio.sleep(seconds)
    act()
    (result,) = await asyncio.gather(running, return_exceptions=True)
    return result


# --- interruption -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", [(look(1), "done"), (look(1), too_long(), "done")], ids=["round", "overflow"])
@pytest.mark.parametrize(("seconds", "changed"), [(1, False), (4, True)], ids=["work", "write"])
def test_an_interruption_ends_the_work_and_the_run(turns: tuple[Turn, ...], seconds: float, changed: bool):
    why = ["overflow"] if len(turns) == 3 else ["round"]
    compacts = Compacts(lambda request: summarized(request, 0), above=2, delay=3, why=why)
    one = friday(*turns, compacts=compacts)

    async def main() -> None:
        running = asyncio.ensure_future(events_of(one, "hi"))
        events = await at(seconds, one.interrupt, running)
        assert isinstance(events, list)
        assert remembered(one)[-1].generate_reason is GenerateReason.INTERRUPTED
        assert compacts.begun == compacts.ended == 1
        assert any(isinstance(event, MemoryEvent) for event in events) is changed
        assert compressed_in(one.memory)[1:3] == [changed, changed]
        assert list(fold(events).history) == list(remembered(one))
        assert len(one.model.requests) == len(turns) - 1, "the request is not made"

    run_virtual(main())
    assert_whole(one)
    assert not one.running


def test_a_deadline_ends_the_work():
    compacts = Compacts(lambda request: summarized(request, 0), above=2, delay=50)
    one = friday(compacts=compacts, limits=UsageLimits(deadline=20))
    with pytest.raises(RunDeadlineError):
        run_virtual(one.call("hi"))
    assert compacts.begun == compacts.ended == 1 and not any(compressed_in(one.memory))
    assert_whole(one)


def test_at_a_deadline_with_a_summary_that_is_given():
    compacts = Compacts(lambda request: summarized(request, 0), above=2, delay=50)
    asked = compacts.compact

    def once(request: CompactionRequest):
        return asked(request) if not compacts.begun else None

    compacts.compact = once  # type: ignore[method-assign]
    one = friday(look(1), "what I have found", compacts=compacts, limits=UsageLimits(deadline=30, on_limit="summary"))
    reply = run_virtual(one.call("hi"))
    assert reply.generate_reason is GenerateReason.LIMIT_REACHED and reply.text == "what I have found"


def test_a_hook_that_never_answers_keeps_no_task():
    compacts = Compacts(above=2, delay=1e9)
    one = friday(compacts=compacts)

    async def main() -> None:
        running = asyncio.ensure_future(one.call("hi"))
        await at(5, one.interrupt, running)
        assert compacts.ended == 1

    run_virtual(main())


# --- disposal -----------------------------------------------------------------------------------------------------


@given(seconds=st.sampled_from([0.0, 0.5, 2.999, 3.0, 3.5, 4.999, 5.0, 6.0]), overflow=st.booleans())
def test_disposal_at_any_point_leaves_memory_whole(seconds: float, overflow: bool):
    why = ["overflow"] if overflow else ["round"]
    compacts = Compacts(lambda request: summarized(request, 0), above=2, delay=3, why=why)
    one = friday(look(1), *([too_long()] if overflow else []), "done", compacts=compacts)

    async def main() -> None:
        running = asyncio.ensure_future(one.call("hi"))
        await asyncio.sleep(seconds)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await one.idle()
        marked = compressed_in(one.memory)[1:3]
        assert marked in ([], [False, False], [True, True]), "all or none"
        if seconds > 3:
            assert marked == [True, True], "a write that has begun runs to its end"
        assert compacts.begun == compacts.ended
        compacts.above = 1_000
        assert_whole(one)
        one.model = ScriptedModel("again")
        await one.call("again")

    run_virtual(main())
    assert_whole(one)


def test_a_subscriber_that_leaves_at_each_event():
    events = run_virtual(events_of(friday(), "hi"))
    for number in range(1, len(events)):
        one = friday()

        async def main(one=one, number=number) -> None:
            taken = await one.stream("hi").pipe(ops.take(number), ops.to_list())
            assert len(taken) == number
            await one.idle()

        run_virtual(main())
        assert_whole(one)
        assert compressed_in(one.memory)[1:3] in ([], [False, False], [True, True])


# --- failures -----------------------------------------------------------------------------------------------------


def test_a_write_that_fails_fails_the_run():
    one = friday()
    one.memory.error = OSError("disk full")
    with pytest.raises(OSError, match="disk full"):
        run_virtual(one.call("hi"))
    assert not any(compressed_in(one.memory))
    assert_whole(one)


def test_a_failure_behind_the_write_still_tells_of_it():
    @hook(ContextEvent)
    async def slow_observer(event: ContextEvent) -> None:
        await asyncio.sleep(50)

    one = friday(more=[slow_observer], limits=UsageLimits(deadline=20))
    seen: list[Event] = []
    with pytest.raises(RunDeadlineError):
        run_virtual(one.stream("hi").pipe(ops.do_action(seen.append)))
    assert [event.type for event in seen][-3:] == ["context", "memory", "error"]
    assert list(fold(seen).history) == list(remembered(one))


def test_observers_that_fail_or_are_slow_change_nothing():
    seen: list[str] = []

    @hook(ContextEvent)
    def fails(event: ContextEvent) -> None:
        seen.append(event.step)
        raise ValueError("observer")

    @hook(MemoryEvent)
    async def slow(event: MemoryEvent) -> None:
        await asyncio.sleep(5)
        seen.append("memory")

    one = friday(more=[fails, slow])
    with collect_dropped() as dropped:
        run_virtual(one.call("hi"))
        assert len(dropped) == 1
        dropped.clear()
    assert seen == ["summarize", "memory"]


def test_a_subscriber_that_throws_ends_the_run():
    one = friday()

    def throws(event: Event) -> None:
        if isinstance(event, ContextEvent):
            raise ValueError("subscriber")

    async def main() -> None:
        with collect_dropped() as dropped:
            done = asyncio.Event()
            one.stream("hi").subscribe(throws, lambda error: done.set(), done.set)
            await asyncio.sleep(20)
            await one.idle()
            dropped.clear()

    run_virtual(main())
    assert_whole(one)
    assert compressed_in(one.memory)[1:3] == [True, True]


def test_a_slow_subscriber_gets_all_events():
    one = friday()

    async def main() -> list[str]:
        seen: list[str] = []
        async for event in one.stream("hi"):
            await asyncio.sleep(3)
            seen.append(event.type)
        return seen

    seen = run_virtual(main())
    assert seen[seen.index("context") :][:3] == ["context", "memory", "pre_reasoning"]


# --- memories -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", ["in memory", "one by one", "sql"])
def test_every_memory_keeps_the_originals(make: str, tmp_path: Path):
    url = f"sqlite:///{tmp_path}/memory.db"
    memory: Memory = {
        "in memory": InMemoryMemory,
        "one by one": OneByOne,
        "sql": lambda: SqlMemory(url, "k"),
    }[make]()
    model = ScriptedModel(look(1), look(2), too_long(), "done", "more")
    one = agent(model, hooks=[Compacts(why=["overflow"])], memory=memory)

    async def main() -> None:
        events = await events_of(one, "hi")
        kept = [each async for each in memory.read()]
        assert texts(kept) == ["hi", "c1", "c1", "c2", "c2", "done"]
        assert kept[2].tool_results[0].text == "Sunny in Town 1"
        assert list(fold(events).history) == kept
        assert texts(sent(await memory.get()))[:2] == [SUMMARY, "hi"]
        if isinstance(memory, SqlMemory):
            again = SqlMemory(url, "k")
            assert list(await again.get()) == list(await memory.get()) and again.marked
            await again.close()
            await memory.close()
        else:
            await one.call("again")
            assert requests(model)[-1][0] == SUMMARY

    asyncio.run(main())


def test_a_disposed_run_on_a_database_is_whole(tmp_path: Path):
    memory = SqlMemory(f"sqlite:///{tmp_path}/memory.db", "k")

    class Cancels(Compacts):
        def compact(self, request: CompactionRequest):
            made = super().compact(request)
            if isinstance(made, Compaction) and made.replaced:
                asyncio.get_running_loop().call_soon(running.cancel)
            return made

    one = agent(ScriptedModel(look(1), "done"), hooks=[Cancels(lambda r: summarized(r, 0), above=2)], memory=memory)
    running: asyncio.Future[Msg]

    async def main() -> None:
        nonlocal running
        running = asyncio.ensure_future(one.call("hi"))
        await asyncio.gather(running, return_exceptions=True)
        await one.idle()
        kept = await memory.get()
        assert [COMPRESSED in each.marks for each in kept] in ([False, True, True], [False, False, False])
        await memory.close()

    asyncio.run(main())
