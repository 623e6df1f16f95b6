"""`RewritingModel`: a model that asks another one with messages made anew; in everything else it is that one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.message.msg import Msg
from agentscope_rx.model.chat_model import ChatModel, OutputSupport
from agentscope_rx.model.options import GenerateOptions, ToolSchema
from agentscope_rx.model.response import ChatResponse
from agentscope_rx.reactive import Flow, defer


class RewritingModel(ChatModel):
    """Name, provider, options, deadlines and retries are those of `model`. Subclass it and implement `rewrite`."""

    def __init__(self, model: ChatModel) -> None:
        if not isinstance(model, ChatModel):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"{type(self).__name__} goes around a model, such as OpenAIChatModel('gpt-5-mini'), not {model!r:.60}."
            )
        self.model = model
        super().__init__(model.model_name, options=model.options, execution_config=model.execution_config)
        self.provider = model.provider
        self.output_modes: frozenset[OutputSupport] = model.output_modes

    @abstractmethod
    def rewrite(self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions) -> Sequence[Msg]:
        """What the model is sent for these messages. Pure; `options` are the call's over the model's own."""

    def stream(
        self,
        messages: Sequence[Msg],
        tools: Sequence[ToolSchema] = (),
        options: GenerateOptions | None = None,
    ) -> Flow[ChatResponse]:
        """Ask the inner model, once rewritten, with its own deadlines and retries.

        Signals: as the inner model's; an error of `rewrite`, before anything is sent.
        Cancels: the request in progress, or the wait before the next one.
        """
        merged = (options or self.options).over(self.options)
        return defer(lambda: self.model.stream(self.rewrite(messages, tools, merged), tools, options))

    def do_stream(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Flow[ChatResponse]:
        """One attempt of the inner model.

        Signals: as the inner model's.
        Cancels: the attempt.
        """
        return self.model.do_stream(self.rewrite(messages, tools, options), tools, options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"
