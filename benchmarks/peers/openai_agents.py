"""openai-agents as a side: `Runner.run` and `Runner.run_streamed`, with tracing off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from agents import Agent, ModelResponse, OpenAIChatCompletionsModel, Runner, Usage, function_tool, set_tracing_disabled
from agents.models.interface import Model
from openai import AsyncOpenAI
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
)

from benchmarks.compare import side
from benchmarks.script import Answer, Script

set_tracing_disabled(True)


@function_tool
async def step(n: int = 0) -> str:
    """The tool."""
    return "ok"


@function_tool
async def nap(n: int = 0) -> str:
    """Takes 50 ms."""
    return await side.nap()


TOOLS = {"step": step, "nap": nap}


def output(answer: Answer) -> list[object]:
    """The answer as the items of a response."""
    texts, calls = answer
    items: list[object] = [
        ResponseFunctionToolCall(call_id=id, name=name, arguments=arguments, type="function_call")
        for id, name, arguments in calls
    ]
    if texts:
        part = ResponseOutputText(text="".join(texts), type="output_text", annotations=[])
        message = ResponseOutputMessage(id="m", content=[part], role="assistant", status="completed", type="message")
        items.insert(0, message)
    return items


class ScriptedModel(Model):
    """Answers by a script: whole, or in pieces."""

    def __init__(self, script: Script) -> None:
        self.script = script

    async def get_response(self, *about: object, **more: object) -> ModelResponse:  # type: ignore[override]
        return ModelResponse(output(await self.script.answer()), Usage(), None)

    async def stream_response(self, *about: object, **more: object) -> AsyncIterator[object]:  # type: ignore[override]
        texts, calls = await self.script.answer()
        said: list[str] = []
        for number, text in enumerate(texts):
            if self.script.breathes:
                await asyncio.sleep(0)
            said.append(text)
            yield ResponseTextDeltaEvent(
                content_index=0,
                delta=text,
                item_id="m",
                logprobs=[],
                output_index=0,
                sequence_number=number,
                type="response.output_text.delta",
            )
        whole = Response(
            id="r",
            created_at=1.0,
            model="scripted",
            object="response",
            output=output((said, calls)),
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
        )
        yield ResponseCompletedEvent(response=whole, sequence_number=len(said), type="response.completed")


class OpenAIAgentsSide(side.Side):
    """Called, it takes whole answers; tracing is off; an agent holds no conversation, so one serves all runs."""

    shares_agents = True

    def scripted(self, script: Script) -> object:
        return ScriptedModel(script)

    def remote(self, url: str, name: str) -> object:
        return OpenAIChatCompletionsModel(name, AsyncOpenAI(base_url=url, api_key="x"))

    def agent(self, model: object, tool: str = "step") -> object:
        return Agent("bench", model=model, tools=[TOOLS[tool]])

    async def call(self, agent: Agent) -> None:  # type: ignore[override]
        await Runner.run(agent, side.GO, max_turns=side.ROUNDS)

    async def pull(self, agent: Agent) -> AsyncIterator[str]:  # type: ignore[override]
        run = Runner.run_streamed(agent, side.GO, max_turns=side.ROUNDS)
        async for event in run.stream_events():
            if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent):
                yield event.data.delta


SIDE = OpenAIAgentsSide()
