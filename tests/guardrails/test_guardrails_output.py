"""Checks of the output: windows of text, held until they are judged, and a bound on the delay."""

from __future__ import annotations

import asyncio
import re

import pytest

from agentscope_rx import TextBlock
from agentscope_rx.errors import GuardrailError, ModelConnectionError
from agentscope_rx.events import OutputChunkEvent, PostReasoningEvent, ReasoningChunkEvent, RetryEvent
from agentscope_rx.guardrails import Verdict, guardrail
from agentscope_rx.messages import ThinkingBlock, ToolUseBlock
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.models.response import ToolUseDelta
from agentscope_rx.reactive import from_callable
from agentscope_rx.testing import HANG, Delay, ScriptedModel, call, run_virtual
from tests.agent.parts import agent, assert_whole, remembered
from tests.guardrails.guard_parts import chunks, guarded, run, shown_text

KEY = re.compile(r"sk-\d{4}")


def no_keys(seen: list[str] | None = None, **options):
    @guardrail("output", name="no_keys", reach=options.pop("reach", 8), **options)
    def check(request):
        if seen is not None:
            seen.append(request.text)
        if KEY.search(request.text):
            return Verdict.replace(KEY.sub("[key]", request.text), "a key")
        return None

    return check


def judged(seen: list[str], pause: float = 0.0, **options):
    @guardrail("output", name="judged", **options)
    async def check(request):
        await asyncio.sleep(pause)
        seen.append(request.text)
        return Verdict.stop("bad word") if "bad" in request.text else None

    return check


BAD = "I cannot go on with this: bad word"


def test_text_is_shown_sentence_by_sentence():
    seen: list[str] = []
    watched, _, _ = run(guarded(judged(seen)), ["Hel", "lo. How", " are you", "? Fine", "."])
    assert seen == ["Hello.", " How are you?", " Fine."]
    assert [text for _, text in chunks(watched)] == seen and watched.reply == "Hello. How are you? Fine."


def test_a_key_in_pieces_is_found():
    watched, _, someone = run(guarded(no_keys()), ["The key is s", "k-", "12", "34", ", as asked. Keep it."])
    assert watched.reply == shown_text(watched) == "The key is [key], as asked. Keep it."
    assert remembered(someone)[-1].metadata["guardrails"][0]["action"] == "replace"


def test_a_stop_makes_void_what_was_shown():
    watched, _, someone = run(guarded(judged([])), ["Good. ", "Now a bad word. ", Delay(5), "More."])
    assert [text for _, text in chunks(watched)] == ["Good.", BAD]
    assert [event.discarded for event in watched.of(RetryEvent)] == [True]
    assert watched.reply == shown_text(watched) == BAD and watched.times[-1] == 0
    assert [message.text for message in remembered(someone)] == ["hi", BAD]


def test_a_stop_before_anything_is_shown_discards_nothing():
    watched, _, _ = run(guarded(judged([])), ["bad. "])
    assert watched.of(RetryEvent) == [] and watched.reply == BAD


def test_a_stop_as_an_error_fails_the_run():
    watched, _, someone = run(guarded(judged([]), on_stop="error"), ["Good. ", "bad."])
    assert isinstance(watched.error, GuardrailError) and watched.error.reason == "bad word"
    assert [message.text for message in remembered(someone)] == ["hi"]


def test_calls_of_a_stopped_answer_are_not_made():
    watched, model, someone = run(guarded(judged([])), ["bad. ", call("weather", city="Paris")], "never")
    assert watched.reply == BAD and len(model.requests) == 1
    assert not any(message.tool_calls for message in remembered(someone))


def test_the_verdict_may_have_its_own_reply():
    @guardrail("output")
    def check(request):
        return Verdict.stop("why", reply="Ask me something else.")

    assert run(guarded(check), "x")[0].reply == "Ask me something else."


# --- the bound on the delay -----------------------------------------------------------------------------------------


def test_no_text_is_held_longer_than_max_delay():
    watched, _, _ = run(
        guarded(no_keys(reach=100), max_delay=1.5), ["no end of", Delay(1), " a sentence", Delay(4), " here"]
    )
    assert chunks(watched) == [(1.5, "no end of"), (2.5, " a sentence"), (5.0, " here")]


def test_the_end_of_a_judged_window_is_not_held_longer():
    watched, _, _ = run(guarded(no_keys(), max_delay=1), ["A sentence ends here. ", Delay(0.5), "x", Delay(9)])
    assert chunks(watched) == [(0.0, "A sentence "), (1.0, "ends here. "), (1.5, "x")]


def test_max_chars_makes_a_shorter_window():
    seen: list[str] = []
    watched, _, _ = run(guarded(judged(seen), max_chars=10), ["abcd"] * 6)
    assert seen == ["abcdabcdabcd", "abcdabcdabcd"] and watched.reply == "abcd" * 6


def test_a_check_adds_its_own_time_only():
    watched, _, _ = run(guarded(judged([], 3.0), max_delay=1), ["One. ", "Two. "])
    assert chunks(watched) == [(3.0, "One."), (6.0, " Two."), (9.0, " ")]


def test_a_whole_check_gets_the_whole_text():
    seen: list[str] = []
    watched, _, _ = run(guarded(judged(seen, whole=True)), ["One. ", Delay(5), "Two. "])
    assert seen == ["One. Two. "] and chunks(watched) == [(5.0, "One. Two. ")]


def test_a_check_sees_what_was_shown_before():
    seen: list[tuple[str, str, bool]] = []

    @guardrail("output")
    def check(request):
        seen.append((request.before, request.text, request.is_last))

    run(guarded(check), ["One. ", "Two."])
    assert seen == [("", "One.", False), ("One.", " Two.", True)]


# --- what else an answer holds --------------------------------------------------------------------------------------


def test_thinking_is_judged_as_text():
    turn = [ThinkingBlock("the key is sk-"), ThinkingBlock("1234 hm"), ThinkingBlock("", signature="s"), "Fine."]
    watched, _, someone = run(guarded(no_keys()), turn)
    thinking, text = remembered(someone)[-1].content
    # the signature would prove other words
    assert thinking == ThinkingBlock("the key is [key] hm") and text == TextBlock("Fine.")
    assert "".join(event.thinking for event in watched.of(ReasoningChunkEvent)) == thinking.thinking


def test_thinking_that_passes_keeps_its_signature():
    turn = [ThinkingBlock("hm. hm"), ThinkingBlock("", signature="s"), "Fine."]
    assert remembered(run(guarded(no_keys()), turn)[2])[-1].content[0] == ThinkingBlock("hm. hm", "s")


@pytest.mark.parametrize(("thinking", "left"), [("drop", ""), ("show", "sk-1234")])
def test_thinking_can_be_dropped_or_shown(thinking, left):
    watched, _, _ = run(guarded(no_keys(), thinking=thinking), [ThinkingBlock("sk-"), ThinkingBlock("1234"), "Fine."])
    assert "".join(event.thinking for event in watched.of(ReasoningChunkEvent)) == left


def test_text_before_a_call_is_judged_before_the_call_is_shown():
    delta = ToolUseDelta(0, "c1", "weather", '{"city": "Paris"}')
    watched, _, _ = run(guarded(judged([], 1.0)), ["I look", delta], "Sunny.")
    found = [event for event in watched.of(ReasoningChunkEvent) if event.delta is not None]
    assert isinstance(found[0].delta, TextBlock) and isinstance(found[1].delta, ToolUseBlock)


@pytest.mark.parametrize("mode", ["tool", "prompted"])
def test_a_structured_output_is_judged_as_it_comes(mode):
    text = '{"key": "sk-1234", "n": 1}'
    if mode == "tool":
        deltas = [ToolUseDelta(0, "c1", "generate_response", text[:12]), ToolUseDelta(0, arguments=text[12:])]
    else:
        deltas = [text[:12], text[12:]]
    model = ScriptedModel(deltas, output_modes=[mode])
    watched, _, _ = run(guarded(no_keys()), model, output=dict[str, object])
    assert watched.error is None
    reply = watched.events[-1].message
    assert reply.structured() == {"key": "[key]", "n": 1}
    assert watched.of(OutputChunkEvent)[-1].value == {"key": "[key]", "n": 1}
    assert not any("sk-1234" in event.to_json() for event in watched.events)


@pytest.mark.parametrize("mode", ["tool", "prompted"])
def test_a_stopped_output_is_not_asked_for_again(mode):
    text = '{"a": "bad"}'
    turn = ToolUseDelta(0, "c1", "generate_response", text) if mode == "tool" else text
    model = ScriptedModel(turn, "never", output_modes=[mode])
    watched, _, someone = run(guarded(judged([])), model, output=dict[str, str])
    reply = watched.events[-1].message
    assert reply.text == BAD and not reply.has_structured and len(model.requests) == 1
    assert [message.text for message in remembered(someone)] == ["hi", BAD]


def test_a_stop_with_the_finish_tool_ends_the_run():
    watched, model, _ = run(guarded(judged([])), "bad", "never", finish="tool")
    assert watched.reply == BAD and len(model.requests) == 1


def test_a_whole_call_of_the_response_tool_is_judged():
    model = ScriptedModel(call("generate_response", key="sk-1234"), output_modes=["tool"])
    watched, _, _ = run(guarded(no_keys()), model, output=dict[str, str])
    assert watched.events[-1].message.structured() == {"key": "[key]"}


def test_the_summary_is_judged():
    watched, _, _ = run(guarded(no_keys()), call("weather", city="x"), "It is sk-1234.", max_iters=1)
    assert watched.reply == "It is [key]."


# --- attempts, interruptions, disposal ------------------------------------------------------------------------------


def test_held_text_of_a_failed_attempt_is_void():
    model = ScriptedModel(
        ["One. half", ModelConnectionError("down")],
        ["Two. whole"],
        execution_config=ExecutionConfig(max_attempts=2),
    )
    watched, _, someone = run(guarded(judged([])), model)
    # (a model is not asked again once text was shown)
    assert isinstance(watched.error, ModelConnectionError)
    assert [text for _, text in chunks(watched)] == []
    assert [message.text for message in remembered(someone)] == ["hi"]


def test_a_failed_attempt_of_which_nothing_was_shown():
    model = ScriptedModel([ModelConnectionError("down")], ["Two."], execution_config=ExecutionConfig(max_attempts=2))
    watched, _, _ = run(guarded(judged([])), model)
    assert watched.reply == shown_text(watched) == "Two." and watched.of(RetryEvent)


def test_a_discarded_attempt_voids_what_is_held():
    from agentscope_rx.models.response import ChatResponse, RetryNotice

    notice = ChatResponse(retry=RetryNotice(1, 0.0, ModelConnectionError("down"), discarded=True))
    watched, _, _ = run(guarded(judged([], 1.0)), ["One. half", notice, "Two. whole"])
    assert watched.reply == shown_text(watched) == "Two. whole"


def test_an_interruption_shows_nothing_unjudged():
    async def main():
        seen: list[str] = []
        someone = agent(ScriptedModel(["One. ", "Two. Thr", HANG]), hooks=[guarded(judged(seen, 1.0))])
        asyncio.get_running_loop().call_later(1.5, someone.interrupt)
        events = [event async for event in someone.stream("hi")]
        shown = [event.text for event in events if isinstance(event, ReasoningChunkEvent)]
        assert shown == ["One."] == seen
        assert [event.message.text for event in events if isinstance(event, PostReasoningEvent)] == ["One."]
        assert_whole(someone)
        assert not someone.running

    run_virtual(main())


@pytest.mark.parametrize("at", [0.0, 0.1, 0.5, 1.0, 1.4, 2.0, 2.5, 3.1])
def test_disposal_leaves_nothing(at):
    async def main():
        hook = guarded(judged([], 1.0), no_keys())
        someone = agent(ScriptedModel(["One. ", Delay(0.3), "Two. Thr", HANG]), hooks=[hook])
        subscription = someone.stream("hi").subscribe(lambda event: None)
        await asyncio.sleep(at)
        subscription.dispose()
        await asyncio.sleep(1)
        assert not someone.running
        assert_whole(someone)
        assert hook._core.live == {}

    run_virtual(main())


def test_the_first_stop_cancels_the_other_checks():
    ended: list[str] = []

    @guardrail("output")
    async def slow(request):
        try:
            await asyncio.sleep(9)
        finally:
            ended.append("cancelled")

    watched, _, _ = run(guarded(slow, judged([], 1.0)), "bad")
    assert ended == ["cancelled"] and watched.times[-1] == 1.0 and watched.reply == BAD


@pytest.mark.parametrize("on_error", ["stop", "pass"])
def test_a_deadline_stops_unless_it_may_pass(on_error, reported):
    watched, _, _ = run(guarded(judged([], 9.0, timeout=2.0, on_error=on_error)), "fine")
    late = "I cannot go on with this: the check took too long"
    assert watched.reply == (late if on_error == "stop" else "fine") and watched.times[-1] == 2.0
    assert "DeadlineError" in repr(reported)


@pytest.mark.parametrize("answer", [5, "stop", Verdict.replace({"a": 1})])
def test_an_invalid_verdict_stops(answer, reported):
    @guardrail("output")
    def check(request):
        return answer

    assert "the check has failed" in run(guarded(check), "fine")[0].reply and len(reported) == 1


def test_a_check_that_raises_stops(reported):
    @guardrail("output")
    def check(request):
        raise ValueError("oh")

    assert run(guarded(check), "fine")[0].reply == "I cannot go on with this: the check has failed (ValueError)"


def test_a_check_may_be_an_observable():
    async def verdict():
        await asyncio.sleep(1)
        return Verdict.stop("no")

    @guardrail("output")
    def check(request):
        return from_callable(verdict)

    assert run(guarded(check), "fine")[0].reply == "I cannot go on with this: no"


def test_two_that_replace_work_one_after_the_other():
    @guardrail("output")
    async def louder(request):
        return Verdict.replace(request.text.upper())

    watched, _, _ = run(guarded(no_keys(), louder), "my sk-1234 key")
    assert watched.reply == "MY [KEY] KEY"


def test_warnings_are_reported_once():
    warned: list[str] = []

    @guardrail("output", reach=20)
    def check(request):
        return Verdict.warn("shouting") if "!" in request.text else None

    hook = guarded(check, on_warning=lambda finding: warned.append(finding.reason))
    watched, _, someone = run(hook, ["Oh!", " Well. ", "Good. "])
    assert warned == ["shouting"] and watched.reply == "Oh! Well. Good. "
    assert remembered(someone)[-1].metadata["guardrails"] == [
        {"guardrail": "check", "kind": "output", "action": "warn", "reason": "shouting"}
    ]


@pytest.mark.parametrize("at", [0, 3, 4, 6])
def test_a_throwing_subscriber_leaves_nothing(at, reported):
    async def main():
        hook = guarded(judged([], 0.5), no_keys())
        someone = agent(ScriptedModel(["One. Two. ", Delay(1), "Three. "] * 3), hooks=[hook])
        seen = 0

        def fail(event):
            nonlocal seen
            seen += 1
            if seen > at:
                raise ValueError("no")

        someone.stream("hi").subscribe(fail)
        await asyncio.sleep(60)
        assert not someone.running and hook._core.live == {}
        assert_whole(someone)

    run_virtual(main())


def test_a_slow_reader_gets_all_of_it():
    async def main():
        someone = agent(ScriptedModel(["word word. "] * 300), hooks=[guarded(judged([], 0.01), no_keys())])
        text = ""
        async for event in someone.stream("hi"):
            await asyncio.sleep(0.5)
            text += event.text if isinstance(event, ReasoningChunkEvent) else ""
        assert text == "word word. " * 300 == remembered(someone)[-1].text

    run_virtual(main())
