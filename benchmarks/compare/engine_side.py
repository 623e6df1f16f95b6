"""The engine as a side: `ReActAgent` as it is installed, with its events, checks and memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from agentscope_rx import ReActAgent
from agentscope_rx.events import ReasoningChunkEvent
from agentscope_rx.models import OpenAIChatModel
from benchmarks import engine, models
from benchmarks.compare.side import GO, ROUNDS, Side
from benchmarks.script import Script

TOOLS = {"step": engine.step, "nap": engine.nap}


class EngineSide(Side):
    """Streams inside also when called, with all events, deadlines, interruption and a memory that can be repaired."""

    def scripted(self, script: Script) -> object:
        return engine.GeneratorModel(models.scripted(script))

    def remote(self, url: str, name: str) -> object:
        return OpenAIChatModel(name, base_url=url, api_key="x")

    def agent(self, model: object, tool: str = "step") -> object:
        return ReActAgent("bench", model, tools=[TOOLS[tool]], max_iters=ROUNDS)  # type: ignore[arg-type]

    async def call(self, agent: ReActAgent) -> None:  # type: ignore[override]
        await agent.call(GO)

    async def pull(self, agent: ReActAgent) -> AsyncIterator[str]:  # type: ignore[override]
        async for event in agent.stream(GO):
            if isinstance(event, ReasoningChunkEvent) and (text := event.text):
                yield text

    async def subscribe(self, agent: ReActAgent) -> int:  # type: ignore[override]
        seen: list[str] = []

        def take(event: object) -> None:
            if isinstance(event, ReasoningChunkEvent) and (text := event.text):
                seen.append(text)

        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        agent.stream(GO).subscribe(take, done.set_exception, lambda: done.set_result(None))
        await done
        return len(seen)

    async def readers(self, agent: ReActAgent, count: int) -> int:  # type: ignore[override]
        handle = agent.start(GO)

        async def read() -> int:
            seen = 0
            async for event in handle.events():
                if isinstance(event, ReasoningChunkEvent):
                    seen += 1
            return seen

        return sum(await asyncio.gather(*(read() for _ in range(count))))

    async def subscribers(self, agent: ReActAgent, count: int) -> int:  # type: ignore[override]
        handle = agent.start(GO)
        seen: list[list[object]] = [[] for _ in range(count)]
        for each in seen:
            handle.events().subscribe(each.append)
        await handle.idle()
        return sum(isinstance(event, ReasoningChunkEvent) for each in seen for event in each)


SIDE = EngineSide()
