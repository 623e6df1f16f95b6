"""AgentScope 2 as a side: `Agent`, whose permissions let all tools run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from agentscope.agent import Agent, ReActConfig
from agentscope.credential import CredentialBase, OpenAICredential
from agentscope.event import TextBlockDeltaEvent
from agentscope.formatter import OpenAIChatFormatter
from agentscope.message import TextBlock, ToolCallBlock, UserMsg
from agentscope.model import ChatModelBase, ChatResponse, OpenAIChatModel
from agentscope.permission import PermissionContext, PermissionMode
from agentscope.state import AgentState
from agentscope.tool import FunctionTool, Toolkit

from benchmarks.compare import side
from benchmarks.script import Script

CONTEXT = 100_000_000
"""So many tokens that no run is compressed."""


async def step(n: int = 0) -> str:
    """The tool."""
    return "ok"


async def nap(n: int = 0) -> str:
    """Takes 50 ms."""
    return await side.nap()


TOOLS = {"step": step, "nap": nap}


class ScriptedModel(ChatModelBase):
    """Answers by a script: whole, or in pieces."""

    def __init__(self, script: Script) -> None:
        super().__init__(CredentialBase(), "scripted", self.Parameters(), context_size=CONTEXT)
        self.script = script
        self.formatter = OpenAIChatFormatter()

    async def _call_api(self, model_name: str, **about: object) -> object:  # type: ignore[override]
        texts, calls = await self.script.answer()
        blocks = [ToolCallBlock(id=id, name=name, input=arguments) for id, name, arguments in calls]
        if self.stream:
            return self._pieces(texts, blocks)
        return ChatResponse([*([TextBlock(text="".join(texts))] if texts else ()), *blocks], is_last=True)

    async def _pieces(self, texts: object, blocks: list[ToolCallBlock]) -> AsyncIterator[ChatResponse]:
        for text in texts:  # type: ignore[attr-defined]
            if self.script.breathes:
                await asyncio.sleep(0)
            yield ChatResponse([TextBlock(text=text, id="t")], is_last=False)
        if blocks:
            yield ChatResponse(blocks, is_last=False)


class AgentScope2Side(side.Side):
    """Called, it takes whole answers; its events, permissions and state are as installed, without compression."""

    def scripted(self, script: Script) -> object:
        return ScriptedModel(script)

    def remote(self, url: str, name: str) -> object:
        return OpenAIChatModel(OpenAICredential(api_key="x", base_url=url), name, context_size=CONTEXT)

    def agent(self, model: object, tool: str = "step") -> object:
        state = AgentState(permission_context=PermissionContext(mode=PermissionMode.BYPASS))
        kit = Toolkit([FunctionTool(TOOLS[tool])])
        return Agent("bench", "", model, kit, state=state, react_config=ReActConfig(max_iters=side.ROUNDS))

    async def call(self, agent: Agent) -> None:  # type: ignore[override]
        agent.model.stream = False
        await agent.reply(UserMsg("user", side.GO))

    async def pull(self, agent: Agent) -> AsyncIterator[str]:  # type: ignore[override]
        agent.model.stream = True
        async for event in agent.reply_stream(UserMsg("user", side.GO)):
            if isinstance(event, TextBlockDeltaEvent):
                yield event.delta


SIDE = AgentScope2Side()
