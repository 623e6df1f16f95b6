"""The tools of a notebook, called by hand: what they change, and the error results that a model can act on."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.messages import ToolResultKind
from agentscope_rx.parts import PartStates
from agentscope_rx.plan import Plan, SubTask, rules
from agentscope_rx.planning import InMemoryPlanStorage, PlanNotebook
from agentscope_rx.reactive import Flow, throw
from agentscope_rx.testing import collect_dropped
from tests.planning.parts import Desk

TEN = {
    "create_plan",
    "update_plan_info",
    "revise_current_plan",
    "update_subtask_state",
    "finish_subtask",
    "view_subtasks",
    "get_subtask_count",
    "finish_plan",
    "view_historical_plans",
    "recover_historical_plan",
}


@pytest.fixture(params=[None, InMemoryPlanStorage], ids=["in the conversation", "in a storage"])
def desk(request) -> Desk:
    made = None if request.param is None else request.param()
    return Desk(storage=made, clock=lambda: 60.0, max_subtasks=3)


def test_there_are_ten_tools_that_only_plan():
    tools = PlanNotebook().tools()
    assert {tool.name for tool in tools} == TEN
    assert all(tool.read_only and tool.description for tool in tools)


@pytest.mark.spec("case 147")
def test_a_plan_from_beginning_to_end(desk: Desk):
    assert desk.create("a", "b").text == "Plan 'P' created successfully."
    assert desk.use("update_subtask_state", subtask_idx=0, state="in_progress").kind is None
    said = desk.use("finish_subtask", subtask_idx=0, subtask_outcome="ok").text
    assert "(at index 1) named 'b' is 'in_progress' now" in said
    assert desk.states == ["done", "in_progress"]
    assert desk.use("get_subtask_count").text == (
        "Current plan 'P' has 2 subtask(s): 1 done, 1 in_progress, 0 todo, 0 abandoned."
    )
    assert "No subtask waits" in desk.use("finish_subtask", subtask_idx=1, subtask_outcome="ok").text
    assert desk.use("finish_plan", state="done", outcome="all").text.endswith("finished successfully as 'done'.")
    assert desk.notebook.plan() is None
    (old,) = desk.notebook.historical_plans().run()
    assert (old.state, old.outcome, old.finished_at, old.created_at) == ("done", "all", 60.0, 60.0)
    assert [each.outcome for each in old.subtasks] == ["ok", "ok"]


@pytest.mark.spec("case 148")
def test_limits_of_subtasks_are_error_results(desk: Desk):
    refused = desk.create("a", "b", "c", "d")
    assert refused.kind is ToolResultKind.FAILED and "exceeds the maximum limit of 3" in refused.text
    assert desk.notebook.plan() is None
    desk.create("a", "b", "c")
    add = {"subtask_idx": 3, "action": "add", "subtask": {"name": "d"}}
    assert "maximum limit of 3" in desk.use("revise_current_plan", **add).text
    revise = {"subtask_idx": 0, "action": "revise", "subtask": {"name": "A"}}
    assert desk.use("revise_current_plan", **revise).text == "Subtask at index 0 is revised successfully."
    deleted = desk.use("revise_current_plan", subtask_idx=1, action="delete").text
    assert deleted == "Subtask (named 'b') at index 1 is deleted successfully."
    assert desk.use("revise_current_plan", **{**add, "subtask_idx": 2}).text.endswith("at index 2.")
    assert [each.name for each in desk.notebook.plan().subtasks] == ["A", "c", "d"]


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("revise_current_plan", {"subtask_idx": 0, "action": "move"}, "Invalid action 'move'"),
        ("revise_current_plan", {"subtask_idx": 0, "action": "add"}, "must be provided when action is 'add'"),
        ("revise_current_plan", {"subtask_idx": 0, "action": "revise"}, "must be provided when action is 'revise'"),
        ("revise_current_plan", {"subtask_idx": 9, "action": "delete"}, "'9' for action 'delete'. It must be between"),
        ("revise_current_plan", {"subtask_idx": 0, "action": "add", "subtask": {"name": " "}}, "must not be blank"),
        ("revise_current_plan", {"subtask_idx": 0, "action": "add", "subtask": {}}, "subtask.name"),
        ("update_subtask_state", {"subtask_idx": 0, "state": "done"}, "call 'finish_subtask'"),
        ("update_subtask_state", {"subtask_idx": "x", "state": "todo"}, "subtask_idx"),
        ("finish_subtask", {"subtask_idx": 1, "subtask_outcome": ""}, "(at index 0) named 'a' is not done yet"),
        ("finish_subtask", {"subtask_idx": 0}, "subtask_outcome"),
        ("view_subtasks", {"subtask_idx": [0, 5]}, "Invalid subtask_idx '5'. It must be between 0 and 1"),
        ("view_subtasks", {"subtask_idx": []}, "Give the indices"),
        ("finish_plan", {"state": "over", "outcome": ""}, "Invalid state 'over'. It must be 'done' or 'abandoned'"),
        ("update_plan_info", {"name": "  "}, "No changes were made"),
        ("recover_historical_plan", {"plan_id": "x"}, "no historical plan with the id 'x'. There are: none"),
        ("create_plan", {"name": " ", "description": "", "expected_outcome": "", "subtasks": []}, "must not be blank"),
    ],
)
def test_wrong_arguments_change_nothing_and_say_why(desk: Desk, name: str, arguments, said: str):
    desk.create("a", "b")
    before = desk.notebook.plan()
    result = desk.use(name, **arguments)
    assert result.kind in (ToolResultKind.FAILED, ToolResultKind.INVALID_ARGUMENTS)
    assert said in result.text
    assert desk.notebook.plan() is before


@pytest.mark.parametrize("name", ["update_subtask_state", "finish_subtask", "view_subtasks", "update_plan_info"])
def test_without_a_plan_the_model_is_told_to_create_one(desk: Desk, name: str):
    arguments = {
        "update_subtask_state": {"subtask_idx": 0, "state": "todo"},
        "finish_subtask": {"subtask_idx": 0, "subtask_outcome": ""},
        "view_subtasks": {"subtask_idx": [0]},
        "update_plan_info": {"name": "x"},
    }[name]
    result = desk.use(name, **arguments)
    assert result.kind is ToolResultKind.FAILED and "create_plan()" in result.text
    assert "create a plan first" in desk.use("get_subtask_count").text
    assert desk.use("finish_plan", state="done", outcome="").text.endswith("There is no plan to finish.")
    assert desk.use("view_historical_plans").text == "No historical plans found."


def test_indices_that_come_as_text_are_taken(desk: Desk):
    desk.create("a")
    assert desk.use("update_subtask_state", subtask_idx="0", state="in_progress").kind is None
    assert "Description" in desk.use("view_subtasks", subtask_idx=["0"]).text


def test_texts_of_the_plan_change_one_by_one(desk: Desk):
    desk.create("a")
    said = desk.use("update_plan_info", name="Q", description="", expected_outcome="E").text
    assert said == "Plan 'Q' updated successfully: name: 'P' -> 'Q', expected_outcome updated."
    plan = desk.notebook.plan()
    assert (plan.name, plan.description, plan.expected_outcome) == ("Q", "d", "E")


@pytest.mark.spec("W74")
def test_a_replaced_plan_is_archived_and_can_go_on(desk: Desk):
    desk.create("a", name="Old")
    desk.use("update_subtask_state", subtask_idx=0, state="in_progress")
    old = desk.notebook.plan()
    assert "replaced by the newly created plan named 'New'" in desk.create("b", name="New").text
    (left,) = desk.notebook.historical_plans().run()
    assert (left.id, left.state, left.finished_at) == (old.id, "abandoned", 60.0)
    assert old.id in desk.use("view_historical_plans").text

    new = desk.notebook.plan()
    said = desk.use("recover_historical_plan", plan_id=old.id).text
    assert "'Old' is recovered" in said and new.id in said
    assert desk.notebook.plan() == old, "it goes on where it was"
    assert [plan.id for plan in desk.notebook.historical_plans().run()] == [new.id]
    assert "current plan already" in desk.use("recover_historical_plan", plan_id=old.id).text
    missing = desk.use("recover_historical_plan", plan_id="nowhere")
    assert missing.kind is ToolResultKind.FAILED and new.id in missing.text


def test_a_person_may_edit_the_plan(desk: Desk):
    desk.create("a", "b")
    mine = desk.notebook.plan()
    edited = mine.with_subtask(0, SubTask("A"))
    desk.notebook.set_plan(edited).run()
    assert desk.notebook.plan() == edited and desk.notebook.historical_plans().run() == ()
    other = Plan("Other")
    desk.notebook.set_plan(other).run()
    assert [each.id for each in desk.notebook.historical_plans().run()] == [mine.id]
    desk.notebook.set_plan(None).run()
    assert desk.notebook.plan() is None
    assert {each.id for each in desk.notebook.historical_plans().run()} == {mine.id, other.id}
    broken = Plan("P", subtasks=(SubTask("a"), SubTask("b", state="done")))
    with pytest.raises(InvalidInputError, match="at most one subtask is in progress"):
        desk.notebook.set_plan(broken).run()


class FullStorage(InMemoryPlanStorage):
    """Has no room."""

    def add(self, plan: Plan) -> Flow[None]:
        return throw(OSError("disk full"))


def test_a_storage_that_fails_leaves_the_plan_whole():
    desk = Desk(storage=FullStorage())
    desk.create("a")
    before = desk.notebook.plan()
    for name, arguments in (("finish_plan", {"state": "done", "outcome": ""}), ("create_plan", None)):
        result = desk.create("b") if arguments is None else desk.use(name, **arguments)
        assert result.kind is ToolResultKind.FAILED and "disk full" in result.text
        assert desk.notebook.plan() is before


@pytest.mark.spec("case 149")
def test_every_change_calls_back_once_and_ids_overwrite():
    """PlanNotebookToolTest#testChangeHookTriggeredOnAllPlanMutations / #testMultipleHooksAndIdOverwrite."""
    desk = Desk()
    seen: list[str] = []
    other: list[str] = []
    desk.notebook.on_change("a", lambda event: other.append("old"))
    desk.notebook.on_change("a", lambda event: seen.append(event.change))
    desk.notebook.on_change("b", lambda event: other.append(event.change))
    desk.create("a", "b")
    desk.use("update_plan_info", name="Q")
    desk.use("revise_current_plan", subtask_idx=2, action="add", subtask={"name": "c"})
    desk.use("revise_current_plan", subtask_idx=2, action="revise", subtask={"name": "C"})
    desk.use("revise_current_plan", subtask_idx=2, action="delete")
    desk.use("update_subtask_state", subtask_idx=0, state="in_progress")
    desk.use("update_subtask_state", subtask_idx=0, state="in_progress")
    desk.use("finish_subtask", subtask_idx=0, subtask_outcome="ok")
    desk.create("x")
    (old,) = desk.notebook.historical_plans().run()
    desk.use("recover_historical_plan", plan_id=old.id)
    desk.use("finish_plan", state="abandoned", outcome="")
    desk.use("finish_plan", state="abandoned", outcome="")
    desk.use("get_subtask_count")
    assert seen == [
        "created",
        "updated",
        "subtask_added",
        "subtask_revised",
        "subtask_deleted",
        "subtask_state",
        "subtask_finished",
        "replaced",
        "recovered",
        "finished",
    ]
    assert other == seen
    assert desk.notebook.remove_on_change("a") is True and desk.notebook.remove_on_change("a") is False


def test_a_callback_that_fails_does_not_break_the_tool():
    desk = Desk()
    seen: list[object] = []
    desk.notebook.on_change("bad", lambda event: 1 / 0)
    desk.notebook.on_change("good", seen.append)
    with collect_dropped() as dropped:
        assert desk.create("a").kind is None
    assert [type(error) for error in dropped] == [ZeroDivisionError]
    assert len(seen) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"max_subtasks": 0},
        {"max_subtasks": "3"},
        {"need_user_confirm": "yes"},
        {"storage": []},
        {"plan_to_hint": "hint"},
        {"name": " "},
    ],
)
def test_options_that_cannot_work_are_refused(options):
    with pytest.raises(ConfigurationError):
        PlanNotebook(**options)


indices = st.integers(-1, 4)
calls = st.one_of(
    st.tuples(st.just("create_plan"), st.integers(0, 4)),
    st.tuples(st.just("update_subtask_state"), indices, st.sampled_from(["todo", "in_progress", "abandoned", "done"])),
    st.tuples(st.just("finish_subtask"), indices),
    st.tuples(st.just("revise_current_plan"), indices, st.sampled_from(["add", "revise", "delete"])),
    st.tuples(st.just("finish_plan"), st.sampled_from(["done", "abandoned"])),
    st.tuples(st.just("recover_historical_plan"), st.integers(0, 3)),
)


def arguments_of(desk: Desk, step: tuple) -> dict[str, object]:
    match step:
        case ("create_plan", count):
            names = [{"name": f"s{i}"} for i in range(count)]
            return {"name": "P", "description": "", "expected_outcome": "", "subtasks": names}
        case ("update_subtask_state", index, state):
            return {"subtask_idx": index, "state": state}
        case ("finish_subtask", index):
            return {"subtask_idx": index, "subtask_outcome": "ok"}
        case ("revise_current_plan", index, action):
            return {"subtask_idx": index, "action": action, "subtask": {"name": "new"}}
        case ("finish_plan", state):
            return {"state": state, "outcome": "over"}
        case (_, which):
            plans = desk.notebook.historical_plans().run()
            return {"plan_id": plans[which].id if which < len(plans) else "none"}


@settings(max_examples=40, deadline=None)
@given(st.lists(calls, max_size=12))
def test_random_calls_keep_the_rules_and_lose_no_plan(steps):
    desk = Desk(max_subtasks=3)
    ever: set[str] = set()
    for step in steps:
        result = desk.use(step[0], **arguments_of(desk, step))
        assert result.kind in (None, ToolResultKind.FAILED)
        plan = desk.notebook.plan()
        kept = {each.id for each in desk.notebook.historical_plans().run()}
        if plan is not None:
            assert rules.is_consistent(plan) and len(plan.subtasks) <= 3 and not plan.closed
            assert plan.id not in kept
            kept.add(plan.id)
        assert ever <= kept
        ever = kept
        saved = PartStates()
        saved.restore(json.loads(json.dumps(desk.notebook._part._alone.dump())))
        assert desk.notebook.plan(saved) == plan
        assert desk.notebook.historical_plans(saved).run() == desk.notebook.historical_plans().run()
