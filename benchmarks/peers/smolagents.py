"""smolagents as a side: `ToolCallingAgent`, whose runs block and end with a call of `final_answer`."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Iterator

from rich.console import Console
from smolagents import AgentLogger, LogLevel, OpenAIModel, ToolCallingAgent, tool
from smolagents.models import (
    ChatMessage,
    ChatMessageStreamDelta,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    ChatMessageToolCallStreamDelta,
    MessageRole,
    Model,
)

from benchmarks.compare import side
from benchmarks.script import Answer, Script

NOWHERE = Console(file=io.StringIO(), quiet=True)
FINAL = ("final", "final_answer", '{"answer": "done"}')


@tool
def step(n: int = 0) -> str:
    """The tool.

    Args:
        n: A number.
    """
    return "ok"


@tool
def nap(n: int = 0) -> str:
    """Takes 50 ms.

    Args:
        n: A number.
    """
    return side.nap_in_thread()


TOOLS = {"step": step, "nap": nap}


class ScriptedModel(Model):
    """Answers by a script: whole, or in pieces."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self.script = script

    def _answer(self) -> Answer:
        texts, calls = self.script.answer_in_thread()
        return texts, calls or [FINAL]

    def generate(self, messages: object, **options: object) -> ChatMessage:
        texts, calls = self._answer()
        asked = [
            ChatMessageToolCall(ChatMessageToolCallFunction(arguments, name), id, "function")
            for id, name, arguments in calls
        ]
        return ChatMessage(MessageRole.ASSISTANT, "".join(texts), asked)

    def generate_stream(self, messages: object, **options: object) -> Iterator[ChatMessageStreamDelta]:
        texts, calls = self._answer()
        for text in texts:
            yield ChatMessageStreamDelta(text)
        for n, (id, name, arguments) in enumerate(calls):
            function = ChatMessageToolCallFunction(arguments, name)
            yield ChatMessageStreamDelta(None, [ChatMessageToolCallStreamDelta(n, id, "function", function)])


class SmolagentsSide(side.Side):
    """Blocks: runs at once take a thread each. Called, it takes whole answers; ends with a call of a tool."""

    threads = True

    def scripted(self, script: Script) -> object:
        return ScriptedModel(script)

    def remote(self, url: str, name: str) -> object:
        return OpenAIModel(name, api_base=url, api_key="x")

    def agent(self, model: object, tool: str = "step") -> object:
        return ToolCallingAgent([TOOLS[tool]], model, max_steps=side.ROUNDS, logger=AgentLogger(LogLevel.OFF, NOWHERE))

    async def call(self, agent: ToolCallingAgent) -> None:  # type: ignore[override]
        agent.stream_outputs = False
        agent.run(side.GO)

    async def pull(self, agent: ToolCallingAgent) -> AsyncIterator[str]:  # type: ignore[override]
        agent.stream_outputs = True
        for event in agent.run(side.GO, stream=True):
            if isinstance(event, ChatMessageStreamDelta) and event.content:
                yield event.content


SIDE = SmolagentsSide()
