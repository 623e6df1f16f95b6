"""Handoffs: one conversation, one active member; transfers by tool calls, bounded, and saved."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pydantic import BaseModel

from agentscope_rx import (
    Approve,
    GenerateReason,
    Hook,
    InMemoryMemory,
    InMemorySession,
    ReActAgent,
    Reject,
    tool,
)
from agentscope_rx.agent import UsageLimits
from agentscope_rx.errors import ConfigurationError, UsageLimitError
from agentscope_rx.events import PostActingEvent, PostCallEvent, PreCallEvent
from agentscope_rx.guardrails import CheckRequest, GuardrailsHook, Verdict, guardrail
from agentscope_rx.messages import MsgRole, ToolResultKind
from agentscope_rx.pipeline import Handoff, Handoffs, LoopPipeline, texts_only
from agentscope_rx.testing import Delay, ScriptedModel, call, run_virtual
from tests.pipeline.teams import (
    Done,
    all_events,
    asked_of,
    assert_free,
    cut_at_each_event,
    member,
    messages_of,
    said,
    use,
)
from tests.support.assertions import assert_one_truth, assert_prompts_are_whole, results_in


def desk(first: list[Any], second: list[Any], third: list[Any] = [], /, **options: Any) -> Handoffs:  # noqa: B006
    members = [member("Triage", *first), member("Refunds", *second), member("Sales", *third)]
    return Handoffs("Desk", members, **options)


def member_of(team: Handoffs, name: str) -> ReActAgent:
    return next(each for each in team.members if each.name == name)


def test_the_receiver_answers_and_sees_all():
    team = desk([call("transfer_to_refunds")], ["You get it back."])

    async def run() -> None:
        events = await all_events(team, "My money!")
        assert_one_truth(events, (), messages_of(team))
        assert isinstance(events[-1], PostCallEvent)
        reply = events[-1].message
        assert (reply.name, reply.text) == ("Refunds", "You get it back.")
        assert [each.tool_use.name for each in events if isinstance(each, PostActingEvent)] == ["transfer_to_refunds"]

    run_virtual(run())
    refunds = member_of(team, "Refunds").model
    assert isinstance(refunds, ScriptedModel)
    request = refunds.requests[0]
    assert request.messages[0].text == "You are Refunds."
    assert [each.role for each in request.messages] == ["system", "user", "assistant", "tool"]
    assert [each.name for each in request.tools] == ["transfer_to_triage", "transfer_to_sales"]
    assert_prompts_are_whole(refunds)
    assert_free(team)


def test_the_next_message_goes_to_the_active_one():
    team = desk([call("transfer_to_refunds")], ["Soon.", "Tomorrow."])

    async def run() -> None:
        assert team.active().name == "Triage"
        await team.call("My money!")
        assert team.active().name == "Refunds"
        assert (await team.call("When?")).name == "Refunds"

    run_virtual(run())
    assert said(team) == [
        "user: My money!",
        "Refunds: Soon.",
        "user: When?",
        "Refunds: Tomorrow.",
    ]


def test_conversations_are_apart():
    team = desk([call("transfer_to_refunds"), "Hello."], ["Soon."])
    other = InMemoryMemory()

    async def run() -> None:
        await team.call("My money!")
        assert (await team.call("Hi", memory=other)).name == "Triage"
        assert (team.active().name, team.active(memory=other).name) == ("Refunds", "Triage")

    run_virtual(run())


def test_of_two_transfers_the_first_counts():
    team = desk([[use("a", "transfer_to_sales"), use("b", "transfer_to_refunds")]], [], ["Which one?"])
    assert run_virtual(team.call("x")).name == "Sales"
    found = results_in(messages_of(team))
    assert found["a"] == (None, "Sales takes over the conversation.")
    assert found["b"][0] == ToolResultKind.FAILED and "one agent at a time" in found["b"][1]


@pytest.mark.parametrize("order", ["before", "after"])
def test_calls_beside_a_transfer_run(order: str):
    @tool
    async def look(seconds: float) -> str:
        """Looks."""
        import asyncio

        await asyncio.sleep(seconds)
        return "seen"

    calls = [use("t", "transfer_to_refunds"), use("l", "look", seconds=3)]
    triage = member("Triage", calls if order == "before" else calls[::-1], tools=[look])
    team = Handoffs("Desk", [triage, member("Refunds", "ok")])
    assert run_virtual(team.call("x")).name == "Refunds"
    assert results_in(team.memory.messages)["l"] == (None, "seen")  # pyright: ignore
    assert_free(team)


def test_handoffs_are_bounded():
    ping = [call("transfer_to_refunds")] * 5
    pong = [call("transfer_to_triage"), call("transfer_to_triage"), "I answer."]
    team = desk(ping, pong, max_handoffs=3)

    async def run() -> None:
        reply = await team.call("x")
        assert (reply.name, reply.text) == ("Refunds", "I answer.")

    run_virtual(run())
    kinds = [kind for kind, _ in results_in(team.memory.messages).values()]  # pyright: ignore
    assert kinds == [None, None, None, "failed"]
    refused = next(text for kind, text in results_in(messages_of(team)).values() if kind)
    assert "no further transfer is allowed" in refused


def test_the_bound_is_of_one_call():
    team = desk([call("transfer_to_refunds"), "home"], ["a", call("transfer_to_triage")], max_handoffs=1)

    async def run() -> None:
        assert (await team.call("x")).name == "Refunds"
        assert (await team.call("y")).name == "Triage"

    run_virtual(run())


def test_an_approval_comes_before_a_transfer():
    def build() -> Handoffs:
        refunds = Handoff(member("Refunds", "Done."), requires_approval=True)
        return Handoffs("Desk", [member("Triage", [use("t", "transfer_to_refunds")], "Then not."), refunds])

    async def run() -> None:
        team = build()
        reply = await team.call("x")
        assert reply.generate_reason is GenerateReason.APPROVAL_REQUIRED
        assert [each.id for each in await team.pending_calls()] == ["t"] and team.active().name == "Triage"
        assert (await team.call(Approve("t"))).name == "Refunds"
        assert_free(team)
        team = build()
        await team.call("x")
        assert (await team.call(Reject("t"))).name == "Triage"
        assert_free(team)

    run_virtual(run())


def test_a_transfer_waits_for_an_approval_beside_it():
    done = Done()

    async def run() -> None:
        calls = [use("t", "transfer_to_refunds"), use("d", "delete", path="a")]
        triage = member("Triage", calls, tools=[done.delete])
        team = Handoffs("Desk", [triage, member("Refunds", "It is gone.")])
        session = InMemorySession()
        await team.call("x")
        assert done.deleted == [] and team.active().name == "Refunds"
        await team.save(session, "k")
        triage = member("Triage", tools=[done.delete])
        other = Handoffs("Desk", [triage, member("Refunds", "It is gone.")])
        assert await other.load(session, "k")
        assert [each.id for each in await other.pending_calls()] == ["d"]
        reply = await other.call(Approve("d"))
        assert (reply.name, done.deleted) == ("Refunds", ["a"])
        assert_free(other)

    run_virtual(run())


def test_new_input_passes_the_pending_call_by():
    done = Done()

    async def run() -> None:
        calls = [use("t", "transfer_to_refunds"), use("d", "delete", path="a")]
        team = Handoffs("Desk", [member("Triage", calls, tools=[done.delete]), member("Refunds", "Fine.")])
        await team.call("x")
        reply = await team.call("Leave it.")
        assert (reply.name, done.deleted) == ("Refunds", [])
        assert_free(team)

    run_virtual(run())


def test_after_a_load_the_active_one_answers():
    async def run() -> None:
        session = InMemorySession()
        team = desk([call("transfer_to_refunds")], ["Soon."])
        await team.call("My money!")
        await team.save(session, "k")
        other = desk([], ["Tomorrow."])
        await other.load(session, "k")
        assert other.active().name == "Refunds"
        assert (await other.call("When?")).text == "Tomorrow."
        # bound at its first run, which finds out only then
        third = desk([], ["Today."], session=session, session_key="k")
        assert (await third.call("When?")).name == "Refunds"

    run_virtual(run())


def test_history_filters():
    seen: list[int] = []

    def last(messages: Any) -> Any:
        seen.append(len(messages))
        return messages[-1:]

    async def run() -> None:
        triage = member("Triage", "Hello!", [use("s", "look"), use("t", "transfer_to_refunds")], tools=[look])
        refunds = member("Refunds", [use("t2", "transfer_to_sales")])
        sales = member("Sales", "Hm.", "Well.")
        members = [triage, Handoff(refunds, history=texts_only), Handoff(sales, history=last)]
        team = Handoffs("Desk", members)
        await team.call("Hi")
        await team.call("My money!")
        assert asked_of(refunds) == ["Hi", "Hello!", "My money!"]
        assert asked_of(sales, 0) == ["Sales takes over the conversation."] or seen
        await team.call("And?")
        assert asked_of(sales, 1)[-2:] == ["Hm.", "And?"]
        assert len(said(team)) == 6

    @tool
    async def look() -> str:
        """Looks."""
        return "seen"

    run_virtual(run())


def test_a_wrong_filter_is_an_error():
    team = Handoffs("Desk", [member("A", call("transfer_to_b")), Handoff(member("B", "x"), history=lambda m: "all")])  # pyright: ignore
    with pytest.raises(ConfigurationError, match="history filter of 'B' must return a list of messages"):
        run_virtual(team.call("x"))
    assert_free(team)


def test_targets_can_be_narrowed():
    triage = Handoff(member("Triage", "x"), to=["Sales"])
    team = Handoffs("Desk", [triage, member("Refunds"), member("Sales")])
    run_virtual(team.call("x"))
    assert [each.name for each in triage.agent.model.requests[0].tools] == ["transfer_to_sales"]  # pyright: ignore


class Seen(Hook):
    """Notes the runs that it sees."""

    kinds = (PreCallEvent, PostActingEvent)

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_event(self, event: Any) -> None:
        self.seen.append(event.type)


def test_hooks_of_the_active_one_and_of_all():
    shared, first, second = Seen(), Seen(), Seen()

    async def run() -> None:
        triage = member("Triage", call("transfer_to_refunds"), hooks=[first])
        team = Handoffs("Desk", [triage, member("Refunds", "a", "b", hooks=[second, shared])], hooks=[shared])
        await team.call("x")
        await team.call("y")

    run_virtual(run())
    assert shared.seen == ["pre_call", "post_acting", "pre_call"]
    assert (first.seen, second.seen) == (["pre_call", "post_acting"], ["pre_call"])


@guardrail("input")
def no_secrets(request: CheckRequest) -> Verdict | None:
    return Verdict.stop("secret") if "secret" in request.text else None


@guardrail("output")
def no_leaks(request: CheckRequest) -> Verdict | None:
    return Verdict.stop("leak") if "secret" in request.text else None


def test_guardrails_of_team_and_member():
    async def run() -> None:
        team = desk([call("transfer_to_refunds")], ["x"], hooks=[GuardrailsHook(no_secrets)])
        assert "secret" in (await team.call("a secret")).text and team.active().name == "Triage"
        refunds = member("Refunds", "the secret is 1", hooks=[GuardrailsHook(no_leaks)])
        other = Handoffs("Desk", [member("Triage", call("transfer_to_refunds")), refunds])
        assert "is 1" not in (await other.call("x")).text
        assert_free(other)

    run_virtual(run())


class Answer(BaseModel):
    days: int


def test_a_structured_output_comes_from_the_receiver():
    team = desk([call("transfer_to_refunds")], [call("generate_response", days=3)])
    reply = run_virtual(team.call("x", output=Answer))
    assert reply.structured(Answer) == Answer(days=3)
    assert_free(team)


def test_limits_are_of_the_whole():
    team = desk([call("transfer_to_refunds")], ["x"], limits=UsageLimits(model_calls=1))
    with pytest.raises(UsageLimitError):
        run_virtual(team.call("x"))
    assert_free(team)


def test_rounds_are_of_the_whole():
    team = desk([call("transfer_to_refunds")], ["In short."], max_iters=1)
    reply = run_virtual(team.call("x"))
    assert (reply.generate_reason, reply.text) == (GenerateReason.MAX_ITERATIONS, "In short.")
    assert_free(team)


def test_nested_as_a_tool():
    team = desk([call("transfer_to_refunds")], ["It is paid."])
    boss = member("Boss", call("call_desk", message="money"), "Good.", tools=[team.as_tool()])

    async def run() -> None:
        events = await all_events(boss, "x")
        inner = [each for each in events if each.agent == "Desk"]
        assert inner and all(len(each.path) == 3 for each in inner)
        assert events[-1].message.text == "Good."  # pyright: ignore

    run_virtual(run())


def slow_desk() -> Handoffs:
    turns = [[Delay(1), use("t", "transfer_to_refunds")], "home"]
    return desk(turns, [[Delay(1), "a"], "b", "c"])


def test_interrupted_at_each_event():
    def cut(agent: Any, event: Any) -> bool:
        agent.interrupt()
        return False

    assert cut_at_each_event(slow_desk, cut, "x") > 8


def test_disposed_at_each_event():
    assert cut_at_each_event(slow_desk, lambda agent, event: True, "x") > 8


def test_stateful_hooks_of_members_are_saved():
    class Count(Hook):
        kinds = (PreCallEvent,)

        def __init__(self) -> None:
            self.count = 0

        def on_event(self, event: Any) -> None:
            self.count += 1

        def state(self) -> object:
            return self.count

        def load_state(self, value: object, version: int) -> None:
            assert isinstance(value, int)
            self.count = value

    async def run() -> None:
        session = InMemorySession()
        first, second = Count(), Count()
        team = Handoffs("Desk", [member("A", "x", hooks=[first]), member("B")])
        await team.call("x")
        await team.save(session, "k")
        await Handoffs("Desk", [member("A", hooks=[second]), member("B")]).load(session, "k")
        assert second.count == 1

    run_virtual(run())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Handoffs("Desk", []), "at least one member"),
        (lambda: Handoffs("Desk", [member("A"), member("A")]), "Two members are named 'A'"),
        (lambda: Handoffs("Desk", [Handoff(member("A"), to=["B"])]), "cannot transfer to"),
        (lambda: Handoffs("Desk", [Handoff(member("A"), to="B")]), "not a str"),
        (lambda: Handoffs("Desk", cast("Any", ["A"])), "is a ReActAgent"),
        (lambda: Handoffs("Desk", cast("Any", "A")), "takes a name and a list"),
        (lambda: Handoffs("A", [member("A")]), "both named 'A'"),
        (lambda: Handoffs("Desk", [member("A")], max_handoffs=0), "max_handoffs"),
        (
            lambda: Handoffs("Desk", [member("a b"), member("a-b"), Handoff(member("c"), tool="transfer_to_a_b")]),
            "tool",
        ),
    ],
)
def test_bad_teams(make: Any, words: str):
    with pytest.raises(ConfigurationError, match=words):
        make()


def test_a_member_with_limits_of_its_own_is_refused():
    limited = member("B", "x", limits=UsageLimits(total_tokens=5))
    with pytest.raises(ConfigurationError, match="has limits of its own"):
        Handoffs("Desk", [member("A", "x"), limited])


def test_in_a_loop_its_own_reply_comes_back_under_a_new_id():
    def plain(name: str) -> ReActAgent:
        return ReActAgent(name, ScriptedModel(f"{name} 1", f"{name} 2"))

    team = Handoffs("Desk", [plain("Triage"), plain("Sales")])
    reply = run_virtual(LoopPipeline(team, until=lambda _: False, max_rounds=2).call("Hello"))
    assert reply.text == "Triage 2"
    said = team.memory.messages
    assert [each.text for each in said] == ["Hello", "Triage 1", "Triage 1", "Triage 2"]
    assert len({each.id for each in said}) == 4 and said[2].role is MsgRole.USER
