"""The same work through the engine: `ReActAgent` with a model that costs as little as the bare loop's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence

from agentscope_rx import Flow, GenerateOptions, Msg, ReActAgent, Toolkit, tool
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.models import ChatModel, ChatResponse, ToolSchema
from agentscope_rx.reactive import from_async_iterable


@tool
async def step(n: int = 0) -> str:
    """The tool."""
    return "ok"


@tool
async def nap(n: int = 0) -> str:
    """Takes 50 ms."""
    await asyncio.sleep(0.05)
    return "ok"


@tool
def nap_blocking(n: int = 0) -> str:
    """Takes 50 ms of a thread."""
    time.sleep(0.05)
    return "ok"


@tool(name="step", max_concurrency=64)
async def limited_step(n: int = 0) -> str:
    """The tool."""
    return "ok"


class GeneratorModel(ChatModel):
    """A model made of an async generator function."""

    def __init__(self, generate: Callable[[], AsyncIterator[ChatResponse]]) -> None:
        super().__init__("generator")
        self._generate = generate

    def do_stream(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Flow[ChatResponse]:
        """One attempt."""
        return from_async_iterable(self._generate)


def agent(generate: Callable[[], AsyncIterator[ChatResponse]], rounds: int = 10) -> ReActAgent:
    """An agent around the generator."""
    return ReActAgent("bench", GeneratorModel(generate), tools=[step], max_iters=rounds)


def slow_agent(generate: Callable[[], AsyncIterator[ChatResponse]]) -> ReActAgent:
    """An agent whose tools take 50 ms, with the limits that a toolkit has by default."""
    return ReActAgent("bench", GeneratorModel(generate), tools=[nap, nap_blocking])


async def tools(count: int, *, limited: bool = False) -> None:
    """So many calls in one batch, at most 64 at once."""
    kit = Toolkit([limited_step if limited else step], max_concurrency=64)
    await kit.call_all([ToolUseBlock(f"c{n}", "step", {"n": 1}) for n in range(count)])
