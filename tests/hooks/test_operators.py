"""`hook_operator` over each kind of chunk: it fails, completes early, never completes, takes its time, is disposed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import reactivex as rx
from reactivex import operators as ops

from agentscope_rx import Hook, ReActAgent, StructuredOutput, UsageLimits
from agentscope_rx.errors import ModelConnectionError, RunDeadlineError
from agentscope_rx.events import (
    ActingChunkEvent,
    ErrorEvent,
    Event,
    OutputChunkEvent,
    PostCallEvent,
    ReasoningChunkEvent,
    SummaryChunkEvent,
)
from agentscope_rx.hooks import hook_operator
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.testing import Delay, ScriptedModel, call, run_virtual
from tests.agent.parts import agent, assert_whole, types

KINDS = [ReasoningChunkEvent, ActingChunkEvent, SummaryChunkEvent, OutputChunkEvent]
SHAPE = {"type": "object", "properties": {"city": {"type": "string"}}}
ASKED = {"output": StructuredOutput(SHAPE, mode="native")}
ONCE = ExecutionConfig(max_attempts=1)
WORDS = ["a", Delay(1), "b", Delay(1), "c"]
OBJECT = ['{"city"', Delay(1), ': "Ro', Delay(1), 'me"}']


def made(kind: type[Event], *hooks: Hook, **options: Any) -> tuple[ReActAgent, dict[str, object]]:
    """An agent whose run shows three chunks of the kind (of a tool: four), a second apart; the turn is Sunny."""
    turns = {
        ReasoningChunkEvent: [WORDS],
        ActingChunkEvent: [call("count", upto=3), "Counted."],
        SummaryChunkEvent: [call("weather", city="Rome"), WORDS],
        OutputChunkEvent: [OBJECT],
    }[kind]
    rounds = 1 if kind is SummaryChunkEvent else 5
    model = ScriptedModel(*turns, output_modes=["native"], execution_config=ONCE)
    return agent(model, hooks=hooks, max_iters=rounds, **options), ASKED if kind is OutputChunkEvent else {}


class Seen:
    """A run as its subscriber sees it: events with their times, and how it ended."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.times: list[float] = []
        self.error: Exception | None = None

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if type(event) is kind]

    def times_of(self, kind: type[Event]) -> list[float]:
        return [round(t, 3) for t, event in zip(self.times, self.events, strict=True) if type(event) is kind]


async def watch(someone: ReActAgent, options: dict[str, object]) -> Seen:
    seen = Seen()
    loop = asyncio.get_running_loop()
    try:
        async for event in someone.stream("hi", **options):  # pyright: ignore
            seen.events.append(event)
            seen.times.append(loop.time())
    except Exception as error:
        seen.error = error
    return seen


def plain(kind: type[Event]) -> Seen:
    someone, options = made(kind)
    return run_virtual(watch(someone, options))


EARLY = {
    "takes one": (ops.take(1), 1),
    "takes none": (ops.take(0), 0),
    "is empty": (lambda chunks: rx.empty(), 0),
    "is another stream": (lambda chunks: chunks.pipe(ops.take(1), ops.concat(rx.empty())), 1),
    "takes while": (ops.take_while(lambda event: False), 0),
    "takes for a time": (ops.take_with_time(0.15), 1),
    "takes until": (ops.take_until(rx.timer(0.15)), 1),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("operator", "count"), EARLY.values(), ids=EARLY)
def test_an_operator_completing_early_does_not_end_the_stage(kind, operator, count):
    """What is shown ends there, and nothing else: the message, the rounds behind it, the reply are the same."""
    someone, options = made(kind, hook_operator(kind, operator))
    seen = run_virtual(watch(someone, options))
    expected = plain(kind)
    assert len(seen.of(kind)) == count
    assert [t for t in types(seen.events) if t != kind.type] == [t for t in types(expected.events) if t != kind.type]
    assert seen.events[-1].message.text == expected.events[-1].message.text
    assert_whole(someone)


def fail_at_second(event: Event, index: int) -> Event:
    return event if index == 0 else 1 / 0


FAILING = {
    "at once": (lambda chunks: rx.throw(ZeroDivisionError()), 0),
    "when made": (lambda chunks: 1 / 0, 0),
    "in the middle": (ops.map_indexed(fail_at_second), 1),
    "when flushed": (lambda chunks: chunks.pipe(ops.concat(rx.throw(ZeroDivisionError()))), None),
    "later": (lambda chunks: chunks.pipe(ops.merge(rx.timer(0.15).pipe(ops.map(lambda _: 1 / 0)))), 1),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("operator", "count"), FAILING.values(), ids=FAILING)
def test_a_failing_operator_fails_the_run_with_memory_whole(kind, operator, count):
    someone, options = made(kind, hook_operator(kind, operator))
    seen = run_virtual(watch(someone, options))
    assert isinstance(seen.error, ZeroDivisionError)
    assert seen.error.__notes__ == [f"Raised by hook operator on {kind.__name__} on {kind.type} of agent Friday."]
    assert isinstance(seen.events[-1], ErrorEvent) and seen.events[-1].error is seen.error
    assert len(seen.of(kind)) == (len(plain(kind).of(kind)) if count is None else count)
    assert not someone.running
    assert_whole(someone)


def endless(chunks: rx.Observable[Event]) -> rx.Observable[Event]:
    return chunks.pipe(ops.concat(rx.never()))


@pytest.mark.parametrize("kind", KINDS)
def test_the_run_waits_for_an_operator_until_its_deadline(kind):
    """One that never completes, though its source has: like a hook that never answers."""
    someone, options = made(kind, hook_operator(kind, endless), limits=UsageLimits(deadline=60))
    seen = run_virtual(watch(someone, options))
    assert isinstance(seen.error, RunDeadlineError) and isinstance(seen.events[-1], ErrorEvent)
    assert seen.times[-1] == 60
    assert len(seen.of(kind)) == len(plain(kind).of(kind))
    assert_whole(someone)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operator", [endless, ops.delay(30), lambda chunks: rx.never()])
@pytest.mark.parametrize("at", [0.05, 1.5, 10])
def test_a_run_that_is_left_leaves_its_operator(kind, operator, at):
    """Disposal: nothing comes late, memory is repaired, and the next call goes ahead."""
    disposed: list[str] = []

    def noting(chunks: rx.Observable[Event]) -> rx.Observable[Event]:
        return operator(chunks).pipe(ops.finally_action(lambda: disposed.append("left")))

    async def main() -> None:
        someone, options = made(kind, hook_operator(kind, noting))
        events: list[Event] = []
        running = someone.stream("hi", **options).subscribe(events.append)
        await asyncio.sleep(at)
        running.dispose()
        await someone.idle()
        assert asyncio.get_running_loop().time() == at
        count = len(events)
        await asyncio.sleep(100)
        assert len(events) == count
        assert_whole(someone)
        assert disposed or kind is not ReasoningChunkEvent
        someone.model = ScriptedModel("and on")

    run_virtual(main())


@pytest.mark.parametrize("kind", KINDS)
def test_delayed_chunks_come_in_order_and_before_the_next_event(kind):
    someone, options = made(kind, hook_operator(kind, ops.delay(30)))
    seen = run_virtual(watch(someone, options))
    expected = plain(kind)
    assert [round(t - 30, 3) for t in seen.times_of(kind)] == expected.times_of(kind)
    assert [event.type for event in seen.events if type(event) is not kind] == [
        event.type for event in expected.events if type(event) is not kind
    ]
    last = max(index for index, event in enumerate(seen.events) if type(event) is kind)
    assert isinstance(seen.events[-1], PostCallEvent)
    assert [event.type for event in seen.events[last + 1 :]] == [
        event.type for event in expected.events[max(i for i, e in enumerate(expected.events) if type(e) is kind) + 1 :]
    ]


@pytest.mark.parametrize("kind", [ReasoningChunkEvent, OutputChunkEvent])
def test_an_error_of_the_model_does_not_wait_for_delayed_chunks(kind):
    someone, options = made(kind, hook_operator(kind, ops.delay(30)))
    someone.model = ScriptedModel(
        ["{", Delay(1), ModelConnectionError("gone")], output_modes=["native"], execution_config=ONCE
    )
    seen = run_virtual(watch(someone, options))
    assert isinstance(seen.error, ModelConnectionError) and seen.times[-1] == 1
    assert not seen.of(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_an_interruption_shows_what_is_delayed_and_then_ends(kind):
    """What has come is flushed before the stage's end, also of one that is cut off."""
    someone, options = made(kind, hook_operator(kind, ops.delay(5)))

    async def main() -> Seen:
        asyncio.get_running_loop().call_later(0.15, someone.interrupt)
        return await watch(someone, options)

    seen = run_virtual(main())
    assert isinstance(seen.events[-1], PostCallEvent)
    assert seen.times[-1] < 10
    assert_whole(someone)


@pytest.mark.parametrize("kind", KINDS)
def test_each_stage_and_each_call_has_the_operator_to_itself(kind):
    """Made once for each stage (of a tool: for each call), subscribed once: no state is shared."""
    subscribed: list[int] = []

    def counting(chunks: rx.Observable[Event]) -> rx.Observable[Event]:
        subscribed.append(0)
        mine = len(subscribed) - 1

        def count(event: Event) -> None:
            subscribed[mine] += 1

        return chunks.pipe(ops.do_action(count))

    someone, options = made(kind, hook_operator(kind, counting))
    run_virtual(watch(someone, options))
    someone.model = ScriptedModel(*_again(kind), output_modes=["native"])
    run_virtual(watch(someone, options))
    assert len(subscribed) >= 2 and sum(subscribed) == 2 * len(plain(kind).of(kind))


def _again(kind: type[Event]) -> list[object]:
    return {
        ReasoningChunkEvent: [WORDS],
        ActingChunkEvent: [call("count", upto=3), "Counted."],
        SummaryChunkEvent: [call("weather", city="Rome"), WORDS],
        OutputChunkEvent: [OBJECT],
    }[kind]


def test_calls_at_once_have_an_operator_each():
    model = ScriptedModel([call("count", upto=3), call("count", upto=2)], "Counted.")
    someone = agent(model, hooks=[hook_operator(ActingChunkEvent, ops.take(1))])
    seen = run_virtual(watch(someone, {}))
    assert len({event.tool_use.id for event in seen.of(ActingChunkEvent)}) == 2 == len(seen.of(ActingChunkEvent))
