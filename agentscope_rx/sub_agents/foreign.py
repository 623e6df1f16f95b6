"""`text_agent`: anything that streams text, as an agent; for what runs elsewhere, too.

    async def remote(messages):                       # a service, a program, a person far away
        async with client.stream("POST", url, json=...) as response:
            async for line in response.aiter_lines():
                yield line

    SubAgent("translator", "Translates.", agent=text_agent("Translator", remote))

The port of a sub-agent is `Agent`: a run is a cold flow of events, with its own conversation. A foreign one need not
know of that. It gets the messages of its conversation and yields text; the rest is the agent's: the conversation and
its saved form, the events and their paths, limits, interruption, disposal.

| the run                   | the generator                                                       |
|---------------------------|---------------------------------------------------------------------|
| is interrupted, disposed  | is closed: its `finally` blocks and its `async with`s end           |
| fails                     | has raised: the sub-agent's call gets an error result with the text |
| is read slowly            | waits: the next text is asked for when there is room                |
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Sequence

from reactivex import operators as ops

from agentscope_rx.agent import ReActAgent, UsageLimits
from agentscope_rx.errors import AgentScopeError, ConfigurationError, ModelError
from agentscope_rx.hooks import Hook
from agentscope_rx.messages import Msg, TextBlock
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.options import ExecutionConfig, GenerateOptions, ToolSchema
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.reactive import Flow, catch, from_async_iterable, throw

TextStream = Callable[[Sequence[Msg]], AsyncIterable[str]]
"""An async generator function: it gets the messages of a conversation, and yields the pieces of the next reply."""


class _TextModel(ChatModel):
    """The function, where an agent asks its model."""

    provider = "text_agent"
    output_modes = frozenset(("prompted",))

    def __init__(self, name: str, stream: TextStream) -> None:
        # it is no request of a model: its time is that of the run, and it is not made twice
        super().__init__(name, execution_config=ExecutionConfig(timeout=None, max_attempts=1))
        self._stream = stream

    def do_stream(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Flow[ChatResponse]:
        def response(piece: object) -> ChatResponse:
            if not isinstance(piece, str):
                raise ModelError(f"{self.model_name!r} yields text, and this is none: {piece!r:.60}.")
            return ChatResponse((TextBlock(piece),))

        def failed(error: Exception) -> Flow[ChatResponse]:
            if isinstance(error, AgentScopeError):
                return throw(error)
            foreign = ModelError(f"{self.model_name!r} failed: {type(error).__name__}: {error}")
            foreign.__cause__ = error
            return throw(foreign)

        pieces = from_async_iterable(lambda: self._stream(messages)).pipe(ops.map(response))
        return pieces.pipe(catch(failed))


def text_agent(
    name: str, stream: TextStream, *, hooks: Iterable[Hook] = (), limits: UsageLimits | None = None
) -> ReActAgent:
    """An agent whose replies are the text that `stream` yields, such as the client of another service.

        async def far_away(messages):
            async for piece in client.ask(messages[-1].text):
                yield piece

        SubAgent("far", "Answers from afar.", agent=text_agent("Far", far_away))

    `stream` is an async generator function of the messages of the conversation. An interruption or a disposal closes
    the generator. An error that it raises is the error of the run. `UsageLimits(deadline=60)` bounds a reply.
    """
    if not callable(stream):
        raise ConfigurationError(f"text_agent takes a function of messages that yields text, not {stream!r:.60}.")
    return ReActAgent(name, _TextModel(name, stream), hooks=hooks, limits=limits, max_iters=1)
