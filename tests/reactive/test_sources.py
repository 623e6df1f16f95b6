"""Sources: cold, silent after disposal, and a task's cancellation is never swallowed."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import itertools
import sys
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import AwaitCancelledError
from agentscope_rx.reactive import (
    RetryPolicy,
    SourceCancelledError,
    catch,
    defer,
    empty,
    flat_map,
    from_async_iterable,
    from_callable,
    from_iterable,
    just,
    never,
    retry,
    throw,
    timer,
)
from agentscope_rx.testing import collect_dropped, run_virtual
from tests.reactive.recorder import Recorder, after, record, turns


@given(values=st.lists(st.integers(), max_size=8), dispose_at=st.integers(0, 9))
def test_iterables_are_emitted_in_order_until_disposal(values: list[int], dispose_at: int) -> None:
    async def main() -> None:
        heard = (await record(defer(lambda: from_iterable(iter(values))).pipe(flat_map(_hop)), dispose_at)).heard
        await turns()
        expected = [*values, "|"] if not 0 < dispose_at <= len(values) else values[:dispose_at]
        assert heard == (expected if dispose_at or not values else [])

    run_virtual(main())


def _hop(value: int) -> Any:
    async def call() -> int:
        return value

    return from_callable(call)


def test_a_synchronous_source_is_stopped_between_two_values() -> None:
    async def main() -> None:
        pulled: list[int] = []

        def items() -> Iterator[int]:
            for i in itertools.count():
                pulled.append(i)
                yield i

        from reactivex import operators as ops

        recorder = await record(from_iterable(items()).pipe(ops.take(3)))
        assert recorder.heard == [0, 1, 2, "|"]
        assert pulled == [0, 1, 2]

    run_virtual(main())


def test_an_iterable_that_fails_is_an_error_wherever_it_fails() -> None:
    class Bad:
        def __iter__(self) -> Iterator[int]:
            raise ValueError("no iterator")

    def half() -> Iterator[int]:
        yield 1
        raise ValueError("half-way")

    async def main() -> None:
        assert repr((await record(from_iterable(Bad()))).heard) == "[ValueError('no iterator')]"
        assert repr((await record(from_iterable(half()))).heard) == "[1, ValueError('half-way')]"

    run_virtual(main())


def test_small_sources() -> None:
    async def main() -> None:
        assert (await record(just())).heard == ["|"]
        assert (await record(empty())).heard == ["|"]
        error = ValueError()
        assert (await record(throw(error))).heard == [error]
        assert (await record(timer(2.5))).timeline == [(2.5, 0), (2.5, "|")]
        silent = Recorder().listen(never())
        await asyncio.sleep(1000)
        assert silent.heard == []
        silent.dispose()

    run_virtual(main())


def test_each_subscription_is_a_run_of_its_own() -> None:
    made: list[str] = []

    async def call() -> int:
        made.append("call")
        return len(made)

    async def items() -> AsyncIterator[int]:
        made.append("items")
        yield len(made)

    async def main() -> None:
        flows = [from_callable(call), from_async_iterable(items), defer(lambda: just(made.append("defer")))]
        await turns()
        assert made == []
        for flow in flows:
            await flow
            await flow
        assert made == ["call", "call", "items", "items", "defer", "defer"]

    run_virtual(main())


def test_a_disposed_timer_is_dropped() -> None:
    async def main() -> None:
        recorder = Recorder().listen(timer(5))
        await asyncio.sleep(1)
        recorder.dispose()
        await asyncio.sleep(10)
        assert recorder.heard == []

    run_virtual(main())


@pytest.mark.parametrize("at", [None, 0.0, 0.5, 0.75, 1.0, 1.5, 2.0])
def test_disposal_at_any_time_runs_finally_and_silences(at: float | None) -> None:
    async def main() -> None:
        log: list[str] = []

        async def items() -> AsyncIterator[int]:
            try:
                for i in range(3):
                    await asyncio.sleep(0.75)
                    yield i
            finally:
                log.append("closing")
                await asyncio.sleep(10)
                log.append("closed")

        recorder = Recorder().listen(from_async_iterable(items))
        if at is not None:
            await asyncio.sleep(at)
        recorder.dispose()
        heard = list(recorder.heard)
        await asyncio.sleep(20)
        assert recorder.heard == heard
        assert log == ([] if at is None else ["closing", "closed"])

    run_virtual(main())


def test_signals_come_after_the_iterable_was_closed() -> None:
    async def main() -> None:
        log: list[str] = []
        recorder = await record(after(1, "a", error=ValueError("x"), log=log))
        assert repr(recorder.timeline) == "[(1.0, 'a'), (1.0, ValueError('x'))]"
        assert log == ["start", "end"]

    run_virtual(main())


def test_a_closing_iterable_is_not_cut_short_by_disposal() -> None:
    async def main() -> None:
        log: list[str] = []

        class Items:
            def __aiter__(self) -> Items:
                return self

            async def __anext__(self) -> int:
                raise StopAsyncIteration

            async def aclose(self) -> None:
                await asyncio.sleep(2)
                log.append("closed")

        recorder = Recorder().listen(from_async_iterable(Items))
        await asyncio.sleep(1)
        recorder.dispose()
        await asyncio.sleep(5)
        assert log == ["closed"]
        assert recorder.heard == []

    run_virtual(main())


def test_an_error_of_a_disposed_source_is_not_lost() -> None:
    async def stubborn() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            raise ValueError("while closing")

    async def main() -> None:
        recorder = Recorder().listen(from_callable(stubborn))
        await asyncio.sleep(1)
        recorder.dispose()
        await turns()

    with collect_dropped() as dropped:
        run_virtual(main())
    assert repr(dropped) == "[ValueError('while closing')]"


def test_stop_iterations_are_errors_and_not_ends() -> None:
    def make() -> AsyncIterator[int]:
        raise StopAsyncIteration("made badly")

    async def call() -> None:
        raise StopAsyncIteration("called badly")

    async def main() -> None:
        (heard,) = (await record(from_async_iterable(make))).heard
        assert isinstance(heard, RuntimeError)
        with pytest.raises(RuntimeError, match="called badly"):
            await from_callable(call)
        with pytest.raises(RuntimeError, match="called badly"):
            async for _ in from_callable(call):
                pass
        with pytest.raises(RuntimeError, match="StopIteration"):
            await just(1).pipe(flat_map(lambda _: next(iter([]))))

    run_virtual(main())


@pytest.mark.parametrize("kind", ["call", "items"])
@pytest.mark.parametrize("turn", [0, 1, 2])
def test_a_loop_that_shuts_down_cancels_and_says_so(kind: str, turn: int) -> None:
    heard: list[Any] = []
    log: list[str] = []

    async def call() -> None:
        log.append("start")
        try:
            await asyncio.sleep(100)
        finally:
            log.append("end")

    async def items() -> AsyncIterator[None]:
        await call()
        yield

    source = from_callable(call) if kind == "call" else from_async_iterable(items)
    answered: list[Exception] = []
    guarded = source.pipe(
        retry(RetryPolicy(stop=lambda state: False)), catch(lambda error: just(answered.append(error)))
    )

    async def main() -> None:
        guarded.subscribe(heard.append, heard.append, lambda: heard.append("|"))
        await turns(turn)

    asyncio.run(main())
    assert [type(one) for one in heard] == [SourceCancelledError]
    assert answered == []
    assert log in ([], ["start", "end"])


@pytest.mark.parametrize("source", [lambda: from_callable(asyncio.Event().wait), lambda: after(1, 1)])
def test_a_source_cancelled_before_its_first_step_fails(source: Any) -> None:
    async def main() -> None:
        recorder = Recorder().listen(source())
        (task,) = asyncio.all_tasks() - {asyncio.current_task()}
        task.cancel()
        assert [type(one) for one in (await recorder.end()).heard] == [SourceCancelledError]

    run_virtual(main())


@pytest.mark.parametrize("source", [lambda: from_callable(asyncio.Event().wait), lambda: after(1, 1)])
def test_the_task_of_a_disposed_source_ends_as_cancelled(source: Any) -> None:
    async def main() -> None:
        recorder = Recorder().listen(source())
        (task,) = asyncio.all_tasks() - {asyncio.current_task()}
        await turns()
        recorder.dispose()
        await turns()
        assert task.cancelled()

    run_virtual(main())


def test_a_cancelled_await_inside_a_source_is_an_ordinary_error() -> None:
    async def call() -> None:
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lost.cancel()
        await lost

    async def main() -> None:
        assert await from_callable(call).pipe(catch(lambda error: just(type(error)))) is AwaitCancelledError

    run_virtual(main())


def test_context_variables_are_captured_and_do_not_leak() -> None:
    var: contextvars.ContextVar[str] = contextvars.ContextVar("var", default="none")
    seen: list[str] = []

    async def reads_and_sets(name: str) -> str:
        seen.append(var.get())
        var.set(name)
        return name

    async def main() -> None:
        var.set("subscriber")
        flow = from_callable(lambda: reads_and_sets("first")).pipe(
            flat_map(lambda _: from_callable(lambda: reads_and_sets("second")))
        )
        task = flow.as_task()
        flow.subscribe()
        var.set("later")
        await task
        await turns()
        assert var.get() == "later"

    run_virtual(main())
    # one run was subscribed to by the task, which copied the context at `as_task()`, the other by `main` itself
    assert seen == ["subscriber"] * 4


def _growth(work: Any) -> int:
    """Bytes that live more after many rounds of work than after few."""
    work(10)
    gc.collect()
    tracemalloc.start()
    work(100)
    gc.collect()
    few = tracemalloc.get_traced_memory()[0]
    work(2000)
    gc.collect()
    many = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return many - few


def test_ten_thousand_synchronous_values_do_not_nest() -> None:
    depths: list[int] = []

    async def main() -> None:
        def note(value: int) -> Any:
            if value % 1000 == 0:
                depths.append(_depth())
            return just(value)

        total = 0

        def add(value: int) -> None:
            nonlocal total
            total += 1

        just(*range(10_000)).pipe(flat_map(note), flat_map(just)).subscribe(add)
        assert total == 10_000

    run_virtual(main())
    assert len(set(depths)) == 1


def _depth() -> int:
    depth, frame = 0, sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return depth


def test_failing_calls_leave_no_cycles() -> None:
    async def call() -> None:
        raise ValueError

    async def main(n: int) -> None:
        for _ in range(n):
            with pytest.raises(ValueError):
                await from_callable(call)

    assert _growth(lambda n: run_virtual(main(n))) < 50_000


def test_an_iterable_that_never_waits_leaves_the_loop_its_turns():
    async def endless():
        while True:
            yield 1

    async def main() -> None:
        seen: list[int] = []
        subscription = from_async_iterable(endless).subscribe(seen.append)
        # would never be reached again if the source kept the loop
        for _ in range(5):
            await asyncio.sleep(0)
        subscription.dispose()
        heard = len(seen)
        await asyncio.sleep(0)
        assert 0 < heard == len(seen)

    run_virtual(main())
