"""`PlanNotebook`: the tools by which a model makes a plan and follows it, and the hints that keep it to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import cast

from agentscope_rx.errors import ConfigurationError, HookError, InvalidInputError, PlanError
from agentscope_rx.events import Event, EventSource, PlanEvent, PreReasoningEvent
from agentscope_rx.hooks.system_hint import wrapped
from agentscope_rx.parts import Part, Where
from agentscope_rx.plan import Plan, rules
from agentscope_rx.planning.changes import PlanningHook, answer, source_of
from agentscope_rx.planning.hints import DefaultPlanToHint, PlanToHint
from agentscope_rx.planning.notebook_state import (
    EMPTY,
    VERSION,
    Change,
    Changed,
    NotebookState,
    dump_state,
    read_state,
)
from agentscope_rx.planning.plan_tools import PlanTools
from agentscope_rx.planning.storage import PlanStorage
from agentscope_rx.reactive import Flow, concat_map, defer, just, then
from agentscope_rx.tools import Tool, ToolContext
from agentscope_rx.tools.options import check_count, check_flag


class PlanNotebook(PlanningHook):
    """Gives the model ten tools to make a plan and follow it, and a hint before each round.

        agent = ReActAgent("Friday", model, plan_notebook=PlanNotebook(max_subtasks=8))
        agent.plan_notebook.plan(agent.conversation())          the plan of a conversation, or None

    | tool | does |
    |---|---|
    | `create_plan` | makes the plan; one that goes on is archived as abandoned |
    | `update_plan_info` | changes its name, description and expected outcome |
    | `revise_current_plan` | adds, revises or deletes a subtask |
    | `update_subtask_state` | sets `todo`, `in_progress` or `abandoned` |
    | `finish_subtask` | marks a subtask done; the next one that waits is in progress then |
    | `view_subtasks`, `get_subtask_count` | details; the numbers by state |
    | `finish_plan` | ends the plan as `done` or `abandoned`, and archives it |
    | `view_historical_plans`, `recover_historical_plan` | the archive; a plan of it goes on where it was |

    At most one subtask is in progress, and all before one that has begun are done or abandoned. A call against a rule
    is an error result that says what to do, and changes nothing.

    | option | |
    |---|---|
    | `max_subtasks` | bounds a plan, at its creation and when a subtask is added |
    | `need_user_confirm` | the hint asks the model to wait for the user before it begins |
    | `plan_to_hint` | makes the text of the hint of a plan, or of None; "" is no hint |
    | `storage` | keeps historical plans elsewhere than in the conversation, for all conversations of the notebook |
    | `clock` | gives the time in seconds since the epoch |
    | `name` | notebooks with other names keep other plans in the same conversation |

    Hints come last in a request, in `<system-hint>` tags; memory never has them. `tools=notebook.tools()` gives the
    tools without hints. `on_change` and `changes` report the changes of all conversations, those by hand included.
    """

    def __init__(
        self,
        *,
        max_subtasks: int | None = None,
        storage: PlanStorage | None = None,
        need_user_confirm: bool = True,
        plan_to_hint: PlanToHint | None = None,
        clock: Callable[[], float] = time.time,
        name: str = "plan",
        priority: int = 100,
    ) -> None:
        super().__init__()
        check_count("max_subtasks", max_subtasks, optional=True)
        check_flag("need_user_confirm", need_user_confirm)
        if storage is not None and not isinstance(storage, PlanStorage):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"storage must be a PlanStorage, not {storage!r:.60}.")
        if plan_to_hint is not None and not callable(plan_to_hint):
            raise ConfigurationError(f"plan_to_hint must be a function of a Plan or None, not {plan_to_hint!r:.60}.")
        self.max_subtasks = max_subtasks
        self.storage = storage
        self.priority = priority
        self._default_hint = plan_to_hint is None
        self._to_hint: PlanToHint = plan_to_hint or DefaultPlanToHint(max_subtasks, need_user_confirm)
        self._clock = clock
        self._part: Part[NotebookState] = Part(name, VERSION, EMPTY, dump=dump_state, read=read_state)
        self._tools = PlanTools(self)

    # --- the plan of a conversation -----------------------------------------------------------------------------------

    def plan(self, where: Where = None) -> Plan | None:
        """The current plan of this conversation (`agent.conversation(memory)`); None if there is none."""
        return self._part.get(where).current

    def historical_plans(self, where: Where = None) -> Flow[tuple[Plan, ...]]:
        """The plans that were finished, abandoned or replaced, the oldest first.

        Signals: one tuple; the error of the storage.
        Cancels: the reading.
        """

        def read() -> Flow[tuple[Plan, ...]]:
            state = self._part.get(where)
            id = None if state.current is None else state.current.id

            def all_of(stored: tuple[Plan, ...]) -> tuple[Plan, ...]:
                # the conversation may have begun without a storage
                stored_ids = {plan.id for plan in stored}
                own = (plan for plan in state.history if plan.id not in stored_ids)
                return tuple(plan for plan in (*own, *stored) if plan.id != id)

            if self.storage is None:
                return just(all_of(()))
            return self.storage.plans().pipe(concat_map(lambda stored: just(all_of(stored))))

        return defer(read)

    def set_plan(self, plan: Plan | None, where: Where = None) -> Flow[None]:
        """Give the conversation this plan, as edited by a person; the old one, if it is another, is archived.

        Signals: one None; `InvalidInputError` for a plan that the rules do not allow; the error of the storage, and
        then nothing has changed.
        Cancels: the storing; the plan is set when that has succeeded.
        """
        if plan is not None and not rules.is_consistent(plan):
            raise InvalidInputError(
                "In a plan at most one subtask is in progress, and all before one that is in progress or done are done "
                "or abandoned."
            )

        def put(state: NotebookState, now: float) -> Changed:
            old = state.current
            if old is None or (plan is not None and plan.id == old.id):
                return state.edited(plan, "created" if old is None else "updated", "")
            return state.replaced(plan, "finished" if plan is None else "replaced", "", now)

        return self._changing(where, EventSource(), put).pipe(concat_map(_done))

    # --- changes ------------------------------------------------------------------------------------------------------

    def act(self, context: ToolContext, change: Change) -> Flow[object]:
        """Change the plan on behalf of a tool.

        Signals: a `ToolNotice` with the event, if something has changed, and the text for the model; a `PlanError`,
        or the error of the storage.
        Cancels: the storing of a plan that leaves; the change itself takes no time.
        """
        source = source_of(context)

        def emit(done: tuple[str, PlanEvent | None]) -> Flow[object]:
            text, event = done
            return answer(context, text, event)

        return self._changing(context, source, change).pipe(concat_map(emit))

    def _changing(self, where: Where, source: EventSource, change: Change) -> Flow[tuple[str, PlanEvent | None]]:
        def begin() -> Flow[tuple[str, PlanEvent | None]]:
            before = self._part.get(where)
            made = change(before, self._clock())
            if made.archived is None or self.storage is None:
                return just(self._commit(where, source, before, made))
            # stored before it leaves: an end in between loses nothing, and a plan stored twice counts once
            stored = self.storage.add(made.archived)
            return stored.pipe(then(lambda: just(self._commit(where, source, before, made))))

        return defer(begin)

    def _commit(
        self, where: Where, source: EventSource, before: NotebookState, made: Changed
    ) -> tuple[str, PlanEvent | None]:
        def put(state: NotebookState) -> tuple[NotebookState, None]:
            if state is not before:
                raise PlanError("The plan was changed meanwhile. View it again, and repeat the call if it still fits.")
            if self.storage is None:
                return made.state, None
            # what leaves is in the storage; what was here before it had one stays
            return replace(made.state, history=before.history), None

        if made.change is None:
            return made.text, None
        self._part.change(where, put)
        event = PlanEvent(source=source, name=self._part.name, change=made.change, plan=made.plan, subtask=made.subtask)
        self._changes.emit(event)
        return made.text, event

    # --- the hook -----------------------------------------------------------------------------------------------------

    def tools(self) -> tuple[Tool, ...]:
        """The ten tools of the notebook."""
        return self._tools.all

    def on_pre_reasoning(self, event: Event) -> Event | None:
        """Add the hint of the plan, for this round only."""
        assert isinstance(event, PreReasoningEvent)
        plan = self.plan(event.source)
        if plan is None and self._default_hint and event.iteration > 0:
            # the model has decided about a plan in the first round of this call
            return None
        text = cast("object", self._to_hint(plan))
        if text is not None and not isinstance(text, str):
            raise HookError(f"plan_to_hint returned {text!r:.60}, not a text or None", hook=self.name, event=event.type)
        return event.with_hint(wrapped(text)) if text and text.strip() else None

    def __repr__(self) -> str:
        bound = "" if self.max_subtasks is None else f", at most {self.max_subtasks} subtasks"
        return f"<PlanNotebook {self._part.name!r}{bound}>"


def _done(made: tuple[str, PlanEvent | None]) -> None:
    """`set_plan` emits None."""
