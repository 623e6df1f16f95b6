"""The hooks that `plan_notebook=` and `plan_mode=` of an agent stand for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

from agentscope_rx.agent.input import check_kind
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.hooks import Hook

if TYPE_CHECKING:
    # few agents plan, and to define the tools takes time
    from agentscope_rx.planning import PlanMode, PlanNotebook

H = TypeVar("H", bound=Hook)


def with_planning(
    hooks: Iterable[Hook], plan_notebook: PlanNotebook | None, plan_mode: PlanMode | bool
) -> Iterable[Hook]:
    """The hooks with those of planning behind them; `ConfigurationError` for anything else than these."""
    if plan_notebook is None and plan_mode is False:
        return hooks
    from agentscope_rx.planning import PlanMode, PlanNotebook

    check_kind("plan_notebook", plan_notebook, PlanNotebook)
    mode = PlanMode() if plan_mode is True else plan_mode
    if mode is not False and not isinstance(cast("object", mode), PlanMode):
        raise ConfigurationError(f"plan_mode must be True, False or a PlanMode, not {mode!r:.60}.")
    added = [each for each in (plan_notebook, mode) if isinstance(each, Hook)]
    # what is no iterable is refused where all hooks are checked
    return [*hooks, *added] if added else hooks


def hook_of(hooks: Sequence[Hook], kind: type[H]) -> H | None:
    """The first hook of this class."""
    return next((each for each in hooks if isinstance(each, kind)), None)


def plan_mode_of(agent: str, hooks: Sequence[Hook]) -> PlanMode:
    """The plan mode of the agent; `ConfigurationError` if it has none."""
    from agentscope_rx.planning import PlanMode

    found = hook_of(hooks, PlanMode)
    if found is None:
        raise ConfigurationError(
            f"Agent {agent!r} has no plan mode. Give it one: plan_mode=True, or PlanMode(start=False) to begin without."
        )
    return found
