"""The port to a model: a Flow of increments for messages, tools and options.

A provider implements `do_stream`, one attempt. `stream` adds the deadlines and the retries, in this order:

    defer(do_stream) |> timeout(first, idle, total) |> around |> retry(policy) |> timeout(total_timeout)

So each attempt has its own deadlines and is a new subscription, announced by a `RetryNotice` in the stream. The last
deadline, if any, bounds all attempts and the waits between them. `around` is the operator of a wrapper for each attempt
(see `models.wrappers`); time spent waiting in it does not count towards an attempt's deadlines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Literal, NamedTuple

from reactivex import Observable

from agentscope_rx.errors import ConfigurationError, EmptyResponseError
from agentscope_rx.messages.blocks import TextBlock
from agentscope_rx.messages.msg import Msg
from agentscope_rx.models.attempts import attempt_deadlines, overall_deadline, timeout_error
from agentscope_rx.models.capabilities import Capabilities, capabilities_of
from agentscope_rx.models.logs import log_retry
from agentscope_rx.models.options import MODEL_DEFAULTS, NO_OPTIONS, ExecutionConfig, GenerateOptions, ToolSchema
from agentscope_rx.models.probing import IN_USE, AttemptRequest, seen_by_probes
from agentscope_rx.models.response import ChatResponse, RetryNotice
from agentscope_rx.reactive import Flow, defer, flow, retry
from agentscope_rx.reactive.kernel.flow import Operator
from agentscope_rx.reactive.operators._retry import Attempt

OutputSupport = Literal["native", "tool", "prompted"]
"""The ways to ask a model for JSON by a schema: `response_format`, a tool call, or instructions in the prompt."""


_Over = Callable[[Observable[ChatResponse]], Flow[ChatResponse]]


class _Plan(NamedTuple):
    """The merged options of a call, and their operators."""

    options: GenerateOptions
    deadlines: _Over
    """Of one attempt."""
    again: _Over
    """The retries, and the deadline of all attempts."""
    both: _Over
    """The two in one, for where nothing stands between them."""


class ChatModel(ABC):
    """A chat model. Subclass it and implement `do_stream`; users and agents call `stream`.

    `stream` adds deadlines and retries around each attempt:

        defer(do_stream) |> timeout(first, idle, total) |> around |> retry(policy) |> timeout(total_timeout)

    `options` are the model's own `GenerateOptions`; those of a call come first, field by field. `execution_config`
    comes after that of the options and before `MODEL_DEFAULTS`. Errors are those of `agentscope_rx.errors`:
    `AuthenticationError`, `RateLimitError`, `ModelConnectionError`, `ModelTimeoutError`, `ProtocolError`, ..., with
    status, code, body and request id, and without secrets. A stream that breaks off is an error, never a short answer.
    """

    provider: str = "custom"
    """The name of the provider, for capabilities, costs and traces."""
    output_modes: frozenset[OutputSupport] = frozenset(("tool", "prompted"))
    """The supported modes of structured output. Native: the provider enforces the schema, also beside tools."""

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
        self.options: GenerateOptions = options or NO_OPTIONS
        self.execution_config = execution_config
        self._last: tuple[GenerateOptions | None, GenerateOptions, _Plan] | None = None

    @abstractmethod
    def do_stream(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Flow[ChatResponse]:
        """One attempt: a cold Flow of increments, without retry or deadline.

        Signals: increments; then completion when the answer is complete, or one `ModelError`.
        Cancels: the request; its response is closed.
        """

    @property
    def model_names(self) -> Sequence[str]:
        """The names of all models that may answer."""
        return (self.model_name,)

    @property
    def server_address(self) -> tuple[str, int] | None:
        """Host and port of the server that is asked; None for a model without one."""
        return None

    @property
    def capabilities(self) -> Capabilities | None:
        """The known sizes and input kinds of the model; None if unknown."""
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

        `around` is applied to each attempt, outside of its deadlines and inside of the retries.

        Signals: increments, and a chunk with `retry` before each further attempt; then completion, or one
        `ModelError`. An attempt is retried only while no content has been emitted, unless `after_content="restart"`. If
        retries are enabled, an attempt that completes without content fails with `EmptyResponseError`.
        Cancels: the request in progress, or the wait before the next one.
        """
        plan = self._plan(options)
        merged = plan.options
        attempt: Flow[ChatResponse] = defer(lambda: self.do_stream(messages, tools, merged))
        if around is None and not IN_USE.ever:
            return plan.both(attempt)
        bounded = plan.deadlines(attempt)
        if IN_USE.ever:
            bounded = seen_by_probes(bounded, lambda: self._request(messages, tools, merged))
        if around is not None:
            bounded = bounded.pipe(around)
        return plan.again(bounded)

    def _request(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> AttemptRequest:
        return AttemptRequest(
            model_name=self.model_name,
            provider=self.provider,
            messages=messages,
            tools=tools,
            options=options,
            address=self.server_address,
        )

    def _plan(self, options: GenerateOptions | None) -> _Plan:
        """The plan for these options. It is cached, because an agent passes the same object in every round."""
        if self._last is None or self._last[0] is not options or self._last[1] is not self.options:
            self._last = (options, self.options, self._new_plan(options))
        return self._last[2]

    def _new_plan(self, options: GenerateOptions | None) -> _Plan:
        plain = (options is None or options is NO_OPTIONS) and self.options is NO_OPTIONS
        if plain and self.execution_config is None:
            # of most models: one plan for all of this name
            return _plain_plan(self.model_name, self.provider)
        merged = (options or self.options).over(self.options)
        config = (merged.execution_config or ExecutionConfig()).over(self.execution_config).over(MODEL_DEFAULTS)
        return _plan_of(merged, config, self.model_name, self.provider)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model_name!r})"


@lru_cache(64)
def _plain_plan(name: str, provider: str) -> _Plan:
    return _plan_of(NO_OPTIONS, MODEL_DEFAULTS, name, provider)


def _plan_of(merged: GenerateOptions, config: ExecutionConfig, name: str, provider: str) -> _Plan:
    whole, each = config.limit("total_timeout"), config.limit("timeout")
    deadlines: _Over = attempt_deadlines(config, name, provider)
    if not config.retries:
        again: _Over = flow if whole is None else overall_deadline(whole, name, provider)
        return _Plan(merged, deadlines, again, _behind(deadlines, again))
    tried = partial(
        retry,
        config.policy(),
        notice=partial(_again, name),
        shows=shows,
        empty=partial(EmptyResponseError, model=name),
        total=whole,
        late=timeout_error(name, provider),
    )
    again = tried()
    if config.limit("first_chunk_timeout") is not None or config.limit("idle_timeout") is not None:
        return _Plan(merged, deadlines, again, _behind(deadlines, again))
    return _Plan(merged, deadlines, again, tried(each=each))


def _again(name: str, attempt: Attempt) -> ChatResponse:
    log_retry(name, attempt.number, attempt.delay, attempt.error)
    return ChatResponse(retry=RetryNotice(attempt.number, attempt.delay, attempt.error, attempt.discarded))


def _behind(first: _Over, second: _Over) -> _Over:
    return lambda source: second(first(source))


def shows(response: ChatResponse) -> bool:
    """True if the increment has visible content."""
    content = response.content
    # (a generator for each increment costs more than the test)
    if len(content) == 1:
        block = content[0]
        return not isinstance(block, TextBlock) or bool(block.text)
    return any(not isinstance(block, TextBlock) or block.text for block in content)
