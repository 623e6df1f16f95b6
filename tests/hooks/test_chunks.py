"""Hooks of chunks: drop, delay, merge, rewrite what is shown, never what is said."""

from __future__ import annotations

import asyncio

import pytest
import reactivex as rx
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from agentscope_rx import Hook, StreamOptions, ToolError, hook, tool
from agentscope_rx.errors import ConfigurationError, HookError
from agentscope_rx.events import (
    ActingChunkEvent,
    ChunkEvent,
    Event,
    PostReasoningEvent,
    PreReasoningEvent,
    ReasoningChunkEvent,
    RetryEvent,
    SummaryChunkEvent,
)
from agentscope_rx.hooks import DROP, Hooks, hook_operator
from agentscope_rx.messages import TextBlock, ThinkingBlock, ToolUseBlock
from agentscope_rx.models.accumulate import ResponseAccumulator
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.models.response import ChatResponse, ToolUseDelta
from agentscope_rx.reactive import Flow, empty, flow, from_iterable, just, timer
from agentscope_rx.testing import Delay, ScriptedModel, call, run_virtual
from tests.agent.parts import agent, events_of, remembered, types


def chunks(*blocks: object) -> list[ReasoningChunkEvent]:
    """The chunk events of these blocks, as a run makes them."""
    gather = ResponseAccumulator()
    pieces = gather.feed(ChatResponse(tuple(TextBlock(b) if isinstance(b, str) else b for b in blocks)))
    return [ReasoningChunkEvent(message_id="m", delta=delta, view=view, count=n) for delta, view, n in pieces]


def shown(events: list[ReasoningChunkEvent], *hooks: Hook) -> list[Event]:
    operator = Hooks(hooks).chunks(ReasoningChunkEvent)
    assert operator is not None

    async def main() -> list[Event]:
        return [event async for event in flow(operator(from_iterable(events)))]

    return run_virtual(main())


def texts(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, ChunkEvent)]


def on_chunk(answer) -> Hook:
    def chunk_hook(event: ReasoningChunkEvent):
        return answer(event)

    return hook(ReasoningChunkEvent)(chunk_hook)


def with_text(event: ReasoningChunkEvent, text: str) -> ReasoningChunkEvent:
    return event.replace(delta=TextBlock(text))


async def later(value: object) -> object:
    await asyncio.sleep(1)
    return value


LETTERS = chunks("a", "b", "c")


def test_without_hooks_there_is_no_operator():
    assert Hooks().chunks(ReasoningChunkEvent) is None
    assert Hooks([hook(SummaryChunkEvent)(lambda e: DROP)]).chunks(ReasoningChunkEvent) is None
    hooks = Hooks([on_chunk(lambda e: None)])
    assert hooks.chunks(ReasoningChunkEvent) is hooks.chunks(ReasoningChunkEvent), "compiled once"
    with pytest.raises(ConfigurationError):
        Hooks([Hook()]).chunks(PreReasoningEvent)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda e: None, "abc"),
        (lambda e: e, "abc"),
        (lambda e: later(None), "abc"),
        (lambda e: just(None), "abc"),
        (lambda e: with_text(e, e.text.upper()), "ABC"),
        (lambda e: later(with_text(e, e.text.upper())), "ABC"),
        (lambda e: DROP if e.text == "b" else None, "ac"),
        (lambda e: later(DROP) if e.text == "b" else e, "ac"),
        (lambda e: empty() if e.text == "b" else e, "ac"),
        (lambda e: just(DROP, e) if e.text == "b" else e, "abc"),
        (lambda e: just(e, with_text(e, "-")), "a-b-c-"),
        (lambda e: rx.of(e, e), "aabbcc"),
        (lambda e: timer(3 if e.text == "a" else 1).pipe(ops.map(lambda _: e)), "abc"),
    ],
)
def test_every_form_of_answer_in_order(answer, expected):
    assert "".join(texts(shown(LETTERS, on_chunk(answer)))) == expected


def test_hooks_come_one_after_the_other():
    upper = hook(ReasoningChunkEvent, priority=1)(lambda e: with_text(e, e.text.upper()))
    star = hook(ReasoningChunkEvent, priority=2)(lambda e: with_text(e, e.text + "*"))
    pairs = hook_operator(ReasoningChunkEvent, ops.filter(lambda e: e.text != "B*"), priority=3)
    assert texts(shown(LETTERS, pairs, star, upper)) == ["A*", "C*"]


@pytest.mark.parametrize("wrong", ["text", PreReasoningEvent(), SummaryChunkEvent(), 3])
@pytest.mark.parametrize("form", [lambda v: v, later, just, lambda v: rx.of(v)])
def test_chunks_stay_of_their_class(wrong, form):
    with pytest.raises(HookError, match=r"chunk_hook on reasoning_chunk.*must stay ReasoningChunkEvent") as caught:
        shown(LETTERS, on_chunk(lambda e: form(wrong)))
    assert (caught.value.hook, caught.value.event) == ("chunk_hook", "reasoning_chunk")


def test_an_operator_that_emits_something_else_is_named():
    with pytest.raises(HookError, match="operator on ReasoningChunkEvent"):
        shown(LETTERS, hook_operator(ReasoningChunkEvent, ops.map(lambda e: e.text)))


def test_what_a_chunk_hook_raises_is_the_error():
    with pytest.raises(ZeroDivisionError):
        shown(LETTERS, on_chunk(lambda e: 1 / 0))


def merge(events: list[ReasoningChunkEvent]) -> ReasoningChunkEvent:
    return with_text(events[-1], "".join(texts(events)))


def test_an_operator_merges_and_is_flushed_at_completion():
    merging = hook_operator(ReasoningChunkEvent, lambda source: source.pipe(ops.buffer_with_count(2), ops.map(merge)))
    assert texts(shown(LETTERS, merging)) == ["ab", "c"]


def test_hook_operator_is_for_chunks_only():
    for wrong in (PreReasoningEvent, Event, None, "reasoning_chunk"):
        with pytest.raises(ConfigurationError, match="chunk events"):
            hook_operator(wrong, ops.sample(1))
    with pytest.raises(ConfigurationError, match="needs an operator"):
        hook_operator(ReasoningChunkEvent, 0.1)
    assert hook_operator(ChunkEvent, ops.take(1)).priority == 100


# --- accumulated: what was said in the hook, what was shown in the stream -----------------------------------------


def test_what_a_hook_took_out_does_not_come_back_in_accumulated():
    seen: list[str] = []

    def redact(event: ReasoningChunkEvent):
        seen.append(event.accumulated.text)
        return with_text(event, "****") if event.text.isdigit() else None

    events = shown(chunks("key ", "1234", " end"), on_chunk(redact))
    assert seen == ["key ", "key 1234", "key 1234 end"], "the hook sees all that was said"
    assert [event.accumulated.text for event in events] == ["key ", "key ****", "key **** end"]
    snapshots = [StreamOptions(incremental=False).shown(event).snapshot.text for event in events]
    assert snapshots == ["key ", "key ****", "key **** end"]


kinds = st.sampled_from(["text", "thinking", "call 1", "call 2"])


@given(st.lists(st.tuples(kinds, st.text(st.characters(codec="ascii"), min_size=1, max_size=3)), max_size=12))
def test_unchanged_chunks_accumulate_as_without_hooks(parts: list[tuple[str, str]]):
    made = {
        "text": TextBlock,
        "thinking": ThinkingBlock,
        "call 1": lambda text: ToolUseDelta(1, "id1", "one", text),
        "call 2": lambda text: ToolUseDelta(2, None, "two", text),
    }
    plain = chunks(*(made[kind](text) for kind, text in parts))
    hooked = shown(plain, on_chunk(lambda e: None))
    assert hooked == plain
    assert [event.accumulated for event in hooked] == [event.accumulated for event in plain]


@given(st.lists(st.sampled_from(["a", "b", "x", "y"]), max_size=12))
def test_accumulated_is_the_sum_of_what_was_shown(letters: list[str]):
    answer = {"a": lambda e: e, "b": lambda e: DROP, "x": lambda e: with_text(e, ""), "y": lambda e: just(e, e)}
    events = shown(chunks(*letters), on_chunk(lambda e: answer[e.text](e)))
    so_far = ""
    for event in events:
        so_far += event.text
        assert event.accumulated == TextBlock(so_far)


def test_chunks_made_only_by_a_hook_accumulate_by_their_message():
    own = hook_operator(ReasoningChunkEvent, ops.map(lambda e: ReasoningChunkEvent(message_id="m", delta=e.delta)))
    assert [event.accumulated.text for event in shown(LETTERS, own)] == ["a", "ab", "abc"]


def test_each_subscription_accumulates_for_itself():
    operator = Hooks([on_chunk(lambda e: None)]).chunks(ReasoningChunkEvent)
    twice = flow(operator(from_iterable(LETTERS)))
    for _ in range(2):
        assert twice.pipe(ops.map(lambda e: e.accumulated.text), ops.to_list()).run() == ["a", "ab", "abc"]


# --- in a run ----------------------------------------------------------------------------------------------------


def test_the_message_is_what_was_said_whatever_is_shown():
    friday = agent(ScriptedModel(["se", "cret"]), hooks=[on_chunk(lambda e: DROP)])
    events = run_virtual(events_of(friday, "hi"))
    assert "reasoning_chunk" not in types(events)
    assert remembered(friday)[-1].text == events[-1].message.text == "secret"


def test_an_operator_is_flushed_before_the_post_event():
    held = hook_operator(ReasoningChunkEvent, lambda source: source.pipe(ops.to_list(), ops.map(merge)))
    friday = agent(ScriptedModel(["a", Delay(1), "b"], ["c"], repeat=True), hooks=[held])
    for expected in ("ab", "c"):
        events = run_virtual(events_of(friday, "hi"))
        assert types(events) == ["pre_call", "pre_reasoning", "reasoning_chunk", "post_reasoning", "post_call"]
        assert texts(events) == [expected], "each stage has the operator to itself"


def test_sample_shows_a_chunk_at_each_tick_of_the_loops_clock():
    def sampled(source):
        return source.pipe(ops.scan(lambda so_far, e: with_text(e, so_far.text + e.text)), ops.sample(1.0))

    turn = [step for letter in "abcdefgh" for step in (letter, Delay(0.4))]
    friday = agent(ScriptedModel(turn), hooks=[hook_operator(ReasoningChunkEvent, sampled)])

    async def main() -> list[tuple[float, str]]:
        loop = asyncio.get_running_loop()
        return [
            (round(loop.time(), 3), event.text)
            async for event in friday.stream("hi")
            if isinstance(event, ReasoningChunkEvent)
        ]

    assert run_virtual(main()) == [(1.0, "abc"), (2.0, "abcde"), (3.0, "abcdefgh")]


def test_an_operator_may_listen_twice():
    def slow_thinking(source):
        thinking = source.pipe(
            ops.filter(lambda e: e.thinking), ops.to_list(), ops.filter(bool), ops.map(lambda e: e[-1])
        )
        return rx.merge(source.pipe(ops.filter(lambda e: e.text)), thinking)

    model = ScriptedModel([ThinkingBlock("h"), ThinkingBlock("m"), "a", "b"])
    friday = agent(model, hooks=[hook_operator(ReasoningChunkEvent, slow_thinking)])
    events = run_virtual(events_of(friday, "hi"), patience=1.0)
    assert [e.text or e.thinking for e in events if isinstance(e, ReasoningChunkEvent)] == ["a", "b", "m"]


def test_a_slow_chunk_hook_delays_the_post_event_without_loss():
    friday = agent(ScriptedModel(["a", "b"]), hooks=[on_chunk(later)])

    async def main() -> list[tuple[float, str]]:
        loop = asyncio.get_running_loop()
        return [(loop.time(), event.type) async for event in friday.stream("hi")]

    timeline = run_virtual(main())
    assert [time for time, kind in timeline if kind == "reasoning_chunk"] == [1.0, 2.0]
    assert [time for time, kind in timeline if kind == "post_reasoning"] == [2.0]


def test_a_failing_chunk_hook_fails_the_run_with_memory_whole():
    friday = agent(ScriptedModel([call("weather", city="Rome")]), hooks=[on_chunk(lambda e: 1 / 0)])

    seen: list[Event] = []

    async def main() -> None:
        async for event in friday.stream("hi"):
            seen.append(event)

    with pytest.raises(ZeroDivisionError):
        run_virtual(main())
    assert types(seen) == ["pre_call", "pre_reasoning", "error"]
    assert [message.text for message in remembered(friday)] == ["hi"] and not friday.running


@tool
async def unlucky() -> str:
    """Fails, and may be tried again."""
    raise ToolError("no luck", retryable=True)


def test_chunk_hooks_of_tools_see_chunks_only():
    seen: list[Event] = []
    retrying = ExecutionConfig(max_attempts=2, initial_backoff=1.0)
    noting = hook(ActingChunkEvent)(seen.append)
    model = ScriptedModel(call("unlucky"), "done")
    friday = agent(model, tools=[unlucky], tool_execution_config=retrying, hooks=[noting])
    events = run_virtual(events_of(friday, "hi"))
    assert [type(event) for event in seen] == [ActingChunkEvent]
    assert [event.stage for event in events if isinstance(event, RetryEvent)] == ["tool"]


def test_a_chunk_hook_may_redact_what_tools_say():
    def redact(event: ActingChunkEvent):
        return event.replace(chunk=type(event.chunk).of(event.tool_use, "[hidden]"))

    friday = agent(ScriptedModel(call("weather", city="Rome"), "done"), hooks=[hook(ActingChunkEvent)(redact)])
    events = run_virtual(events_of(friday, "hi"))
    assert [event.text for event in events if isinstance(event, ActingChunkEvent)] == ["[hidden]"]
    assert remembered(friday)[2].tool_results[0].text == "Sunny in Rome"


def test_the_authoritative_event_is_not_a_chunk_hooks_affair():
    seen: list[Event] = []
    friday = agent(
        ScriptedModel([ToolUseBlock("x", "weather", {"city": "Rome"})], "ok"),
        hooks=[hook(ChunkEvent)(lambda e: DROP), hook(PostReasoningEvent)(seen.append)],
    )
    run_virtual(events_of(friday, "hi"))
    assert [len(event.message.tool_calls) for event in seen] == [1, 0]


def test_a_flow_is_what_a_compiled_operator_gives():
    operator = Hooks([on_chunk(lambda e: None)]).chunks(ReasoningChunkEvent)
    assert isinstance(operator(from_iterable(LETTERS)), Flow)
