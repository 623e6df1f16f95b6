"""Checks of tool calls and of their results."""

from __future__ import annotations

import asyncio

import pytest

from agentscope_rx import Msg, ToolResultBlock, hook, tool
from agentscope_rx.errors import GuardrailError, ToolSuspend
from agentscope_rx.events import ActingChunkEvent, PostActingEvent, PreActingEvent
from agentscope_rx.guardrails import Verdict, guardrail
from agentscope_rx.messages import Approve, GenerateReason, ToolResultKind
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from tests.agent.parts import agent, assert_whole, remembered, weather
from tests.guardrails.guard_parts import guarded, run

RAN: list[str] = []


@tool
async def deliver(to: str) -> str:
    """Delivers."""
    RAN.append(to)
    return f"delivered to {to}"


@tool(requires_approval=True)
async def pay(amount: int) -> str:
    """Pays."""
    RAN.append(f"paid {amount}")
    return "paid"


@tool
async def fetch(url: str):
    """Fetches a page."""
    yield "progress: secret"
    yield "the page says secret"


@pytest.fixture(autouse=True)
def nothing_ran():
    RAN.clear()


def results(someone) -> list[ToolResultBlock]:
    return [result for message in remembered(someone) for result in message.tool_results]


def not_mars(*, slow: bool, **verdict):
    def judged(request):
        if request.call.input.get("to") == "Mars" or (request.call.input.get("amount") or 0) > 100:
            return Verdict.stop("too far", **verdict)
        if request.call.input.get("to") == "moon":
            return Verdict.replace({"to": "Earth"}, "closer")
        return Verdict.warn("far") if request.call.input.get("to") == "Venus" else None

    async def later(request):
        await asyncio.sleep(1)
        return judged(request)

    return guardrail("tool_call", tools=["deliver", "pay"])(later if slow else judged)


@pytest.mark.parametrize("slow", [False, True])
def test_a_stopped_call_is_not_run(slow):
    _, model, someone = run(guarded(not_mars(slow=slow)), call("deliver", to="Mars"), "ok", tools=[deliver])
    (result,) = results(someone)
    assert (result.kind, result.text) == (ToolResultKind.REJECTED, "Error: A guardrail has stopped this call: too far")
    assert RAN == [] and len(model.requests) == 2


@pytest.mark.parametrize("slow", [False, True])
def test_arguments_are_replaced(slow):
    watched, _, _ = run(guarded(not_mars(slow=slow)), call("deliver", to="moon"), "ok", tools=[deliver])
    assert RAN == ["Earth"] and watched.of(PreActingEvent)[0].tool_use.input == {"to": "Earth"}


@pytest.mark.parametrize("slow", [False, True])
def test_a_warning_is_reported_once(slow):
    warned = []
    hook = guarded(not_mars(slow=slow), on_warning=warned.append)
    run(hook, [call("deliver", to="Venus"), call("deliver", to="x")], "ok", tools=[deliver])
    assert [(finding.guardrail, finding.reason) for finding in warned] == [("later" if slow else "judged", "far")]
    assert RAN == ["Venus", "x"]


@pytest.mark.parametrize("slow", [False, True])
def test_a_stop_with_a_reply_ends_the_run(slow):
    _, model, someone = run(
        guarded(not_mars(slow=slow, reply="No deliveries to Mars.")),
        [call("deliver", to="Mars"), call("deliver", to="Rome")],
        "never",
        tools=[deliver],
    )
    reply = remembered(someone)[-1]
    assert reply.text == "No deliveries to Mars." and len(model.requests) == 1
    assert reply.generate_reason is GenerateReason.REASONING_STOP_REQUESTED


@pytest.mark.parametrize("slow", [False, True])
def test_a_stop_as_an_error_fails_the_run(slow):
    watched, _, _ = run(guarded(not_mars(slow=slow), on_stop="error"), call("deliver", to="Mars"), tools=[deliver])
    assert isinstance(watched.error, GuardrailError) and watched.error.kind == "tool_call" and RAN == []


def test_a_quick_check_is_asked_before_approvals():
    async def main():
        someone = agent(
            ScriptedModel(call("pay", amount=500), "ok"), tools=[pay], hooks=[guarded(not_mars(slow=False))]
        )
        assert (await someone.call("pay")).text == "ok" and RAN == []

    run_virtual(main())


def test_a_slow_check_is_asked_once_the_call_is_approved():
    async def main():
        someone = agent(ScriptedModel(call("pay", amount=500), "ok"), tools=[pay], hooks=[guarded(not_mars(slow=True))])
        reply = await someone.call("pay")
        assert (await someone.call(Approve(reply.pending_calls[0]))).text == "ok" and RAN == []
        assert_whole(someone)

    run_virtual(main())


def test_a_call_that_another_hook_changes_is_judged_again():
    @hook(PreActingEvent, priority=90)
    def elsewhere(event):
        return event.replace(tool_use=event.tool_use.with_input({"to": "Mars"}))

    for slow, said in ((False, "too far"), (True, "changed after a guardrail")):
        RAN.clear()
        _, _, someone = run(
            guarded(not_mars(slow=slow)), call("deliver", to="Rome"), "ok", tools=[deliver], hooks=[elsewhere]
        )
        assert said in results(someone)[0].text and RAN == []


# --- results --------------------------------------------------------------------------------------------------------


def no_secrets(verdict, *, slow=False):
    async def later(request):
        await asyncio.sleep(1)
        return verdict if "secret" in request.text else None

    return guardrail("tool_result", name="vetted")(
        later if slow else lambda request: verdict if "secret" in request.text else None
    )


@pytest.mark.parametrize("slow", [False, True])
def test_a_result_is_replaced_before_it_is_shown(slow):
    hook = guarded(no_secrets(Verdict.replace("a page"), slow=slow))
    watched, model, someone = run(hook, call("fetch", url="x"), "ok", tools=[fetch])
    assert results(someone)[0].text == "a page"
    assert results(someone)[0].metadata["guardrails"][0]["action"] == "replace"
    assert not any("secret" in event.to_json() for event in watched.events)
    assert "".join(event.text for event in watched.of(ActingChunkEvent)) == "a page"
    assert model.requests[1].messages[-1].tool_results[0].text == "a page"


@pytest.mark.parametrize("slow", [False, True])
def test_a_stopped_result_is_removed(slow):
    watched, _, someone = run(
        guarded(no_secrets(Verdict.stop("hm"), slow=slow)), call("fetch", url="x"), "ok", tools=[fetch]
    )
    assert results(someone)[0].text == "Error: A guardrail has removed this result: hm"
    assert watched.reply == "ok" and not any("secret" in event.to_json() for event in watched.events)


def test_a_stopped_result_may_end_the_run():
    hook = guarded(no_secrets(Verdict.stop("hm", reply="I stop here.")))
    watched, model, _ = run(hook, call("fetch", url="x"), "never", tools=[fetch])
    assert watched.reply == "I stop here." and len(model.requests) == 1


def test_a_stopped_result_may_fail_the_run():
    watched, _, someone = run(
        guarded(no_secrets(Verdict.stop("hm")), on_stop="error"), call("fetch", url="x"), tools=[fetch]
    )
    assert isinstance(watched.error, GuardrailError) and watched.error.kind == "tool_result"
    assert "secret" not in results(someone)[0].text


def test_progress_of_tools_without_checks_is_shown():
    check = guardrail("tool_result", tools=["other"])(lambda request: Verdict.stop("x"))
    watched, _, _ = run(guarded(check), call("fetch", url="x"), "ok", tools=[fetch])
    assert watched.of(ActingChunkEvent)[0].text == "progress: secret"


def test_a_result_that_the_caller_brings_is_judged():
    @tool
    async def outside() -> str:
        """Runs elsewhere."""
        raise ToolSuspend

    async def main():
        model = ScriptedModel(call("outside", "c1"), "ok")
        someone = agent(model, tools=[outside], hooks=[guarded(no_secrets(Verdict.replace("clean")))])
        await someone.call("go")
        await someone.call(Msg.tool(ToolResultBlock("c1", "outside", "a secret"), "Friday"))
        assert results(someone)[0].text == "clean"
        assert_whole(someone)

    run_virtual(main())


def test_an_interruption_cancels_a_check_of_a_result():
    async def main():
        ended: list[str] = []

        @guardrail("tool_result")
        async def check(request):
            try:
                await asyncio.sleep(9)
            finally:
                ended.append("cancelled")

        someone = agent(ScriptedModel(call("weather", city="x")), hooks=[guarded(check)], tools=[weather])
        asyncio.get_running_loop().call_later(1, someone.interrupt)
        events = [event async for event in someone.stream("hi")]
        assert ended == ["cancelled"]
        assert next(e for e in events if isinstance(e, PostActingEvent)).result.kind is ToolResultKind.INTERRUPTED
        assert_whole(someone)

    run_virtual(main())
