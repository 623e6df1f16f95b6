"""Limits of a tool: at most n calls at once, at most n begin in a period, or no other call beside it.

| option of a tool          | holds                                                                    |
|---------------------------|--------------------------------------------------------------------------|
| `max_concurrency=2`       | for the tool wherever it is called: all runs, toolkits, loops, threads   |
| `rate=Rate(10, per=60.0)` | the same; each attempt of a call counts                                  |
| `exclusive=True`          | in one round: it runs alone, calls before it first, calls behind it then |

A call takes its permit when it begins and gives it back when it has really ended: a blocking function that was
abandoned at its timeout still uses what the permit guards. A nested call does not share the permit of its caller: a
tool that calls itself needs one permit for each level.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentscope_rx.errors import ConfigurationError, ToolDefinitionError
from agentscope_rx.reactive import Rate, Semaphore
from agentscope_rx.reactive.limiter import Limiter


class ToolLimits:
    """The gates of one tool: kept with the tool, so that all its callers share them."""

    __slots__ = ("gates", "permits", "rates")

    def __init__(
        self, permits: Semaphore | None = None, rate: Limiter | None = None, beneath: ToolLimits | None = None
    ) -> None:
        own = tuple(gate for gate in (permits, rate) if gate is not None)
        rates = () if rate is None else (rate,)
        self.permits: Semaphore | None = permits
        self.gates: Sequence[Limiter] = own if beneath is None else (*own, *beneath.gates)
        self.rates: Sequence[Limiter] = rates if beneath is None else (*rates, *beneath.rates)


UNLIMITED = ToolLimits()


def limits_of(
    name: str,
    max_concurrency: int | None,
    rate: Rate | None,
    exclusive: object = False,
    beneath: ToolLimits = UNLIMITED,
) -> ToolLimits:
    """The gates for a tool's options, and those `beneath` it; `ToolDefinitionError` for invalid options."""
    if not isinstance(exclusive, bool):
        raise ToolDefinitionError(
            f"exclusive of tool {name!r} must be True or False, not {exclusive!r:.60}.", tool=name
        )
    if rate is not None and not isinstance(rate, Rate):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ToolDefinitionError(f"rate of tool {name!r} must be Rate(n, per=seconds), not {rate!r:.60}.", tool=name)
    if max_concurrency is None and rate is None:
        return beneath
    try:
        permits = None if max_concurrency is None else Semaphore(max_concurrency)
    except ConfigurationError as error:
        raise ToolDefinitionError(f"max_concurrency of tool {name!r}: {error}", tool=name) from error
    return ToolLimits(permits, None if rate is None else rate.limiter(), beneath)
