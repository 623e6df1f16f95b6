"""`ToolContext.emit`: progress from any thread, in order, before the result; and how a call learns that it ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator

import pytest
from calling import all_of, events, result, text_of, use
from hypothesis import given
from hypothesis import strategies as st
from reactivex.disposable import SerialDisposable

from agentscope_rx import ToolContext
from agentscope_rx.errors import InvalidInputError, ToolError, ToolSuspend
from agentscope_rx.messages import Base64Source, ImageBlock, TextBlock, ToolResultBlock, ToolResultKind
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.reactive import Flow, OneShotEvent, concat, concat_map, defer, empty, just, take_until, timer
from agentscope_rx.testing import run_virtual
from agentscope_rx.tools import ToolChunk, ToolEvent, Toolkit, ToolRetry

PICTURE = ImageBlock(Base64Source("image/png", "aGk="))


def texts(found: list[ToolEvent]) -> list[str]:
    return [text_of(each) for each in found]


# --- order ------------------------------------------------------------------------------------------------------


def test_emitted_and_yielded_values_keep_their_order():
    def blocking(context: ToolContext) -> str:
        context.emit("a")
        context.emit("b")
        return "c"

    async def coroutine(context: ToolContext) -> str:
        context.emit("a")
        await asyncio.sleep(0)
        context.emit("b")
        return "c"

    def generator(context: ToolContext) -> Iterator[str]:
        context.emit("a")
        yield "b"
        context.emit("c")
        yield "d"
        context.emit("e")

    async def async_generator(context: ToolContext) -> AsyncIterator[str]:
        context.emit("a")
        yield "b"
        context.emit("c")
        yield "d"
        context.emit("e")

    def observable(context: ToolContext) -> Flow[str]:
        def later() -> Flow[str]:
            context.emit("c")
            return just("d")

        def last() -> Flow[str]:
            context.emit("e")
            return empty()

        context.emit("a")
        return concat(just("b"), defer(later), defer(last))

    assert texts(events(blocking)) == texts(events(coroutine)) == ["a", "b", "c"]
    for streaming in (generator, async_generator, observable):
        assert texts(events(streaming)) == ["a", "b", "c", "d", "e", "d"]


@given(st.lists(st.lists(st.sampled_from(["emit", "thread", "yield", "pause"]), max_size=6), min_size=1, max_size=3))
def test_emitted_values_come_once_in_order_before_the_result(scripts: list[list[str]]):
    """Each call of a batch: what it emits on the loop, from threads it waits for, and what it yields."""

    async def play(number: int, context: ToolContext) -> AsyncIterator[str]:
        for index, step in enumerate(scripts[number]):
            if step == "emit":
                context.emit(f"{number}.{index}")
            elif step == "thread":
                thread = threading.Thread(target=context.emit, args=(f"{number}.{index}",))
                thread.start()
                # blocks the loop on purpose: no hop can have been made
                thread.join()
            elif step == "yield":
                yield f"{number}.{index}"
            else:
                await asyncio.sleep(0)

    calls = [use("play", str(number), number=number) for number in range(len(scripts))]
    found = all_of(Toolkit([play]).call_all(calls)).run()
    for number, script in enumerate(scripts):
        mine = [
            each for each in found if (each.id if isinstance(each, ToolResultBlock) else each.call.id) == str(number)
        ]
        *chunks, last = mine
        assert isinstance(last, ToolResultBlock)
        assert texts(chunks) == [f"{number}.{index}" for index, step in enumerate(script) if step != "pause"]


@given(st.integers(1, 4), st.integers(0, 20))
def test_threads_keep_each_its_own_order(threads: int, count: int):
    def play(context: ToolContext) -> str:
        def work(number: int) -> None:
            for index in range(count):
                context.emit(f"{number}.{index}")

        workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for each in workers:
            each.start()
        for each in workers:
            each.join()
        return "all"

    *chunks, last = texts(events(play))
    assert last == "all"
    assert sorted(chunks) == sorted(f"{n}.{i}" for n in range(threads) for i in range(count))
    for number in range(threads):
        assert [each for each in chunks if each.startswith(f"{number}.")] == [f"{number}.{i}" for i in range(count)]


def test_progress_is_shown_while_the_tool_works():
    shown: list[tuple[float, str]] = []

    async def slow(context: ToolContext) -> str:
        for text in ("first", "second"):
            context.emit(text)
            await asyncio.sleep(10)
        return "done"

    async def main() -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        async for each in Toolkit([slow]).call(use("slow")):
            shown.append((loop.time() - start, text_of(each)))

    run_virtual(main())
    assert shown == [(0, "first"), (10, "second"), (20, "done")]


def test_the_last_emitted_chunk_is_not_taken_for_the_result():
    def nothing(context: ToolContext) -> None:
        context.emit("progress")

    assert texts(events(nothing)) == ["progress", "Done."]


# --- what can be emitted ----------------------------------------------------------------------------------------


def test_any_value_that_a_tool_may_return():
    async def several(context: ToolContext) -> str:
        context.emit("text")
        context.emit(PICTURE)
        context.emit([TextBlock("a"), PICTURE])
        context.emit({"done": 0.5})
        context.emit(None)
        return "end"

    *chunks, _ = events(several)
    assert [each.output for each in chunks if isinstance(each, ToolChunk)] == [
        (TextBlock("text"),),
        (PICTURE,),
        (TextBlock("a"), PICTURE),
        (TextBlock('{"done":0.5}'),),
    ]


def test_what_is_no_output_is_an_error_where_it_is_emitted():
    caught: list[ToolError] = []

    def bad(context: ToolContext) -> str:
        try:
            context.emit(b"bytes")
        except ToolError as error:
            caught.append(error)
        return "fine"

    assert texts(events(bad)) == ["fine"]
    assert "bytes" in str(caught[0])


# --- failure, suspension, retries, deadlines --------------------------------------------------------------------


def test_what_was_emitted_before_a_failure_is_shown():
    def fails(context: ToolContext) -> None:
        context.emit("half")
        raise ValueError("broke")

    def suspends(context: ToolContext) -> None:
        context.emit("half")
        raise ToolSuspend("wait")

    assert texts(events(fails)) == ["half", "Error: ValueError: broke"]
    assert texts(events(suspends)) == ["half", "wait"]


def test_a_retry_knows_that_something_was_shown():
    tries: list[ToolContext] = []

    async def flaky(context: ToolContext) -> str:
        tries.append(context)
        context.emit(f"try {len(tries)}")
        if len(tries) == 1:
            raise ConnectionError
        return "done"

    first, notice, second, last = events(flaky, ExecutionConfig(max_attempts=2, initial_backoff=0))
    assert isinstance(notice, ToolRetry) and notice.discarded
    assert texts([first, second, last]) == ["try 1", "try 2", "done"]
    assert all(context.stopping for context in tries)


def test_a_tool_that_emits_is_not_silent():
    async def slow(context: ToolContext, beats: int) -> str:
        for _ in range(beats):
            await asyncio.sleep(4)
            context.emit("still here")
        await asyncio.sleep(4 if beats > 2 else 60)
        return "done"

    async def main(beats: int) -> ToolEvent:
        config = ExecutionConfig(first_chunk_timeout=5, idle_timeout=5, timeout=100)
        return await Toolkit([slow]).call(use("slow", beats=beats), config=config)

    assert text_of(run_virtual(main(3))) == "done"
    late = run_virtual(main(2))
    assert isinstance(late, ToolResultBlock)
    assert late.kind is ToolResultKind.TIMEOUT


def test_a_blocking_tool_past_its_deadline_is_woken():
    told: list[bool] = []
    over = threading.Event()

    def patient(context: ToolContext) -> str:
        told.append(context.wait(30))
        context.emit("too late")
        told.append(context.stopping)
        over.set()
        return "late"

    (last,) = events(patient, ExecutionConfig(timeout=0.01))
    assert isinstance(last, ToolResultBlock)
    assert last.kind is ToolResultKind.TIMEOUT
    assert over.wait(10)
    assert told == [True, True]


# --- stopping ---------------------------------------------------------------------------------------------------


def test_a_disposed_call_wakes_its_tool_and_signals_no_more():
    begun, over = threading.Event(), threading.Event()
    told: list[bool] = []
    heard: list[ToolEvent] = []

    def patient(context: ToolContext) -> None:
        begun.set()
        told.append(context.wait(30))
        context.emit("late")
        over.set()

    subscription = Toolkit([patient]).call(use("patient")).subscribe(heard.append)
    assert begun.wait(10)
    subscription.dispose()
    assert over.wait(10)
    assert told == [True]
    assert heard == []


@given(st.integers(1, 4), st.lists(st.sampled_from(["emit", "yield", "pause"]), min_size=1, max_size=8))
def test_a_call_disposed_at_any_chunk_signals_nothing_more(count: int, script: list[str]):
    async def play(context: ToolContext) -> AsyncIterator[int]:
        for index, step in enumerate(script):
            if step == "emit":
                context.emit(index)
            elif step == "yield":
                yield index
            else:
                await asyncio.sleep(1)

    heard: list[ToolEvent] = []

    async def main() -> None:
        def hear(each: ToolEvent) -> None:
            heard.append(each)
            if len(heard) == count:
                subscription.dispose()

        subscription = SerialDisposable()
        subscription.disposable = Toolkit([play]).call(use("play")).subscribe(hear)
        await asyncio.sleep(len(script) + 1)

    run_virtual(main())
    wanted = [str(index) for index, step in enumerate(script) if step != "pause"]
    assert texts([each for each in heard if isinstance(each, ToolChunk)]) == wanted[:count]
    assert len(heard) <= count


def test_a_call_disposed_by_its_first_chunk_emits_no_second():
    async def chatty(context: ToolContext) -> str:
        context.emit("one")
        context.emit("two")
        await asyncio.sleep(0)
        return "never"

    async def main() -> list[ToolEvent]:
        heard: list[ToolEvent] = []
        async for each in Toolkit([chatty]).call(use("chatty")):
            heard.append(each)
            break
        return heard

    assert texts(run_virtual(main())) == ["one"]


def test_an_interruption_wakes_a_tool_that_waits():
    """As the engine does it: the run's signal ends the call, and the context asks the signal."""
    over = threading.Event()
    told: list[tuple[bool, bool]] = []

    async def main() -> list[ToolEvent]:
        signal = OneShotEvent()
        loop = asyncio.get_running_loop()

        def patient(context: ToolContext) -> str:
            loop.call_soon_threadsafe(signal.fire)
            told.append((context.wait(30), context.interrupted))
            over.set()
            return "dropped"

        context = ToolContext(use("patient"), interrupted=lambda: signal.fired)
        flow = Toolkit([patient]).call(use("patient"), context=context).pipe(take_until(signal))
        return [each async for each in flow]

    assert asyncio.run(main()) == []
    assert over.wait(10)
    assert told == [(True, True)]


def test_a_tool_that_is_not_stopped_sees_it_and_may_end_early():
    """A call that is not interruptible is only told."""
    interrupted: list[int] = []

    async def polite(context: ToolContext) -> str:
        for step in range(10):
            if context.stopping:
                return f"saved after {step} steps"
            if step == 3:
                interrupted.append(1)
            await asyncio.sleep(1)
        return "all"

    async def main() -> ToolEvent:
        context = ToolContext(use("polite"), interrupted=lambda: bool(interrupted))
        return await Toolkit([polite]).call(use("polite"), context=context)

    assert text_of(run_virtual(main())) == "saved after 4 steps"


def test_waiting_for_its_time_says_to_go_on():
    def patient(context: ToolContext) -> str:
        return f"{context.wait(0)} {context.wait(0.001)} {context.stopping}"

    assert result(patient).text == "False False False"


def test_waiting_on_the_loop_is_refused():
    async def stuck(context: ToolContext) -> None:
        context.wait(1)

    block = result(stuck)
    assert block.kind is ToolResultKind.FAILED
    assert "asyncio.sleep" in block.text


def test_a_call_that_has_ended_drops_what_is_emitted():
    kept: list[ToolContext] = []

    async def f(context: ToolContext) -> None:
        kept.append(context)

    assert len(events(f)) == 1
    (context,) = kept
    assert context.stopping and context.wait(30) and context.wait(None)
    context.emit("late")


@pytest.mark.spec("case 117")
def test_a_context_made_by_hand():
    """There always is something to emit into, and what is in it cannot be changed."""
    context = ToolContext(use("f"))
    context.emit("into nothing")
    assert not context.stopping and not context.wait(0)
    with pytest.raises(InvalidInputError, match="would not end"):
        context.wait(None)
    with pytest.raises(AttributeError, match="read-only"):
        context.agent = "other"  # pyright: ignore[reportAttributeAccessIssue]
    assert repr(context) == "<ToolContext f 1>"


def test_a_stream_of_an_observable_may_emit_from_its_timers():
    def ticking(context: ToolContext) -> Flow[str]:
        def tick() -> Flow[str]:
            context.emit("tick")
            return just("tock")

        return concat(timer(1).pipe(concat_map(str)), timer(1).pipe(concat_map(str)), defer(tick))

    async def main() -> list[ToolEvent]:
        return [each async for each in Toolkit([ticking]).call(use("ticking"))]

    assert texts(run_virtual(main())) == ["0", "0", "tick", "tock", "tock"]
