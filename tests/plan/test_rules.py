"""The rules of plans as pure functions; random changes keep the invariants."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import PlanError
from agentscope_rx.plan import Plan, SubTask, rules


def plan(*states: str) -> Plan:
    return Plan("P", subtasks=tuple(SubTask(f"s{i}", state=state) for i, state in enumerate(states)))


def states(plan: Plan) -> list[str]:
    return [each.state for each in plan.subtasks]


@pytest.mark.spec("case 147")
def test_finishing_needs_the_earlier_ones_closed():
    """PlanNotebookToolTest#testFinishSubtask / #testFinishSubtaskWhenNotInProgress."""
    with pytest.raises(PlanError, match=r"\(at index 0\) named 's0' is not done yet"):
        rules.with_finished(plan("todo", "todo"), 1, "x", 1.0)
    done, following = rules.with_finished(plan("todo", "todo", "todo"), 0, "x", 5.0)
    assert (states(done), following) == (["done", "in_progress", "todo"], 1)
    assert (done.subtasks[0].outcome, done.subtasks[0].finished_at, done.state) == ("x", 5.0, "in_progress")


@pytest.mark.spec("case 147", "W74")
@pytest.mark.parametrize(
    ("before", "index", "after", "following"),
    [
        (("in_progress", "abandoned", "todo"), 0, ["done", "abandoned", "in_progress"], 2),
        (("in_progress", "abandoned"), 0, ["done", "abandoned"], None),
        (("abandoned", "in_progress", "todo"), 0, ["done", "in_progress", "todo"], None),
        (("done", "in_progress"), 1, ["done", "done"], None),
    ],
)
def test_only_a_subtask_that_waits_is_begun(before, index: int, after: list[str], following: int | None):
    done, begun = rules.with_finished(plan(*before), index, "x", 1.0)
    assert (states(done), begun) == (after, following)


@pytest.mark.spec("case 147")
@pytest.mark.parametrize(
    ("before", "index", "state", "said"),
    [
        (("todo", "todo"), 1, "in_progress", "finish the previous subtasks first"),
        (("in_progress", "todo"), 1, "in_progress", "finish the previous subtasks first"),
        (("abandoned", "in_progress"), 0, "in_progress", "already 'in_progress'"),
        (("todo",), 0, "done", "call 'finish_subtask'"),
        (("todo",), 0, "soon", "Invalid state 'soon'. It must be one of 'todo', 'in_progress', 'abandoned'"),
        (("todo",), 1, "todo", "Invalid subtask_idx '1'. It must be between 0 and 0"),
        (("todo",), -1, "todo", "Invalid subtask_idx '-1'"),
        ((), 0, "todo", "has no subtasks"),
        (("done", "done"), 0, "in_progress", "the later subtask at index 1 is 'done'"),
        (("done", "in_progress"), 0, "todo", "the later subtask at index 1 is 'in_progress'"),
    ],
)
def test_states_that_break_the_order_are_refused(before, index: int, state: str, said: str):
    """PlanNotebookToolTest#testUpdateSubtaskStateValidation."""
    with pytest.raises(PlanError, match=said.replace("(", r"\(")):
        rules.with_state(plan(*before), index, state, 1.0)


@pytest.mark.spec("case 148")
def test_limits_hold_for_creation_and_adding_alone():
    """PlanNotebookToolTest#testCreatePlanExceedsMaxSubtasks / #testReviseCurrentPlan...: revising checks no limit."""
    with pytest.raises(PlanError, match="has 3 subtasks, which exceeds the maximum limit of 2"):
        rules.check_count(3, 2)
    full = plan("todo", "todo")
    with pytest.raises(PlanError, match="maximum limit of 2 subtasks"):
        rules.with_added(full, 2, SubTask("c"), 2)
    assert rules.with_revised(full, 0, SubTask("c")).subtasks[0].name == "c"
    assert len(rules.with_added(rules.without(full, 0), 1, SubTask("c"), 2).subtasks) == 2


@pytest.mark.parametrize(("index", "said"), [(3, "between 0 and 2"), (-1, "between 0 and 2")])
def test_a_subtask_can_be_added_behind_the_last(index: int, said: str):
    with pytest.raises(PlanError, match=said):
        rules.with_added(plan("todo", "todo"), index, SubTask("c"), None)
    assert rules.with_added(plan("todo", "todo"), 2, SubTask("c"), None).subtasks[2].name == "c"


def test_no_open_subtask_comes_before_one_that_has_begun():
    with pytest.raises(PlanError, match="Add it at index 2 or later"):
        rules.with_added(plan("done", "in_progress", "todo"), 0, SubTask("c"), None)
    assert states(rules.with_added(plan("done", "in_progress"), 2, SubTask("c"), None))[2] == "todo"


def test_a_revised_subtask_keeps_its_state_outcome_and_id():
    old = Plan("P", subtasks=(SubTask("a", state="done", outcome="x", finished_at=1.0),))
    new = rules.with_revised(old, 0, SubTask("b", "how", "what")).subtasks[0]
    assert (new.name, new.state, new.outcome, new.id) == ("b", "done", "x", old.subtasks[0].id)


def test_a_recovered_plan_goes_on():
    left = rules.finished(plan("done", "in_progress"), "abandoned", "no time", 9.0)
    assert (left.state, left.outcome, left.finished_at, left.closed) == ("abandoned", "no time", 9.0, True)
    again = rules.recovered(left)
    assert (again.state, again.outcome, again.finished_at, again.id) == ("in_progress", None, None, left.id)


steps = st.one_of(
    st.tuples(st.just("state"), st.integers(-1, 5), st.sampled_from(["todo", "in_progress", "abandoned", "done"])),
    st.tuples(st.just("finish"), st.integers(-1, 5), st.just("")),
    st.tuples(st.sampled_from(["add", "revise", "delete"]), st.integers(-1, 5), st.just("")),
    st.tuples(st.just("recover"), st.just(0), st.sampled_from(["done", "abandoned"])),
)


def act(plan: Plan, kind: str, index: int, state: str) -> Plan:
    match kind:
        case "state":
            return rules.with_state(plan, index, state, 1.0)
        case "finish":
            return rules.with_finished(plan, index, "ok", 1.0)[0]
        case "add":
            return rules.with_added(plan, index, SubTask("new"), 4)
        case "revise":
            return rules.with_revised(plan, index, SubTask("other"))
        case "delete":
            return rules.without(plan, index)
        case _:
            return rules.recovered(rules.finished(plan, state, "", 1.0))


@given(st.lists(steps, max_size=20))
def test_random_changes_keep_the_invariants(changes):
    now = plan("todo", "todo", "todo")
    for change in changes:
        try:
            new = act(now, *change)
        except PlanError:
            continue
        assert rules.is_consistent(new), (states(now), change, states(new))
        assert states(new).count("in_progress") <= 1
        assert len(new.subtasks) <= 4
        assert new.state == ("todo" if set(states(new)) <= {"todo"} else "in_progress")
        kept = {each.id for each in now.subtasks} - {each.id for each in new.subtasks}
        assert len(kept) == (change[0] == "delete")
        now = new
