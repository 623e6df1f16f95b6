"""However a run with a lease ends: the lease is free, or another's; memory is whole; and no late save gets through."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import reactivex
from reactivex import operators as ops

from agentscope_rx import ReActAgent, hook, tool
from agentscope_rx.errors import (
    AgentScopeError,
    ConversationLeasedError,
    LeaseLostError,
    ModelError,
    SessionConflictError,
    SessionError,
    SessionStorageError,
)
from agentscope_rx.events import ErrorEvent, PreCallEvent
from agentscope_rx.session import InMemorySession, LeasePolicy, Session
from agentscope_rx.testing import collect_dropped, run_virtual
from agentscope_rx.testing.scripted_model import Delay, ScriptedModel, call
from tests.agent.parts import agent, assert_whole, remembered
from tests.agent.test_leases import lease_of, policy, process, said, stored
from tests.session.lease.machines import FakeMachine, Store


def lease(one: ReActAgent):
    binding = one.conversation().binding
    assert binding is not None and binding.lease is not None
    return binding.lease


def stall(one: ReActAgent) -> None:
    """Its process stands still, as far as other processes can see."""
    held = lease(one)._held
    assert held is not None and held.heartbeat is not None
    held.heartbeat.stop()


async def is_free(session: Session) -> bool:
    return (await lease_of(session))["holder"] is None


# --- ends ---------------------------------------------------------------------------------------------------------


def test_the_last_save_releases_the_lease_in_one_step():
    async def main() -> None:
        session = Store(1.0)
        one = await process(session, 1)
        seen: list[object] = []
        events = one.stream("a").pipe(ops.do_action(lambda event: seen.append((event.type, lease(one).held))))
        await events
        assert seen[-1] == ("post_call", False) and session.writes == 2
        assert await is_free(session) and await stored(session) == ["a", "from 1"]

    run_virtual(main())


def test_a_failed_run_is_saved_and_releases_the_lease():
    async def main() -> None:
        session = InMemorySession()
        one, other = await process(session, 1, ModelError("broken")), await process(session, 2)
        with pytest.raises(ModelError, match="broken"):
            await one.call("a")
        assert await is_free(session) and not one.running
        await other.call("b")
        assert said(other) == ["a", "b", "from 2"]

    run_virtual(main())


def test_an_interrupted_run_releases_the_lease():
    async def main() -> None:
        session = InMemorySession()
        one, other = await process(session, 1, [call("slow", "c1", seconds=50)], "x"), await process(session, 2)
        running = one.call("a").as_task()
        await asyncio.sleep(1)
        one.interrupt()
        await running
        assert await is_free(session)
        assert_whole(one)
        await other.call("b")
        assert said(other)[: len(said(one))] == said(one)

    run_virtual(main())


@pytest.mark.parametrize("halves", range(1, 24))
def test_disposal_at_each_point_leaves_nothing_held(halves: int):
    """Look, acquisition, model, tool, model, save: each takes a second or two."""

    async def main() -> None:
        session = Store(1.0)
        turns = ([Delay(1), call("slow", "c1", seconds=2)], [Delay(1), "end"])
        one, other = await process(session, 1, *turns), await process(session, 2)
        begun = asyncio.get_running_loop().time()
        running = one.call("a").as_task()
        await asyncio.sleep(halves / 2 + 0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await one.idle()
        assert asyncio.get_running_loop().time() - begun < halves / 2 + 10
        assert not one.running and not lease(one).held
        assert_whole(one)
        found = await session.load("k", "lease")
        assert found is None or await is_free(session)
        await other.call("b")
        assert said(other)[:-2] == said(one), "what was remembered has been saved"

    run_virtual(main())


def test_a_refused_input_releases_the_lease():
    @hook(PreCallEvent)
    def refuse(event: PreCallEvent) -> None:
        raise ValueError("no")

    async def main() -> None:
        session = InMemorySession()
        one = await process(session, 1, hooks=[refuse])
        with pytest.raises(ValueError, match="no"):
            await one.call("a")
        assert await is_free(session) and not one.running

    run_virtual(main())


def test_a_reload_that_fails_releases_the_lease():
    async def main() -> None:
        session = InMemorySession()
        one, other = await process(session, 1), await process(session, 2)
        await other.call("a")
        await session.save("k", "state", {"version": 999})
        with pytest.raises(SessionError, match="version 999"):
            await one.call("b")
        assert await is_free(session) and not one.running and said(one) == []

    run_virtual(main())


def test_queued_calls_of_one_process_take_the_lease_in_turn():
    async def main() -> None:
        session = InMemorySession()
        one = await process(session, 1, [Delay(5), "x"], when_held="queue", when_busy="queue")
        other = await process(session, 2, [Delay(5), "y"], when_held="queue", when_busy="queue")
        calls = [each.call(f"{n}").as_task() for n in range(4) for each in (one, other)]
        await asyncio.gather(*calls)
        texts = await stored(session)
        assert sorted(texts[::2]) == sorted(f"{n}" for n in range(4) for _ in range(2))
        assert texts.count("x") == texts.count("y") == 4

    run_virtual(main())


# --- the lease is lost --------------------------------------------------------------------------------------------


def test_a_run_that_is_taken_over_ends_at_its_next_sign_of_life():
    async def main() -> None:
        session = InMemorySession()
        events: list[object] = []
        one = await process(session, 1, [call("slow", "c1", seconds=500)], "x")
        beta = agent(ScriptedModel("theirs"))
        machine = FakeMachine(1, "beta")
        await beta.bind(session, "k", lease=LeasePolicy(machine=machine))
        running = one.stream("a").pipe(ops.do_action(events.append)).as_task()
        await asyncio.sleep(5)
        machine.ahead = 86_400
        await beta.call("b")
        with pytest.raises(LeaseLostError, match="taken it over"):
            await running
        assert asyncio.get_running_loop().time() == 10
        assert isinstance(events[-1], ErrorEvent) and events[-1].error_type == "LeaseLostError"
        assert_whole(one)
        assert not one.running and await stored(session) == ["b", "theirs"]
        # what it has not saved is in its memory; a decision is needed
        with pytest.raises(SessionConflictError):
            await one.call("c")
        await one.load(session, "k")
        assert said(one) == ["b", "theirs"]

    run_virtual(main())


@pytest.mark.parametrize("finished", [True, False])
def test_a_late_save_of_an_old_holder_does_not_get_through(finished: bool):
    """Also while the new holder is running: the messages are as before then, the token is not."""

    async def main() -> None:
        session = InMemorySession()
        one = await process(session, 1, "first", [Delay(200), "late"])
        other = await process(session, 2, [Delay(1 if finished else 250), "theirs"])
        await one.call("a")
        running = one.call("b").as_task()
        await asyncio.sleep(1)
        stall(one)
        await asyncio.sleep(35)
        taken = other.call("c").as_task()
        with pytest.raises(LeaseLostError):
            await running
        assert asyncio.get_running_loop().time() == 200
        assert said(one) == ["a", "first", "b", "late"]
        await taken
        assert await stored(session) == ["a", "first", "c", "theirs"]

    run_virtual(main())


def test_a_store_that_is_down_for_ttl_ends_the_run():
    async def main() -> None:
        session = Store()
        one, loop = await process(session, 1, [call("slow", "c1", seconds=500)], "x"), asyncio.get_running_loop()
        running = one.call("a").as_task()
        await asyncio.sleep(15)
        session.fault = lambda number: "fail"
        with pytest.raises(LeaseLostError, match="could not be reached"):
            await running
        assert loop.time() == pytest.approx(40)
        assert_whole(one)
        session.fault = lambda number: None
        # no other has come: it goes on with all that it has
        one.model = ScriptedModel("on")
        await one.call("c")
        assert await stored(session) == said(one)

    run_virtual(main())


def test_a_lost_lease_while_a_run_cleans_up_is_no_further_error():
    async def main() -> None:
        session = Store()
        one = await process(session, 1, [Delay(100), "x"])
        running = one.call("a").as_task()
        await asyncio.sleep(1)
        session.fault = lambda number: "fail"
        await asyncio.sleep(28)
        running.cancel()
        with collect_dropped() as dropped:
            await asyncio.gather(running, return_exceptions=True)
            await one.idle()
        assert all(isinstance(error, SessionStorageError) for error in dropped)
        assert not one.running and not lease(one).held
        session.fault = lambda number: None
        await one.call("b")
        assert await stored(session) == ["a", "b", "x"]

    run_virtual(main())


# --- a store that fails -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["fail", "unsure"])
@pytest.mark.parametrize("number", range(1, 7))
def test_a_store_that_fails_at_any_operation(number: int, fault: str):
    async def main() -> None:
        session = Store()
        one, other = await process(session, 1, [Delay(25), "x"]), await process(session, 2, when_held="queue")
        await other.call("0")
        session.operations = 0
        session.fault = lambda at: fault if at == number else None
        failed: Any = None
        with collect_dropped() as dropped:
            try:
                await one.call("a")
            except AgentScopeError as error:
                failed = error
        session.fault = lambda at: None
        assert not one.running and not lease(one).held
        assert_whole(one)
        assert all(isinstance(error, SessionStorageError) for error in dropped)
        assert failed is None or isinstance(failed, SessionStorageError)
        # the next call of either has all that was said
        try:
            await one.call("b")
        except ConversationLeasedError:
            pytest.fail("its own lease is in its way")
        await other.call("c")
        assert said(other)[:-2] == said(one) and said(other)[0] == "0"

    run_virtual(main())


def test_the_last_save_fails_and_the_next_call_saves_it_all():
    async def main() -> None:
        session = Store()
        one = await process(session, 1)
        await one.call("a")
        session.operations = 0
        session.fault = lambda at: "fail" if at == 2 else None
        with pytest.raises(SessionStorageError):
            await one.call("b")
        assert await is_free(session), "released all the same"
        assert await stored(session) == ["a", "from 1"]
        await one.call("c")
        assert await stored(session) == ["a", "from 1", "b", "from 1", "c", "from 1"]

    run_virtual(main())


def test_a_subscriber_that_fails_or_is_slow_releases_the_lease():
    async def main() -> None:
        session = InMemorySession()
        one = await process(session, 1)

        def broken(event: object) -> None:
            raise ValueError("subscriber")

        with pytest.raises(ValueError, match="subscriber"):
            await one.stream("a").pipe(ops.do_action(broken))
        await one.idle()
        assert await is_free(session)
        async for _ in one.stream("b"):
            await asyncio.sleep(20)
        assert await is_free(session) and remembered(one)[-1].text == "from 1"

    run_virtual(main())


@tool
def forever() -> object:
    """Waits for something that never comes."""
    return reactivex.never()


def test_a_run_whose_loop_was_closed_leaves_no_lease_behind():
    session = InMemorySession()
    one = agent(ScriptedModel([call("forever", "c1")], "again"), tools=[forever])
    loop = asyncio.new_event_loop()

    async def begin() -> None:
        await one.bind(session, "k", lease="error")
        one.call("a").subscribe(lambda _: None)
        for _ in range(50):
            await asyncio.sleep(0.001)
        assert one.runs[0].calls.begun

    loop.run_until_complete(begin())
    assert lease(one).held
    loop.close()

    async def again() -> None:
        await one.call("b")
        assert await is_free(session) and "b" in await stored(session)
        assert policy(1).ttl == 30

    asyncio.run(again())
