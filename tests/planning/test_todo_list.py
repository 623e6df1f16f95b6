"""The todo list: one tool that replaces the whole list, with the events, hints and saving of plans."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx import InMemoryMemory, ReActAgent
from agentscope_rx.errors import ConfigurationError, InvalidInputError, PlanError
from agentscope_rx.events import PlanEvent, event_from_json, fold
from agentscope_rx.messages import ToolResultKind
from agentscope_rx.plan import Todo
from agentscope_rx.planning import TodoList
from agentscope_rx.session import InMemorySession
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from agentscope_rx.tools import Toolkit
from tests.agent.parts import events_of
from tests.support.assertions import results

FIRST = [{"content": "read", "state": "in_progress"}, {"content": "write"}]
THEN = [{"content": "read", "state": "done"}, {"content": "write", "state": "in_progress"}]
READ, WRITE = Todo("read", "in_progress"), Todo("write")


def write(*todos: object):
    return call("write_todos", todos=list(todos))


def friday(*turns: object, **options) -> tuple[ReActAgent, TodoList]:
    todos = TodoList(**options)
    return ReActAgent("Friday", ScriptedModel(*turns), hooks=[todos]), todos


def test_the_model_writes_the_whole_list():
    async def main() -> None:
        agent, todos = friday(write(*FIRST), write(*THEN), write(*THEN), "Done.", "Hi.")
        seen: list[PlanEvent] = []
        todos.on_change("a", seen.append)
        events = await events_of(agent, "Write a report.")
        plans = [event for event in events if isinstance(event, PlanEvent)]
        assert [(event.change, event.name) for event in plans] == [("todos", "todos")] * 2
        assert [event.todos for event in seen] == [event.todos for event in plans]
        assert todos.todos(agent.conversation()) == plans[-1].todos == fold(events).todos
        assert event_from_json(plans[0].to_json()).todos == (READ, WRITE)
        assert todos.todos(agent.conversation(InMemoryMemory())) == ()
        assert todos.remove_on_change("a")
        hints = [request.messages[-1].text for request in agent.model.requests]
        assert "'write_todos'" in hints[0]
        assert "- [ ] [WIP] read\n- [ ] write" in hints[1] and "- [x] read\n- [ ] [WIP] write" in hints[2]
        assert not any("system-hint" in message.text for message in agent.memory.messages)

    run_virtual(main())


def test_a_list_is_saved_with_its_conversation():
    async def main() -> None:
        session = InMemorySession()
        first, _ = friday(write(*FIRST), "Done.")
        await first.bind(session, "ann")
        await first.call("Write a report.")
        second, todos = friday("Hi.")
        await second.bind(session, "ann")
        assert todos.todos(second.conversation()) == (READ, WRITE)
        await second.call("Hello")
        assert "[WIP] read" in second.model.requests[0].messages[-1].text

    run_virtual(main())


@pytest.mark.parametrize(
    ("given_todos", "said"),
    [
        ([{"content": "a", "state": "in_progress"}, {"content": "b", "state": "in_progress"}], "At most one todo"),
        ([{"content": "a"}] * 4, "the maximum is 3"),
        ([{"content": ""}], "content"),
        ([{"content": " "}], "not blank"),
        ([{"content": "a", "state": "soon"}], "state"),
    ],
)
def test_a_wrong_list_changes_nothing(given_todos, said: str):
    todos = TodoList(max_todos=3)
    toolkit = Toolkit(todos.tools())
    toolkit.call(write(*FIRST)).run()
    result = toolkit.call(write(*given_todos)).run()
    assert result.kind in (ToolResultKind.FAILED, ToolResultKind.INVALID_ARGUMENTS) and said in result.text
    assert todos.todos() == (READ, WRITE)
    assert toolkit.call(write()).run().text == "The list of todos is empty."
    assert todos.todos() == ()


def test_the_hint_of_a_list_that_is_done_asks_for_nothing():
    async def main() -> None:
        agent, todos = friday("Hi.")
        assert todos.set_todos([Todo("a", "done")], agent.conversation()).todos == (Todo("a", "done"),)
        assert todos.set_todos([Todo("a", "done")], agent.conversation()) is None
        await agent.call("Hello")
        hint = agent.model.requests[0].messages[-1].text
        assert "- [x] a" in hint and "call 'write_todos'" not in hint
        assert results(agent.memory.messages) == []
        with pytest.raises(PlanError):
            todos.set_todos([READ, READ], agent.conversation())
        agent.conversation().parts.restore({"todos": {"version": 1, "state": {}}})
        with pytest.raises(InvalidInputError, match="JSON array"):
            todos.todos(agent.conversation())

    run_virtual(main())


def test_a_bound_that_cannot_work_is_refused():
    with pytest.raises(ConfigurationError, match="max_todos"):
        TodoList(max_todos=0)


states = st.sampled_from(["todo", "in_progress", "done", "abandoned"])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.tuples(st.sampled_from("abc"), states), max_size=4), max_size=5))
def test_at_most_one_todo_is_ever_in_progress(lists):
    todos = TodoList(max_todos=3)
    toolkit = Toolkit(todos.tools())
    for each in lists:
        before = todos.todos()
        result = toolkit.call(write(*({"content": content, "state": state} for content, state in each))).run()
        after = todos.todos()
        assert sum(todo.state == "in_progress" for todo in after) <= 1 and len(after) <= 3
        assert (after == before) if result.kind else [(todo.content, todo.state) for todo in after] == each
