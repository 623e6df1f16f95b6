"""`Working`: the agent of `combined` with background work and sub-agents besides, and what holds for these."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from random import Random
from typing import cast

from agentscope_rx import BackgroundHook, InMemoryMemory, Msg, tool
from agentscope_rx.agent.conversation import Conversation
from agentscope_rx.agent.sub_agent.conversations import SubConversation
from agentscope_rx.events import BackgroundEvent, Event
from agentscope_rx.hooks import Hook
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.sub_agents import SubAgent, SubAgentLimits, SubagentsHook
from agentscope_rx.testing import ScriptedModel
from agentscope_rx.tools.background import BACKGROUND
from tests.agent.combined import SECRET, Chance, Combined
from tests.soak.actors import assert_whole

LABELS = ("one", "two", "three", "helper-1", "middle-1")


class WorkingChance(Chance):
    """A model that also starts sub-agents, and uses the jobs of which it has read."""

    favourites = (
        *("look", "fetch", "build", "steps", "steps", "agent_spawn", "agent_spawn", "agent_send"),
        "retrieve_knowledge",
    )

    def answer(self, request: object) -> object:
        texts = cast("Sequence[Msg]", request.messages)  # type: ignore[attr-defined]
        results = (result for message in texts for result in message.tool_results)
        self.jobs = [found["job"] for each in results if (found := each.metadata.get(BACKGROUND)) is not None]
        return super().answer(request)  # type: ignore[arg-type]

    def _call(self, name: str) -> ToolUseBlock:
        random = self.random
        seconds = random.choice((0, 1, 30))
        if name == "agent_spawn":
            named = {"label": random.choice(LABELS)} if random.random() < 0.5 else {}
            agent = random.choice(("helper", "middle", "unknown"))
            arguments = {"agent": agent, "task": "Help me.", "timeout_seconds": seconds, **named}
        elif name == "agent_send":
            arguments = {"agent": random.choice(LABELS), "message": "And now?", "timeout_seconds": seconds}
        elif name == "background_read":
            arguments = {"job": self._job(), "wait": seconds}
        elif name == "background_send":
            arguments = {"job": self._job(), "message": "Hear me."}
        elif name == "background_stop":
            arguments = {"job": self._job()}
        elif name == "background_wait":
            arguments = {"timeout": seconds}
        elif name in ("background_list", "agent_list"):
            arguments = {}
        else:
            return super()._call(name)
        return ToolUseBlock(f"c{next(self.ids)}", name, arguments)

    def _job(self) -> str:
        return self.random.choice(self.jobs) if self.jobs else "none"


class Working(Combined):
    """One conversation whose calls go on in the background, and whose sub-agents start others."""

    chance_type = WorkingChance

    def tools(self) -> list[object]:
        @tool(background=True)
        async def build(of: int) -> str:
            """Builds, in the background."""
            await asyncio.sleep(of)
            return f"built {of} {SECRET}"

        @tool(read_only=True, background=0.3)
        async def steps(of: int):
            """Reports its steps; is promoted if it has many."""
            for number in range(of):
                await asyncio.sleep(0.2)
                yield f"step {number}"

        return [*super().tools(), build, steps]

    def more_hooks(self, random: Random) -> list[Hook]:
        def model() -> ScriptedModel:
            return ScriptedModel(WorkingChance(random, self.ids).answer, repeat=True)

        after = random.choice((None, 0, 0.1, 1))
        wait = random.choice(("wait", "leave", "stop"))
        helper = SubAgent("helper", "Helps.", "Help.", model=model(), max_iters=3)
        middle = SubAgent("middle", "Lets others help.", "Help.", model=model(), spawns=True, max_iters=3)
        limits = SubAgentLimits(depth=2, at_once=random.choice((1, 4)), total=random.choice((3, 50)))
        return [
            BackgroundHook(after, wait=wait, max_jobs=random.choice((1, 3, 100)), with_tools=random.random() < 0.8),
            SubagentsHook(helper, middle, limits=limits),
        ]

    async def check(self) -> None:
        await super().check()
        conversation = self.agent.conversation()
        messages = cast("InMemoryMemory", self.agent.memory).messages
        told = Counter(found["job"] for each in messages if (found := each.metadata.get(BACKGROUND)) is not None)
        assert all(count == 1 for count in told.values()), told
        jobs = self.agent.background()
        if not jobs.in_progress_within:
            await self._cleaned_up()
            for child in children_of(conversation):
                await assert_free(child)

    async def settle(self) -> None:
        """Nothing of it goes on."""
        jobs = self.agent.background()
        jobs.stop()
        await jobs.wait(timeout=60)
        assert not jobs.in_progress_within
        await self._cleaned_up()
        for child in children_of(self.agent.conversation()):
            await assert_free(child)

    async def _cleaned_up(self) -> None:
        """Jobs have ended when they are stopped; what they run cleans up after that."""
        below = self.agent.conversation().jobs_below()
        for job in (*self.agent.background().all, *(job for jobs in below for job in jobs.all)):
            await job.idle()
        await self.agent.idle()

    def check_shown(self, events: Sequence[Event]) -> None:
        super().check_shown(events)
        began = Counter(e.job for e in events if isinstance(e, BackgroundEvent) and e.state in ("started", "promoted"))
        assert all(count == 1 for count in began.values()), began


def children_of(conversation: Conversation) -> list[SubConversation]:
    """All sub-conversations that this process has, at any depth."""
    children = () if conversation.children is None else conversation.children.all
    own = [child for child in children if child.conversation is not None]
    return [*own, *chain.from_iterable(children_of(cast("Conversation", each.conversation)) for each in own)]


async def assert_free(child: SubConversation) -> None:
    """No run of it is in progress, and each call has its result or waits."""
    conversation, memory = child.conversation, child.memory
    assert conversation is not None and memory is not None
    assert not conversation.entered and conversation.flag.run is None
    assert_whole(await memory.get(), [id.partition("/")[0] for id in conversation.pending or ()])
