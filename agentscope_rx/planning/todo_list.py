"""`TodoList`: the light form of a plan: one tool, which replaces the whole list.

    agent = ReActAgent("Friday", model, hooks=[TodoList()])

Every conversation has its own list, which is saved with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, cast

from pydantic import BaseModel, Field

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.events import Event, EventSource, PlanEvent, PreReasoningEvent
from agentscope_rx.hooks.system_hint import wrapped
from agentscope_rx.messages.frozen import shown
from agentscope_rx.parts import Part, Where
from agentscope_rx.plan import PlanState, Todo, rules, todos_markdown
from agentscope_rx.planning.changes import PlanningHook, answer, source_of
from agentscope_rx.reactive import Flow, defer
from agentscope_rx.tools import Tool, ToolContext, tool
from agentscope_rx.tools.options import check_count

_START = (
    "If the work takes several steps, write them down by calling 'write_todos', and keep the list up to date. "
    "If it is simple, answer without a list."
)


class TodoInput(BaseModel):
    """A todo."""

    content: str = Field(description="What is to be done, in one line.", min_length=1)
    state: PlanState = "todo"

    def made(self) -> Todo:
        """The todo as a value."""
        return Todo(self.content, self.state)


class TodoList(PlanningHook):
    """A hook with the tool `write_todos`. At most one todo is in progress, and at most `max_todos` are in a list.

    The model sees the list before each round; without one a hint names the tool, once per call.
    """

    def __init__(self, *, max_todos: int | None = None, name: str = "todos", priority: int = 100) -> None:
        super().__init__()
        check_count("max_todos", max_todos, optional=True)
        self.max_todos = max_todos
        self.priority = priority
        self._part: Part[tuple[Todo, ...]] = Part(name, 1, (), dump=_dump, read=_read)
        write = _TodoTools(self._put).write_todos
        # the event of the change, then the text: no value of it is progress
        write.streams = False
        self._tools: tuple[Tool, ...] = (write,)

    def todos(self, where: Where = None) -> tuple[Todo, ...]:
        """The list of this conversation (`agent.conversation(memory)`)."""
        return self._part.get(where)

    def set_todos(self, todos: Sequence[Todo], where: Where = None) -> PlanEvent | None:
        """Give the conversation this list; the event of the change, None if it is equal to the old one.

        `PlanError` if several are in progress, or if there are too many.
        """
        return self._put(where, EventSource(), tuple(todos))

    def tools(self) -> tuple[Tool, ...]:
        """The tool `write_todos`."""
        return self._tools

    def _put(self, where: Where, source: EventSource, todos: tuple[Todo, ...]) -> PlanEvent | None:
        rules.check_todos([each.state for each in todos], self.max_todos)

        def replace(old: tuple[Todo, ...]) -> tuple[tuple[Todo, ...], bool]:
            return (old, False) if old == todos else (todos, True)

        if not self._part.change(where, replace):
            return None
        event = PlanEvent(source=source, name=self._part.name, change="todos", todos=todos)
        self._changes.emit(event)
        return event

    def on_pre_reasoning(self, event: Event) -> Event | None:
        """Add the list, for this round only."""
        assert isinstance(event, PreReasoningEvent)
        todos = self.todos(event.source)
        if not todos:
            return event.with_hint(wrapped(_START)) if event.iteration == 0 else None
        text = f"Your todos:\n{todos_markdown(todos)}"
        if any(each.state in ("todo", "in_progress") for each in todos):
            text += "\nWhen something of it changes, call 'write_todos' with the whole list."
        return event.with_hint(wrapped(text))

    def __repr__(self) -> str:
        return f"<TodoList {self._part.name!r}>"


class _TodoTools:
    """The tool of a `TodoList`, which must not be registered without it."""

    def __init__(self, put: Callable[[Where, EventSource, tuple[Todo, ...]], PlanEvent | None]) -> None:
        self._put = put

    @tool(read_only=True)
    def write_todos(
        self,
        todos: Annotated[list[TodoInput], Field(description="The whole list, which replaces the old one.")],
        context: ToolContext,
    ) -> Flow[object]:
        """Write the list of todos, whole: those that are done, the one in progress, and those that wait.

        A todo is 'todo', 'in_progress', 'done' or 'abandoned'; at most one is 'in_progress'.
        """

        def write() -> Flow[object]:
            source = source_of(context)
            event = self._put(context, source, tuple(each.made() for each in todos))
            text = "The list of todos is empty." if not todos else f"The list has {len(todos)} todo(s) now."
            return answer(context, text, event)

        return defer(write)


def _dump(todos: tuple[Todo, ...]) -> object:
    return [todo.to_dict() for todo in todos]


def _read(data: object) -> tuple[Todo, ...]:
    if not isinstance(data, list):
        raise InvalidInputError(f"The state of a todo list must be a JSON array, not {shown(data, 60)}.")
    return tuple(Todo.from_dict(each) for each in cast("list[Mapping[str, object]]", data))
