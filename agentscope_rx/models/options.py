"""Options of a model or tool call: sampling, tools, request parameters, deadlines and retries.

Every field of `GenerateOptions` and `ExecutionConfig` is optional. `a.over(b)` has the fields of `a`, and those of `b`
where `a` has none.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, fields, replace
from enum import Enum
from typing import Final, Literal, Self

from tenacity import RetryCallState
from tenacity.stop import stop_after_attempt, stop_base
from tenacity.wait import wait_base, wait_exponential

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages.frozen import EMPTY, freeze
from agentscope_rx.models.checks import check_count, check_seconds, is_number
from agentscope_rx.models.retryable import ErrorKinds, asked_wait, check_error_kinds, error_predicate, is_retryable
from agentscope_rx.models.wire.base_url import sendable
from agentscope_rx.reactive.operators._retry import MAX_RETRY_AFTER, RetryPolicy, jittered


class Unset(Enum):
    """The type of `UNSET`."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET
"""The field is not set: the default applies. (None, where allowed, means no limit.)"""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class ToolSchema:
    """The description of a tool for a model; `parameters` is a JSON schema of type object.

    `strict=True` asks the provider to hold the model to the schema; None is the provider's default.
    """

    name: str
    description: str
    parameters: Mapping[str, object]
    strict: bool | None = None


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Allows, requires or forbids tool calls: "auto", "required", "none", or "specific" for one named `tool`."""

    mode: Literal["auto", "none", "required", "specific"] = "auto"
    tool: str | None = None

    def __post_init__(self) -> None:
        if self.mode not in (modes := ("auto", "none", "required", "specific")):
            raise ConfigurationError(f"The mode of a ToolChoice must be one of {modes}, not {self.mode!r:.60}.")
        if (self.mode == "specific") != bool(self.tool and self.tool.strip()):
            raise ConfigurationError("A ToolChoice names a tool if, and only if, its mode is 'specific'.")

    def check(self, tools: Sequence[ToolSchema]) -> None:
        """Raises `ConfigurationError` if the required tool is not among these, or if there are no tools at all."""
        if self.fits(tools):
            return
        if not tools:
            raise ConfigurationError("tool_choice requires a tool call, but there are no tools.")
        names = ", ".join(tool.name for tool in tools)
        raise ConfigurationError(f"tool_choice names {self.tool!r}, which is not among the tools: {names}.")

    def fits(self, tools: Sequence[ToolSchema]) -> bool:
        """True if these tools can satisfy the choice."""
        if self.mode == "specific":
            return any(tool.name == self.tool for tool in tools)
        return bool(tools) or self.mode != "required"

    def is_met(self, calls: Iterable[str]) -> bool:
        """True if a call is required, and calls of these tools satisfy the choice."""
        names = tuple(calls)
        return self.tool in names if self.mode == "specific" else self.mode == "required" and bool(names)

    @classmethod
    def specific(cls, tool: str) -> ToolChoice:
        """The model must call this tool."""
        return cls("specific", tool)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionConfig:
    """Deadlines and retries of a call. Times are in seconds; None means no limit, `UNSET` the next config's value.

    | field | sets |
    |---|---|
    | `timeout` | the deadline of one attempt |
    | `first_chunk_timeout` | the deadline of an attempt's first chunk |
    | `idle_timeout` | the longest time between two chunks |
    | `total_timeout` | the deadline of all attempts and the waits between them |
    | `max_attempts` | the number of attempts, the first included |
    | `initial_backoff` | the first wait, with a jitter of +-50 % |
    | `backoff_multiplier`, `max_backoff` | the factor for each later wait; the longest wait |
    | `max_retry_after` | the longest Retry-After that is waited for (default 60) |
    | `retry_on` | the errors that are retried: a type, a tuple of types, or a predicate |
    | `wait`, `stop` | tenacity objects that replace the backoff and `max_attempts` |
    | `after_content` | "error" (default) or "restart", for a model that fails in the middle of its answer |

    `MODEL_DEFAULTS` and `TOOL_DEFAULTS` have the values that apply if nothing else is set.

    - **Worth a retry** is an error whose own `retryable` is True, or one with an HTTP response of status 408, 425, 429
      or 5xx except 501, as errors of httpx, requests, aiohttp and urllib have. `retry_on` replaces this rule.
    - **A Retry-After** makes a wait at least as long. One beyond `max_retry_after` makes the error final at once; its
      `retry_after` has the seconds. Malformed values are ignored.
    - **A wait that would outlast `total_timeout`** does not begin: the last error is final. It is that of the last
      attempt, with a note on the earlier ones.
    - **After content**: "error" never withdraws shown content. "restart" announces it as void with a `RetryNotice` and
      tries again. The progress of a tool is always discarded before a retry.
    - **A slow reader** stops the clocks of `first_chunk_timeout` and `idle_timeout`; the other deadlines run on. All
      are on the loop's clock, so virtual time makes them instant.
    """

    timeout: float | Unset | None = UNSET
    first_chunk_timeout: float | Unset | None = UNSET
    idle_timeout: float | Unset | None = UNSET
    total_timeout: float | Unset | None = UNSET
    max_attempts: int | Unset = UNSET
    initial_backoff: float | Unset = UNSET
    max_backoff: float | Unset = UNSET
    max_retry_after: float | Unset | None = UNSET
    backoff_multiplier: float | Unset = UNSET
    retry_on: ErrorKinds | Unset = UNSET
    after_content: Literal["error", "restart"] | Unset = UNSET
    wait: wait_base | Unset = UNSET
    stop: stop_base | Unset = UNSET

    def __post_init__(self) -> None:
        for name in ("timeout", "first_chunk_timeout", "idle_timeout", "total_timeout", "max_retry_after"):
            limit: object = getattr(self, name)
            if limit is not UNSET:
                check_seconds(name, limit, optional=True, zero=name == "max_retry_after")
        attempts: object = self.max_attempts
        if attempts is not UNSET:
            check_count("max_attempts", attempts)
        factor: object = self.backoff_multiplier
        if factor is not UNSET and not (is_number(factor) and factor >= 1):
            raise ConfigurationError(f"backoff_multiplier must be >= 1.0, not {factor!r}.")
        for name in ("initial_backoff", "max_backoff"):
            delay: object = getattr(self, name)
            if delay is not UNSET:
                check_seconds(name, delay, zero=True)
        if self.retry_on is not UNSET:
            check_error_kinds("retry_on", self.retry_on)
        check_after_content(self.after_content)
        for name in ("wait", "stop"):
            value: object = getattr(self, name)
            if value is not UNSET and not callable(value):
                raise ConfigurationError(f"{name} must be callable, not {value!r:.60}.")

    def over(self, other: ExecutionConfig | None) -> Self:
        """This config, with unset fields taken from `other`."""
        if other is None:
            return self
        given = {f.name: getattr(other, f.name) for f in fields(self) if getattr(self, f.name) is UNSET}
        return replace(self, **given)

    def limit(self, name: Literal["timeout", "first_chunk_timeout", "idle_timeout", "total_timeout"]) -> float | None:
        """A deadline in seconds; None if there is none."""
        value: float | Unset | None = getattr(self, name)
        return None if value is UNSET else value

    @property
    def longest_retry_after(self) -> float | None:
        """The longest Retry-After that is waited for; None for no limit."""
        return MAX_RETRY_AFTER if self.max_retry_after is UNSET else self.max_retry_after

    @property
    def retries(self) -> bool:
        """True if there may be a second attempt."""
        return self.stop is not UNSET or self.max_attempts not in (UNSET, 1)

    def policy(self, jitter: Callable[[], float] = random.random) -> RetryPolicy:
        """The retry policy of this config; `jitter` returns random numbers in [0, 1)."""
        attempts = 1 if self.max_attempts is UNSET else self.max_attempts
        wait = self.wait
        if wait is UNSET:
            wait = jittered(
                wait_exponential(
                    multiplier=2.0 if self.initial_backoff is UNSET else self.initial_backoff,
                    max=30.0 if self.max_backoff is UNSET else self.max_backoff,
                    exp_base=2.0 if self.backoff_multiplier is UNSET else self.backoff_multiplier,
                ),
                source=jitter,
            )
        retry_on = is_retryable if self.retry_on is UNSET else error_predicate(self.retry_on)

        def retry(state: RetryCallState) -> bool:
            error = state.outcome.exception() if state.outcome else None
            return error is not None and retry_on(error)

        return RetryPolicy(
            stop=stop_after_attempt(attempts) if self.stop is UNSET else self.stop,
            wait=wait,
            retry=retry,
            discards=self.after_content == "restart",
            retry_after=asked_wait,
            within=self.limit("total_timeout"),
            max_retry_after=self.longest_retry_after,
        )


def check_after_content(given: object) -> None:
    """Raises `ConfigurationError` unless it is unset, "error" or "restart"."""
    if given is not UNSET and given not in ("error", "restart"):
        raise ConfigurationError(f"after_content must be 'error' or 'restart', not {given!r:.60}.")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_KINDS: Final[tuple[tuple[tuple[str, ...], str, Callable[[object], bool]], ...]] = (
    (("temperature", "top_p", "frequency_penalty", "presence_penalty"), "a number", is_number),
    (("top_k", "max_tokens", "max_completion_tokens", "seed", "thinking_budget"), "a whole number", _is_whole),
    (("reasoning_effort",), "text such as 'low'", lambda value: isinstance(value, str)),
    (("parallel_tool_calls", "stream"), "True or False", lambda value: isinstance(value, bool)),
    (
        ("tool_choice",),
        "a ToolChoice, such as ToolChoice('required') or ToolChoice.specific('name')",
        lambda value: isinstance(value, ToolChoice),
    ),
    (("response_format",), "a dict", lambda value: isinstance(value, Mapping)),
    (("execution_config",), "ExecutionConfig(...)", lambda value: isinstance(value, ExecutionConfig)),
)


MODEL_DEFAULTS: Final = ExecutionConfig(
    timeout=300.0,
    total_timeout=1200.0,
    max_attempts=3,
    initial_backoff=2.0,
    max_backoff=30.0,
    backoff_multiplier=2.0,
    max_retry_after=60.0,
)
"""Three attempts of 5 minutes each, 20 minutes in all, 2 to 30 seconds apart."""

TOOL_DEFAULTS: Final = ExecutionConfig(
    timeout=300.0,
    max_attempts=1,
    initial_backoff=2.0,
    max_backoff=30.0,
    backoff_multiplier=2.0,
    max_retry_after=60.0,
)
"""One attempt of 5 minutes: an effect may not bear repetition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateOptions:
    """Options of one model call; None means the provider's default.

    | option | sets |
    |---|---|
    | `temperature`, `top_p`, `top_k`, `seed` | the sampling |
    | `max_tokens`, `max_completion_tokens` | the longest answer, in tokens; the second one includes thinking (OpenAI) |
    | `frequency_penalty`, `presence_penalty` | the penalties for repetition |
    | `stop` | texts at which the answer ends |
    | `thinking_budget` | the tokens of thinking, for models that take a number |
    | `reasoning_effort` | the amount of thinking, for models that take a word such as "low" |
    | `tool_choice`, `parallel_tool_calls` | a `ToolChoice`; False: at most one call in an answer |
    | `response_format` | the format of the answer, as OpenAI's API has it |

    The look-up page "Providers" says which provider takes which. An option that the provider lacks raises
    `UnsupportedOptionError`, which names an alternative, before anything is sent. `additional_body_params`,
    `additional_headers` and `additional_query_params` are sent unchanged; headers and query do not appear in the repr,
    because they may hold keys. `tool_choice` that forces a call applies until the model has made that call.
    `execution_config` has deadlines and retries. `stream=False` asks for the answer in one piece.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    seed: int | None = None
    stop: Sequence[str] | None = None
    thinking_budget: int | None = None
    reasoning_effort: str | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: Mapping[str, object] | None = None
    stream: bool | None = None
    execution_config: ExecutionConfig | None = None
    # not in the repr, because they may hold keys
    additional_headers: Mapping[str, str] = field(default=EMPTY, repr=False)  # pyright: ignore[reportAssignmentType]
    additional_body_params: Mapping[str, object] = EMPTY
    additional_query_params: Mapping[str, str] = field(default=EMPTY, repr=False)  # pyright: ignore[reportAssignmentType]

    def __post_init__(self) -> None:
        self._check()
        for name in ("additional_headers", "additional_body_params", "additional_query_params"):
            object.__setattr__(self, name, freeze(getattr(self, name)))
        if self.response_format is not None:
            object.__setattr__(self, "response_format", freeze(self.response_format))
        if self.stop is not None:
            # a str is a sequence, too, of its characters
            object.__setattr__(self, "stop", (self.stop,) if isinstance(self.stop, str) else tuple(self.stop))

    def _check(self) -> None:
        """Raises `ConfigurationError` for a wrong type. The ranges of values are checked by the provider."""
        for names, what, right in _KINDS:
            for name in names:
                value: object = getattr(self, name)
                if value is not None and not right(value):
                    raise ConfigurationError(f"{name} must be {what}, not {value!r:.60}.")
        for name in ("additional_headers", "additional_body_params", "additional_query_params"):
            if not isinstance(getattr(self, name), Mapping):
                raise ConfigurationError(f"{name} must be a dict, not {type(getattr(self, name)).__name__}.")
        sendable(self.additional_headers)

    def over(self, other: GenerateOptions | None) -> GenerateOptions:
        """These options, with unset fields taken from `other`; mappings and execution configs are merged."""
        if other is None or other is self:
            return self
        merged: dict[str, object] = {}
        for f in fields(self):
            mine, theirs = getattr(self, f.name), getattr(other, f.name)
            if f.name.startswith("additional_"):
                merged[f.name] = {**theirs, **mine}
            elif f.name == "execution_config":
                merged[f.name] = mine.over(theirs) if mine is not None else theirs
            else:
                merged[f.name] = theirs if mine is None else mine
        return GenerateOptions(**merged)  # pyright: ignore[reportArgumentType]


NO_OPTIONS = GenerateOptions()
"""The options of those that have none of their own: one object, which is known by its identity."""
