"""`UsageLimits`: what one call may cost at most, and what happens when it would cost more.

| limit                                        | looked at                                              |
|----------------------------------------------|--------------------------------------------------------|
| `model_calls`, tokens, `cost`                | before each further question to the model              |
| `tool_calls`                                 | before each batch of calls, for the batch as a whole   |
| `deadline`                                   | all the time: what is in progress is ended             |

An answer that is there is never thrown away: a limit keeps the run from going on, not from ending well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, cast

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.messages import ChatUsage


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs, in any one currency, for each million tokens."""

    input: float
    output: float

    def of(self, usage: ChatUsage) -> float:
        """What this usage costs."""
        return (usage.input_tokens * self.input + usage.output_tokens * self.output) / 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLimits:
    """Bounds of one call; None is no bound. Tokens are those that the providers report.

    `cost` is in the currency of `prices`, a table by model name that the caller gives. `deadline` is in seconds from
    the beginning of the call. `on_limit="error"` fails the call with `UsageLimitError` (`RunDeadlineError`);
    `"summary"` asks the model for a last word instead, which is one model call more; a deadline then keeps
    `summary_reserve` seconds for it.
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
                f"UsageLimits: a deadline of {self.deadline:g} s leaves nothing beside the summary_reserve of "
                f"{self.summary_reserve:g} s."
            )

    def price(self, model: str, usage: ChatUsage) -> float:
        """What one answer of this model costs; `ConfigurationError` if the table does not have the model."""
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
        """The limit, by name and value, that keeps the model from being asked once more; None if there is none."""
        total = usage.input_tokens + usage.output_tokens
        return (
            _reached("model_calls", self.model_calls, model_calls)
            or _reached("input_tokens", self.input_tokens, usage.input_tokens)
            or _reached("output_tokens", self.output_tokens, usage.output_tokens)
            or _reached("total_tokens", self.total_tokens, total)
            or _reached("cost", self.cost, cost)
        )

    def before_tools(self, tool_calls: int, batch: int) -> tuple[str, float] | None:
        """The limit that keeps this many calls more from being run; None if there is none."""
        limit = self.tool_calls
        return ("tool_calls", limit) if limit is not None and tool_calls + batch > limit else None


def _reached(name: str, limit: float | None, value: float) -> tuple[str, float] | None:
    return (name, limit) if limit is not None and value >= limit else None
