"""A service sends runs that `agent.start()` has begun, and may keep a run for a while after its last client."""

from __future__ import annotations

import asyncio

import pytest

from agentscope_rx import Msg
from agentscope_rx.agent import HandleState
from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.events import event_from_json
from agentscope_rx.reactive import just
from agentscope_rx.service import LiveRun, OnDisconnect, Runs, ServiceStoppingError, UnknownRunError, sse_response
from agentscope_rx.service.protocols.sse_format import body
from agentscope_rx.testing import HANG, Delay, ScriptedModel, run_virtual
from tests.agent.parts import agent, assert_whole
from tests.service.test_sse_format import decoded


async def sent(run: LiveRun, after: int | None = None) -> list[str]:
    """The types of the events that a client reads."""
    reader = run.follow(after)
    chunks = b"".join([chunk async for chunk in body(reader)])
    await run.leave(reader)
    return [each.event for each in decoded(chunks)]


def test_a_started_run_is_found_followed_and_interrupted():
    async def main():
        friday = agent(ScriptedModel(["One moment", HANG]))
        async with Runs(keep_seconds=60) as runs:
            handle = friday.start("hi")
            run = runs.add(handle)
            assert (run.opened.fired, run.on_disconnect, runs.statistics().live) == (True, OnDisconnect.CONTINUE, 1)
            await asyncio.sleep(1)
            assert runs.find(handle.id) is run
            reader = run.follow(1)
            assert (await anext(reader)).seq == 2
            await run.leave(reader)
            assert run.interrupt("enough")
            assert (await handle.result()).text == "enough"
            assert (await sent(run))[-1] == "post_call" and (await sent(run, 2))[0] == "post_reasoning"
            await handle.idle()
            assert runs.statistics() == (0, 1, 0)
            await asyncio.sleep(61)
            with pytest.raises(UnknownRunError):
                runs.find(handle.id)

    run_virtual(main())


def test_a_started_run_is_stopped_with_the_service():
    async def main():
        friday = agent(ScriptedModel(["One moment", HANG]))
        runs = Runs(max_live=1)
        handle = friday.start("hi")
        runs.add(handle)
        await asyncio.sleep(1)
        await runs.aclose()
        assert handle.state is HandleState.ENDED and not friday.running
        other = agent(ScriptedModel("fine")).start("hi")
        with pytest.raises(ServiceStoppingError):
            runs.add(other)
        assert (await other.result()).text == "fine"
        assert_whole(friday)

    run_virtual(main())


def test_its_json_is_written_when_a_client_reads_it():
    async def main():
        spoilt = Msg("a", "b", metadata={"x": object()})
        handle = agent(ScriptedModel("fine")).start(spoilt)
        assert (await handle.result()).text == "fine"
        run = LiveRun(handle)
        reader = run.follow()
        (error,) = decoded(b"".join([chunk async for chunk in body(reader)]))
        assert error.event == "error" and "cannot be written as JSON" in error.data
        await run.leave(reader)
        assert sse_response(handle).run.handle is handle

    run_virtual(main())


def test_clients_share_the_json_of_a_started_run():
    async def main():
        handle = agent(ScriptedModel("fine")).start("hi")
        run = LiveRun(handle)
        first, second = run.follow(), run.follow()
        while await first.wait():
            await second.wait()
            one, other = first.take(), second.take()
            assert one is other and one.json is other.json and event_from_json(one.json).seq == one.seq
        await run.leave(first)
        await run.leave(second)

    run_virtual(main())


def test_a_run_may_wait_for_its_client_to_return():
    async def main():
        friday = agent(ScriptedModel(["One ", *[Delay(1), "and "] * 30]))
        async with Runs() as runs:
            run = runs.add(friday.stream("hi"), on_disconnect=5.0, agent=friday)
            assert run.on_disconnect == 5
            reader = run.follow()
            await anext(reader)
            await run.leave(reader)
            await asyncio.sleep(4)
            reader = run.follow(0)
            assert [(await anext(reader)).seq, (await anext(reader)).seq] == [1, 2]
            await run.leave(reader)
            await asyncio.sleep(4.9)
            assert friday.running
            await asyncio.sleep(0.2)
            assert run.gone.fired and not friday.running
            assert (await sent(run))[-1] == "error"
        assert_whole(friday)

    run_virtual(main())


@pytest.mark.parametrize("wrong", ["later", -1, None, True])
def test_a_wrong_on_disconnect_is_refused(wrong: object):
    with pytest.raises(ConfigurationError):
        LiveRun(just(), on_disconnect=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "option", [{"on_disconnect": "stop"}, {"capacity": 5}, {"max_bytes": 1000}, {"agent": agent(ScriptedModel())}]
)
def test_a_started_run_keeps_its_own_options(option: dict[str, object]):
    async def main():
        handle = agent(ScriptedModel("fine")).start("hi")
        with pytest.raises(ConfigurationError, match=f"^{next(iter(option))} cannot be set"):
            Runs().add(handle, **option)  # type: ignore[arg-type]
        assert (await handle.result()).text == "fine"

    run_virtual(main())


def test_a_run_of_no_events_says_so():
    async def main():
        async with Runs() as runs:
            run = runs.add(agent(ScriptedModel("fine")).call("hi"))  # type: ignore[arg-type]
            reader = run.follow()
            with pytest.raises(InvalidInputError, match=r"such as agent\.stream\(\.\.\.\), and got Msg"):
                await anext(reader)
            await run.leave(reader)

    run_virtual(main())
