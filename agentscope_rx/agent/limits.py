"""`UsageLimits`: the limits of one call. `Usage`: the usage of a run, together with that of its sub-agents.

| limit                                        | checked                                                |
|----------------------------------------------|--------------------------------------------------------|
| `model_calls`, tokens, `cost`                | before each model call                                 |
| `tool_calls`                                 | before each batch of tool calls, for the whole batch   |
| `deadline`                                   | continuously: work in progress is ended                |

A limit never discards an answer that has arrived: it prevents further calls, and the run ends with its last answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, cast

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import ChatUsage


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model per million tokens, in any one currency."""

    input: float
    output: float

    def of(self, usage: ChatUsage) -> float:
        """The cost of this usage."""
        return (usage.input_tokens * self.input + usage.output_tokens * self.output) / 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLimits:
    """Limits of one call; None is no limit. Tokens are counted as the providers report them.

    | limit | is checked | counts |
    |---|---|---|
    | `model_calls` | before each request | rounds and summaries, and failed ones that cost; not attempts |
    | tokens, `cost` | before each request | usage; what a provider does not report costs nothing |
    | `tool_calls` | before each batch, as a whole | calls that have begun; not attempts, nor calls that wait |
    | `deadline` | all the time | seconds from the subscription, the wait for its turn included |

    - **At a limit** `on_limit="error"` fails the call with `UsageLimitError` (or `RunDeadlineError`, after the
      clean-up). With `"summary"` the model writes a summary instead, by one more call without tools, for which a
      deadline reserves `summary_reserve` seconds. Calls that have not run get results that say so.
    - **A finished answer is kept**, as are a stop and calls that wait, whatever they have cost.
    - **Each call counts from zero**, also one that answers pending calls. Sub-agents count for the run that called
      them.
    - **Prices**: a table by model name, or a function `(model_name, usage) -> cost`; `cost` is in their
      currency. A model that the table lacks is a `ConfigurationError` before anything begins.
    """

    model_calls: int | None = None
    tool_calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cost: float | None = None
    prices: Mapping[str, Price] | Callable[[str, ChatUsage], float] | None = None
    deadline: float | None = None
    summary_reserve: float = 10.0
    on_limit: Literal["error", "summary"] = "error"

    def __post_init__(self) -> None:
        for name in ("model_calls", "tool_calls", "input_tokens", "output_tokens", "total_tokens"):
            count: object = getattr(self, name)
            if count is not None and (type(count) is not int or count < 0):
                raise ConfigurationError(f"UsageLimits.{name} must be a whole number of at least 0, not {count!r}.")
        for name in ("cost", "deadline", "summary_reserve"):
            value: object = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0):
                raise ConfigurationError(f"UsageLimits.{name} must be a number >= 0, not {value!r}.")
        if self.deadline == 0:
            raise ConfigurationError("UsageLimits.deadline must be more than 0 seconds.")
        if self.cost is not None and self.prices is None:
            raise ConfigurationError(
                "UsageLimits.cost needs prices, such as prices={'gpt-5-mini': Price(input=0.25, output=2.0)} "
                "for each million tokens."
            )
        prices = cast("object", self.prices)
        if isinstance(prices, Mapping):
            for model, price in cast("Mapping[object, object]", prices).items():
                if not isinstance(price, Price):
                    raise ConfigurationError(
                        f"UsageLimits.prices[{model!r}] must be Price(input=..., output=...), not {price!r:.60}."
                    )
        elif prices is not None and not callable(prices):
            raise ConfigurationError(f"UsageLimits.prices must be a table by model name, not {prices!r:.60}.")
        if self.on_limit not in ("error", "summary"):
            raise ConfigurationError(f"UsageLimits.on_limit must be 'error' or 'summary', not {self.on_limit!r}.")
        if self.on_limit == "summary" and self.deadline is not None and self.deadline <= self.summary_reserve:
            raise ConfigurationError(
                f"UsageLimits: a deadline of {self.deadline:g} s must be more than the summary_reserve of "
                f"{self.summary_reserve:g} s."
            )

    def price(self, model: str, usage: ChatUsage) -> float:
        """The cost of one answer of this model; `ConfigurationError` if the table does not have the model."""
        prices = self.prices
        if prices is None:
            return 0.0
        if callable(prices):
            return prices(model, usage)
        price = prices.get(model)
        if price is None:
            raise ConfigurationError(f"UsageLimits.prices has no price for the model {model!r}.")
        return price.of(usage)

    def before_model(self, model_calls: int, usage: ChatUsage, cost: float) -> tuple[str, float] | None:
        """The limit, by name and value, that allows no further model call; None if there is none."""
        total = usage.input_tokens + usage.output_tokens
        return (
            _reached("model_calls", self.model_calls, model_calls)
            or _reached("input_tokens", self.input_tokens, usage.input_tokens)
            or _reached("output_tokens", self.output_tokens, usage.output_tokens)
            or _reached("total_tokens", self.total_tokens, total)
            or _reached("cost", self.cost, cost)
        )

    def before_tools(self, tool_calls: int, batch: int) -> tuple[str, float] | None:
        """The limit that does not allow this many further tool calls; None if there is none."""
        limit = self.tool_calls
        return ("tool_calls", limit) if limit is not None and tool_calls + batch > limit else None


def _reached(name: str, limit: float | None, value: float) -> tuple[str, float] | None:
    return (name, limit) if limit is not None and value >= limit else None


NO_USAGE = ChatUsage()


class Usage:
    """What one run has used so far, and the limits of that. A sub-agent's usage counts for every run around it, too.

    `before_model` and `before_tools` ask the run's own limits first, then those of the runs around it, outwards.
    """

    __slots__ = (
        "_parent",
        "agent",
        "cost",
        "limited",
        "limits",
        "model_calls",
        "model_retries",
        "tokens",
        "tool_calls",
    )

    def __init__(self, agent: str, limits: UsageLimits | None) -> None:
        self.agent: str = agent
        self.limits: UsageLimits | None = limits
        self.limited = limits is not None
        """True if this run, or possibly one around it, has limits."""
        self._parent: Usage | None = None
        self.model_calls: int = 0
        self.model_retries: int = 0
        self.tool_calls: int = 0
        self.tokens: ChatUsage = NO_USAGE
        self.cost: float = 0.0

    def within(self, parent: Usage) -> None:
        """Count for this run, too, which has called this one as a sub-agent."""
        self._parent = parent
        self.limited: bool = True

    def before_model(self) -> tuple[str, float] | None:
        """The limit, by name and value, that allows no further model call."""
        for each in self._outwards():
            limits = each.limits
            if limits is not None and (reached := limits.before_model(each.model_calls, each.tokens, each.cost)):
                return reached
        return None

    def before_tools(self, count: int) -> tuple[str, float] | None:
        """The limit, by name and value, that does not allow this many further tool calls."""
        for each in self._outwards():
            limits = each.limits
            if limits is not None and (reached := limits.before_tools(each.tool_calls, count)):
                return reached
        return None

    def owner_of(self, which: str, limit: float) -> str:
        """The name of the agent that has this limit."""
        owners = (each.agent for each in self._outwards() if each.limits and getattr(each.limits, which, None) == limit)
        return next(owners, self.agent)

    def check_prices(self, models: Sequence[str]) -> None:
        """`ConfigurationError` if a limit on costs has no price for one of the models that may answer."""
        for each in self._outwards():
            if each.limits is not None:
                for model in models:
                    each.limits.price(model, ChatUsage())

    def add_model_call(self, costs: Sequence[tuple[str | None, ChatUsage]], model: str) -> None:
        """Count one model call with its tokens by model, None being `model`; here and in the runs around this one."""
        each: Usage | None = self
        while each is not None:
            each.model_calls += 1
            for answered_by, tokens in costs:
                each.tokens = each.tokens + tokens
                if each.limits is not None:
                    each.cost += each.limits.price(answered_by or model, tokens)
            each = each._parent

    def add_tool_calls(self, count: int) -> None:
        """Count tool calls that have begun; here and in the runs around this one."""
        each: Usage | None = self
        while each is not None:
            each.tool_calls += count
            each = each._parent

    def _outwards(self) -> Iterator[Usage]:
        each: Usage | None = self
        while each is not None:
            yield each
            each = each._parent
