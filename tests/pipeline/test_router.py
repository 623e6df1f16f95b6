"""RouterPipeline: a closed choice by a model or a function; one repair, then `otherwise` or an error."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from agentscope_rx import Approve, GenerateReason, InMemoryMemory, InMemorySession, Msg, ReActAgent
from agentscope_rx.agent import UsageLimits
from agentscope_rx.errors import ConfigurationError, InvalidInputError, ModelConnectionError, RoutingError, StepError
from agentscope_rx.events import PostActingEvent, PostCallEvent
from agentscope_rx.pipeline import GoalEnd, GoalLoop, GoalOutcome, Route, RouterPipeline, route_of
from agentscope_rx.testing import Delay, ScriptedModel, call, run_virtual
from tests.pipeline.teams import Done, all_events, assert_free, cut_at_each_event, member, messages_of, use
from tests.support.assertions import assert_one_truth


def choose(name: object) -> Any:
    return call("choose_member", choice=name)


def desk(*choices: Any, billing: Any = (), repairs: Any = (), **options: Any) -> RouterPipeline:
    routes = [Route(member("Billing", *billing), "Invoices."), Route(member("Repairs", *repairs), "Devices.")]
    return RouterPipeline(ScriptedModel(*choices), routes, **options)


def test_the_model_chooses():
    router = desk(choose("Repairs"), repairs=["Fixed."])

    async def run() -> None:
        events = await all_events(router, "It is broken.")
        assert_one_truth(events, (), messages_of(router))
        assert isinstance(events[-1], PostCallEvent)
        reply = events[-1].message
        assert (reply.text, route_of(reply)) == ("Fixed.", ("Repairs", "choice"))
        steps = [each for each in events if isinstance(each, PostActingEvent) and len(each.path) == 1]
        assert [each.tool_use.name for each in steps] == ["call_choice", "call_repairs"]
        choices = [each for each in events if isinstance(each, PostCallEvent) and each.agent == "choice"]
        assert choices[0].message.structured() == {"choice": "Repairs"}

    run_virtual(run())
    chooser = cast("ReActAgent", router.chooser)
    request = cast("ScriptedModel", chooser.model).requests[0]
    assert "- Billing: Invoices." in request.messages[0].text
    [schema] = request.tools
    assert cast("Any", schema.parameters)["properties"]["choice"]["enum"] == ["Billing", "Repairs"]
    assert_free(router)


@pytest.mark.parametrize("wrong", [choose("Nobody"), choose(3), "Repairs", call("choose_member"), choose("repairs")])
def test_an_invalid_choice_is_repaired_once(wrong: Any):
    router = desk(wrong, choose("Billing"), billing=["Paid."])
    assert route_of(run_virtual(router.call("x"))) == ("Billing", "choice")
    assert_free(router)


def test_the_second_invalid_choice_is_otherwise():
    router = desk(choose("Eve"), choose("Mallory"), otherwise=member("Clerk", "How can I help?"))
    reply = run_virtual(router.call("x"))
    assert (reply.text, route_of(reply)) == ("How can I help?", ("Clerk", "otherwise"))
    assert_free(router)


def test_without_otherwise_it_is_an_error():
    router = desk("Billing it is.", "Billing, I said.")
    with pytest.raises(RoutingError, match="no member was chosen, and there are Billing, Repairs") as caught:
        run_virtual(router.call("x"))
    assert caught.value.members == ("Billing", "Repairs") and isinstance(caught.value.__cause__, StepError)
    assert_free(router)


def test_a_model_that_fails_has_not_chosen():
    router = desk(*[ModelConnectionError("down")] * 9, otherwise=member("Clerk", "x"))
    with pytest.raises(StepError, match="member 'choice' failed"):
        run_virtual(router.call("x"))
    assert_free(router)


def test_otherwise_can_be_chosen():
    router = desk(choose("Clerk"), otherwise=Route(member("Clerk", "Hello."), "Anything else."))
    assert route_of(run_virtual(router.call("x"))) == ("Clerk", "choice")


def by_word(message: Msg) -> str | None:
    return {"money": "Billing", "door": "Doors"}.get(message.text)


def with_function(function: Any, **options: Any) -> RouterPipeline:
    return RouterPipeline(function, [member("Billing", "Paid."), member("Repairs", "Fixed.")], **options)


def test_a_function_chooses():
    async def later(message: Msg) -> str:
        return "Repairs"

    assert route_of(run_virtual(with_function(by_word).call("money"))) == ("Billing", "choice")
    assert route_of(run_virtual(with_function(later).call("x"))) == ("Repairs", "choice")


def test_a_function_may_return_the_member():
    repairs = member("Repairs", "Fixed.")
    router = RouterPipeline(lambda message: repairs, [member("Billing"), repairs])
    assert run_virtual(router.call("x")).text == "Fixed."


@pytest.mark.parametrize("text", ["door", "nothing"])
def test_a_function_without_a_valid_choice(text: str):
    clerk = member("Clerk", "Hm?")
    assert route_of(run_virtual(with_function(by_word, otherwise=clerk).call(text))) == ("Clerk", "otherwise")
    router = with_function(by_word)
    with pytest.raises(RoutingError, match="'Doors' was chosen" if text == "door" else "no member was chosen"):
        run_virtual(router.call(text))
    assert_free(router)


def test_a_function_that_fails_fails_the_run():
    def fails(message: Msg) -> str:
        raise ValueError("no idea")

    with pytest.raises(StepError, match="no idea"):
        run_virtual(with_function(fails, otherwise=member("Clerk")).call("x"))


def test_a_sticky_choice_holds_until_released():
    async def run() -> None:
        router = desk(choose("Billing"), choose("Repairs"), billing=["a", "b"], repairs=["c"], sticky=True)
        assert router.chosen() is None
        assert route_of(await router.call("x")) == ("Billing", "choice")
        assert router.chosen() == "Billing"
        assert route_of(await router.call("y")) == ("Billing", "sticky")
        router.release()
        assert route_of(await router.call("z")) == ("Repairs", "choice")

    run_virtual(run())


def test_a_sticky_choice_is_saved_and_of_one_conversation():
    async def run() -> None:
        session = InMemorySession()
        router = desk(choose("Billing"), choose("Repairs"), billing=["a"], repairs=["c"], sticky=True)
        await router.call("x")
        await router.save(session, "k")
        assert route_of(await router.call("x", memory=InMemoryMemory())) == ("Repairs", "choice")
        other = desk(billing=["b"], sticky=True)
        await other.load(session, "k")
        assert route_of(await other.call("y")) == ("Billing", "sticky")

    run_virtual(run())


def test_otherwise_is_not_sticky():
    async def run() -> None:
        router = with_function(by_word, otherwise=member("Clerk", "a", "b"), sticky=True)
        await router.call("x")
        assert route_of(await router.call("money")) == ("Billing", "choice")

    run_virtual(run())


def test_without_sticky_each_call_is_chosen():
    async def run() -> None:
        router = desk(choose("Billing"), choose("Repairs"), billing=["a"], repairs=["b"])
        assert route_of(await router.call("x"))[0] == "Billing"
        assert route_of(await router.call("y"))[0] == "Repairs"

    run_virtual(run())


class Invoice(BaseModel):
    number: int


def test_the_output_is_the_members():
    router = desk(choose("Billing"), billing=[call("generate_response", number=7)])
    assert run_virtual(router.call("x", output=Invoice)).structured(Invoice) == Invoice(number=7)


def test_an_approval_inside_after_a_load():
    async def run() -> None:
        done, session = Done(), InMemorySession()

        def router(*choices: Any, inside: Any) -> RouterPipeline:
            return RouterPipeline(ScriptedModel(*choices), [member("A", *inside, tools=[done.delete]), member("B")])

        first = router(choose("A"), inside=[use("d", "delete", path="x")])
        assert (await first.call("x")).generate_reason is GenerateReason.APPROVAL_REQUIRED
        await first.save(session, "k")
        second = router(inside=["gone"])
        await second.load(session, "k")
        [waiting] = await second.pending_calls()
        reply = await second.call(Approve(waiting))
        assert (reply.text, route_of(reply), done.deleted) == ("gone", ("A", "choice"), ["x"])
        assert_free(second)

    run_virtual(run())


def test_limits_are_of_the_whole():
    router = desk(choose("Billing"), billing=["a"], limits=UsageLimits(model_calls=1, on_limit="summary"))
    reply = run_virtual(router.call("x"))
    assert reply.generate_reason is GenerateReason.LIMIT_REACHED
    assert_free(router)


def slow_router() -> RouterPipeline:
    turns = [[Delay(1), choose("Billing")], choose("Billing")]
    return desk(*turns, billing=[[Delay(1), "a"], "b"], otherwise=member("Clerk", "c", "d"))


def test_interrupted_at_each_event():
    def cut(agent: Any, event: Any) -> bool:
        agent.interrupt()
        return False

    assert cut_at_each_event(slow_router, cut, "x") > 10


def test_disposed_at_each_event():
    assert cut_at_each_event(slow_router, lambda agent, event: True, "x") > 10


def test_pipelines_within_pipelines():
    inner = GoalLoop(member("Coder", "one", "two"), lambda answer: answer.text == "two", "loop")
    router = RouterPipeline(lambda message: "loop", [inner, member("B")])
    reply = run_virtual(router.call("x"))
    assert (reply.text, GoalOutcome.of(reply).end) == ("two", GoalEnd.DONE)


def test_no_reply_of_a_router():
    with pytest.raises(InvalidInputError, match="no reply of a RouterPipeline"):
        route_of(Msg.user("x"))


NAMES = st.sampled_from(["A", "B", "Clerk", "Eve", "", "a"])


@settings(max_examples=40, deadline=None)
@given(st.lists(NAMES, min_size=1, max_size=5), st.booleans())
def test_a_member_answers_each_call(names: list[str], sticky: bool):
    """One member answers each call: the one that is chosen, or was by a sticky router, else `otherwise`."""
    script = iter(names)
    members = [member(name, *["x"] * 9) for name in ("A", "B")]
    router = RouterPipeline(lambda message: next(script), members, otherwise=member("Clerk", *["x"] * 9), sticky=sticky)

    async def run() -> list[tuple[str, str]]:
        return [route_of(await router.call("x")) for _ in names]

    known, expected, left = "", [], list(names)
    for _ in names:
        if sticky and known:
            expected.append((known, "sticky"))
            continue
        name = left.pop(0)
        valid = name in ("A", "B", "Clerk")
        known = name if valid else ""
        expected.append((name, "choice") if valid else ("Clerk", "otherwise"))
    assert run_virtual(run()) == expected
    assert_free(router)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RouterPipeline(by_word, []), "at least one member"),
        (lambda: RouterPipeline(by_word, cast("Any", "x")), "takes a list"),
        (lambda: RouterPipeline(cast("Any", 3), [member("A")]), "A router takes a model"),
        (lambda: RouterPipeline(by_word, [member("A"), member("A")]), "two members named 'A'"),
        (lambda: RouterPipeline(by_word, [member("choice")]), "two members named 'choice'"),
        (lambda: RouterPipeline(by_word, [member("A")], sticky=cast("Any", 1)), "sticky must be"),
        (lambda: Route(cast("Any", 3)), "A member of a pipeline is an agent"),
        (lambda: Route(member("A"), cast("Any", 3)), "description of a route"),
    ],
)
def test_bad_routers(make: Any, words: str):
    with pytest.raises(ConfigurationError, match=words):
        make()
