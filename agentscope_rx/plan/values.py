"""`Plan`, `SubTask`, `Todo`: frozen values with a JSON form that loses nothing.

    A plan survives its JSON:

        plan = Plan("Move to Oslo", subtasks=(SubTask("Find a flat"), SubTask("Book a van")))
        Plan.from_dict(plan.to_dict()) == plan

The states of a subtask:

    todo --> in_progress --> done            a person or the model may set each of them back, within the rules
      |           |                          (see `plan.rules`)
      +-----------+-------> abandoned
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from typing import Literal, Self, TypeVar, cast, get_args

from pydantic import TypeAdapter, ValidationError

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages.frozen import encodable, shown
from agentscope_rx.messages.msg import new_id

PlanState = Literal["todo", "in_progress", "done", "abandoned"]
"""The state of a plan, of a subtask or of a todo."""

STATES: tuple[PlanState, ...] = get_args(PlanState)
CLOSED: frozenset[PlanState] = frozenset(("done", "abandoned"))
"""The states of what needs no more work."""

T = TypeVar("T")


@cache
def _adapter(kind: type[T]) -> TypeAdapter[T]:
    return TypeAdapter(kind)


def _check(value: object, *texts: str, named: str) -> None:
    """Check a value that is being made: its state, and its texts, without lone surrogates."""
    kind = type(value).__name__
    state = getattr(value, "state")  # noqa: B009 - of three classes
    if state not in STATES:
        raise InvalidInputError(f"The state of a {kind} must be one of {', '.join(STATES)}, not {shown(state, 60)}.")
    for name in texts:
        text = getattr(value, name)
        if text is None and name == "outcome":
            continue
        if not isinstance(text, str):
            raise InvalidInputError(f"{kind}.{name} must be a str, not {shown(text, 60)}.")
        if not text.isascii():
            object.__setattr__(value, name, encodable(text))
    if not cast("str", getattr(value, named)).strip():
        raise InvalidInputError(f"A {kind} needs a {named} that is not blank.")


class _Json:
    """The JSON form of a value."""

    __slots__ = ()

    def to_dict(self) -> dict[str, object]:
        """The value as plain JSON."""
        return cast("dict[str, object]", _adapter(type(self)).dump_python(self, mode="json"))

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Self:
        """The value from the result of `to_dict`; `InvalidInputError` if it is none."""
        try:
            return _adapter(cls).validate_python(data)
        except (ValidationError, RecursionError) as error:
            raise InvalidInputError(f"This is not a {cls.__name__}: {error}") from error


@dataclass(frozen=True, slots=True)
class SubTask(_Json):
    """A step of a plan. Times are in seconds since the epoch; `outcome` is its result in words.

    A person or the model may set each state back, within the rules:

        todo --> in_progress --> done
          |           |
          +-----------+-------> abandoned
    """

    name: str
    description: str = ""
    expected_outcome: str = ""
    state: PlanState = "todo"
    outcome: str | None = None
    id: str = field(default_factory=new_id)
    created_at: float = 0.0
    finished_at: float | None = None

    def __post_init__(self) -> None:
        _check(self, "name", "description", "expected_outcome", "outcome", "id", named="name")

    @property
    def closed(self) -> bool:
        """True if it is done or abandoned."""
        return self.state in CLOSED


@dataclass(frozen=True, slots=True)
class Plan(_Json):
    """A plan: subtasks in their order, towards an expected outcome. Times are in seconds since the epoch.

    plan = Plan("Move to Oslo", subtasks=(SubTask("Find a flat"), SubTask("Book a van")))
    Plan.from_dict(plan.to_dict()) == plan
    """

    name: str
    description: str = ""
    expected_outcome: str = ""
    subtasks: tuple[SubTask, ...] = ()
    state: PlanState = "todo"
    outcome: str | None = None
    id: str = field(default_factory=new_id)
    created_at: float = 0.0
    finished_at: float | None = None

    def __post_init__(self) -> None:
        _check(self, "name", "description", "expected_outcome", "outcome", "id", named="name")
        if not isinstance(self.subtasks, tuple):  # pyright: ignore[reportUnnecessaryIsInstance]
            object.__setattr__(self, "subtasks", tuple(cast("Sequence[SubTask]", self.subtasks)))
        for subtask in self.subtasks:
            if not isinstance(subtask, SubTask):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidInputError(f"Plan.subtasks takes SubTasks, not {shown(subtask, 60)}.")

    @property
    def closed(self) -> bool:
        """True if it is done or abandoned."""
        return self.state in CLOSED

    @property
    def in_progress(self) -> int | None:
        """The index of the subtask in progress; None if there is none."""
        return next((index for index, each in enumerate(self.subtasks) if each.state == "in_progress"), None)

    @property
    def next_todo(self) -> int | None:
        """The index of the first subtask that waits; None if none does."""
        return next((index for index, each in enumerate(self.subtasks) if each.state == "todo"), None)

    def count(self, state: PlanState) -> int:
        """The number of subtasks in this state."""
        return sum(each.state == state for each in self.subtasks)

    def with_subtask(self, index: int, subtask: SubTask) -> Plan:
        """A copy with this subtask in the place of another."""
        return self.with_subtasks((*self.subtasks[:index], subtask, *self.subtasks[index + 1 :]))

    def with_subtasks(self, subtasks: Sequence[SubTask]) -> Plan:
        """A copy with these subtasks; a plan that goes on is in progress once one of them has begun."""
        begun = any(each.state != "todo" for each in subtasks)
        state = self.state if self.closed else "in_progress" if begun else "todo"
        return replace(self, subtasks=tuple(subtasks), state=state)


@dataclass(frozen=True, slots=True)
class Todo(_Json):
    """An entry of a todo list, the light form of a plan."""

    content: str
    state: PlanState = "todo"

    def __post_init__(self) -> None:
        _check(self, "content", named="content")
