"""What a notebook keeps in one conversation: the plan, and those that went before it; and the changes of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import cast

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.events.kinds import PlanChange
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages.frozen import shown
from agentscope_rx.plan import Plan, rules

VERSION = 1


@dataclass(frozen=True, slots=True)
class NotebookState:
    """The plan that goes on, if any, and the historical plans, the oldest first; none, if a storage keeps them."""

    current: Plan | None = None
    history: tuple[Plan, ...] = ()

    def edited(self, plan: Plan | None, change: PlanChange, text: str, subtask: int | None = None) -> Changed:
        """The plan in the place of the current one, which it is an edited form of; an equal one is no change."""
        if plan == self.current:
            return Changed(self, None, text)
        return Changed(replace(self, current=plan), change, text, subtask)

    def finished(self, left: Plan, following: Plan | None, change: PlanChange, text: str) -> Changed:
        """The current plan goes into the history as `left`, and the following one takes its place."""
        others = tuple(each for each in self.history if each.id != left.id)
        return Changed(NotebookState(following, (*others, left)), change, text, archived=left)

    def replaced(self, plan: Plan | None, change: PlanChange, text: str, now: float) -> Changed:
        """The plan in the place of the current one, which goes into the history as abandoned."""
        old = self.current
        if old is None:
            return self.edited(plan, change, text)
        return self.finished(rules.finished(old, "abandoned", old.outcome or "", now), plan, change, text)


@dataclass(frozen=True, slots=True)
class Changed:
    """The outcome of a change: the new state, what has changed (None: nothing) and the text for the model."""

    state: NotebookState
    change: PlanChange | None
    text: str
    subtask: int | None = None
    archived: Plan | None = None
    """The plan that leaves the notebook."""

    @property
    def plan(self) -> Plan | None:
        """The plan that the event shows."""
        return self.archived if self.change == "finished" else self.state.current


Change = Callable[[NotebookState, float], Changed]
"""A change of the state at a time, in seconds since the epoch."""

EMPTY = NotebookState()


def dump_state(state: NotebookState) -> object:
    """The state as plain JSON."""
    return {
        "current": None if state.current is None else state.current.to_dict(),
        "history": [plan.to_dict() for plan in state.history],
    }


def read_state(data: object) -> NotebookState:
    """The state from the result of `dump_state`; `InvalidInputError` if it is none."""
    if not isinstance(data, Mapping):
        raise InvalidInputError(f"The state of a plan notebook must be a JSON object, not {shown(data, 60)}.")
    plain = cast("Mapping[str, object]", data)
    current, history = plain.get("current"), plain.get("history", [])
    if not isinstance(history, list):
        raise InvalidInputError(f"The historical plans must be a list, not {shown(history, 60)}.")
    return NotebookState(
        None if current is None else Plan.from_dict(cast("Mapping[str, object]", current)),
        tuple(Plan.from_dict(each) for each in cast("list[Mapping[str, object]]", history)),
    )
