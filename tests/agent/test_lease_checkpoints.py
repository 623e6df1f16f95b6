"""Leases together with checkpoints: the history is one chain, and a run that was loaded under its lease is durable."""

from __future__ import annotations

import asyncio

import pytest

from agentscope_rx.errors import LeaseLostError, SessionStorageError
from agentscope_rx.session import InMemorySession, Session
from agentscope_rx.testing import run_virtual
from agentscope_rx.testing.scripted_model import Delay, ScriptedModel, call
from tests.agent.parts import agent, assert_whole, remembered
from tests.agent.test_leases import lease_of, policy, process, said, stored
from tests.session.lease.machines import Store


async def staged(session: Session, pid: int, *turns: object):
    one = agent(ScriptedModel(*turns, repeat=True))
    await one.bind(session, "k", lease=policy(pid), checkpoint="stage")
    return one


def test_a_run_that_was_loaded_under_its_lease_has_a_journal():
    async def main() -> None:
        session = InMemorySession()
        one = await staged(session, 1, [call("weather", city="Oslo")], "sunny")
        other = await staged(session, 2, [call("slow", "c9", seconds=50)], "done")
        await one.call("a")
        running = other.call("b").as_task()
        await asyncio.sleep(1)
        # the call has begun, and the journal tells
        (effect,) = [item for item in await session.load_list("k", "journal") if "c9" in str(item)]
        assert effect
        await running
        assert (await lease_of(session))["holder"] is None
        assert await stored(session) == said(other)

    run_virtual(main())


def test_checkpoints_within_a_run_keep_the_lease_and_are_fenced():
    async def main() -> None:
        session = InMemorySession()
        turns = ([call("slow", "c1", seconds=20)], [call("slow", "c2", seconds=40)], "done")
        one, other = await staged(session, 1, *turns), await process(session, 2)
        running = one.call("a").as_task()
        await asyncio.sleep(25)
        assert (await lease_of(session))["holder"]["pid"] == 1 and len(await session.load_list("k", "memory")) > 1
        binding = one.conversation().binding
        assert binding is not None and binding.lease is not None and binding.lease._held is not None
        heartbeat = binding.lease._held.heartbeat
        assert heartbeat is not None
        heartbeat.stop()
        await asyncio.sleep(31)
        await other.load(session, "k")
        taken = other.call("b").as_task()
        with pytest.raises(LeaseLostError):
            await running
        assert_whole(one)
        await taken
        assert said(other)[-1] == "from 2" and await stored(session) == said(other)

    run_virtual(main())


def test_a_save_of_unknown_outcome_makes_no_checkpoint_twice():
    async def main() -> None:
        session = Store()
        one = await process(session, 1, [Delay(1), "x"])
        await one.call("a")
        session.operations = 0
        session.fault = lambda number: "unsure" if number == 2 else None
        with pytest.raises(SessionStorageError):
            await one.call("b")
        session.fault = lambda number: None
        await one.observe("aside")
        await one.call("c")
        ids = [each.id for each in await session.history("k")]
        assert ids == sorted(set(ids)) and len(ids) == 3
        assert [message.text for message in remembered(one)] == await stored(session)
        twin = agent(ScriptedModel("-"))
        await twin.load(session, "k", at=ids[1])
        assert said(twin) == ["a", "x", "b", "x"]

    run_virtual(main())
