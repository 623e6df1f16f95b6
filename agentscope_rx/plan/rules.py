"""The rules of plans, as pure functions: a plan and the arguments of a change in, the changed plan out.

| change             | is refused if                                                                         |
|--------------------|---------------------------------------------------------------------------------------|
| any                | the index names no subtask                                                            |
| to `in_progress`   | an earlier subtask is neither done nor abandoned, or another one is in progress        |
| finish             | an earlier subtask is neither done nor abandoned, or it is done already                |
| back to an open state | a later subtask is in progress or done                                             |
| add                | there are `max_subtasks`, or a subtask behind it is in progress or done                |

So at most one subtask is in progress, and those before one that has begun or is done are done or abandoned. A refused
change is a `PlanError`, with a text for the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentscope_rx.errors import PlanError
from agentscope_rx.plan.values import CLOSED, Plan, PlanState, SubTask

SETTABLE: tuple[PlanState, ...] = ("todo", "in_progress", "abandoned")
"""The states that a subtask can be set to; it is done by finishing it, with an outcome."""
ACTIONS = ("add", "revise", "delete")


def check_count(count: int, max_subtasks: int | None) -> None:
    """`PlanError` if a new plan has too many subtasks."""
    if max_subtasks is not None and count > max_subtasks:
        raise PlanError(
            f"The plan was not created: it has {count} subtasks, which exceeds the maximum limit of {max_subtasks}. "
            "Call create_plan again with fewer, larger subtasks."
        )


def with_info(plan: Plan, name: str | None, description: str | None, expected_outcome: str | None) -> Plan:
    """The plan with these texts; None and blank ones are kept as they are."""
    given = {"name": name, "description": description, "expected_outcome": expected_outcome}
    changes = {key: text for key, text in given.items() if text is not None and text.strip()}
    if not changes:
        raise PlanError("No changes were made. Give at least one of name, description and expected_outcome.")
    return replace(plan, **changes)


def with_added(plan: Plan, index: int, subtask: SubTask, max_subtasks: int | None) -> Plan:
    """The plan with one more subtask before the one at `index`; at the end if there is none."""
    subtasks = plan.subtasks
    if max_subtasks is not None and len(subtasks) >= max_subtasks:
        raise PlanError(
            f"Cannot add more subtasks: the plan has the maximum limit of {max_subtasks} subtasks. Delete one that is "
            "not needed first."
        )
    if not 0 <= index <= len(subtasks):
        raise _out_of_range(index, len(subtasks), " for action 'add'")
    begun = _begun_from(plan, index)
    if begun is not None:
        raise PlanError(
            f"A subtask cannot be added at index {index}: the subtask at index {begun} behind it is "
            f"'{subtasks[begun].state}'. Add it at index {begun + 1} or later."
        )
    return plan.with_subtasks((*subtasks[:index], subtask, *subtasks[index:]))


def with_revised(plan: Plan, index: int, subtask: SubTask) -> Plan:
    """The plan with the texts of this subtask at `index`; the state, the outcome and the id stay."""
    old = subtask_at(plan, index, " for action 'revise'")
    changed = replace(
        old, name=subtask.name, description=subtask.description, expected_outcome=subtask.expected_outcome
    )
    return plan.with_subtask(index, changed)


def without(plan: Plan, index: int) -> Plan:
    """The plan without the subtask at `index`."""
    subtask_at(plan, index, " for action 'delete'")
    return plan.with_subtasks((*plan.subtasks[:index], *plan.subtasks[index + 1 :]))


def with_state(plan: Plan, index: int, state: str, now: float) -> Plan:
    """The plan with the subtask at `index` in this state."""
    subtask = subtask_at(plan, index)
    if state == "done":
        raise PlanError("To mark a subtask as done, call 'finish_subtask' with its outcome.")
    if state not in SETTABLE:
        raise PlanError(f"Invalid state '{state}'. It must be one of {', '.join(map(repr, SETTABLE))}.")
    if state == "in_progress":
        _check_before(plan, index)
        running = plan.in_progress
        if running is not None and running != index:
            raise PlanError(
                f"The subtask (at index {running}) named '{plan.subtasks[running].name}' is already 'in_progress'. "
                "Finish or abandon it first before starting another subtask."
            )
    if state != "abandoned":
        later = _begun_from(plan, index + 1)
        if later is not None:
            raise PlanError(
                f"The subtask at index {index} cannot be '{state}' again: the later subtask at index {later} is "
                f"'{plan.subtasks[later].state}'. Add a new subtask for the work that is left."
            )
    return plan.with_subtask(index, replace(subtask, state=state, finished_at=now if state == "abandoned" else None))


def with_finished(plan: Plan, index: int, outcome: str, now: float) -> tuple[Plan, int | None]:
    """The plan with the subtask at `index` done, and the index of the one that is in progress now, if any."""
    subtask = subtask_at(plan, index)
    if subtask.state == "done":
        raise PlanError(f"The subtask at index {index}, named '{subtask.name}', is done already.")
    _check_before(plan, index, f"Cannot finish the subtask at index {index}: the previous subtask ")
    plan = plan.with_subtask(index, replace(subtask, state="done", outcome=outcome, finished_at=now))
    following = plan.next_todo
    if following is None or plan.in_progress is not None or _open_before(plan, following) is not None:
        return plan, None
    begun = replace(plan.subtasks[following], state="in_progress")
    return plan.with_subtask(following, begun), following


def finished(plan: Plan, state: PlanState, outcome: str, now: float) -> Plan:
    """The plan at its end, as it goes into the history: its subtasks stay as they are."""
    return replace(plan, state=state, outcome=outcome, finished_at=now)


def recovered(plan: Plan) -> Plan:
    """A plan of the history as one that goes on."""
    return replace(plan, state="todo", outcome=None, finished_at=None).with_subtasks(plan.subtasks)


def subtask_at(plan: Plan, index: int, where: str = "") -> SubTask:
    """The subtask at this index, or a `PlanError` that names those that there are."""
    if not 0 <= index < len(plan.subtasks):
        raise _out_of_range(index, len(plan.subtasks) - 1, where)
    return plan.subtasks[index]


def check_todos(states: Sequence[PlanState], max_todos: int | None) -> None:
    """`PlanError` if several todos are in progress, or if there are too many."""
    if states.count("in_progress") > 1:
        raise PlanError("At most one todo may be 'in_progress'. Nothing was changed; write the list again.")
    if max_todos is not None and len(states) > max_todos:
        raise PlanError(f"The list has {len(states)} todos; the maximum is {max_todos}. Nothing was changed.")


def is_consistent(plan: Plan) -> bool:
    """True if the rules could have led to this plan: what a plan that is given from outside is checked with."""
    states = [each.state for each in plan.subtasks]
    if states.count("in_progress") > 1:
        return False
    begun = [index for index, state in enumerate(states) if state in ("in_progress", "done")]
    return not begun or all(state in CLOSED for state in states[: begun[-1]])


def _check_before(plan: Plan, index: int, intro: str = "The subtask ") -> None:
    earlier = _open_before(plan, index)
    if earlier is not None:
        raise PlanError(
            f"{intro}(at index {earlier}) named '{plan.subtasks[earlier].name}' is not done yet. You should finish the "
            "previous subtasks first."
        )


def _open_before(plan: Plan, index: int) -> int | None:
    return next((each for each in range(index) if not plan.subtasks[each].closed), None)


def _begun_from(plan: Plan, index: int) -> int | None:
    """The last subtask from `index` on that is in progress or done."""
    begun = [each for each in range(index, len(plan.subtasks)) if plan.subtasks[each].state in ("in_progress", "done")]
    return begun[-1] if begun else None


def _out_of_range(index: int, last: int, where: str = "") -> PlanError:
    if last < 0:
        return PlanError(f"Invalid subtask_idx '{index}'{where}. The plan has no subtasks.")
    return PlanError(f"Invalid subtask_idx '{index}'{where}. It must be between 0 and {last}.")
