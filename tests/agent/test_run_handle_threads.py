"""A shared run is followed and controlled from other threads and loops, and from scripts without a loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import pytest

from agentscope_rx import RunHandle
from agentscope_rx.agent import HandleState
from agentscope_rx.errors import ConfigurationError, RunStoppedError
from agentscope_rx.events import Event
from agentscope_rx.messages import GenerateReason
from agentscope_rx.reactive import SourceCancelledError, never, on_loop
from agentscope_rx.reactive.kernel.runtime import library_loop
from agentscope_rx.testing import HANG, ScriptedModel, call
from tests.agent.parts import agent, assert_whole, types
from tests.agent.test_run_handle_readers import Talker

PATIENCE = 20.0
T = TypeVar("T")


def in_thread(work: Callable[[], T]) -> T:
    """The result of some work in a thread without a loop."""
    results: list[T] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    return results[0]


async def begun(handle: RunHandle) -> None:
    """Returns when the model has begun to answer."""
    async for event in handle.events():
        if event.type == "reasoning_chunk":
            return


def test_a_script_starts_follows_and_waits() -> None:
    friday = agent(ScriptedModel(["Let me ", "see.", call("weather", city="Oslo")], "Sunny."))
    handle = friday.start("hi")
    assert handle.result().run().text == "Sunny."
    events: list[Event] = []
    done = threading.Event()
    handle.events(2).subscribe(events.append, None, done.set)
    assert done.wait(PATIENCE)
    assert [event.seq for event in events] == list(range(2, handle.stats().log.received))
    handle.idle().run()
    assert handle.state is HandleState.ENDED
    assert_whole(friday)


def test_a_script_controls_a_run() -> None:
    friday = agent(ScriptedModel(["One moment", HANG], ["Another", HANG]))
    first = friday.start("hi")
    assert first.interrupt("enough"), "also before it has begun on its loop"
    assert first.result().run().text == "enough"
    second = friday.start("and now?")
    asyncio.run(begun(second))
    second.pause()
    second.resume()
    second.dispose("So it is.")
    with pytest.raises(RunStoppedError, match="So it is"):
        second.result().run()
    second.idle().run()
    assert not friday.running
    assert_whole(friday)


def test_a_run_is_followed_from_another_loop() -> None:
    friday = agent(Talker(500))
    handle = friday.start("hi")

    async def read() -> list[Event]:
        return [event async for event in handle.events()]

    seen = [in_thread(lambda: asyncio.run(read())) for _ in range(2)]
    assert [event.seq for event in seen[0]] == list(range(handle.stats().log.received))
    assert seen[0] == seen[1] and types(seen[0])[-1] == "post_call"


def test_a_slow_reader_on_another_loop_slows_the_run() -> None:
    model = Talker(1000)
    friday = agent(model)
    # paused before it begins: on the library's loop the run is not waited for
    handle = RunHandle(friday.stream("hi"), agent=friday)
    handle.pause()
    handle.begin()

    async def read() -> int:
        async with handle.events().buffered(4) as events:
            await anext(events)
            handle.resume()
            before = model.read
            while handle.state is HandleState.PAUSED or max(handle.stats().behind) < 64:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.05)
            read = model.read - before
            assert handle.stats().log.withheld
            async for _ in events:
                pass
        return read

    # its buffer, and the window between the loops
    assert asyncio.run(asyncio.wait_for(read(), PATIENCE)) <= 75
    assert model.read == 1000


def test_a_reader_whose_loop_is_closed_is_dropped() -> None:
    model = Talker(1000)
    handle = agent(model).start("hi")
    loop = asyncio.new_event_loop()

    async def read() -> Any:
        events = handle.events().buffered(4)
        await anext(events)
        return events

    events = loop.run_until_complete(read())
    loop.close()
    assert len(handle.result().run().text.split()) == 1000
    assert handle.stats().log.readers == 0
    del events


def test_the_last_reader_on_another_loop_ends_the_run() -> None:
    friday = agent(ScriptedModel(["One moment", HANG]))
    handle = friday.start("hi", linger=0)

    async def read() -> None:
        async with handle.events() as events:
            await anext(events)
        assert not friday.running, "the end of the block waits for the clean-up on the other loop"

    asyncio.run(read())
    assert_whole(friday)


def test_control_from_a_thread_reaches_the_runs_loop() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        friday = agent(ScriptedModel(["One moment", HANG]))
        handle = friday.start("hi")
        await begun(handle)

        def control() -> HandleState:
            handle.pause()
            assert handle.interrupt("enough")
            reply = handle.result().run()
            assert reply.generate_reason is GenerateReason.INTERRUPTED
            return handle.stats().state

        state = await loop.run_in_executor(None, control)
        assert state in (HandleState.CLEANING, HandleState.ENDED)
        assert_whole(friday)

    asyncio.run(main())


def test_an_ended_run_is_read_when_its_loop_is_closed() -> None:
    async def main() -> RunHandle:
        handle = agent(ScriptedModel("fine")).start("hi")
        await handle.idle()
        return handle

    handle = asyncio.run(main())
    assert handle.result().run().text == "fine"
    handle.idle().run()
    handle.dispose()
    handle.pause()
    assert not handle.interrupt()

    async def read() -> list[Event]:
        return [event async for event in handle.events(1)]

    assert types(asyncio.run(read()))[-1] == "post_call"


def test_a_loop_that_ends_cuts_off_a_reader_that_is_behind() -> None:
    model = Talker(200)
    reading, read = threading.Event(), threading.Event()

    async def main() -> RunHandle:
        handle = agent(model).start("hi")
        waits = asyncio.create_task(asyncio.to_thread(reading.wait, PATIENCE))
        threads.append(threading.Thread(target=lambda: asyncio.run(follow(handle))))
        threads[0].start()
        assert await waits
        for _ in range(1000):
            if handle.stats().log.withheld:
                break
            await asyncio.sleep(0.01)
        # the reader holds the run back: its end is brought about
        handle.interrupt()
        await handle.idle()
        return handle

    async def read_on(events: AsyncIterator[Event]) -> None:
        async for event in events:
            seen.append(event.seq)

    async def follow(handle: RunHandle) -> None:
        async with handle.events().buffered(1) as events:
            await anext(events)
            reading.set()
            await asyncio.to_thread(read.wait, PATIENCE)
            with pytest.raises(SourceCancelledError, match="shut down"):
                await read_on(events)
        # what the log has can be read nevertheless
        rest = [event async for event in handle.events(seen[-1] + 1)]
        kinds.append(rest[-1].type)

    threads: list[threading.Thread] = []
    seen: list[int] = []
    kinds: list[str] = []
    handle = asyncio.run(main())
    read.set()
    threads[0].join(PATIENCE)
    assert kinds == ["post_call"] and handle.stats().log.readers == 0


def test_a_loop_closed_under_a_run_fails_its_subscribers() -> None:
    loop = asyncio.new_event_loop()

    async def main() -> RunHandle:
        handle = RunHandle(never()).begin()
        await asyncio.sleep(0)
        return handle

    handle = loop.run_until_complete(main())
    loop.close()
    with pytest.raises(SourceCancelledError, match="was closed"):
        handle.result().run()
    with pytest.raises(SourceCancelledError, match="was closed"):
        on_loop(never(), loop).run()


def test_reading_a_log_is_for_its_own_loop() -> None:
    handle = agent(ScriptedModel("fine")).start("hi")
    with pytest.raises(ConfigurationError, match="on its own loop"):
        handle.read()
    handle.result().run()
    assert handle.stats().log.readers == 0 and library_loop().is_running()
