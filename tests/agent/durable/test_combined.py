"""Checkpoints together with leases, `session=` and pools, cut off at every moment; what they refuse."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentscope_rx import ConversationPool, ReActAgent, UsageLimits
from agentscope_rx.errors import ConfigurationError, ConversationLeasedError, RunDeadlineError
from agentscope_rx.memory.sql import SqlMemory
from agentscope_rx.session import InMemorySession
from agentscope_rx.testing import Delay, ScriptedModel, run_virtual
from tests.agent.durable.crashes import NotingMemory, World, at_every_moment
from tests.agent.durable.test_checkpoints import agent, left, lost_run
from tests.agent.durable.test_every_moment import acting, model, use
from tests.agent.test_leases import policy


def test_a_lease_is_taken_over_with_the_run_of_the_killed():
    def script(text: str, results: int) -> object:
        if results == 0:
            return [use(f"{text}1", f"{text}-a"), use(f"{text}2", f"{text}-b", "ask")]
        return f"{text} is done."

    def make(world: World) -> ReActAgent:
        return ReActAgent(
            *("A", model(world, script)),
            tools=acting(world),
            memory=NotingMemory(world),
            session=world.session,
            session_key="k",
            checkpoint="stage",
            lease=world.policy(),
        )

    doubted = run_virtual(at_every_moment(make, ["one", "two"]))
    assert {"one-a", "two-a", "one-b", "two-b"} <= set(doubted)


def placed(world: World, *turns: object, **options: Any) -> ReActAgent:
    options = {"session": world.session, "session_key": "k", "checkpoint": "stage", **options}
    return agent(world, *turns, **options)


@pytest.mark.parametrize("lease", [None, "queue"])
def test_an_agent_that_was_loaded_by_hand_makes_checkpoints(lease: Any):
    async def main() -> None:
        world, _ = await lost_run(use("c1", "a"), "done")
        lost = left(world, "after a")
        again = placed(lost, "Well.", lease=lease)
        assert await again.load(lost.session, "k")
        reply = await again.call()
        assert reply.pending_calls[0].in_doubt and lost.effects == ["a"]
        binding = again.conversation().binding
        assert binding is not None and (binding.lease is not None) is (lease is not None)

    run_virtual(main())


def test_a_lease_is_held_from_the_first_run_on():
    async def main() -> None:
        session = InMemorySession()
        options: dict[str, Any] = {"session": session, "session_key": "k"}
        first = ReActAgent("A", ScriptedModel([Delay(5), "one"]), lease=policy(1), **options)
        running = first.call("a").as_task()
        await asyncio.sleep(1)
        third = ReActAgent("A", ScriptedModel("never"), lease=policy(3), **options)
        with pytest.raises(ConversationLeasedError):
            await third.call("c")
        second = ReActAgent("A", ScriptedModel("two"), lease=policy(2, "queue"), **options)
        await second.call("b")
        await running
        assert [message.text for message in await second.memory.get()] == ["a", "one", "b", "two"]
        assert len(await session.load_list("k", "memory")) == 4
        for wrong in ({"lease": "queue"}, {"lease": "queue", "checkpoint": "stage"}):
            with pytest.raises(ConfigurationError, match="needs a session"):
                ReActAgent("A", ScriptedModel("x"), **wrong)
        with pytest.raises(ConfigurationError, match="check_running"):
            ReActAgent("A", ScriptedModel("x"), lease="queue", check_running=False, **options)

    run_virtual(main())


def test_the_deadline_counts_the_time_of_the_lost_run():
    async def main() -> None:
        limits = UsageLimits(deadline=10)
        world, _ = await lost_run([Delay(8), use("c1", "a")], "done", limits=limits)
        lost = left(world, "before a")
        again = placed(lost, [Delay(5), "late"], limits=limits, in_doubt="fail")
        with pytest.raises(RunDeadlineError):
            await again.call()

    run_virtual(main())


def test_a_pool_goes_on_with_a_lost_run():
    async def main() -> None:
        world, _ = await lost_run(use("c1", "a"), "done")
        lost = left(world, "after a")
        again = agent(lost, "Well.", in_doubt="fail")
        async with ConversationPool(again, lost.session, key=lambda user, id: "k", checkpoint="stage") as pool:
            reply = await pool.call("ann", "1")
        assert reply.text == "Well." and lost.effects == ["a"]
        saved = await lost.session.load_all("k")
        assert saved.values["state"]["run"] is None and not saved.lists.get("journal")
        with pytest.raises(ConfigurationError, match="'run' or 'stage'"):
            ConversationPool(again, lost.session, checkpoint="turn")  # type: ignore[arg-type]

    run_virtual(main())


def test_a_durable_memory_has_no_checkpoints_within_runs():
    memory = SqlMemory("sqlite:///never-made.db", "k")
    place: dict[str, Any] = {"session": InMemorySession(), "session_key": "k"}
    with pytest.raises(ConfigurationError, match="SqlMemory"):
        ReActAgent("A", ScriptedModel("x")).bind(InMemorySession(), "k", memory=memory, checkpoint="stage")
    with pytest.raises(ConfigurationError, match="SqlMemory"):
        ReActAgent("A", ScriptedModel("x"), memory=memory, checkpoint="stage", **place)
