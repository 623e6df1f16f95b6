"""`WrapperModel`: delegates to an inner model; subclasses override what differs.

`PromptTransformModel` changes the messages that are sent. `AttemptWrapper` applies an operator to each attempt:

    model.stream  =  defer(do_stream) |> timeout(...) |> around |> retry |> timeout(total_timeout)
                                                         ^ the wrapper's operator; the rest is the inner model's

So each retry is limited, counted or hedged again; time spent waiting in `around` does not count towards an attempt's
deadlines; and an error raised by `around` is retried if it is `retryable`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.messages.msg import Msg
from agentscope_rx.models.capabilities import Capabilities
from agentscope_rx.models.chat_model import ChatModel, OutputSupport
from agentscope_rx.models.options import GenerateOptions, ToolSchema
from agentscope_rx.models.registry import get_model as model_named
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.reactive import Flow, defer
from agentscope_rx.reactive.kernel.flow import Operator


def as_model(who: str, given: ChatModel | str) -> ChatModel:
    """The model, or the model of this name; `ConfigurationError` for anything else."""
    found = model_named(given) if isinstance(given, str) else given
    if not isinstance(found, ChatModel):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"{who} wraps a model, such as OpenAIChatModel('gpt-5-mini') or 'openai:gpt-5-mini', not {given!r:.60}."
        )
    return found


class WrapperModel(ChatModel):
    """Name, provider, options and capabilities are those of `model`, which is a model or its name."""

    def __init__(self, model: ChatModel | str) -> None:
        model = as_model(type(self).__name__, model)
        self.model: ChatModel = model
        super().__init__(model.model_name, options=model.options, execution_config=model.execution_config)
        self.provider: str = model.provider
        self.output_modes: frozenset[OutputSupport] = model.output_modes

    @property
    def model_names(self) -> Sequence[str]:
        return self.model.model_names

    @property
    def capabilities(self) -> Capabilities | None:
        return self.model.capabilities

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"


class PromptTransformModel(WrapperModel):
    """A wrapper that sends other messages, with the inner model's deadlines and retries. Implement `rewrite`."""

    @abstractmethod
    def rewrite(self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions) -> Sequence[Msg]:
        """The messages to send instead. Pure; `options` are those of the call, merged with the model's."""

    def stream(
        self,
        messages: Sequence[Msg],
        tools: Sequence[ToolSchema] = (),
        options: GenerateOptions | None = None,
        *,
        around: Operator[ChatResponse, ChatResponse] | None = None,
    ) -> Flow[ChatResponse]:
        """Ask the inner model with the rewritten messages.

        Signals: as the inner model's; an error of `rewrite`, before any request.
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


class AttemptWrapper(WrapperModel):
    """A wrapper that applies an operator to each attempt. Subclass it and implement `around`.

        model.stream  =  defer(do_stream) |> timeout(...) |> around |> retry |> timeout(total_timeout)
                                                             ^ the wrapper's operator; the rest is the inner model's

    So each retry is limited, counted or hedged again. Time spent waiting in `around` does not count towards an
    attempt's deadlines. An error raised by `around` is retried if it is `retryable`. Wrappers nest:
    `RateLimitedModel(FallbackModel(a, b))` limits the attempts of both together, `FallbackModel(RateLimitedModel(a),
    b)` those of one.
    """

    @abstractmethod
    def around(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Operator[ChatResponse, ChatResponse]:
        """The operator for each attempt of this call."""

    def stream(
        self,
        messages: Sequence[Msg],
        tools: Sequence[ToolSchema] = (),
        options: GenerateOptions | None = None,
        *,
        around: Operator[ChatResponse, ChatResponse] | None = None,
    ) -> Flow[ChatResponse]:
        """Ask the inner model, with its own options, deadlines and retries.

        Signals: as the inner model's, and those of `around`.
        Cancels: the attempt, or the wait for it.
        """
        own = self.around(messages, tools, (options or self.options).over(self.options))
        return self.model.stream(messages, tools, options, around=own if around is None else _both(own, around))

    def do_stream(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Flow[ChatResponse]:
        """One attempt of the inner model.

        Signals: as the inner model's.
        Cancels: the attempt, or the wait for it.
        """
        return self.model.do_stream(messages, tools, options).pipe(self.around(messages, tools, options))


def _both(
    inner: Operator[ChatResponse, ChatResponse], outer: Operator[ChatResponse, ChatResponse]
) -> Operator[ChatResponse, ChatResponse]:
    return lambda attempt: outer(inner(attempt))
