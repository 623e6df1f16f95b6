"""Supervisor: members are called as sub-agents, at once; an answer may be the reply, word for word."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from agentscope_rx import Approve, GenerateReason, InMemorySession, ReActAgent, tool
from agentscope_rx.agent import UsageLimits
from agentscope_rx.errors import ConfigurationError, UsageLimitError
from agentscope_rx.events import PostCallEvent
from agentscope_rx.pipeline import Delegate, Supervisor
from agentscope_rx.testing import Delay, ScriptedModel, call, run_virtual
from tests.pipeline.teams import Done, all_events, asked_of, assert_free, cut_at_each_event, member, messages_of, use
from tests.support.assertions import assert_one_truth, results_in


def boss(*turns: Any, members: Any, **options: Any) -> Supervisor:
    return Supervisor("Boss", ScriptedModel(*turns), members, **options)


def task(id: str, name: str, text: str = "look") -> Any:
    return use(id, f"call_{name}", message=text)


def test_members_of_a_round_work_at_once():
    async def run() -> None:
        loop = asyncio.get_running_loop()
        ann, bob = member("Ann", [Delay(3), "from Ann"]), member("Bob", [Delay(2), "from Bob"])
        team = boss([task("a", "ann"), task("b", "bob")], "both", members=[ann, bob])
        began = loop.time()
        events = await all_events(team, "x")
        assert loop.time() - began == 3
        assert_one_truth(events, (), messages_of(team))
        assert list(results_in(messages_of(team))) == ["a", "b"]
        assert {each.agent for each in events if len(each.path) == 3} == {"Ann", "Bob"}
        assert asked_of(ann) == ["look"]
        assert_free(team)

    run_virtual(run())


def test_a_verbatim_answer_is_the_reply():
    team = boss(task("l", "lawyer"), members=[Delegate(member("Lawyer", "It is void."), verbatim=True)])
    reply = run_virtual(team.call("x"))
    assert (reply.text, reply.name, reply.generate_reason) == ("It is void.", "Boss", GenerateReason.RETURN_DIRECT)
    assert_free(team)


def test_the_model_forwards_an_answer():
    ann, bob = member("Ann", "from Ann", "later"), member("Bob", "from Bob")
    turns = [[task("a", "ann"), task("b", "bob")], use("f", "forward_answer", agent="Ann")]
    team = boss(*turns, members=[ann, bob], forward=True)
    reply = run_virtual(team.call("x"))
    assert (reply.text, reply.generate_reason) == ("from Ann", GenerateReason.RETURN_DIRECT)
    assert_free(team)


def test_only_an_answer_to_this_question_is_forwarded():
    turns = [task("a", "ann"), "done", use("f", "forward_answer", agent="Ann"), "I have none."]
    team = boss(*turns, members=[member("Ann", "from Ann")], forward=True)

    async def run() -> None:
        await team.call("x")
        assert (await team.call("y")).text == "I have none."

    run_virtual(run())
    kind, text = results_in(messages_of(team))["f"]
    assert kind == "failed" and "call call_ann first" in text


def test_an_unknown_member_is_not_forwarded():
    team = boss(use("f", "forward_answer", agent="Eve"), "ok", members=[member("Ann")], forward=True)
    run_virtual(team.call("x"))
    assert results_in(messages_of(team))["f"][0] == "invalid_arguments"


def test_a_member_sees_the_conversation():
    ann = member("Ann", "one", "two")
    first = task("a", "ann", "first task")
    turns = [["I ask Ann.", first], "Ann says one.", lambda request: [again(ann_id(request))], "end"]

    def ann_id(request: Any) -> str:
        result = next(each for message in request.messages for each in message.tool_results)
        return result.metadata["conversation_id"]

    def again(id: str) -> Any:
        return use("b", "call_ann", message="second task", conversation_id=id)

    team = boss(*turns, members=[ann], sees="conversation")

    async def run() -> None:
        await team.call("Hello")
        assert asked_of(ann) == ["Hello", "I ask Ann.", "first task"]
        await team.call("More")
        assert asked_of(ann) == ["Hello", "I ask Ann.", "first task", "one", "Ann says one.", "More", "second task"]

    run_virtual(run())
    assert_free(team)


def test_one_member_may_see_more_than_others():
    ann, bob = member("Ann", "a"), member("Bob", "b")
    members = [ann, Delegate(bob, sees="conversation")]
    team = boss([task("a", "ann"), task("b", "bob")], "end", members=members)
    run_virtual(team.call("Hello"))
    assert (asked_of(ann), asked_of(bob)) == (["look"], ["Hello", "look"])


def test_an_approval_inside_a_member_after_a_load():
    async def run() -> None:
        done, session = Done(), InMemorySession()

        def team(*turns: Any, inside: Any) -> Supervisor:
            return boss(*turns, members=[member("Ann", *inside, tools=[done.delete])])

        first = team(task("a", "ann"), inside=[use("d", "delete", path="x")])
        reply = await first.call("clean up")
        assert reply.generate_reason is GenerateReason.APPROVAL_REQUIRED
        await first.save(session, "k")
        second = team("all gone", inside=["deleted"])
        await second.load(session, "k")
        [waiting] = await second.pending_calls()
        assert (await second.call(Approve(waiting))).text == "all gone"
        assert done.deleted == ["x"]
        assert_free(second)

    run_virtual(run())


def test_an_approval_before_a_member():
    async def run() -> None:
        ann = member("Ann", "a")
        team = boss(task("a", "ann"), "end", members=[Delegate(ann, requires_approval=True)])
        await team.call("x")
        assert cast("ScriptedModel", ann.model).requests == []
        assert (await team.call(Approve("a"))).text == "end"

    run_virtual(run())


def test_members_count_for_the_limits():
    team = boss(task("a", "ann"), "end", members=[member("Ann", "a")], limits=UsageLimits(model_calls=2))
    with pytest.raises(UsageLimitError):
        run_virtual(team.call("x"))
    assert_free(team)


def test_the_coordinator_has_tools_too():
    @tool
    async def clock() -> str:
        """The time."""
        return "noon"

    team = boss(call("clock"), "at noon", members=[member("Ann")], tools=[clock])
    assert run_virtual(team.call("x")).text == "at noon"


def slow_team() -> Supervisor:
    members = [member("Ann", [Delay(1), "a"], "a"), member("Bob", [Delay(2), "b"], "b")]
    return boss([Delay(1), task("a", "ann"), task("b", "bob")], "end", "now", members=members)


def test_interrupted_at_each_event():
    def cut(agent: Any, event: Any) -> bool:
        agent.interrupt()
        return False

    assert cut_at_each_event(slow_team, cut, "x") > 15


def test_disposed_at_each_event():
    assert cut_at_each_event(slow_team, lambda agent, event: True, "x") > 15


def test_supervisors_can_be_nested():
    inner = Supervisor("Inner", ScriptedModel(task("a", "ann"), "from inner"), [member("Ann", "a")])
    outer = boss(task("i", "inner"), "end", members=[inner])

    async def run() -> None:
        events = await all_events(outer, "x")
        assert max(len(each.path) for each in events) == 5
        assert isinstance(events[-1], PostCallEvent) and events[-1].message.text == "end"

    run_virtual(run())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: boss(members=[]), "at least one member"),
        (lambda: boss(members=[member("A"), member("A")]), "Two members are named 'A'"),
        (lambda: boss(members=member("A")), "takes a list"),
        (lambda: boss(members=["A"]), "is an agent"),
        (lambda: boss(members=[member("A")], sees="all"), "sees must be"),
        (lambda: Delegate(member("A"), sees=cast("Any", "all")), "sees must be"),
        (lambda: boss(members=[member("a b"), member("a_b")]), "registered already"),
    ],
)
def test_bad_supervisors(make: Any, words: str):
    with pytest.raises(ConfigurationError, match=words):
        make()


def test_a_supervisor_is_an_agent():
    assert isinstance(boss(members=[member("A")]), ReActAgent)
    assert boss(members=[member("A")]).as_tool().name == "call_boss"
