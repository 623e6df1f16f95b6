"""Agents of several processes in one conversation: a run excludes the others, and begins with what they have saved."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from reactivex import operators as ops

from agentscope_rx import ConversationPool, ReActAgent, Toolkit, UsageLimits, tool
from agentscope_rx.agent import StatePersistence
from agentscope_rx.agent.shutdown import GracefulShutdown
from agentscope_rx.errors import (
    AgentShuttingDownError,
    ConfigurationError,
    ConversationLeasedError,
    QueuedCallInterruptedError,
    RunDeadlineError,
    SessionConflictError,
)
from agentscope_rx.messages import Approve
from agentscope_rx.session import InMemorySession, LeasePolicy, Session
from agentscope_rx.session.lease import WhenHeld
from agentscope_rx.testing import run_virtual
from agentscope_rx.testing.scripted_model import Delay, ScriptedModel, call
from tests.agent.parts import agent, assert_whole, events_of, remembered, types, weather
from tests.session.lease.machines import FakeMachine, Store
from tests.session.stores import STORES


@pytest.fixture(params=STORES)
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    store = STORES[request.param](tmp_path)
    yield store
    store.close().run()


def policy(pid: int, when_held: WhenHeld = "error", **options: Any) -> LeasePolicy:
    return LeasePolicy(when_held, machine=FakeMachine(pid), **options)


async def process(
    session: Session, pid: int, *turns: object, when_held: WhenHeld = "error", **options: Any
) -> ReActAgent:
    """An agent of its own process, bound with a lease."""
    one = agent(ScriptedModel(*(turns or (f"from {pid}",)), repeat=True), **options)
    await one.bind(session, "k", lease=policy(pid, when_held))
    return one


def said(one: ReActAgent) -> list[str]:
    return [message.text for message in remembered(one)]


async def lease_of(session: Session) -> dict[str, Any]:
    found = await session.load("k", "lease")
    assert isinstance(found, dict)
    return found


async def stored(session: Session) -> list[str]:
    twin = agent(ScriptedModel("-"))
    await twin.load(session, "k")
    return said(twin)


def test_each_run_goes_on_from_what_the_others_have_saved(session: Session):
    async def main() -> None:
        one, other = await process(session, 1), await process(session, 2)
        for number in range(3):
            await one.call(f"a{number}")
            await other.call(f"b{number}")
        expected = [text for n in range(3) for text in (f"a{n}", "from 1", f"b{n}", "from 2")]
        assert said(other) == expected == await stored(session)
        assert said(one) == expected[:-2]
        assert (await lease_of(session))["token"] == 6 and (await lease_of(session))["holder"] is None

    run_virtual(main())


def test_a_call_during_a_run_elsewhere_is_refused(session: Session):
    async def main() -> None:
        one, other = await process(session, 1, [Delay(50), "late"]), await process(session, 2)
        running = one.call("a").as_task()
        await asyncio.sleep(25)
        with pytest.raises(ConversationLeasedError, match="process 1 on one") as caught:
            await other.call("b")
        assert caught.value.pid == 1
        events: list[object] = []
        with pytest.raises(ConversationLeasedError):
            await other.stream("b").pipe(ops.do_action(events.append))
        assert events == [], "as with a call of an agent that is busy"
        assert said(other) == [] and not other.running
        await running
        await other.call("b")
        assert await stored(session) == ["a", "late", "b", "from 2"]

    run_virtual(main())


def test_a_call_that_waits_begins_after_the_run_elsewhere(session: Session):
    async def main() -> None:
        one = await process(session, 1, [Delay(50), "late"])
        other = await process(session, 2, when_held="queue")
        running = one.call("a").as_task()
        await asyncio.sleep(1)
        waiting = other.call("b").as_task()
        await asyncio.sleep(5)
        (run,) = other.runs
        assert run.stats().waiting_for_lease == "process 1 on one" and run.stats().waiting_for is None
        await running
        await waiting
        assert asyncio.get_running_loop().time() < 52
        assert said(other) == ["a", "late", "b", "from 2"] == await stored(session)
        assert_whole(other)

    run_virtual(main())


def test_a_lease_costs_one_more_write_and_nothing_more():
    async def main() -> None:
        session = Store()
        one = await process(session, 1)
        bare = agent(ScriptedModel("x", repeat=True))
        await bare.bind(session, "without")
        await one.call("a")
        for number in range(3):
            session.writes = session.operations = 0
            await one.call(f"{number}")
            assert (session.writes, session.operations) == (2, 2)
            session.writes = session.operations = 0
            await bare.call(f"{number}")
            assert (session.writes, session.operations) == (1, 1)

    run_virtual(main())


def test_a_long_run_keeps_its_lease_and_saves_without_reading():
    async def main() -> None:
        session = Store()
        one = await process(session, 1, [Delay(95), "late"])
        await one.call("a")
        session.writes = session.operations = 0
        await one.call("b")
        # acquired, 9 signs of life, saved
        assert (session.writes, session.operations) == (11, 11)
        assert (await lease_of(session))["beat"] == 9

    run_virtual(main())


def test_pending_calls_and_approvals_move_with_the_conversation(session: Session):
    asked: list[str] = []

    @tool(requires_approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        asked.append(f"paid {amount}")
        return asked[-1]

    async def main() -> None:
        turns = ("hello", [call("pay", "p1", amount=5)], "done")
        one = await process(session, 1, *turns[:2], tools=[pay])
        other = await process(session, 2, "done", tools=[pay])
        await one.call("hi")
        await one.call("pay")
        assert [each.id for each in await one.pending_calls()] == ["p1"]
        reply = await other.call(Approve("p1"))
        assert reply.text == "done" and asked == ["paid 5"]
        assert_whole(other)

    run_virtual(main())


def test_tool_groups_and_history_move_with_the_conversation(session: Session):
    """A run is made before the conversation is loaded: it must have the groups of the loaded one."""

    async def equipped(pid: int, *turns: object) -> ReActAgent:
        toolkit = Toolkit()
        toolkit.create_tool_group("web", "Read pages of the web")
        toolkit.register(weather, group="web")
        toolkit.register_meta_tool()
        one = ReActAgent("Friday", ScriptedModel(*turns), toolkit=toolkit)
        await one.bind(session, "k", lease=policy(pid))
        return one

    async def main() -> None:
        one = await equipped(1, [call("reset_equipped_tools", "c1", to_activate=["web"])], "ready")
        other = await equipped(2, "sunny")
        await one.call("a")
        await other.call("b")
        model = other.model
        assert isinstance(model, ScriptedModel)
        assert "weather" in [schema.name for schema in model.requests[0].tools]
        checkpoints = await session.history("k")
        assert [each.parent for each in checkpoints] == [None, checkpoints[0].id]
        assert checkpoints[-1].messages == len(said(other))

    run_virtual(main())


# --- waiting ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["interrupt", "shutdown", "deadline", "dispose"])
def test_a_wait_for_the_lease_can_be_ended(end: str):
    async def main() -> None:
        session = InMemorySession()
        one = await process(session, 1, [Delay(200), "late"])
        shutdown = GracefulShutdown(timeout=1) if end == "shutdown" else None
        other = await process(session, 2, when_held="queue", shutdown=shutdown)
        running = one.call("a").as_task()
        await asyncio.sleep(1)
        limits = UsageLimits(deadline=7) if end == "deadline" else None
        waiting = other.call("b", limits=limits).as_task()
        await asyncio.sleep(3)
        if end == "interrupt":
            assert other.interrupt()
            with pytest.raises(QueuedCallInterruptedError):
                await waiting
        elif shutdown is not None:
            await shutdown.begin()
            with pytest.raises(AgentShuttingDownError):
                await waiting
        elif end == "deadline":
            with pytest.raises(RunDeadlineError):
                await waiting
            assert asyncio.get_running_loop().time() == 8
        else:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        await asyncio.sleep(0.1)
        assert not other.running and said(other) == []
        assert (await lease_of(session))["holder"]["pid"] == 1
        await running
        if end != "shutdown":
            await other.call("b")
            assert await stored(session) == ["a", "late", "b", "from 2"]

    run_virtual(main())


# --- changes that were not saved ----------------------------------------------------------------------------------


def test_what_only_memory_has_is_not_replaced_by_a_reload(session: Session):
    async def main() -> None:
        one, other = await process(session, 1), await process(session, 2)
        await one.call("a")
        await one.observe("aside")
        await other.call("b")
        model = one.model
        assert isinstance(model, ScriptedModel)
        before = len(model.requests)
        with pytest.raises(SessionConflictError, match="load"):
            await one.call("c")
        assert len(model.requests) == before, "before anything of the run has begun"
        assert said(one) == ["a", "from 1", "aside"] and not one.running
        assert (await lease_of(session))["holder"] is None
        await one.load(session, "k")
        await one.call("c")
        assert await stored(session) == ["a", "from 1", "b", "from 2", "c", "from 1"]

    run_virtual(main())


def test_what_only_memory_has_is_saved_if_no_other_has_saved(session: Session):
    async def main() -> None:
        one, other = await process(session, 1), await process(session, 2)
        await one.call("a")
        await one.observe("aside")
        # entries of the program's own, and a run that was refused
        await session.save("k", "title", "Mine")
        lease = other.conversation().binding
        assert lease is not None and lease.lease is not None
        await lease.lease.acquire()
        with pytest.raises(ConversationLeasedError):
            await one.call("x")
        await lease.lease.release()
        await one.call("c")
        assert await stored(session) == ["a", "from 1", "aside", "c", "from 1"]

    run_virtual(main())


def test_a_conversation_that_was_deleted_is_not_made_again(session: Session):
    async def main() -> None:
        one = await process(session, 1)
        await one.call("a")
        await session.delete("k")
        with pytest.raises(SessionConflictError, match="deleted") as caught:
            await one.call("b")
        assert caught.value.found is None and not await session.exists("k") and not one.running
        assert await one.load(session, "k") is False
        await one.call("b")
        assert await stored(session) == ["a", "from 1", "b", "from 1"]

    run_virtual(main())


def test_a_save_between_runs_respects_the_lease_of_another(session: Session):
    async def main() -> None:
        one, other = await process(session, 1, [Delay(50), "late"]), await process(session, 2)
        without = agent(ScriptedModel("x"))
        await one.call("a")
        await other.load(session, "k")
        await without.load(session, "k")
        running = one.call("b").as_task()
        await asyncio.sleep(1)
        for each in (other, without):
            await each.observe("aside")
            if each is other:
                with pytest.raises(ConversationLeasedError):
                    await each.save(session, "k")
        await running
        assert await stored(session) == ["a", "late", "b", "late"]

    run_virtual(main())


# --- arguments, pools ---------------------------------------------------------------------------------------------


def test_an_agent_that_cannot_keep_a_lease_is_refused():
    session = InMemorySession()
    overlapping = agent(ScriptedModel("x"), check_running=False)
    with pytest.raises(ConfigurationError, match="check_running"):
        overlapping.bind(session, "k", lease="error")
    partial = agent(ScriptedModel("x"), state_persistence=StatePersistence.memory_only())
    with pytest.raises(ConfigurationError, match="state_persistence"):
        partial.bind(session, "k", lease="error")
    with pytest.raises(ConfigurationError, match="when_held"):
        agent(ScriptedModel("x")).bind(session, "k", lease="wait")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="when_held"):
        ConversationPool(agent(ScriptedModel("x")), session, lease="wait")  # type: ignore[arg-type]


def test_a_later_bind_without_a_lease_needs_none(session: Session):
    async def main() -> None:
        one = await process(session, 1)
        await one.call("a")
        await one.bind(session, "k")
        await one.call("b")
        assert (await lease_of(session))["token"] == 1
        assert await stored(session) == ["a", "from 1", "b", "from 1"]

    run_virtual(main())


def test_two_pools_share_their_conversations(session: Session):
    async def main() -> None:
        pools = [
            ConversationPool(
                agent(ScriptedModel([Delay(1), f"pool {number}"], repeat=True)), session, lease=policy(number, "queue")
            )
            for number in range(2)
        ]
        async with pools[0], pools[1]:
            calls = [pools[n % 2].call("ann", "s", f"{n}", when_busy="queue").as_task() for n in range(8)]
            await asyncio.gather(*calls)
            async with pools[0].conversation("ann", "s") as leased:
                await leased.load()
                texts = [message.text for message in await leased.memory.get()]
        assert sorted(texts[::2]) == [f"{n}" for n in range(8)]
        assert all(reply == f"pool {int(n) % 2}" for n, reply in zip(texts[::2], texts[1::2], strict=True))

    run_virtual(main())


def test_the_first_event_of_a_leased_run_is_pre_call(session: Session):
    async def main() -> None:
        one = await process(session, 1)
        found = types(await events_of(one, "a"))
        assert found[0] == "pre_call" and found[-1] == "post_call"

    run_virtual(main())
