"""Worker threads: results on the loop, abandoned jobs counted, generators closed, contexts copied."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.reactive import WORKERS, FlowIterator, flat_map, iterate_on_worker, merge_ordered, on_worker
from agentscope_rx.reactive.workers import WorkerPool
from agentscope_rx.testing import run_virtual
from tests.reactive.recorder import Recorder, record, turns


def until(condition: Any) -> None:
    """Wait, in real time, for what another thread is about to do."""
    tick = threading.Event()
    for _ in range(5000):
        if condition():
            return
        tick.wait(0.001)
    pytest.fail("it did not happen")


def test_a_call_runs_on_a_worker_and_signals_on_the_loop() -> None:
    async def main() -> None:
        here = threading.current_thread()
        threads: list[Any] = []

        def call() -> str:
            threads.append(threading.current_thread())
            return "done"

        recorder = Recorder()
        recorder.subscription = on_worker(call).subscribe(
            lambda value: (threads.append(threading.current_thread()), recorder.on_next(value)),
            recorder.on_error,
            recorder.on_completed,
        )
        await recorder.end()
        assert recorder.heard == ["done", "|"]
        assert threads[0] is not here
        assert threads[0].daemon
        assert threads[1] is here

    run_virtual(main())


@pytest.mark.parametrize(
    "error", [ValueError("x"), StopIteration("s"), asyncio.CancelledError(), GeneratorExit()], ids=repr
)
def test_what_a_call_raises_is_the_error(error: BaseException) -> None:
    def call() -> None:
        raise error

    async def main() -> None:
        (heard,) = (await record(on_worker(call))).heard
        assert heard is error if isinstance(error, Exception) else "raised" in str(heard)
        assert await on_worker(lambda: 1) == 1

    run_virtual(main())


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("source", [on_worker, lambda call: iterate_on_worker(lambda: (call() for _ in "1"))])
def test_an_exit_on_a_worker_comes_out_as_it_is(error: BaseException, source: Any) -> None:
    def call() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        source(call).run()
    assert raised.value is error
    assert on_worker(lambda: 1).run() == 1


def test_a_disposed_job_is_abandoned_counted_and_silent() -> None:
    began, release = threading.Event(), threading.Event()

    def call() -> None:
        began.set()
        release.wait(5)

    async def main() -> None:
        before = WORKERS.statistics().abandoned
        recorder = Recorder().listen(on_worker(call))
        until(began.is_set)
        recorder.dispose()
        assert WORKERS.statistics().abandoned == before + 1
        assert WORKERS.outstanding == 0
        release.set()
        until(lambda: WORKERS.statistics().abandoned == before)
        await asyncio.sleep(1)
        assert recorder.heard == []

    run_virtual(main())


def test_a_job_that_has_not_begun_never_does() -> None:
    pool = WorkerPool(max_workers=1)
    release, began = threading.Event(), threading.Event()
    ran: list[int] = []
    outcomes: list[Any] = []

    def block() -> None:
        began.set()
        release.wait(5)

    def done(value: object, error: BaseException | None) -> None:
        outcomes.append((value, error))

    context = copy_context()
    pool.begin(context.copy(), block, done)
    until(began.is_set)
    job = pool.begin(context.copy(), lambda: ran.append(1), done)
    assert pool.statistics()[:3] == (1, 1, 1)
    assert job.abandon() is False
    assert pool.statistics().abandoned == 0
    release.set()
    until(lambda: pool.outstanding == 0 and pool.statistics().queued == 0)
    assert ran == []
    assert outcomes == [(True, None)] or outcomes == [(None, None)]


def test_the_pool_grows_as_needed_to_its_bound() -> None:
    pool = WorkerPool(max_workers=3)
    release = threading.Event()
    done: list[Any] = []
    jobs = 10
    for _ in range(jobs):
        pool.begin(copy_context(), lambda: release.wait(5), lambda value, error: done.append(value))
    until(lambda: pool.statistics().running == 3)
    assert pool.statistics() == (3, 3, jobs - 3, 0, ())
    assert pool.outstanding == jobs
    release.set()
    until(lambda: len(done) == jobs and pool.outstanding == 0)
    # idle threads are used again
    pool.begin(copy_context(), lambda: 1, lambda value, error: done.append(value))
    until(lambda: len(done) == jobs + 1)
    assert pool.statistics().threads == 3


def test_a_thread_woken_for_a_job_that_another_took_stays() -> None:
    pool = WorkerPool()
    seen: set[threading.Thread] = set()

    async def one_after_the_other() -> None:
        for _ in range(100):
            await on_worker(lambda: seen.add(threading.current_thread()), pool)

    async def main() -> None:
        await asyncio.gather(*(one_after_the_other() for _ in range(8)))

    asyncio.run(main())
    assert all(thread.is_alive() for thread in seen)
    pool.shutdown()
    until(lambda: not pool.statistics().threads)


def test_two_hundred_jobs_at_once() -> None:
    async def main() -> None:
        sources = [on_worker(lambda i=i: i) for i in range(200)]
        recorder = await record(merge_ordered(sources, max_concurrency=100))
        assert recorder.heard == [*range(200), "|"]
        assert WORKERS.statistics().threads <= 64
        assert recorder.at == [0.0] * 201

    run_virtual(main())


def test_context_is_a_copy_of_the_subscribers() -> None:
    var: contextvars.ContextVar[str] = contextvars.ContextVar("var", default="none")

    def call() -> str:
        seen = var.get()
        var.set("worker")
        return seen

    def items() -> Iterator[str]:
        yield var.get()
        var.set("generator")
        yield var.get()

    async def main() -> None:
        var.set("subscriber")
        assert (await record(on_worker(call).pipe(flat_map(lambda _: on_worker(call))))).heard == ["subscriber", "|"]
        # one generator is one context, whatever threads advance it
        assert (await record(iterate_on_worker(items))).heard == ["subscriber", "generator", "|"]
        assert var.get() == "subscriber"

    run_virtual(main())


# --- iterables --------------------------------------------------------------------------------------------------------


@given(values=st.lists(st.integers(), max_size=5), dispose_at=st.integers(1, 6))
def test_items_in_order_and_a_generator_is_closed_once(values: list[int], dispose_at: int) -> None:
    closed: list[str] = []

    def items() -> Iterator[int]:
        try:
            yield from values
        finally:
            closed.append(threading.current_thread().name)

    async def main() -> None:
        recorder = await record(iterate_on_worker(items), dispose_at)
        expected = [*values, "|"][: dispose_at if dispose_at <= len(values) else None]
        assert recorder.heard == expected
        await turns()

    run_virtual(main())
    until(lambda: closed)
    assert closed == ["agentscope-rx-worker"]


def test_a_return_value_comes_last() -> None:
    def items() -> Any:
        yield 1
        return "result"

    async def main() -> None:
        assert (await record(iterate_on_worker(items))).heard == [1, "result", "|"]
        assert (await record(iterate_on_worker(lambda: [1, 2]))).heard == [1, 2, "|"]

    run_virtual(main())


def test_errors_of_making_and_of_advancing() -> None:
    def broken() -> Any:
        raise ValueError("make")

    def half() -> Any:
        yield 1
        raise ValueError("half")

    async def main() -> None:
        assert repr((await record(iterate_on_worker(broken))).heard) == "[ValueError('make')]"
        assert repr((await record(iterate_on_worker(half))).heard) == "[1, ValueError('half')]"

    run_virtual(main())


def test_a_generator_left_in_a_fetch_is_closed_after_it() -> None:
    fetching, release, closed = threading.Event(), threading.Event(), threading.Event()

    def items() -> Any:
        try:
            yield 1
            fetching.set()
            release.wait(5)
            yield 2
        finally:
            closed.set()

    async def main() -> None:
        recorder = Recorder().listen(iterate_on_worker(items))
        await on_worker(lambda: fetching.wait(5))
        recorder.dispose()
        assert not closed.is_set()
        release.set()
        until(closed.is_set)
        assert recorder.heard == [1]

    run_virtual(main())


def test_leaving_waits_for_the_generators_finally() -> None:
    closed: list[int] = []

    def items() -> Any:
        try:
            while True:
                yield 1
        finally:
            closed.append(1)

    async def main() -> None:
        iterator = FlowIterator(iterate_on_worker(items), 1)
        assert await anext(iterator) == 1
        await asyncio.sleep(1)
        assert iterator.statistics().withheld
        await iterator.aclose()
        assert closed == [1]

    run_virtual(main())


def test_disposed_as_it_is_attached_it_makes_nothing() -> None:
    from agentscope_rx.reactive.kernel.scope import Scope

    class Leaving:
        def on_subscribe(self, upstream: Any) -> None:
            upstream.dispose()

        def on_next(self, value: Any) -> None:
            pytest.fail("signal")

        on_error = on_next

        def on_completed(self) -> None:
            pytest.fail("signal")

    async def main() -> None:
        for source in (iterate_on_worker(lambda: pytest.fail("made")), on_worker(lambda: pytest.fail("called"))):
            source._attach(Leaving(), Scope.here())
        assert WORKERS.outstanding == 0

    run_virtual(main())


# --- the caller's executor --------------------------------------------------------------------------------------------


def test_the_callers_executor_is_used() -> None:
    async def main() -> None:
        with ThreadPoolExecutor(1, thread_name_prefix="mine") as pool:
            name = await on_worker(lambda: threading.current_thread().name, pool)
            assert name.startswith("mine")
            heard = (await record(iterate_on_worker(lambda: iter([1, 2]), pool))).heard
            assert heard == [1, 2, "|"]

    run_virtual(main())


def test_a_shut_down_executor_is_an_error() -> None:
    async def main() -> None:
        pool = ThreadPoolExecutor(1)
        began, release = threading.Event(), threading.Event()
        busy = Recorder().listen(on_worker(lambda: (began.set(), release.wait(5)), pool))
        waiting = Recorder().listen(on_worker(lambda: 1, pool))
        until(began.is_set)
        pool.shutdown(wait=False, cancel_futures=True)
        refused = await record(on_worker(lambda: 1, pool))
        release.set()
        for recorder in (await waiting.end(), refused):
            (error,) = recorder.heard
            assert isinstance(error, RuntimeError)
        await busy.end()
        until(lambda: WORKERS.outstanding == 0)

    run_virtual(main())


def test_a_generator_is_closed_although_its_executor_is_gone() -> None:
    closed = threading.Event()

    def items() -> Any:
        try:
            while True:
                yield 1
        finally:
            closed.set()

    async def main() -> None:
        pool = ThreadPoolExecutor(1)
        iterator = FlowIterator(iterate_on_worker(items, pool), 1)
        assert await anext(iterator) == 1
        await asyncio.sleep(1)
        pool.shutdown()
        await iterator.aclose()
        assert closed.is_set()

    run_virtual(main())
