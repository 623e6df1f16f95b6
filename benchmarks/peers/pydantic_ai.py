"""pydantic-ai as a side: `Agent.run`, and `Agent.run_stream` without its grouping of pieces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model, StreamedResponse
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits

from benchmarks.compare import side
from benchmarks.script import Answer, Script

LIMITS = UsageLimits(request_limit=None)
NOW = datetime.now(UTC)


async def step(n: int = 0) -> str:
    """The tool."""
    return "ok"


async def nap(n: int = 0) -> str:
    """Takes 50 ms."""
    return await side.nap()


TOOLS = {"step": step, "nap": nap}


@dataclass
class Pieces(StreamedResponse):
    """The pieces of an answer."""

    answer: Answer = ((), ())
    breathes: bool = False
    model_name: str = "scripted"
    provider_name: str = "scripted"
    provider_url: str = ""
    timestamp: datetime = field(default=NOW)

    async def _get_event_iterator(self) -> AsyncIterator[object]:  # type: ignore[override]
        texts, calls = self.answer
        for text in texts:
            if self.breathes:
                await asyncio.sleep(0)
            for event in self._parts_manager.handle_text_delta(vendor_part_id="t", content=text):
                yield event
        for id, name, arguments in calls:
            for event in self._parts_manager.handle_tool_call_delta_events(
                vendor_part_id=id, tool_name=name, args=arguments, tool_call_id=id
            ):
                yield event

    async def close_stream(self) -> None:
        pass


class ScriptedModel(Model):
    """Answers by a script: whole, or in pieces."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self.script = script

    @property
    def model_name(self) -> str:
        return "scripted"

    @property
    def system(self) -> str:
        return "scripted"

    async def request(self, messages: object, model_settings: object, parameters: object) -> ModelResponse:  # type: ignore[override]
        texts, calls = await self.script.answer()
        parts = [ToolCallPart(name, arguments, id) for id, name, arguments in calls]
        return ModelResponse([*([TextPart("".join(texts))] if texts else ()), *parts])

    @asynccontextmanager
    async def request_stream(
        self, messages: object, model_settings: object, model_request_parameters: object, run_context: object = None
    ) -> AsyncIterator[StreamedResponse]:
        yield Pieces(model_request_parameters, answer=await self.script.answer(), breathes=self.script.breathes)


class PydanticAISide(side.Side):
    """Called, it takes whole answers; an agent holds no conversation, so one serves all runs at once."""

    shares_agents = True

    def scripted(self, script: Script) -> object:
        return ScriptedModel(script)

    def remote(self, url: str, name: str) -> object:
        return OpenAIChatModel(name, provider=OpenAIProvider(base_url=url, api_key="x"))

    def agent(self, model: object, tool: str = "step") -> object:
        return Agent(model, tools=[TOOLS[tool]])

    async def call(self, agent: Agent) -> None:  # type: ignore[override]
        await agent.run(side.GO, usage_limits=LIMITS)

    async def pull(self, agent: Agent) -> AsyncIterator[str]:  # type: ignore[override]
        async with agent.run_stream(side.GO, usage_limits=LIMITS) as run:
            async for text in run.stream_text(delta=True, debounce_by=None):
                yield text


SIDE = PydanticAISide()
