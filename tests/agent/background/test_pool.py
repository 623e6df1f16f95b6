"""A pool keeps a conversation with work in progress, and its end is saved."""

from __future__ import annotations

import asyncio

from agentscope_rx import BackgroundHook, ConversationPool, InMemorySession
from agentscope_rx.testing import run_virtual
from tests.agent.background.parts import agent, use


def test_work_in_progress_keeps_its_conversation():
    async def main():
        friday = agent(
            use("work"), "I go.", "hi", "hello", "x", "y", background=True, hooks=[BackgroundHook(wait="leave")]
        )
        pool = ConversationPool(friday, InMemorySession(), max_kept=1, max_idle=2)
        await pool.call("ann", "1", "go")
        await pool.call("bob", "1", "hi")
        await asyncio.sleep(3)
        assert (pool.statistics().kept, pool.statistics().in_use) == (1, 1)
        # the work ends after 5 seconds; its result is saved, and the conversation may go
        await asyncio.sleep(9)
        assert (pool.statistics().kept, pool.statistics().in_use) == (0, 0)
        await pool.call("ann", "1", "and?")
        assert "w is done" in friday.model.requests[-1].messages[-1].text
        await asyncio.sleep(3)

    run_virtual(main())
