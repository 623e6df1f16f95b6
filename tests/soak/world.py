"""The agents of a soak: a model that answers at random, tools of every form, sub-agents, approvals.

All chance comes from seeded generators, so that a failure in virtual time repeats with its seed.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from itertools import count
from random import Random

from reactivex import operators as ops

from agentscope_rx import (
    ConversationPool,
    InMemorySession,
    Msg,
    ReActAgent,
    Toolkit,
    ToolUseBlock,
    tool,
)
from agentscope_rx.errors import ModelConnectionError
from agentscope_rx.hooks import around
from agentscope_rx.memory import InMemoryMemory, Memory
from agentscope_rx.messages import ChatUsage, TextBlock, ThinkingBlock
from agentscope_rx.models import ChatModel, ChatResponse, ExecutionConfig
from agentscope_rx.models.options import GenerateOptions, ToolSchema
from agentscope_rx.reactive import Flow, from_async_iterable, just, then, timer

PACE = 1.0
"""Seconds that the slowest ordinary step takes; a world may be quicker."""

AROUND = [around(kind, ops.map(lambda item: item)) for kind in ("call", "stage", "model", "tool")]
"""Hooks that stand around everything, and change nothing."""


class Chance(ChatModel):
    """A model that answers at random: text, thinking, calls, errors before and after content, long silences."""

    provider = "chance"

    def __init__(self, random: Random, pace: float, ids: count[int]) -> None:
        super().__init__("chance", execution_config=ExecutionConfig(max_attempts=2, initial_backoff=pace / 4))
        self._random = random
        self._pace = pace
        self._ids = ids

    def do_stream(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Flow[ChatResponse]:
        return from_async_iterable(lambda: self._answer([each.name for each in tools]))

    async def _answer(self, tools: Sequence[str]) -> AsyncIterator[ChatResponse]:
        random, pace = self._random, self._pace
        await asyncio.sleep(random.random() * pace / 4)
        kind = random.random()
        if kind < 0.03:
            raise ModelConnectionError("the line is down")
        if kind < 0.06:
            await asyncio.sleep(30 * pace)
        if kind < 0.15:
            yield ChatResponse((ThinkingBlock("Let me see."),))
        for word in range(random.choice((1, 3, 3, 10, 60))):
            if random.random() < 0.3:
                await asyncio.sleep(random.random() * pace / 20)
            yield ChatResponse((TextBlock(f"word {word} "),))
        if kind > 0.97:
            raise ModelConnectionError("the line broke")
        if tools and kind > 0.4:
            for _ in range(random.choice((1, 1, 2, 3))):
                name = random.choice(tools)
                yield ChatResponse((ToolUseBlock(f"c{next(self._ids)}", name, _arguments(name, random)),))
        yield ChatResponse(usage=ChatUsage(input_tokens=10, output_tokens=5))


def _arguments(name: str, random: Random) -> dict[str, object]:
    if name.startswith("call_"):
        return {"message": "Help me."}
    return {"of": random.randrange(5)}


def tools_at(pace: float, *, threads: bool) -> list[object]:
    """A tool of each form. Those on threads are left out of virtual time, which would wait for them in real time."""

    @tool
    async def look(of: int) -> str:
        """Looks, and cleans up after itself."""
        try:
            await asyncio.sleep(pace * of / 10)
            return f"seen {of}"
        finally:
            await asyncio.sleep(pace / 50)

    @tool
    async def steps(of: int):
        """Reports each step."""
        for step in range(of):
            await asyncio.sleep(pace / 20)
            yield f"step {step}"

    @tool
    async def fail(of: int) -> str:
        """Fails."""
        raise ValueError(f"no {of}")

    @tool
    def observable(of: int) -> Flow[str]:
        """Answers by an Observable."""
        return timer(pace * of / 20).pipe(then(lambda: just("observed")))

    @tool(requires_approval=True)
    async def risky(of: int) -> str:
        """Needs an approval."""
        return f"done {of}"

    @tool
    def blocking(of: int) -> str:
        """Blocks a thread."""
        time.sleep(pace * of / 50)
        return "unblocked"

    every: list[object] = [look, steps, fail, observable, risky]
    return [*every, blocking] if threads else every


class World:
    """What the actors of a soak share."""

    def __init__(self, *, agents: int, seed: int, pace: float = PACE, threads: bool = False) -> None:
        self.pace = pace
        self.session = InMemorySession()
        self.ids = count()
        self.users: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """The users of the pools, each of whom does one thing at a time."""
        self.sessions: dict[str, int] = defaultdict(int)
        self.remembered: dict[str, tuple[Msg, ...]] = {}
        """The conversation of each user as it was last seen."""
        self.agents: list[ReActAgent] = []
        self.ended: dict[str, int] = {}
        """How often each kind of end was seen."""
        for number in range(agents):
            self.agents.append(self._agent(number, Random(f"{seed} {number}"), threads))
        self.pools = [self._pool(Random(f"{seed} pool {number}"), threads) for number in range(3)]

    def _agent(self, number: int, random: Random, threads: bool) -> ReActAgent:
        tools = tools_at(self.pace, threads=threads)
        if number % 4 == 0:
            helper = ReActAgent(
                f"helper{number}",
                Chance(random, self.pace, self.ids),
                toolkit=Toolkit(tools_at(self.pace, threads=threads)[:3]),
                max_iters=2,
            )
            tools.append(helper.as_tool())
        return ReActAgent(
            f"agent{number}",
            Chance(random, self.pace, self.ids),
            "You are one of many.",
            toolkit=Toolkit(tools, parallel=number % 3 > 0),
            max_iters=4,
            hooks=AROUND if number % 5 == 0 else (),
            interrupt_grace=self.pace / 10,
        )

    def _pool(self, random: Random, threads: bool) -> ConversationPool:
        friday = ReActAgent(
            "Friday", Chance(random, self.pace, self.ids), tools=tools_at(self.pace, threads=threads), max_iters=4
        )
        return ConversationPool(friday, self.session, max_kept=4, max_idle=5 * self.pace)

    async def aclose(self) -> None:
        """Close the pools."""
        for pool in self.pools:
            await pool.aclose()

    def note(self, end: str) -> None:
        self.ended[end] = self.ended.get(end, 0) + 1


def messages_in(memory: Memory) -> Sequence[Msg]:
    assert isinstance(memory, InMemoryMemory)
    return memory.messages
