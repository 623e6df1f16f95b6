"""Records in the background: in order, bounded, drained; none is dropped, and none is the run's failure."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from agentscope_rx import GracefulShutdown
from agentscope_rx.errors import LongTermMemoryError
from agentscope_rx.long_term_memory import StaticLongTermMemory
from agentscope_rx.reactive import Flow, from_callable, just, on_library_loop, on_worker, throw
from agentscope_rx.testing import ScriptedModel, collect_dropped
from tests.long_term_memory.parts import Told, agent


class Gate:
    """Lets the records through one by one."""

    def __init__(self) -> None:
        self.open = threading.Semaphore(0)
        self.begun = threading.Semaphore(0)

    def __call__(self, what: str) -> Flow[Any] | None:
        return on_worker(self._pass) if what == "record" else None

    def _pass(self) -> None:
        self.begun.release()
        assert self.open.acquire(timeout=20)


@pytest.mark.spec("case 136", "case 160")
def test_a_background_record_does_not_block_the_call():
    gate = Gate()
    ltm = Told("x", before=gate)
    hook = StaticLongTermMemory(ltm, record="background")
    friday = agent(ScriptedModel("a", "b"), hooks=[hook])

    async def main() -> None:
        assert (await friday.call("1")).text == "a"
        assert (await friday.call("2")).text == "b"
        assert (hook.pending, ltm.recorded) == (2, [])
        drained = hook.drained().as_task()
        gate.open.release()
        gate.open.release()
        await drained
        assert hook.pending == 0
        assert ltm.recorded == [["user: 1", "assistant: a"], ["user: 2", "assistant: b"]]
        await hook.drained()

    asyncio.run(main())


def test_records_outlive_the_loop_of_their_run():
    gate = Gate()
    ltm = Told("x", before=gate)
    hook = StaticLongTermMemory(ltm, record="background")
    asyncio.run(_called(agent(ScriptedModel("a"), hooks=[hook])))
    assert hook.pending == 1
    gate.open.release()
    hook.drained().run()
    assert ltm.recorded == [["user: hi", "assistant: a"]]


async def _called(friday: Any) -> None:
    await friday.call("hi")


def test_a_full_queue_makes_the_call_wait():
    gate = Gate()
    ltm = Told("x", before=gate)
    hook = StaticLongTermMemory(ltm, record="background", queue_limit=1)
    friday = agent(ScriptedModel("a", "b"), hooks=[hook])

    async def main() -> None:
        await friday.call("1")
        second = friday.call("2").as_task()
        await asyncio.to_thread(gate.begun.acquire)
        for _ in range(100):
            # (its model does not wait: what is left is its record)
            await asyncio.sleep(0)
        assert not second.done()
        gate.open.release()
        await asyncio.to_thread(gate.begun.acquire)
        assert not second.done() and len(ltm.recorded) == 1
        gate.open.release()
        assert (await second).text == "b"
        assert len(ltm.recorded) == 2
        await hook.drained()

    asyncio.run(main())


def test_a_failed_background_record_is_reported():
    first = [True]

    def fails_once(what: str) -> Flow[Any] | None:
        if what == "record" and first:
            first.clear()
            return throw(LongTermMemoryError("disk"))
        return None

    ltm = Told("x", before=fails_once)
    hook = StaticLongTermMemory(ltm, record="background")
    friday = agent(ScriptedModel("a", "b"), hooks=[hook])
    with collect_dropped() as dropped:
        assert friday.call("1").run().text == "a"
        assert friday.call("2").run().text == "b"
        hook.drained().run()
    assert len(dropped.as_lines()) == 1 and ltm.recorded == [["user: 2", "assistant: b"]]
    assert hook.pending == 0


def test_a_shutdown_waits_for_the_records():
    gate = Gate()
    ltm = Told("x", before=gate)
    shutdown = GracefulShutdown(timeout=20)
    hook = StaticLongTermMemory(ltm, record="background")
    friday = agent(ScriptedModel("a"), hooks=[hook], shutdown=shutdown)

    async def main() -> None:
        await friday.call("1")
        ending = shutdown.begin().as_task()
        await asyncio.to_thread(gate.begun.acquire)
        assert not ending.done()
        gate.open.release()
        assert (await ending).undrained == ()

    asyncio.run(main())
    assert len(ltm.recorded) == 1


def test_a_shutdown_names_what_it_did_not_wait_for():
    gate = Gate()
    shutdown = GracefulShutdown(timeout=20, grace=0)
    hook = StaticLongTermMemory(Told("x", before=gate), record="background")
    friday = agent(ScriptedModel("a"), hooks=[hook], shutdown=shutdown)

    async def main() -> None:
        await friday.call("1")
        (late,) = (await shutdown.begin()).undrained
        assert "StaticLongTermMemory" in late

    asyncio.run(main())
    gate.open.release()
    hook.drained().run()


def test_waiting_for_the_records_can_be_cancelled():
    gate = Gate()
    hook = StaticLongTermMemory(Told("x", before=gate), record="background")

    async def main() -> None:
        await agent(ScriptedModel("a"), hooks=[hook]).call("1")
        waiting = hook.drained().as_task()
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert hook.pending == 1
        gate.open.release()
        await hook.drained()

    asyncio.run(main())


def test_off_records_nothing():
    ltm = Told("x")
    agent(ScriptedModel("a"), hooks=[StaticLongTermMemory(ltm, record="off")]).call("1").run()
    assert ltm.recorded == [] and ltm.asked == ["1"]
    ltm = Told("x")
    agent(ScriptedModel("a"), hooks=[StaticLongTermMemory(ltm, retrieve=False)]).call("1").run()
    assert len(ltm.recorded) == 1 and ltm.asked == []


def test_a_record_that_exits_is_counted_as_ended():
    async def leave() -> None:
        raise SystemExit(3)

    recorder = StaticLongTermMemory(Told(before=lambda _: from_callable(leave)), record="background", retrieve=False)
    friday = agent(ScriptedModel("Hello.", "Hello."), hooks=[recorder])

    async def main() -> None:
        await friday.call("hi")
        await friday.call("hi")
        async with asyncio.timeout(10):
            await recorder.drained()
            while len(dropped) < 2:
                # (they are reported there, after their ends are counted)
                await on_library_loop(just(None))

    with collect_dropped() as dropped:
        asyncio.run(main())
    assert recorder.pending == 0 and {type(error) for error in dropped} == {SystemExit}
