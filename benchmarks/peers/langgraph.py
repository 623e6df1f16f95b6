"""langgraph as a side: `create_agent` of langchain, its ready ReAct graph, without a checkpointer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from langchain.agents import create_agent
from langchain.tools import tool
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from benchmarks.compare import side
from benchmarks.script import ARGUMENTS, Script

CONFIG = {"recursion_limit": side.ROUNDS}
INPUT = {"messages": [("user", side.GO)]}


@tool
async def step(n: int = 0) -> str:
    """The tool."""
    return "ok"


@tool
async def nap(n: int = 0) -> str:
    """Takes 50 ms."""
    return await side.nap()


TOOLS = {"step": step, "nap": nap}


class ScriptedModel(BaseChatModel):
    """Answers by a script: whole, or in pieces."""

    script: Any = None

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: object, **options: object) -> ScriptedModel:  # type: ignore[override]
        return self

    def _generate(self, messages: object, **options: object) -> ChatResult:  # type: ignore[override]
        raise NotImplementedError

    async def _agenerate(self, messages: object, **options: object) -> ChatResult:  # type: ignore[override]
        texts, calls = await self.script.answer()
        asked = [{"id": id, "name": name, "args": {"n": 1}} for id, name, _ in calls]
        return ChatResult(generations=[ChatGeneration(message=AIMessage("".join(texts), tool_calls=asked))])

    async def _astream(self, messages: object, **options: object) -> AsyncIterator[ChatGenerationChunk]:  # type: ignore[override]
        texts, calls = await self.script.answer()
        for text in texts:
            if self.script.breathes:
                await asyncio.sleep(0)
            yield ChatGenerationChunk(message=AIMessageChunk(text))
        if calls:
            asked = [
                {"id": id, "name": name, "args": ARGUMENTS, "index": n, "type": "tool_call_chunk"}
                for n, (id, name, _) in enumerate(calls)
            ]
            yield ChatGenerationChunk(message=AIMessageChunk("", tool_call_chunks=asked))


class LanggraphSide(side.Side):
    """Called, it takes whole answers; no checkpointer; a compiled graph holds no conversation: one serves all runs."""

    shares_agents = True

    def scripted(self, script: Script) -> object:
        return ScriptedModel(script=script)

    def remote(self, url: str, name: str) -> object:
        from langchain_openai import ChatOpenAI

        return ChatOpenAI(model=name, base_url=url, api_key="x")

    def agent(self, model: object, tool: str = "step") -> object:
        return create_agent(model, tools=[TOOLS[tool]])

    async def call(self, agent: Any) -> None:
        await agent.ainvoke(INPUT, CONFIG)

    async def pull(self, agent: Any) -> AsyncIterator[str]:
        async for chunk, _ in agent.astream(INPUT, CONFIG, stream_mode="messages"):
            if chunk.text:
                yield chunk.text


SIDE = LanggraphSide()
