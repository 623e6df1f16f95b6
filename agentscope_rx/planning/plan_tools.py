"""`PlanTools`: the ten tools of a `PlanNotebook`.

They change the plan of the conversation alone, so plan mode allows them. A call that the rules do not allow is an error
result that says what to do instead, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Protocol

from pydantic import BaseModel, Field

from agentscope_rx.errors import PlanError
from agentscope_rx.events.kinds import PlanChange
from agentscope_rx.parts import Where
from agentscope_rx.plan import Plan, PlanState, SubTask, plan_markdown, rules, subtask_markdown
from agentscope_rx.planning.notebook_state import Change, Changed, NotebookState
from agentscope_rx.reactive import Flow, concat_map, defer, just
from agentscope_rx.tools import FunctionTool, Tool, ToolContext, tool

NO_PLAN = "There is no plan. Create one first by calling create_plan()."

_COUNTED: tuple[PlanState, ...] = ("done", "in_progress", "todo", "abandoned")
_REVISED: dict[str, PlanChange] = {"add": "subtask_added", "revise": "subtask_revised", "delete": "subtask_deleted"}

Index = Annotated[int, Field(description="The index of the subtask, counted from 0.")]


class SubTaskInput(BaseModel):
    """A step of the plan."""

    name: str = Field(description="A short name, at most ten words.", min_length=1)
    description: str = Field("", description="What is to be done, with the constraints and targets.")
    expected_outcome: str = Field("", description="The outcome by which one can tell that it is done.")

    def made(self, now: float) -> SubTask:
        """The subtask, which waits."""
        return SubTask(_named(self.name, "subtask"), self.description, self.expected_outcome, created_at=now)


class PlanKeeper(Protocol):
    """The notebook, as its tools see it; `PlanNotebook` documents the methods."""

    max_subtasks: int | None

    def plan(self, where: Where) -> Plan | None: ...

    def historical_plans(self, where: Where) -> Flow[tuple[Plan, ...]]: ...

    def act(self, context: ToolContext, change: Change) -> Flow[object]: ...


class PlanTools:
    """The tools of one notebook; `all` lists them."""

    def __init__(self, notebook: PlanKeeper) -> None:
        self._notebook = notebook
        tools: list[FunctionTool[..., object]] = [
            self.create_plan,
            self.update_plan_info,
            self.revise_current_plan,
            self.update_subtask_state,
            self.finish_subtask,
            self.view_subtasks,
            self.get_subtask_count,
            self.finish_plan,
            self.view_historical_plans,
            self.recover_historical_plan,
        ]
        for each in tools:
            # a change and its event, then the text: no value of these is progress
            each.streams = False
        self.all: tuple[Tool, ...] = tuple(tools)

    # --- the plan -----------------------------------------------------------------------------------------------------

    @tool(read_only=True)
    def create_plan(
        self,
        name: Annotated[str, Field(description="A short name, at most ten words.", min_length=1)],
        description: Annotated[str, Field(description="What the plan is for, with its constraints and targets.")],
        expected_outcome: Annotated[str, Field(description="The outcome by which one can tell that it has succeeded.")],
        subtasks: Annotated[list[SubTaskInput], Field(description="The steps, in the order in which they are done.")],
        context: ToolContext,
    ) -> Flow[object]:
        """Create a plan of subtasks that are done one after the other. A plan that goes on is replaced and archived."""

        def change(state: NotebookState, now: float) -> Changed:
            rules.check_count(len(subtasks), self._notebook.max_subtasks)
            steps = tuple(each.made(now) for each in subtasks)
            plan = Plan(_named(name, "plan"), description, expected_outcome, steps, created_at=now)
            old = state.current
            if old is None:
                return state.replaced(plan, "created", f"Plan '{plan.name}' created successfully.", now)
            text = (
                f"The current plan named '{old.name}' is replaced by the newly created plan named '{plan.name}'. The "
                f"old one is kept among the historical plans, with the id {old.id!r}."
            )
            return state.replaced(plan, "replaced", text, now)

        return self._notebook.act(context, change)

    @tool(read_only=True)
    def update_plan_info(
        self,
        context: ToolContext,
        name: Annotated[str | None, Field(description="The new name.")] = None,
        description: Annotated[str | None, Field(description="The new description.")] = None,
        expected_outcome: Annotated[str | None, Field(description="The new expected outcome.")] = None,
    ) -> Flow[object]:
        """Change the name, the description or the expected outcome of the current plan. What is left out stays."""

        def change(plan: Plan, now: float) -> tuple[Plan, str]:
            new = rules.with_info(plan, name, description, expected_outcome)
            parts: list[str] = []
            if new.name != plan.name:
                parts.append(f"name: '{plan.name}' -> '{new.name}'")
            parts += ["description updated"] if new.description != plan.description else []
            parts += ["expected_outcome updated"] if new.expected_outcome != plan.expected_outcome else []
            return new, f"Plan '{new.name}' updated successfully: {', '.join(parts) or 'it had these texts already'}."

        return self._plan(context, "updated", None, change)

    @tool(read_only=True)
    def revise_current_plan(
        self,
        subtask_idx: Annotated[
            int,
            Field(description="The index, counted from 0; with 'add' that of the new subtask, at most their number."),
        ],
        action: Annotated[str, Field(description="What to do: 'add', 'revise' or 'delete'.")],
        context: ToolContext,
        subtask: Annotated[
            SubTaskInput | None, Field(description="The subtask, for 'add' and 'revise'; its state is kept.")
        ] = None,
    ) -> Flow[object]:
        """Add a subtask to the current plan, revise the texts of one, or delete one."""

        def change(plan: Plan, now: float) -> tuple[Plan, str]:
            if action == "delete":
                name = rules.subtask_at(plan, subtask_idx, " for action 'delete'").name
                text = f"Subtask (named '{name}') at index {subtask_idx} is deleted successfully."
                return rules.without(plan, subtask_idx), text
            if action not in rules.ACTIONS:
                known = ", ".join(map(repr, rules.ACTIONS))
                raise PlanError(f"Invalid action '{action}'. It must be one of {known}.")
            if subtask is None:
                raise PlanError(f"The subtask must be provided when action is '{action}'.")
            if action == "add":
                added = rules.with_added(plan, subtask_idx, subtask.made(now), self._notebook.max_subtasks)
                return added, f"New subtask is added successfully at index {subtask_idx}."
            revised = rules.with_revised(plan, subtask_idx, subtask.made(now))
            return revised, f"Subtask at index {subtask_idx} is revised successfully."

        return self._plan(context, _REVISED.get(action, "updated"), subtask_idx, change)

    # --- subtasks -----------------------------------------------------------------------------------------------------

    @tool(read_only=True)
    def update_subtask_state(
        self,
        subtask_idx: Index,
        state: Annotated[str, Field(description="'todo', 'in_progress' or 'abandoned'.")],
        context: ToolContext,
    ) -> Flow[object]:
        """Set the state of a subtask. One at a time is in progress, and only when those before it are closed.

        To mark it as done, call 'finish_subtask' instead.
        """

        def change(plan: Plan, now: float) -> tuple[Plan, str]:
            new = rules.with_state(plan, subtask_idx, state, now)
            name = new.subtasks[subtask_idx].name
            return new, f"Subtask at index {subtask_idx}, named '{name}' is marked as '{state}' successfully."

        return self._plan(context, "subtask_state", subtask_idx, change)

    @tool(read_only=True)
    def finish_subtask(
        self,
        subtask_idx: Index,
        subtask_outcome: Annotated[str, Field(description="What was achieved, in detail: results, paths, numbers.")],
        context: ToolContext,
    ) -> Flow[object]:
        """Mark a subtask as done, with its outcome. The next one that waits is in progress then."""

        def change(plan: Plan, now: float) -> tuple[Plan, str]:
            new, following = rules.with_finished(plan, subtask_idx, subtask_outcome, now)
            text = f"Subtask (at index {subtask_idx}) named '{new.subtasks[subtask_idx].name}' is marked as done."
            if following is None:
                return new, f"{text} No subtask waits to be begun."
            name = new.subtasks[following].name
            return new, f"{text} The next subtask (at index {following}) named '{name}' is 'in_progress' now."

        return self._plan(context, "subtask_finished", subtask_idx, change)

    @tool(read_only=True)
    def view_subtasks(
        self,
        subtask_idx: Annotated[list[int], Field(description="The indices of the subtasks, counted from 0.")],
        context: ToolContext,
    ) -> Flow[object]:
        """View subtasks of the current plan in detail."""

        def view() -> Flow[object]:
            plan = self._current(context)
            found = [(index, rules.subtask_at(plan, index)) for index in dict.fromkeys(subtask_idx)]
            if not found:
                raise PlanError(f"Give the indices of the subtasks to view; the plan has {len(plan.subtasks)}.")
            texts = [f"Subtask at index {index}:\n{subtask_markdown(each, detailed=True)}" for index, each in found]
            return just("\n\n".join(texts))

        return defer(view)

    @tool(read_only=True)
    def get_subtask_count(self, context: ToolContext) -> Flow[object]:
        """Count the subtasks of the current plan, in total and by state."""

        def count() -> Flow[object]:
            plan = self._notebook.plan(context)
            if plan is None:
                return just("There is no active plan. Please create a plan first.")
            counts = ", ".join(f"{plan.count(state)} {state}" for state in _COUNTED)
            return just(f"Current plan '{plan.name}' has {len(plan.subtasks)} subtask(s): {counts}.")

        return defer(count)

    # --- the end, and the history -------------------------------------------------------------------------------------

    @tool(read_only=True)
    def finish_plan(
        self,
        state: Annotated[str, Field(description="'done' or 'abandoned'.")],
        outcome: Annotated[str, Field(description="What was achieved, or why the plan is abandoned.")],
        context: ToolContext,
    ) -> Flow[object]:
        """Finish the current plan; it is kept among the historical plans."""

        def change(before: NotebookState, now: float) -> Changed:
            if before.current is None:
                raise PlanError("There is no plan to finish.")
            if state != "done" and state != "abandoned":
                raise PlanError(f"Invalid state '{state}'. It must be 'done' or 'abandoned'.")
            left = rules.finished(before.current, state, outcome, now)
            text = f"The current plan is finished successfully as '{state}'."
            return before.finished(left, None, "finished", text)

        return self._notebook.act(context, change)

    @tool(read_only=True)
    def view_historical_plans(self, context: ToolContext) -> Flow[object]:
        """View the plans that were finished, abandoned or replaced, with their ids."""

        def view(plans: tuple[Plan, ...]) -> Flow[object]:
            texts = [f"Plan id: {plan.id}\n{plan_markdown(plan)}" for plan in plans]
            return just("\n\n".join(texts) or "No historical plans found.")

        return self._notebook.historical_plans(context).pipe(concat_map(view))

    @tool(read_only=True)
    def recover_historical_plan(
        self,
        plan_id: Annotated[str, Field(description="The id, as 'view_historical_plans' shows it.")],
        context: ToolContext,
    ) -> Flow[object]:
        """Go on with a historical plan. A current plan is archived as abandoned."""

        def recover(plans: tuple[Plan, ...]) -> Flow[object]:
            def change(state: NotebookState, now: float) -> Changed:
                old = state.current
                if old is not None and old.id == plan_id:
                    raise PlanError(f"Plan {plan_id!r} is the current plan already.")
                found = next((plan for plan in plans if plan.id == plan_id), None)
                if found is None:
                    known = ", ".join(f"{plan.id!r} ('{plan.name}')" for plan in plans) or "none"
                    raise PlanError(f"There is no historical plan with the id {plan_id!r}. There are: {known}.")
                text = f"Historical plan named '{found.name}' is recovered; it is the current plan now."
                if old is not None:
                    text += f" The plan named '{old.name}' was archived as abandoned, with the id {old.id!r}."
                return state.replaced(rules.recovered(found), "recovered", text, now)

            return self._notebook.act(context, change)

        return self._notebook.historical_plans(context).pipe(concat_map(recover))

    # --- shared -------------------------------------------------------------------------------------------------------

    def _current(self, context: ToolContext) -> Plan:
        plan = self._notebook.plan(context)
        if plan is None:
            raise PlanError(NO_PLAN)
        return plan

    def _plan(
        self,
        context: ToolContext,
        kind: PlanChange,
        subtask: int | None,
        change: Callable[[Plan, float], tuple[Plan, str]],
    ) -> Flow[object]:
        """A change of the current plan; one that leaves it equal is no change."""

        def changed(state: NotebookState, now: float) -> Changed:
            if state.current is None:
                raise PlanError(NO_PLAN)
            plan, text = change(state.current, now)
            return state.edited(plan, kind, text, subtask)

        return self._notebook.act(context, changed)


def _named(name: str, what: str) -> str:
    """The name without spaces around it; `PlanError` if it is blank."""
    text = name.strip()
    if not text:
        raise PlanError(f"The name of a {what} must not be blank. Nothing was changed.")
    return text
