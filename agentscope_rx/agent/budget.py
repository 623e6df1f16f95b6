"""What a run and those that it is inside of may spend together: a sub-agent's costs are costs of its parents.

limits    asked of the run itself, then of each one further out; the first that is reached counts
costs     counted in the run itself where they arise, and from there outwards by `charge`
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentscope_rx.agent.run import Run
from agentscope_rx.messages import ChatUsage


def outwards(run: Run | None) -> Iterator[Run]:
    """The run, and those that it is inside of."""
    while run is not None:
        yield run
        run = run.parent


def limit_before_model(run: Run) -> tuple[str, float] | None:
    """The limit that keeps the model from being asked once more."""
    for each in outwards(run):
        if each.limits is not None:
            reached = each.limits.before_model(each.model_calls, each.usage, each.cost)
            if reached is not None:
                return reached
    return None


def limit_before_tools(run: Run, batch: int) -> tuple[str, float] | None:
    """The limit that keeps this many calls more from being run."""
    for each in outwards(run):
        if each.limits is not None:
            reached = each.limits.before_tools(each.tool_calls, batch)
            if reached is not None:
                return reached
    return None


def whose_limit(run: Run, which: str, limit: float) -> str:
    """The name of the agent whose limit this is."""
    named = (each.name for each in outwards(run) if each.limits and getattr(each.limits, which, None) == limit)
    return next(named, run.name)


def check_prices(run: Run, models: Sequence[str]) -> None:
    """`ConfigurationError` for a model, of those that may answer, that a limit on costs has no price for."""
    for each in outwards(run):
        if each.limits is not None:
            for model in models:
                each.limits.price(model, ChatUsage())


def charge(
    run: Run | None, *, model: str = "", model_calls: int = 0, usage: ChatUsage | None = None, tools: int = 0
) -> None:
    """Count here, and further out, what a run inside has used."""
    for each in outwards(run):
        each.model_calls += model_calls
        each.tool_calls += tools
        if usage is not None:
            each.usage = each.usage + usage
            if each.limits is not None:
                each.cost += each.limits.price(model, usage)
