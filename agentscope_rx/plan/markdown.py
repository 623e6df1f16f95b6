"""Plans, subtasks and todo lists as Markdown, for models and people.

- [ ] a todo        - [ ] [WIP] one in progress        - [x] one that is done        - [ ] [Abandoned] one given up
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from agentscope_rx.plan.values import Plan, PlanState, SubTask, Todo

_BOXES: dict[PlanState, str] = {
    "todo": "- [ ] ",
    "in_progress": "- [ ] [WIP] ",
    "done": "- [x] ",
    "abandoned": "- [ ] [Abandoned] ",
}


def plan_markdown(plan: Plan, *, detailed: bool = False) -> str:
    """The plan with its subtasks as Markdown; `detailed` adds the texts, times and outcomes of the subtasks."""
    lines = [
        f"# {_line(plan.name)}",
        f"**Description**: {plan.description}",
        f"**Expected Outcome**: {plan.expected_outcome}",
        f"**State**: {plan.state}",
        f"**Created At**: {when(plan.created_at)}",
    ]
    if plan.finished_at is not None:
        lines.append(f"**Finished At**: {when(plan.finished_at)}")
    if plan.outcome is not None:
        lines.append(f"**Outcome**: {plan.outcome}")
    lines.append("## Subtasks")
    lines += [subtask_markdown(each, detailed=detailed) for each in plan.subtasks]
    return "\n".join(lines)


def subtask_markdown(subtask: SubTask, *, detailed: bool = False) -> str:
    """The subtask in one line; `detailed` adds its texts, times and outcome, indented."""
    head = _BOXES[subtask.state] + _line(subtask.name)
    if not detailed:
        return head
    lines = [
        head,
        f"\t- Created At: {when(subtask.created_at)}",
        f"\t- Description: {subtask.description}",
        f"\t- Expected Outcome: {subtask.expected_outcome}",
        f"\t- State: {subtask.state}",
    ]
    if subtask.finished_at is not None:
        lines.append(f"\t- Finished At: {when(subtask.finished_at)}")
    if subtask.outcome is not None:
        lines.append(f"\t- Actual Outcome: {subtask.outcome}")
    return "\n".join(lines)


def todos_markdown(todos: Iterable[Todo]) -> str:
    """The list as Markdown, a line for each todo.

    | state         | line                         |
    |---------------|------------------------------|
    | `todo`        | `- [ ] a todo`               |
    | `in_progress` | `- [ ] [WIP] a todo`         |
    | `done`        | `- [x] a todo`               |
    | `abandoned`   | `- [ ] [Abandoned] a todo`   |
    """
    return "\n".join(_BOXES[todo.state] + _line(todo.content) for todo in todos)


def when(timestamp: float) -> str:
    """A time in seconds since the epoch, as `2026-01-31 12:00:00`, in UTC."""
    try:
        return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{timestamp:g} s"


def _line(text: str) -> str:
    """The text on one line: a name must not add lines to the list."""
    return " ".join(text.split())
