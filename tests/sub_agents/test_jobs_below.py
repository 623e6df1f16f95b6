"""The background work of a sub-agent outlasts its run: it belongs to the conversation that has begun it all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentscope_rx import BackgroundHook, ConversationPool, GracefulShutdown, InMemorySession, ReActAgent, tool
from agentscope_rx.agent.background.jobs import Jobs
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.testing import Delay, run_virtual
from tests.sub_agents.parts import boss, helper, spawn, tree_of


@tool(background=True)
async def slow() -> str:
    """Takes long."""
    await asyncio.sleep(1000)
    return "slept"


def agent(**options: Any) -> ReActAgent:
    """Its sub-agent is allowed one round, and leaves a job of its own."""
    declared = helper([ToolUseBlock("x", "slow", {})], "Begun.", max_iters=1)
    return boss(declared, [spawn("a")], [Delay(5), "Done."], tools=[slow], **options)


def below(friday: ReActAgent) -> Jobs:
    jobs = tree_of(friday.conversation())[1].jobs
    assert jobs is not None
    return jobs


def test_it_is_stopped_and_waited_for_with_that_of_its_parent():
    async def main() -> None:
        friday = agent()
        assert (await friday.call("go")).text == "Done."
        (job,) = below(friday).in_progress
        assert friday.background().in_progress == ()
        assert friday.background().in_progress_within == (job,)
        await friday.background().wait(timeout=5)
        assert job.running
        assert friday.background().stop() == (job.id,)
        await friday.background().wait()
        assert job.state == "stopped"

    run_virtual(main())


@pytest.mark.parametrize("cut", [False, True])
def test_a_run_that_stops_its_work_stops_that_below(cut: bool):
    async def main() -> None:
        friday = agent(hooks=[BackgroundHook(wait="stop")])
        run = friday.call("go").as_task()
        if cut:
            await asyncio.sleep(1)
            assert below(friday).in_progress
            run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        await friday.idle()
        assert below(friday).in_progress == ()

    run_virtual(main())


def test_a_shutdown_hands_it_over():
    async def main() -> None:
        shutdown = GracefulShutdown(timeout=1, grace=1)
        friday = agent(shutdown=shutdown)
        await friday.call("go")
        report = await shutdown.begin()
        assert report.undrained == () and below(friday).in_progress == ()
        (record,) = below(friday).records.values()
        assert record["state"] == "running"

    run_virtual(main())


def test_a_pool_keeps_its_conversation():
    async def main() -> None:
        async with ConversationPool(agent(), InMemorySession(), max_kept=1, max_idle=5) as pool:
            await pool.call("u", "1", "go")
            await asyncio.sleep(100)
            async with pool.conversation("u", "1") as conversation:
                jobs = conversation.agent.background(memory=conversation.memory)
                assert len(jobs.in_progress_within) == 1
                jobs.stop()

    run_virtual(main())
