"""The verifier: what holds passes, what does not says what was heard, and what is left fails."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import reactivex as rx
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops
from reactivex.subject import Subject

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import (
    ActingChunkEvent,
    PostActingEvent,
    PostCallEvent,
    PreCallEvent,
    PreReasoningEvent,
    ReasoningChunkEvent,
)
from agentscope_rx.messages import GenerateReason
from agentscope_rx.models import OpenAIChatModel
from agentscope_rx.reactive import (
    Flow,
    concat,
    from_async_iterable,
    from_callable,
    from_iterable,
    just,
    never,
    on_worker,
    shield,
    throw,
    timer,
)
from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.testing import (
    HANG,
    Delay,
    RecordedSignal,
    ScriptedModel,
    Verification,
    call,
    run_virtual,
    verify,
)
from tests.agent.parts import agent
from tests.reactive.recorder import after
from tests.support.openai_server import openai_server


def refused(verification: Verification[Any]) -> str:
    """What the failure of this script says."""
    with pytest.raises(AssertionError) as caught:
        verification.run()
    return "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])


# --- what holds -------------------------------------------------------------------------------------------------------


def test_values_in_order_and_the_end() -> None:
    record = verify(just(1, 2, 3)).expect_next(1, 2).expect_next(3).expect_completed().run()
    assert record.values == [1, 2, 3]
    assert record.signals[-1] == RecordedSignal(0.0, "completed")
    verify(concat(just(1), throw(ValueError("broken pipe")))).expect_next(1).expect_error(
        ValueError, match="pipe"
    ).run()
    verify(rx.of(1, 2)).expect_next(1, 2).expect_completed().run()


def test_matching_counting_and_passing_over() -> None:
    (
        verify(just(*range(10), "x", "y"))
        .expect_next_matching(lambda value: value == 0)
        .expect_count(3)
        .expect_next_of(int, real=4, imag=0)
        .expect_eventually(lambda value: value == 7)
        .expect_eventually(str)
        .expect_next("y")
        .expect_completed()
        .run()
    )


def test_time() -> None:
    source = concat(timer(3), timer(2), just("x"))
    record = (
        verify(source)
        .expect_no_event(for_=3)
        .expect_next(0)
        .expect_no_event(for_=1.5)
        .then_wait(1)
        .expect_next(0, "x")
        .expect_completed()
        .run()
    )
    assert record.timeline == [(3, 0), (5, 0), (5, "x")]


@given(pauses=st.lists(st.integers(1, 5), max_size=8))
def test_any_timeline_holds_as_it_is_and_fails_a_moment_off(pauses: list[int]) -> None:
    def script(longer: float) -> Verification[int]:
        verifier = verify(concat(*(timer(pause / 10) for pause in pauses)))
        for pause in pauses:
            verifier = verifier.expect_no_event(for_=pause / 10 + longer).expect_next(0)
        return verifier.expect_completed()

    script(0.0).run()
    if pauses:
        assert "expect_no_event" in refused(script(0.001))


def test_doing_something_meanwhile() -> None:
    subject: Subject[int] = Subject()

    async def push_later() -> None:
        await asyncio.sleep(4)
        subject.on_next(2)

    (
        verify(subject)
        .then(lambda: subject.on_next(1))
        .expect_next(1)
        .then(push_later)
        .expect_next(2)
        .then(lambda: timer(3))
        .then(subject.on_completed)
        .expect_completed()
        .then_wait(1)
        .then(lambda: None)
        .run()
    )


def test_an_agents_stream() -> None:
    friday = agent(ScriptedModel([Delay(30), call("weather", city="Paris")], ["It is ", Delay(2), "sunny."]))
    record = (
        verify(friday.stream("Weather?"))
        .expect_next_of(PreCallEvent)
        .expect_next_of(PreReasoningEvent, iteration=0)
        .expect_no_event(for_=30)
        .expect_eventually(ActingChunkEvent)
        .expect_next_of(PostActingEvent)
        .expect_next_of(PreReasoningEvent, iteration=1)
        .expect_next_of(ReasoningChunkEvent, text="It is ")
        .expect_no_event(for_=2)
        .expect_next_of(ReasoningChunkEvent, text="sunny.")
        .expect_count(1)
        .expect_next_of(PostCallEvent)
        .expect_completed()
        .run()
    )
    assert record.signals[-1].at == 32


def test_an_interruption() -> None:
    friday = agent(ScriptedModel([call("slow", seconds=99)]))
    (
        verify(friday.stream("hi"))
        .expect_eventually(lambda event: event.type == "pre_acting")
        .expect_no_event(for_=10)
        .then_interrupt(friday, "stop")
        .expect_next_of(ActingChunkEvent, is_last=True)
        .expect_next_of(PostActingEvent)
        .expect_next_matching(lambda event: event.message.generate_reason is GenerateReason.INTERRUPTED)
        .expect_completed()
        .run()
    )
    assert "agent Friday was not running" in refused(verify(just(1)).then_interrupt(friday).expect_completed())


def test_a_disposal_and_what_follows_it() -> None:
    friday = agent(ScriptedModel(["a", HANG], "again"))
    replies: list[str] = []

    async def again() -> None:
        replies.append((await friday.call("again")).text)

    verify(friday.stream("hi")).expect_eventually(ReasoningChunkEvent).then_dispose().then(again).run()
    assert replies == ["again"]


def test_the_clean_up_after_a_disposal_is_waited_for() -> None:
    log: list[str] = []

    async def slow_to_end() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(7)
            log.append("ended")

    verify(from_callable(slow_to_end)).then_wait(1).then_dispose().run()
    assert log == ["ended"]


def test_demand() -> None:
    read: list[int] = []

    def numbers() -> Any:
        for number in itertools.count():
            read.append(number)
            yield number

    (
        verify(from_iterable(numbers()), demand=0)
        .expect_no_event(for_=10)
        .then_request(2)
        .expect_next(0, 1)
        .expect_no_event(for_=10)
        .then_request(1)
        .expect_next(2)
        .then(lambda: read.append(-1))
        .expect_no_event(for_=10)
        .then_dispose()
        .run()
    )
    assert read == [0, 1, 2, -1]
    with pytest.raises(ConfigurationError, match="has no demand"):
        verify(just(1)).then_request(1)
    with pytest.raises(ConfigurationError):
        verify(just(1), demand=-1)


def test_a_beginning_can_have_several_endings() -> None:
    begun = verify(concat(just(1), timer(1))).expect_next(1)
    begun.expect_next(0).expect_completed().run()
    begun.then_dispose().run()
    for _ in range(2):
        begun.expect_no_event(for_=1).expect_next(0).expect_completed().run()


def test_on_a_loop_of_ones_own() -> None:
    async def main() -> None:
        await asyncio.sleep(5)
        record = await verify(timer(2)).expect_no_event(for_=2).expect_next(0).expect_completed()
        assert record.timeline == [(2, 0)]
        with pytest.raises(AssertionError, match="expect_next"):
            await verify(timer(2)).expect_next(1).expect_completed()

    run_virtual(main())


def test_nothing_happens_before_it_runs() -> None:
    begun: list[int] = []
    verification = verify(from_iterable(map(begun.append, [1]))).expect_next(None).expect_completed()
    assert begun == []
    verification.run()
    assert begun == [1]


def test_errors_that_are_meant_to_be_dropped() -> None:
    async def broken_end() -> None:
        try:
            await asyncio.sleep(9)
        finally:
            raise ValueError("in the clean-up")

    script = verify(from_callable(broken_end)).then_wait(1).then_dispose()
    assert "in the clean-up" in refused(script)
    script.expect_dropped(ValueError, match="clean-up").run()
    assert "expect_dropped(KeyError): none was dropped" in refused(script.expect_dropped(KeyError))
    assert "none was dropped" in refused(script.expect_dropped(ValueError).expect_dropped(ValueError))


# --- what does not hold -----------------------------------------------------------------------------------------------

FAILING: list[tuple[Callable[[], Verification[Any]], str]] = [
    (
        lambda: verify(just(1, 2)).expect_next(1, 3).expect_completed(),
        "step 2, expect_next(3): received next 2 at 0 s\n"
        "received so far, from the subscription on:\n"
        "       0 s  next       1\n"
        "       0 s  next       2     <- here\n"
        "       0 s  completed",
    ),
    (lambda: verify(just(1)).expect_completed(), "step 1, expect_completed(): received next 1 at 0 s"),
    (lambda: verify(just(1)).expect_next(1, 2).expect_completed(), "step 2, expect_next(2): received completed at 0 s"),
    (lambda: verify(just(1)).expect_count(2).expect_completed(), "step 1, expect_count(2): received completed"),
    (lambda: verify(just(1)).expect_next_of(str).expect_completed(), "step 1, expect_next_of(str): received next 1"),
    (
        lambda: verify(just(1)).expect_next_of(int, real=2).expect_completed(),
        "step 1, expect_next_of(int, real=2): received next 1",
    ),
    (lambda: verify(just(1)).expect_next_of(int, colour="red").expect_completed(), "expect_next_of(int, colour='red')"),
    (lambda: verify(just(1)).expect_eventually(str).expect_completed(), "expect_eventually(str): received completed"),
    (
        lambda: verify(just(0)).expect_next_matching(bool).expect_completed(),
        "step 1, expect_next_matching(bool): received next 0",
    ),
    (lambda: verify(never()).expect_next(1).then_dispose(), "nothing came within 3600 s\nnothing was received"),
    (lambda: verify(never(), within=5).expect_completed(), "nothing came within 5 s"),
    (
        lambda: verify(concat(just(1), timer(2))).expect_next(1).expect_no_event(for_=3).then_dispose(),
        "step 2, expect_no_event(for_=3): received next 0 at 2 s",
    ),
    (lambda: verify(just(1)).then_wait(5).expect_no_event(for_=3).then_dispose(), "received next 1 at 0 s"),
    (
        lambda: verify(throw(ValueError("x"))).expect_error(KeyError),
        "expect_error(KeyError): received error ValueError('x')",
    ),
    (
        lambda: verify(throw(ValueError("x"))).expect_error(match="y"),
        "expect_error(Exception, match='y'): received error",
    ),
    (lambda: verify(throw(ValueError("x"))).expect_completed(), "expect_completed(): received error ValueError('x')"),
    (lambda: verify(just(1)).expect_next(1).then_dispose(), "then_dispose(): the flow had ended"),
]


@pytest.mark.parametrize(("script", "text"), FAILING, ids=range(len(FAILING)))
def test_a_failure_says_which_step_and_what_was_heard(script: Callable[[], Verification[Any]], text: str) -> None:
    assert text in refused(script())


def test_an_unexpected_error_is_the_cause() -> None:
    error = ValueError("x")
    with pytest.raises(AssertionError) as caught:
        verify(throw(error)).expect_next(1).expect_completed().run()
    assert caught.value.__cause__ is error


def test_long_streams_are_shown_by_their_end() -> None:
    told = refused(verify(just(*range(50))).expect_count(50).expect_next(50).expect_completed())
    assert "... 31 signals, then" in told
    assert " 30\n" not in told and " 31\n" in told
    events = agent(ScriptedModel("It is sunny.")).stream("hi")
    told = refused(verify(events).expect_count(9).expect_completed())
    assert 'ReasoningChunkEvent {"seq": 2, "delta": {"text": "It is sunny.", "type": "text"}}' in told


def test_an_exception_of_a_step_has_the_story() -> None:
    def broken() -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine") as caught:
        verify(concat(just(7), never())).expect_next(7).then(broken).then_dispose().run()
    assert caught.value.__notes__[0].startswith("in step 2, then(broken)\nreceived so far")
    with pytest.raises(ZeroDivisionError):
        verify(just(0)).expect_next_matching(lambda value: 1 / value).expect_completed().run()


# --- what is left -----------------------------------------------------------------------------------------------------


def left_task() -> Flow[Any]:
    tasks: list[asyncio.Task[object]] = []

    async def spawn() -> None:
        tasks.append(asyncio.create_task(asyncio.sleep(100)))

    return from_callable(spawn)


def left_timer() -> Flow[Any]:
    async def wind() -> None:
        asyncio.get_running_loop().call_later(100, print)

    return from_callable(wind)


def left_generator() -> Flow[Any]:
    held: list[AsyncIterator[int]] = []

    async def response() -> AsyncIterator[int]:
        yield 1
        yield 2

    async def read_one() -> int:
        held.append(response())
        return await anext(held[0])

    return from_callable(read_one)


def dropped_error() -> Flow[Any]:
    async def drop() -> None:
        report_dropped(ValueError("nobody listens"), "a test")

    return from_callable(drop)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (left_task, "task <Task"),
        (left_timer, "timer <TimerHandle"),
        (left_generator, "left open, such as a response: left_generator.<locals>.response"),
        (dropped_error, "dropped in a test: ValueError('nobody listens')"),
    ],
)
def test_what_is_left_fails(source: Callable[[], Flow[Any]], text: str) -> None:
    assert text in refused(verify(source()).expect_count(1).expect_completed())


def test_work_that_does_not_end_fails() -> None:
    script = verify(shield(after(10_000, 1)), within=100).then_dispose()
    assert "the run's work had not ended 100 s later" in refused(script)
    verify(shield(after(10, 1)), within=100).then_dispose().run()


def test_what_is_closed_passes() -> None:
    async def response() -> AsyncIterator[int]:
        for number in itertools.count():
            yield number

    verify(from_async_iterable(response), demand=2).expect_next(0, 1).then_dispose().run()
    verify(from_async_iterable(response).pipe(ops.take(2))).expect_next(0, 1).expect_completed().run()
    verify(on_worker(lambda: 5)).expect_next(5).expect_completed().run()


def test_dropped_errors_of_a_failing_script_are_told_too() -> None:
    told = refused(verify(dropped_error()).expect_count(2).expect_completed())
    assert "received completed" in told and "dropped in a test" in told


def test_a_real_response_that_is_left_is_closed() -> None:
    with openai_server() as server:
        model = OpenAIChatModel("test", base_url=server.base_url, api_key="k")
        friday = agent(model, tools=None)
        verify(friday.stream("please hang")).expect_eventually(ReasoningChunkEvent).then_dispose().run()
        assert server.noticed.wait(5) and server.left == 1
        verify(friday.stream("hi")).expect_eventually(PostCallEvent).expect_completed().run()
