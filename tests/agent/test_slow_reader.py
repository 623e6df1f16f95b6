"""A reader that has stalled: the run waits for it, but an interruption and a disposal do not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agentscope_rx import Hook, hook
from agentscope_rx.events import Event, PostCallEvent, PreActingEvent, ReasoningChunkEvent, coalesce_chunks
from agentscope_rx.messages import GenerateReason
from agentscope_rx.reactive import Flow, FlowIterator, concat, from_async_iterable, from_iterable, just
from agentscope_rx.testing import HANG, Delay, ScriptedModel, call, run_virtual
from tests.agent.parts import agent, assert_whole


def flow_of(event: Event) -> Flow[Event]:
    async def one() -> AsyncIterator[Event]:
        yield event

    return from_async_iterable(one)


HOOKS = {
    "none": [],
    "chunk hook with a Flow": [hook(ReasoningChunkEvent)(flow_of)],
    "chunk hook with an iterable": [hook(ReasoningChunkEvent)(lambda e: from_iterable([e, e]))],
    "PostCall hook with a Flow": [hook(PostCallEvent)(flow_of)],
    "PreActing hook with a Flow": [hook(PreActingEvent)(flow_of)],
}
SCRIPTS = {
    "text": (["x"] * 200,),
    "silence": (["x", Delay(1)] * 50 + [HANG],),
    "tools": ([call("count", upto=50), call("slow", seconds=500), call("count", upto=50)], "done"),
}


async def stalled(stream: FlowIterator[Event], reads: int) -> None:
    """Read some events, then none for so long that all that can happen has happened."""
    for _ in range(reads):
        await anext(stream)
    await asyncio.sleep(100)


@pytest.mark.parametrize("reads", [1, 5, 12])
@pytest.mark.parametrize("coalesce", [None, coalesce_chunks])
@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("hooks", HOOKS)
def test_a_stalled_reader_does_not_delay_an_interruption(hooks: str, script: str, coalesce: Any, reads: int) -> None:
    async def main() -> None:
        friday = agent(ScriptedModel(*SCRIPTS[script], HANG), hooks=HOOKS[hooks])
        stream = friday.stream("hi").buffered(3, coalesce=coalesce)
        with contextlib.suppress(StopAsyncIteration):
            await stalled(stream, reads)
        if not friday.running:
            # merged text needs no place: the run had no need to wait
            assert coalesce is not None
            return
        assert friday.interrupt("stop")
        async with asyncio.timeout(5):
            await friday.idle()
        assert_whole(friday)
        # and all of it is there for a reader that comes back
        events = [event async for event in stream]
        assert isinstance(events[-1], PostCallEvent)
        assert events[-1].message.text == "stop"
        assert events[-1].message.generate_reason is GenerateReason.INTERRUPTED

    run_virtual(main())


@pytest.mark.parametrize("reads", [1, 5, 12])
@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("hooks", HOOKS)
def test_a_stalled_reader_that_leaves_ends_the_run(hooks: str, script: str, reads: int) -> None:
    async def main() -> None:
        friday = agent(ScriptedModel(*SCRIPTS[script], "again"), hooks=HOOKS[hooks])
        async with friday.stream("hi").buffered(3) as stream:
            await stalled(stream, reads)
            assert friday.running
        assert not friday.running
        assert_whole(friday)
        friday.model = ScriptedModel("again")
        assert (await friday.call("go on")).text == "again"

    run_virtual(main())


def test_an_interruption_waives_the_demand_of_its_own_run_only() -> None:
    async def main() -> None:
        friday = agent(ScriptedModel(["x"] * 50))
        read: list[int] = []

        async def numbers() -> AsyncIterator[int]:
            for number in range(50):
                read.append(number)
                yield number

        both: Flow[Any] = concat(friday.stream("hi"), from_async_iterable(numbers))
        stream = both.buffered(3)
        await anext(stream)
        await asyncio.sleep(1)
        friday.interrupt()
        await friday.idle()
        await asyncio.sleep(100)
        assert read == [], "what comes after the run has to wait for its reader"
        await stream.aclose()

    run_virtual(main())


def test_tools_start_without_a_reader() -> None:
    """A stalled client must not keep requested work from beginning."""
    started: list[str] = []

    class Note(Hook):
        kinds = (PreActingEvent,)

        def on_event(self, event: Event) -> None:
            assert isinstance(event, PreActingEvent)
            started.append(event.tool_use.name)

    async def main() -> None:
        friday = agent(ScriptedModel([call("slow"), call("weather", city="Paris")], "done"), hooks=[Note()])
        async with friday.stream("hi").buffered(1) as stream:
            while (await anext(stream)).type != "post_reasoning":
                pass
            assert stream.statistics().withheld
            assert started == ["slow", "weather"]

    run_virtual(main())


def test_values_of_a_slow_reader_are_in_order() -> None:
    async def main() -> None:
        seen: list[int] = []
        async with concat(just(1, 2), from_iterable([3, 4, 5]), just(6)).buffered(1) as values:
            async for value in values:
                seen.append(value)
                await asyncio.sleep(1)
        assert seen == [1, 2, 3, 4, 5, 6]

    run_virtual(main())
