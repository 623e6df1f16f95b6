"""`PromptTransformModel`: a model that asks another one with messages made anew; in everything else it is that one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from agentscope_rx.messages.msg import Msg
from agentscope_rx.models.options import GenerateOptions, ToolSchema
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.models.wrappers.base import WrapperModel
from agentscope_rx.reactive import Flow, defer
from agentscope_rx.reactive.kernel.flow import Operator


class PromptTransformModel(WrapperModel):
    """Deadlines and retries are those of the inner model. Subclass it and implement `rewrite`."""

    @abstractmethod
    def rewrite(self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions) -> Sequence[Msg]:
        """What the model is sent for these messages. Pure; `options` are the call's over the model's own."""

    def stream(
        self,
        messages: Sequence[Msg],
        tools: Sequence[ToolSchema] = (),
        options: GenerateOptions | None = None,
        *,
        around: Operator[ChatResponse, ChatResponse] | None = None,
    ) -> Flow[ChatResponse]:
        """Ask the inner model, once rewritten, with its own deadlines and retries.

        Signals: as the inner model's; an error of `rewrite`, before anything is sent.
        Cancels: the request in progress, or the wait before the next one.
        """
        merged = (options or self.options).over(self.options)

        def ask() -> Flow[ChatResponse]:
            return self.model.stream(self.rewrite(messages, tools, merged), tools, options, around=around)

        return defer(ask)

    def do_stream(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Flow[ChatResponse]:
        """One attempt of the inner model.

        Signals: as the inner model's.
        Cancels: the attempt.
        """
        return self.model.do_stream(self.rewrite(messages, tools, options), tools, options)
