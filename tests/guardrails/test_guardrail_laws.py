"""The laws of checked output, for answers of any form: nothing unjudged is shown, and what is shown is remembered."""

from __future__ import annotations

import asyncio

from hypothesis import example, given
from hypothesis import strategies as st

from agentscope_rx import TextBlock
from agentscope_rx.errors import ModelConnectionError
from agentscope_rx.events import PostReasoningEvent, ReasoningChunkEvent, RetryEvent, fold
from agentscope_rx.events.base import NOWHERE
from agentscope_rx.guardrails import GuardrailsHook, Verdict, guardrail
from agentscope_rx.guardrails.output_check import checked_output
from agentscope_rx.guardrails.windows import WindowOptions
from agentscope_rx.messages import ThinkingBlock
from agentscope_rx.models.response import ChatResponse, RetryNotice, ToolUseDelta
from agentscope_rx.reactive import flow, from_iterable
from agentscope_rx.testing import Delay, ScriptedModel, check_operator, run_virtual
from tests.agent.parts import agent, assert_whole, remembered
from tests.guardrails.guard_parts import chunks, shown_text
from tests.hooks.around_parts import watch

NOTICE = ChatResponse(retry=RetryNotice(1, 0.0, ModelConnectionError("down"), discarded=True))
WORDS = st.sampled_from(["a ", "bc", "def. ", "\n", "gh! ij", "k", "SEC", "RET", " lmno pq", "r? "])
STEPS = st.lists(
    st.one_of(
        WORDS,
        WORDS,
        WORDS,
        st.sampled_from([0.1, 0.4, 1.0, 3.0]).map(Delay),
        st.sampled_from(["x. ", "SECRET", "hm"]).map(ThinkingBlock),
        st.just(NOTICE),
    ),
    max_size=14,
)
BOUNDS = st.tuples(st.sampled_from([0.3, 1.0, 5.0]), st.sampled_from([24, 60, 400]), st.sampled_from([0, 6]))


def checks(seen: list[str], pause: float, reach: int, stop: bool):
    @guardrail("output", reach=reach)
    async def slow(request):
        await asyncio.sleep(pause)
        seen.append(request.text)
        return Verdict.stop("no k") if stop and "k" in request.text else None

    @guardrail("output", reach=reach)
    def remove(request):
        return Verdict.replace(request.text.replace("SECRET", "[-]")) if "SECRET" in request.text else None

    return slow, remove


@given(STEPS, BOUNDS, st.sampled_from([0.0, 0.2, 2.0]), st.booleans(), st.sampled_from(["hold", "drop"]))
def test_what_is_shown_was_judged_and_is_remembered(steps, bounds, pause, stop, thinking):
    delay, most, reach = bounds
    seen: list[str] = []
    hook = GuardrailsHook(
        *checks(seen, pause, reach, stop), max_delay=delay, max_chars=most, thinking=thinking, reply="stopped"
    )
    someone = agent(ScriptedModel([*steps, "end"]), hooks=[hook])
    # (`watch` asserts that memory is whole, equals the folded events, and that the flag is free)
    watched = watch(someone)
    message = remembered(someone)[-1]
    assert shown_text(watched) == message.text
    judged = {text.replace("SECRET", "[-]") for text in seen} | {"stopped"}
    for event in watched.of(ReasoningChunkEvent):
        text = event.text or event.thinking
        assert any(text in each for each in judged)
    if reach:
        whole = "".join(step for step in steps if isinstance(step, str))
        if not any(isinstance(step, (Delay, ThinkingBlock)) for step in steps) and "SECRET" in whole:
            assert "SECRET" not in message.text


@example(["a ", Delay(3.0), "def. ", Delay(3.0)], (5.0, 24, 6))
@given(STEPS, BOUNDS)
def test_nothing_is_held_longer_than_the_bound(steps, bounds):
    delay, most, reach = bounds
    hook = GuardrailsHook(*checks([], 0.0, reach, stop=False)[:1], max_delay=delay, max_chars=most)
    steps = [step for step in steps if isinstance(step, (str, Delay))]
    watched = watch(agent(ScriptedModel([*steps, "end"]), hooks=[hook]))
    arrived: list[float] = []
    now = 0.0
    for step in [*steps, "end"]:
        if isinstance(step, Delay):
            now += step.seconds
        else:
            arrived += [now] * len(step)
    shown = [at for at, text in chunks(watched) for _ in text]
    assert len(shown) == len(arrived)
    assert all(out - came <= delay + 1e-5 for came, out in zip(arrived, shown, strict=True))


@given(STEPS, BOUNDS, st.floats(0, 6), st.booleans())
def test_an_interruption_shows_only_what_was_judged(steps, bounds, at, dispose):
    delay, most, reach = bounds
    seen: list[str] = []

    async def main():
        hook = GuardrailsHook(*checks(seen, 0.5, reach, stop=False), max_delay=delay, max_chars=most)
        someone = agent(ScriptedModel([*steps, Delay(3), "end"]), hooks=[hook])
        events = []
        subscription = someone.stream("hi").subscribe(events.append)
        await asyncio.sleep(at)
        if dispose:
            subscription.dispose()
        else:
            someone.interrupt()
        await asyncio.sleep(5)
        assert not someone.running and hook._core.live == {}
        assert_whole(someone)
        judged = {text.replace("SECRET", "[-]") for text in seen}
        for event in events:
            if isinstance(event, ReasoningChunkEvent):
                assert any((event.text or event.thinking) in each for each in judged)
        if not dispose:
            assert list(fold(events).history) == list(remembered(someone))
            void = max((n for n, event in enumerate(events) if isinstance(event, RetryEvent)), default=0)
            shown = "".join(event.text for event in events[void:] if isinstance(event, ReasoningChunkEvent))
            assert [event.message.text for event in events if isinstance(event, PostReasoningEvent)] in ([shown], [])

    run_virtual(main())


def test_a_slow_check_does_not_let_the_held_text_grow():
    read = 0
    most = 100

    def pieces():
        nonlocal read
        for _ in range(10_000):
            read += 10
            yield ChatResponse((TextBlock("0123456789"),))

    judged = 0

    @guardrail("output", timeout=None)
    async def slow(request):
        nonlocal judged
        await asyncio.sleep(1)
        judged += len(request.text)

    async def main():
        source = checked_output(
            flow(from_iterable(pieces())),
            [slow],
            WindowOptions(max_delay=60, max_chars=most),
            NOWHERE,
            lambda found: None,
        )
        held: list[int] = []
        subscription = source.subscribe(lambda response: held.append(read - judged))
        await asyncio.sleep(20.5)
        subscription.dispose()
        assert len(held) == 20 and max(held) <= 4 * most

    run_virtual(main())


def test_a_slow_subscriber_does_not_let_the_held_text_grow():
    read = shown = 0

    def pieces():
        nonlocal read
        for _ in range(5_000):
            read += 1
            yield ChatResponse((TextBlock("word. "),))

    async def main():
        nonlocal shown

        @guardrail("output")
        def check(request):
            return None

        source = checked_output(
            flow(from_iterable(pieces())), [check], WindowOptions(max_chars=100), NOWHERE, lambda found: None
        )
        most = 0
        async for _ in source:
            shown += 1
            most = max(most, read - shown)
            if shown % 100 == 0:
                await asyncio.sleep(1)
            if shown > 1000:
                break
        # the reader's buffer, and a few windows
        assert most < 1200

    run_virtual(main())


def test_calls_of_tools_pass_in_their_place():
    deltas = [ToolUseDelta(0, "c1", "weather", '{"ci'), ToolUseDelta(0, arguments='ty": "Rome"}')]
    hook = GuardrailsHook(*checks([], 0.5, 6, stop=False))
    watched = watch(agent(ScriptedModel(["I look. It", *deltas], "ok"), hooks=[hook]))
    kinds = [type(event.delta).__name__ for event in watched.of(ReasoningChunkEvent) if event.delta is not None]
    assert kinds[:4] == ["TextBlock", "TextBlock", "ToolUseBlock", "ToolUseBlock"] or kinds[:3] == [
        "TextBlock",
        "ToolUseBlock",
        "ToolUseBlock",
    ]
    assert watched.reply == "ok"


def test_the_operator_keeps_the_laws_of_operators():
    @guardrail("output")
    def check(request):
        return None

    values = [ChatResponse((TextBlock(f"{n}.\n"),)) for n in range(6)]
    options = WindowOptions(max_chars=64)

    def operator(source):
        return checked_output(flow(source), [check], options, NOWHERE, lambda found: None)

    assert check_operator(operator, values=values, expected=values, ahead=2).checked
