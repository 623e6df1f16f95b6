"""strands as a side: `Agent`, without its handler that prints."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager
from strands.models.model import Model
from strands.models.openai import OpenAIModel

from benchmarks.compare import side
from benchmarks.script import Script


@tool
async def step(n: int = 0) -> str:
    """The tool."""
    return "ok"


@tool
async def nap(n: int = 0) -> str:
    """Takes 50 ms."""
    return await side.nap()


TOOLS = {"step": step, "nap": nap}


class ScriptedModel(Model):
    """Answers by a script, in pieces."""

    def __init__(self, script: Script) -> None:
        self.script = script

    def update_config(self, **model_config: object) -> None:
        pass

    def get_config(self) -> dict[str, object]:
        return {}

    def structured_output(self, *about: object, **more: object) -> object:  # type: ignore[override]
        raise NotImplementedError

    async def stream(self, *about: object, **more: object) -> AsyncIterator[object]:  # type: ignore[override]
        texts, calls = await self.script.answer()
        yield {"messageStart": {"role": "assistant"}}
        if texts:
            yield {"contentBlockStart": {"start": {}}}
            for text in texts:
                if self.script.breathes:
                    await asyncio.sleep(0)
                yield {"contentBlockDelta": {"delta": {"text": text}}}
            yield {"contentBlockStop": {}}
        for id, name, arguments in calls:
            yield {"contentBlockStart": {"start": {"toolUse": {"name": name, "toolUseId": id}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": arguments}}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}


class StrandsSide(side.Side):
    """Streams inside also when called; keeps all messages; makes spans by OpenTelemetry's API, which records none."""

    def scripted(self, script: Script) -> object:
        return ScriptedModel(script)

    def remote(self, url: str, name: str) -> object:
        return OpenAIModel(client_args={"base_url": url, "api_key": "x"}, model_id=name)

    def agent(self, model: object, tool: str = "step") -> object:
        keeps_all = NullConversationManager()
        return Agent(model, tools=[TOOLS[tool]], callback_handler=None, conversation_manager=keeps_all)

    async def call(self, agent: Agent) -> None:  # type: ignore[override]
        await agent.invoke_async(side.GO)

    async def pull(self, agent: Agent) -> AsyncIterator[str]:  # type: ignore[override]
        async for event in agent.stream_async(side.GO):
            if text := event.get("data"):
                yield text


SIDE = StrandsSide()
