"""Runs with operators around their flows, ended at any moment: interrupted, disposed of, at a deadline."""

from __future__ import annotations

import asyncio

import pytest
from reactivex import operators as ops
from tenacity import stop_never

from agentscope_rx import UsageLimits, hook
from agentscope_rx.events import Event, PostActingEvent, PostCallEvent, PreActingEvent
from agentscope_rx.hooks import around
from agentscope_rx.reactive import RetryPolicy, retry, timeout
from agentscope_rx.testing import Delay, ScriptedModel, call, collect_dropped, run_virtual
from tests.agent.parts import agent, assert_whole, types
from tests.hooks.around_parts import watch, watching

FOR_EVER = retry(RetryPolicy(stop=stop_never, discards=True))

OPERATORS = {
    "delay": ops.delay(0.75),
    "retry": ops.retry(3),
    "our retry": FOR_EVER,
    "timeout": timeout(total=60),
    "stock timeout": ops.timeout(60),
}
TIMES = [0.0, 0.5, 1.0, 1.25, 1.75, 2.0, 2.5, 3.25, 3.75]


def busy() -> ScriptedModel:
    return ScriptedModel(
        [Delay(0.5), "Let me ", Delay(0.5), call("slow", "a", seconds=1), call("slow", "b", seconds=2)],
        [Delay(0.5), "Sun", Delay(0.5), "ny."],
    )


@pytest.mark.parametrize("at", TIMES)
@pytest.mark.parametrize("kind", ["call", "stage", "model", "tool"])
@pytest.mark.parametrize("name", OPERATORS)
def test_a_run_is_interrupted_at_any_moment(name, kind, at):
    friday = agent(busy(), hooks=[around(kind, OPERATORS[name])])

    async def main():
        asyncio.get_running_loop().call_later(at, friday.interrupt)
        watched = await watching(friday)
        assert watched.error is None
        # the operator around a stage or a call holds its own events back
        assert watched.times[-1] <= at + (2.25 if name == "delay" and kind in ("call", "stage") else 0)

    run_virtual(main())


@pytest.mark.parametrize("at", TIMES)
@pytest.mark.parametrize("kind", ["call", "stage", "model", "tool"])
@pytest.mark.parametrize("name", OPERATORS)
def test_a_run_is_disposed_of_at_any_moment(name, kind, at):
    friday = agent(busy(), hooks=[around(kind, OPERATORS[name])])

    async def main():
        seen: list[Event] = []
        running = friday.stream("hi").subscribe(seen.append)
        await asyncio.sleep(at)
        running.dispose()
        count = len(seen)
        await friday.idle()
        assert not friday.running and len(seen) == count
        assert_whole(friday)
        await asyncio.sleep(10)
        assert len(seen) == count

    run_virtual(main())


@pytest.mark.parametrize("at", TIMES)
@pytest.mark.parametrize("kind", ["call", "stage", "model", "tool"])
def test_a_run_ends_at_its_deadline_at_any_moment(kind, at):
    friday = agent(busy(), hooks=[around(kind, ops.delay(0.75))], limits=UsageLimits(deadline=at + 0.1))

    async def main():
        watched = await watching(friday)
        assert watched.times[-1] <= at + 0.1 or watched.error is None

    run_virtual(main())


def test_a_slow_subscriber_gets_every_event():
    friday = agent(busy(), hooks=[around("call", ops.delay(0.1)), around("stage", ops.do_action(lambda event: None))])

    async def main():
        seen: list[Event] = []
        async for event in friday.stream("hi"):
            await asyncio.sleep(1)
            seen.append(event)
        return seen

    assert types(run_virtual(main())) == types(watch(agent(busy())).events)


def test_a_subscriber_that_throws_ends_the_run():
    friday = agent(busy(), hooks=[around("call", ops.do_action(lambda event: None))])

    async def main():
        with collect_dropped() as dropped:

            def look(event):
                if isinstance(event, PreActingEvent):
                    raise ValueError("looked")

            friday.stream("hi").subscribe(look)
            await asyncio.sleep(2)
            await friday.idle()
        assert [str(error) for error in dropped] == ["looked"]
        assert_whole(friday)

    run_virtual(main())


@pytest.mark.parametrize("kind", ["call", "stage", "model", "tool"])
@pytest.mark.parametrize("event", [PreActingEvent, PostActingEvent, PostCallEvent])
def test_an_exit_passes_stock_operators_as_it_is(kind, event):
    @hook(event)
    def leave(event):
        raise SystemExit(3)

    friday = agent(ScriptedModel(call("weather", city="Rome"), "Sunny."), hooks=[around(kind, ops.do_action()), leave])

    async def main():
        with collect_dropped() as dropped:
            with pytest.raises(SystemExit):
                await friday.call("hi")
            await friday.idle()
        assert dropped == []
        assert_whole(friday)

    run_virtual(main())
