"""The parts of a run, each by itself: `Usage`, `OpenCalls`, `Approvals`."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.agent.approvals import Approvals
from agentscope_rx.agent.limits import Price, Usage, UsageLimits
from agentscope_rx.agent.open_calls import NOT_BEGUN, OpenCalls
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.messages import (
    Approve,
    ChatUsage,
    Msg,
    Reject,
    ToolResultBlock,
    ToolResultKind,
    ToolUseBlock,
)


def call(id: str, name: str = "pay", **input: object) -> ToolUseBlock:
    return ToolUseBlock(id, name, input)


def chain(*limits: UsageLimits | None) -> list[Usage]:
    """Usages, outermost first, each within the one before."""
    usages = [Usage(f"agent{index}", each) for index, each in enumerate(limits)]
    for outer, inner in pairwise(usages):
        inner.within(outer)
    return usages


# --- Usage ---------------------------------------------------------------------------------------------------------


def test_usage_counts_for_every_run_around_it_at_its_own_prices():
    dear = UsageLimits(cost=100, prices={"m": Price(input=2_000_000, output=0)})
    outer, middle, inner = chain(dear, None, UsageLimits(cost=100, prices={"m": Price(input=1_000_000, output=0)}))
    inner.add_model_call([(None, ChatUsage(3, 1)), ("m", ChatUsage(2, 0))], "m")
    middle.add_tool_calls(2)
    assert [each.model_calls for each in (outer, middle, inner)] == [1, 1, 1]
    assert [each.tokens.input_tokens for each in (outer, middle, inner)] == [5, 5, 5]
    assert [each.cost for each in (outer, middle, inner)] == [10, 0, 5]
    assert [each.tool_calls for each in (outer, middle, inner)] == [2, 2, 0]


def test_an_outer_runs_limit_holds_inside_and_names_its_agent():
    outer, inner = chain(UsageLimits(model_calls=1, tool_calls=3), None)
    assert inner.limited and inner.before_model() is None and inner.before_tools(3) is None
    assert inner.before_tools(4) == ("tool_calls", 3)
    outer.add_model_call([], "m")
    assert inner.before_model() == ("model_calls", 1)
    assert inner.owner_of("model_calls", 1) == "agent0" and inner.owner_of("cost", 9) == "agent1"


def test_the_innermost_limit_that_is_reached_counts():
    _, inner = chain(UsageLimits(model_calls=1), UsageLimits(model_calls=0))
    assert inner.before_model() == ("model_calls", 0) and inner.owner_of("model_calls", 0) == "agent1"


def test_a_price_that_an_outer_limit_lacks_is_an_error():
    _, inner = chain(UsageLimits(cost=1, prices={"m": Price(1, 1)}), None)
    inner.check_prices(["m"])
    with pytest.raises(ConfigurationError, match="no price for the model 'other'"):
        inner.check_prices(["m", "other"])


def test_a_run_without_limits_is_not_limited():
    usage = Usage("Friday", None)
    assert not usage.limited and usage.before_model() is None and usage.before_tools(99) is None


# --- OpenCalls -----------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from("abcd"), unique=True), st.data())
def test_open_are_the_calls_without_a_result_in_call_order(ids: list[str], data: st.DataObject):
    answered = data.draw(st.permutations(ids)).copy()
    answered = answered[: data.draw(st.integers(0, len(ids)))]
    calls, settled = OpenCalls(), list[str]()
    calls.record([Msg.assistant([call(id) for id in ids])] if ids else [], settled.append)
    for id in answered:
        calls.record([Msg.tool(ToolResultBlock(id, "pay", ()))], settled.append)
    assert list(calls.open) == [id for id in ids if id not in answered] and settled == answered


def test_calls_of_others_are_not_open_but_their_results_settle():
    calls = OpenCalls()
    calls.take_over([call("a"), call("b")])
    calls.record([Msg.assistant([call("z")]), Msg.tool(ToolResultBlock("a", "pay", ()))], None, foreign=True)
    assert list(calls.open) == ["b"] and calls.begun == {"b"}


def test_a_round_goes_from_waiting_to_in_flight_to_nothing():
    calls, one, two = OpenCalls(), call("a"), call("b")
    calls.waiting = {"a": one, "b": two}
    calls.start(one)
    assert (list(calls.waiting), list(calls.in_flight), calls.begun) == (["b"], ["a"], {"a"})
    calls.stop(one)
    calls.end_round()
    assert not calls.waiting and not calls.in_flight and calls.begun == {"a"}


def test_a_closing_result_says_that_the_call_has_not_begun():
    calls = OpenCalls()
    calls.begun.add("a")
    kind = ToolResultKind.INTERRUPTED
    assert NOT_BEGUN in calls.closing_result(call("b"), kind).text
    assert NOT_BEGUN not in calls.closing_result(call("a"), kind).text
    assert "why" in calls.closing_result(call("b"), kind, "why").text


# --- Approvals -----------------------------------------------------------------------------------------------------


def test_a_remembered_answer_decides_later_calls_too():
    approvals, pending = Approvals(), {"a": call("a", amount=1), "b": call("b", amount=2)}
    approvals.add([Approve("a"), Reject("b", "too much", remember="arguments")], pending)
    assert approvals.decision(pending["a"]) == Approve("a")
    later = approvals.decision(call("c", amount=2))
    assert isinstance(later, Reject) and (later.call_id, later.reason) == ("c", "too much")
    assert approvals.decision(call("d", amount=3)) is None


def test_the_latest_rule_wins_and_replaces_an_equal_one():
    approvals, pending = Approvals(), {"a": call("a"), "b": call("b"), "c": call("c")}
    approvals.add([Reject("a", remember="tool"), Approve("b", remember="tool")], pending)
    assert isinstance(approvals.decision(call("z")), Approve) and len(approvals.rules) == 1


def test_answers_are_dropped_with_their_calls_but_rules_are_not():
    approvals = Approvals()
    approvals.add([Approve("a", remember="tool")], {"a": call("a")})
    approvals.keep({"b"})
    assert approvals.answers == {} and len(approvals.rules) == 1
