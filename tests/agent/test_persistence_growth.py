"""Saved conversations that grow, change and shrink: each save is what the next load reads."""

from __future__ import annotations

import pytest

from agentscope_rx import InMemoryMemory, JsonSession, Msg, hook
from agentscope_rx.agent import StatePersistence
from agentscope_rx.events import PostReasoningEvent
from agentscope_rx.testing import run_virtual
from tests.agent.parts import remembered
from tests.agent.shorthand import agent, said, use


@pytest.mark.spec("case 135", "case 138", "case 139", "case 140", "W70")
def test_each_save_is_what_the_next_load_reads(tmp_path):
    """Loading replaces; each save after growth, change or shrinking is what is read;
    the choice of what is kept."""

    async def main():
        session = JsonSession(tmp_path)
        friday = agent("one", "two", "three")

        async def check():
            await friday.save(session, "s")
            other = agent(memory=InMemoryMemory([Msg.user("gone")]))
            assert await other.load(session, "s")
            assert list(remembered(other)) == list(remembered(friday))
            # after a reload nothing is rewritten, and nothing lost
            await other.save(session, "s")
            third = agent()
            await third.load(session, "s")
            assert list(remembered(third)) == list(remembered(friday))

        for word in "abc":
            await friday.call(word)
            await check()
        for number in range(len(remembered(friday))):
            changed = remembered(friday)[number].replace(content=f"changed {number}")
            await friday.memory.replace(changed)
            await check()
        await friday.memory.delete([remembered(friday)[2].id])
        await check()
        await friday.memory.clear()
        await check()

        stopped = agent(use("a"), hooks=[hook(PostReasoningEvent)(lambda event: event.stop())])
        await stopped.call("hi")
        await stopped.save(session, "t")
        for kept, lines, pending in (
            (StatePersistence(), ["user hi", "Friday [a]"], {"a"}),
            (StatePersistence.memory_only(), ["user hi", "Friday [a]"], None),
            (StatePersistence(memory=False), [], {"a"}),
        ):
            other = agent(state_persistence=kept)
            assert await other.load(session, "t")
            assert said(other) == lines and other.conversation().pending == pending
        assert not await agent(state_persistence=StatePersistence(memory=False, pending=False)).load(session, "t")

    run_virtual(main())
