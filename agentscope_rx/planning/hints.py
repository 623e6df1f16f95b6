"""The hints of a plan notebook: what the model reads before each round, and memory never holds."""

from __future__ import annotations

from collections.abc import Callable

from agentscope_rx.frozen_values import dataclass
from agentscope_rx.plan import Plan, plan_markdown, subtask_markdown

PlanToHint = Callable[[Plan | None], str | None]
"""Makes the text of a hint of the plan (None: there is none); with None or "" the model gets no hint."""

_CONFIRM = (
    "- WAIT FOR USER CONFIRMATION: show the plan to the user, and begin only when the user agrees. Change it as the "
    "user asks."
)
_COMMON = """Important Rules:
- Update before processing each subtask: call 'get_subtask_count' and 'view_subtasks' first, because users may edit \
the plan directly.
- Where the plan that you have read last differs from the first request, the plan counts.
- Leave the plan as it is unless the user asks for a change, or the work shows that it cannot succeed.
- Answer in the language of the plan."""


@dataclass(frozen=True, slots=True)
class DefaultPlanToHint:
    """The hint of a `PlanNotebook`, by the state of the plan.

    | the plan | the hint |
    |---|---|
    | there is none | plan first, if the work is complex (first round only) |
    | all subtasks done or abandoned, or none | finish the plan |
    | nothing begun | begin with the first subtask that waits |
    | one in progress | its texts; go on with it, then finish it |
    | some closed, none in progress | begin the next one |
    """

    max_subtasks: int | None = None
    need_user_confirm: bool = True

    def __call__(self, plan: Plan | None) -> str | None:
        """The text for this plan, without the tags around it."""
        if plan is None:
            return self._without_plan()
        running = plan.in_progress
        if running is not None:
            return _during(plan, running)
        following = plan.next_todo
        if following is None:
            return _at_end(plan)
        if any(each.state == "done" for each in plan.subtasks):
            return _between(plan, following)
        return self._at_beginning(plan, following)

    def _without_plan(self) -> str:
        rules = [_CONFIRM] if self.need_user_confirm else []
        if self.max_subtasks is not None:
            rules.append(f"- Subtask Limit: a plan has at most {self.max_subtasks} subtasks.")
        text = (
            "If the user's query is complex, such as building a site or researching a subject, create a plan first by "
            "calling 'create_plan', and follow it. If it is simple, answer without a plan."
        )
        return "\n".join([text, *(["Important Rules:", *rules] if rules else [])])

    def _at_beginning(self, plan: Plan, following: int) -> str:
        which = "first" if following == 0 else "next"
        lines = [
            "The current plan:",
            plan_markdown(plan),
            "Your options include:",
            f"- Mark the {which} subtask as 'in_progress' by calling 'update_subtask_state' with "
            f"subtask_idx={following} and state='in_progress', and begin with it.",
            "- If it cannot be done as planned, find out why, or ask the user, and call 'revise_current_plan'.",
            "- If the user no longer wants it, call 'finish_plan' with state='abandoned' and the reason.",
            *([_CONFIRM] if self.need_user_confirm else []),
            _COMMON,
        ]
        return "\n".join(lines)


def _during(plan: Plan, index: int) -> str:
    subtask = plan.subtasks[index]
    return "\n".join(
        [
            "The current plan:",
            plan_markdown(plan),
            f"Now the subtask at index {index}, named '{subtask.name}', is 'in_progress'. Its details:",
            subtask_markdown(subtask, detailed=True),
            "Your options include:",
            "- Go on with this subtask.",
            f"- When its expected outcome is reached, call 'finish_subtask' with subtask_idx={index} and what was "
            "achieved.",
            "- If it cannot be done, call 'revise_current_plan', or 'update_subtask_state' with state='abandoned'.",
            "- If you need something from the user, ask.",
            _COMMON,
        ]
    )


def _between(plan: Plan, following: int) -> str:
    abandoned = plan.count("abandoned")
    closed = sum(each.closed for each in plan.subtasks[:following])
    note = f", of which {abandoned} abandoned" if abandoned else ""
    return "\n".join(
        [
            "The current plan:",
            plan_markdown(plan),
            f"The first {closed} subtasks are done{note}, and no subtask is 'in_progress'.",
            "Your options include:",
            f"- Mark the next subtask as 'in_progress' by calling 'update_subtask_state' with subtask_idx={following} "
            "and state='in_progress'.",
            "- Change the plan by calling 'revise_current_plan', if what was found so far asks for it.",
            "- If the user no longer wants it, call 'finish_plan' with state='abandoned' and the reason.",
            _COMMON,
        ]
    )


def _at_end(plan: Plan) -> str:
    none_done = bool(plan.subtasks) and not plan.count("done")
    head = "All the subtasks are abandoned." if none_done else "All the subtasks are done."
    if not none_done and plan.count("abandoned"):
        head = f"All the subtasks are done or abandoned ({plan.count('abandoned')} abandoned)."
    state = "abandoned" if none_done else "done"
    return "\n".join(
        [
            "The current plan:",
            plan_markdown(plan),
            head,
            "Your options include:",
            f"- Call 'finish_plan' with state='{state}' and the outcome, and tell the user what was achieved.",
            "- If something is missing, add a subtask by calling 'revise_current_plan'.",
        ]
    )
