"""AgentScope 1 as a side: `ReActAgent`, without what it prints on the console."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from agentscope.agent import ReActAgent
from agentscope.formatter import OpenAIChatFormatter
from agentscope.message import Msg, TextBlock, ToolUseBlock
from agentscope.model import ChatModelBase, ChatResponse, OpenAIChatModel
from agentscope.pipeline import stream_printing_messages
from agentscope.tool import Toolkit, ToolResponse

from benchmarks.compare import side
from benchmarks.script import Script


async def step(n: int = 0) -> ToolResponse:
    """The tool."""
    return ToolResponse([TextBlock(type="text", text="ok")])


async def nap(n: int = 0) -> ToolResponse:
    """Takes 50 ms."""
    return ToolResponse([TextBlock(type="text", text=await side.nap())])


TOOLS = {"step": step, "nap": nap}


class ScriptedModel(ChatModelBase):
    """Answers by a script: whole, or in pieces, each of which has the text so far, as its port has it."""

    def __init__(self, script: Script) -> None:
        super().__init__("scripted", False)
        self.script = script

    async def __call__(self, *about: object, **more: object) -> object:  # type: ignore[override]
        texts, calls = await self.script.answer()
        blocks = [
            ToolUseBlock(type="tool_use", id=id, name=name, input=json.loads(arguments))
            for id, name, arguments in calls
        ]
        if self.stream:
            return self._pieces(texts, blocks)
        text = [TextBlock(type="text", text="".join(texts))] if texts else []
        return ChatResponse([*text, *blocks])

    async def _pieces(self, texts: object, blocks: list[ToolUseBlock]) -> AsyncIterator[ChatResponse]:
        so_far = ""
        for text in texts:  # type: ignore[attr-defined]
            if self.script.breathes:
                await asyncio.sleep(0)
            so_far += text
            yield ChatResponse([TextBlock(type="text", text=so_far)])
        if blocks:
            yield ChatResponse([*blocks])


class AgentScope1Side(side.Side):
    """Called, it takes whole answers; a stream repeats the text so far with each piece, and pauses 0.1 s at its end."""

    def scripted(self, script: Script) -> object:
        return ScriptedModel(script)

    def remote(self, url: str, name: str) -> object:
        return OpenAIChatModel(name, api_key="x", client_kwargs={"base_url": url})

    def agent(self, model: object, tool: str = "step") -> object:
        kit = Toolkit()
        kit.register_tool_function(TOOLS[tool])
        agent = ReActAgent("bench", "", model, OpenAIChatFormatter(), kit, max_iters=side.ROUNDS)
        agent.set_console_output_enabled(False)
        return agent

    async def call(self, agent: ReActAgent) -> None:  # type: ignore[override]
        agent.model.stream = False
        await agent(Msg("user", side.GO, "user"))

    async def pull(self, agent: ReActAgent) -> AsyncIterator[str]:  # type: ignore[override]
        agent.model.stream = True
        seen = 0
        async for message, _ in stream_printing_messages([agent], agent(Msg("user", side.GO, "user"))):
            text = message.get_text_content() or ""
            if len(text) > seen:
                yield text[seen:]
                seen = len(text)


SIDE = AgentScope1Side()
