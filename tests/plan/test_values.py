"""Plans as values: their JSON loses nothing (W74), their Markdown has one line for each name."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.plan import Plan, SubTask, Todo, plan_markdown, subtask_markdown, todos_markdown
from tests.events.values import plans, todos

MOVE = Plan(
    "Move",
    "to Oslo",
    "a flat",
    (
        SubTask("Find", "look", "found", "done", "found one", created_at=0.0, finished_at=60.0),
        SubTask("Pack", state="in_progress"),
        SubTask("Drive"),
        SubTask("Sell", state="abandoned"),
    ),
    "in_progress",
)


@pytest.mark.spec("W74", "case 151")
@given(plans)
def test_the_json_of_a_plan_loses_nothing(plan: Plan):
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


@given(todos)
def test_the_json_of_a_todo_loses_nothing(todo: Todo):
    assert Todo.from_dict(json.loads(json.dumps(todo.to_dict()))) == todo


def test_values_are_frozen_and_have_ids_of_their_own():
    assert len({Plan("a").id, Plan("a").id, SubTask("a").id, SubTask("a").id}) == 4
    with pytest.raises(FrozenInstanceError):
        MOVE.name = "Stay"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Plan(" "), "name that is not blank"),
        (lambda: SubTask(""), "name that is not blank"),
        (lambda: Todo("\n"), "content that is not blank"),
        (lambda: SubTask("a", state="ready"), "one of todo, in_progress, done, abandoned"),
        (lambda: Plan(3), "Plan.name must be a str"),
        (lambda: SubTask("a", outcome=3), "SubTask.outcome must be a str"),
        (lambda: Plan("a", subtasks=("b",)), "takes SubTasks"),
        (lambda: Plan.from_dict({"name": "a", "subtasks": [{}]}), "not a Plan"),
        (lambda: Todo.from_dict({"content": "a", "state": "soon"}), "not a Todo"),
    ],
)
def test_bad_values_are_named(make, said: str):
    with pytest.raises(InvalidInputError, match=said):
        make()


def test_lone_surrogates_do_not_reach_the_json():
    plan = Plan("a\ud800", subtasks=[SubTask("b\ud800", outcome="\udfff")])
    json.dumps(plan.to_dict(), ensure_ascii=False).encode()


def test_a_plan_as_markdown():
    assert plan_markdown(MOVE).splitlines() == [
        "# Move",
        "**Description**: to Oslo",
        "**Expected Outcome**: a flat",
        "**State**: in_progress",
        "**Created At**: 1970-01-01 00:00:00",
        "## Subtasks",
        "- [x] Find",
        "- [ ] [WIP] Pack",
        "- [ ] Drive",
        "- [ ] [Abandoned] Sell",
    ]


def test_a_detailed_subtask_has_its_times_and_its_outcome():
    assert subtask_markdown(MOVE.subtasks[0], detailed=True).splitlines() == [
        "- [x] Find",
        "\t- Created At: 1970-01-01 00:00:00",
        "\t- Description: look",
        "\t- Expected Outcome: found",
        "\t- State: done",
        "\t- Finished At: 1970-01-01 00:01:00",
        "\t- Actual Outcome: found one",
    ]


def test_a_name_cannot_add_lines_to_the_list():
    assert subtask_markdown(SubTask("a\n- [x] b")) == "- [ ] a - [x] b"
    assert todos_markdown([Todo("a\n\nb", "done"), Todo("c")]) == "- [x] a b\n- [ ] c"


def test_a_time_that_no_calendar_has_is_shown():
    assert "**Created At**: 1e+30 s" in plan_markdown(Plan("a", created_at=1e30))
