"""The port to a model: messages, tools and options in, a Flow of increments out.

A provider implements `do_stream`, one attempt. `stream` puts the deadlines and the retries around it, in that order:

    defer(do_stream) |> timeout(first, idle, total) |> around |> retry(policy) |> timeout(total_timeout)

so each attempt has its own clock, is really made anew, and is announced in-band by a `RetryNotice`; the last deadline,
if there is one, bounds them all and the waits between them. `around` is what models around this one do to each of its
attempts (see `models.wrappers`): what it waits for counts for no attempt's deadlines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, NamedTuple

from agentscope_rx.errors import ConfigurationError, EmptyResponseError, ModelTimeoutError
from agentscope_rx.messages.blocks import TextBlock
from agentscope_rx.messages.msg import Msg
from agentscope_rx.models.capabilities import Capabilities, capabilities_of
from agentscope_rx.models.options import MODEL_DEFAULTS, ExecutionConfig, GenerateOptions, ToolSchema
from agentscope_rx.models.response import ChatResponse, RetryNotice
from agentscope_rx.reactive import Flow, defer, retry, timeout
from agentscope_rx.reactive.kernel.flow import Operator
from agentscope_rx.reactive.operators._retry import Attempt

OutputSupport = Literal["native", "tool", "prompted"]
"""How a model can be asked for JSON of a given shape: by `response_format`, by a tool call, in words."""


class _Plan(NamedTuple):
    """The options of a call, merged, and the operators they ask for."""

    options: GenerateOptions
    deadlines: Operator[ChatResponse, ChatResponse]
    again: Operator[ChatResponse, ChatResponse] | None
    overall: Operator[ChatResponse, ChatResponse] | None


class ChatModel(ABC):
    """A chat model. Subclass it and implement `do_stream`; users and agents call `stream`."""

    provider: str = "custom"
    output_modes: frozenset[OutputSupport] = frozenset(("tool", "prompted"))
    """What the model supports. Native: `response_format` of type json_schema holds it to the schema, tools or not."""

    def __init__(
        self,
        model_name: str,
        *,
        options: GenerateOptions | None = None,
        execution_config: ExecutionConfig | None = None,
    ) -> None:
        if not isinstance(model_name, str) or not model_name.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"{type(self).__name__} needs a model name, not {model_name!r}.")
        if options is not None and not isinstance(options, GenerateOptions):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"options must be GenerateOptions(...), not {options!r:.60}.")
        if execution_config is not None and not isinstance(execution_config, ExecutionConfig):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"execution_config must be ExecutionConfig(...), not {execution_config!r:.60}.")
        self.model_name = model_name
        self.options = options or GenerateOptions()
        self.execution_config = execution_config
        self._last: tuple[GenerateOptions | None, GenerateOptions, _Plan] | None = None

    @abstractmethod
    def do_stream(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Flow[ChatResponse]:
        """One attempt: a cold Flow of increments, without retry or deadline.

        Signals: increments; then completion when the answer is whole, or one `ModelError`.
        Cancels: the request; its response is closed.
        """

    @property
    def model_names(self) -> Sequence[str]:
        """All who may answer."""
        return (self.model_name,)

    @property
    def capabilities(self) -> Capabilities | None:
        """What is known of the model: sizes, and what it takes; None if nothing is."""
        return capabilities_of(self.provider, self.model_name)

    def stream(
        self,
        messages: Sequence[Msg],
        tools: Sequence[ToolSchema] = (),
        options: GenerateOptions | None = None,
        *,
        around: Operator[ChatResponse, ChatResponse] | None = None,
    ) -> Flow[ChatResponse]:
        """Ask the model: a cold Flow; each subscription is one request, with the deadlines and retries configured.

        `around` is put around each attempt, outside of its deadlines and inside of the retries.

        Signals: increments, and a chunk with `retry` before each further attempt; then completion, or one
        `ModelError`. Retries only happen while no content has been emitted, unless `after_content="restart"`; where
        there are any, an attempt that completes without content has failed (`EmptyResponseError`).
        Cancels: the request in progress, or the wait before the next one.
        """
        merged, deadlines, again, overall = self._plan(options)
        attempt: Flow[ChatResponse] = defer(lambda: self.do_stream(messages, tools, merged))
        bounded = attempt.pipe(deadlines)
        if around is not None:
            bounded = bounded.pipe(around)
        tried = bounded if again is None else bounded.pipe(again)
        return tried if overall is None else tried.pipe(overall)

    def _plan(self, options: GenerateOptions | None) -> _Plan:
        """What is made of the options once: an agent gives the same object in every round."""
        if self._last is None or self._last[0] is not options or self._last[1] is not self.options:
            merged = (options or self.options).over(self.options)
            config = (merged.execution_config or ExecutionConfig()).over(self.execution_config).over(MODEL_DEFAULTS)
            late, whole = _late(self.model_name, self.provider), config.limit("total_timeout")
            deadlines = timeout(
                first=config.limit("first_chunk_timeout"),
                idle=config.limit("idle_timeout"),
                total=config.limit("timeout"),
                error=late,
            )
            overall = None if whole is None else overall_deadline(whole, self.model_name, self.provider)
            empty = partial(EmptyResponseError, model=self.model_name)
            again = retry(config.policy(), notice=_notice, shows=shows, empty=empty) if config.retries else None
            self._last = (options, self.options, _Plan(merged, deadlines, again, overall))
        return self._last[2]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model_name!r})"


def _late(model: str, provider: str) -> Callable[[str, float], Exception]:
    return lambda which, limit: ModelTimeoutError(which, limit, model=model, provider=provider)


def overall_deadline(limit: float, model: str, provider: str) -> Operator[ChatResponse, ChatResponse]:
    """The deadline of all attempts together."""
    late = _late(model, provider)
    return timeout(total=limit, error=lambda _, limit: late("overall", limit))


def shows(response: ChatResponse) -> bool:
    """Whether there is anything in it that somebody may have seen."""
    return any(not isinstance(block, TextBlock) or block.text for block in response.content)


def _notice(attempt: Attempt) -> ChatResponse:
    return ChatResponse(retry=RetryNotice(attempt.number, attempt.delay, attempt.error, attempt.discarded))
