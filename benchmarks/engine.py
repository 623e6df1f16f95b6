"""The same work through the engine: `ReActAgent` with a model that costs as little as the bare loop's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from agentscope_rx import Flow, GenerateOptions, Msg, ReActAgent, tool
from agentscope_rx.model import ChatModel, ChatResponse, ToolSchema
from agentscope_rx.reactive import from_async_iterable


@tool
async def step(n: int = 0) -> str:
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
