"""run, await, async for, async with, as_task: one run each, and leaving stops it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from reactivex import operators as ops
from reactivex.internal.exceptions import SequenceContainsNoElementsError

from agentscope_rx.errors import RunInsideLoopError
from agentscope_rx.reactive import (
    Flow,
    FlowIterator,
    concat,
    defer,
    empty,
    flat_map,
    flow,
    from_async_iterable,
    from_callable,
    just,
    never,
    on_worker,
    throw,
    timer,
)
from agentscope_rx.reactive.kernel.runtime import library_loop, runtime
from agentscope_rx.testing import collect_dropped, run_virtual
from tests.reactive.recorder import after, turns


class Source:
    """Endless, one value a second; notes when it began and ended."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def flow(self, pause: float = 1.0) -> Flow[int]:
        async def items() -> AsyncIterator[int]:
            self.log.append("start")
            try:
                i = 0
                while True:
                    await asyncio.sleep(pause)
                    yield i
                    i += 1
            finally:
                await asyncio.sleep(0)
                self.log.append("end")

        return from_async_iterable(items)


# --- run and await ----------------------------------------------------------------------------------------------------


def test_run_gives_the_last_value_or_the_error() -> None:
    assert just(1, 2).run() == 2
    assert from_callable(_five).run() == 5
    with pytest.raises(ValueError, match="x"):
        throw(ValueError("x")).run()
    with pytest.raises(SequenceContainsNoElementsError):
        empty().run()


async def _five() -> int:
    await asyncio.sleep(0)
    return 5


def test_run_on_a_loops_thread_is_refused_at_once() -> None:
    async def main() -> None:
        with pytest.raises(RunInsideLoopError, match="await"):
            just(1).run()
        assert await just(1) == 1
        # on a worker's thread it is allowed, also from below a loop
        assert await on_worker(lambda: from_callable(_five).run()) == 5

    run_virtual(main())


def test_one_flow_everywhere() -> None:
    loops: list[Any] = []

    async def call() -> int:
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())
        return len(loops)

    source = concat(from_callable(call), timer(0).pipe(flat_map(lambda _: from_callable(call))))

    async def main() -> int:
        return await source

    assert source.run() == 2
    assert asyncio.run(main()) == 4
    assert asyncio.run(main()) == 6
    results: list[int] = []
    thread = threading.Thread(target=lambda: results.append(source.run()))
    thread.start()
    thread.join()
    assert results == [8]
    assert loops[0] is loops[1] is loops[6] is loops[7] is library_loop()
    assert loops[2] is loops[3] is not loops[4]


def test_many_threads_run_one_flow_at_once() -> None:
    source = just(1, 2, 3).pipe(
        flat_map(lambda i: from_callable(_five).pipe(ops.map(lambda five: five * i))), ops.sum()
    )
    results: list[int] = []
    threads = [threading.Thread(target=lambda: results.append(source.run())) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [30] * 20


def test_cancelling_the_awaiting_task_disposes() -> None:
    async def main() -> None:
        for wait in (0.0, 2.5):
            source = Source()
            task = asyncio.ensure_future(_await(source.flow()))
            await asyncio.sleep(wait)
            await turns()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert task.cancelled()
            await turns()
            assert source.log == ["start", "end"]

    run_virtual(main())


async def _await(source: Flow[Any]) -> Any:
    return await source


def test_as_task_is_a_task() -> None:
    async def main() -> None:
        task = just(1, 2).as_task(name="mine")
        assert task.get_name() == "mine"
        assert await task == 2
        source = Source()
        task = source.flow().as_task()
        await asyncio.sleep(1.5)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        await turns()
        assert source.log == ["start", "end"]

    run_virtual(main())


def test_timeouts_and_task_groups_of_asyncio_reach_the_run() -> None:
    async def main() -> None:
        source = Source()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(_await(source.flow()), 2.5)

        async def group() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_await(source.flow()))
                tasks.create_task(_await(after(1.5, error=ValueError())))

        with pytest.raises(ExceptionGroup):
            await group()
        await turns()
        assert source.log == ["start", "end"] * 2

    run_virtual(main())


def test_an_error_that_meets_a_cancellation_is_not_lost() -> None:
    async def main() -> None:
        gate: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def call() -> int:
            return await gate

        task = from_callable(call).as_task()
        await turns()
        gate.set_exception(ValueError("met"))
        await turns(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with collect_dropped() as dropped:
        run_virtual(main())
    gc.collect()
    assert repr(dropped) == "[ValueError('met')]"


# --- async for --------------------------------------------------------------------------------------------------------


def test_break_disposes_at_once() -> None:
    async def main() -> None:
        source = Source()
        async for value in source.flow():
            if value == 2:
                break
        assert source.log == ["start"]  # cancelled, and it runs its finally as soon as the loop gets to it
        await turns()
        assert source.log == ["start", "end"]

    run_virtual(main())


def test_an_exception_in_the_body_disposes() -> None:
    async def main() -> None:
        source = Source()

        async def body() -> None:
            async for _ in source.flow():
                raise ValueError("body")

        with pytest.raises(ValueError, match="body"):
            await body()
        await turns()
        assert source.log == ["start", "end"]

    run_virtual(main())


@pytest.mark.parametrize("where", ["pull", "body"])
def test_cancellation_disposes(where: str) -> None:
    async def main() -> None:
        source = Source()

        async def body() -> None:
            async for _ in source.flow():
                if where == "body":
                    await asyncio.sleep(100)

        task = asyncio.ensure_future(body())
        await asyncio.sleep(1.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        del task
        await turns()
        assert source.log == ["start", "end"]

    run_virtual(main())


def test_a_cancelled_pull_disposes_a_live_iterator() -> None:
    async def main() -> None:
        source = Source()
        iterator = aiter(source.flow())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(iterator), 0.5)
        await turns()
        assert source.log == ["start", "end"]
        assert [value async for value in iterator] == []

    run_virtual(main())


def test_an_abandoned_iterator_is_collected() -> None:
    async def main() -> None:
        source = Source()
        iterator = aiter(source.flow())
        assert await anext(iterator) == 0
        gc.disable()
        try:
            del iterator
            await turns()
            assert source.log == ["start", "end"]
        finally:
            gc.enable()

    run_virtual(main())


def test_the_run_starts_at_the_first_pull_and_ends_once() -> None:
    async def main() -> None:
        made: list[int] = []
        iterator = aiter(defer(lambda: just(made.append(1) or 7)))
        assert made == []
        assert [value async for value in iterator] == [7]
        assert [value async for value in iterator] == []
        assert made == [1]
        unused = aiter(just(1))
        await unused.aclose()
        assert [value async for value in unused] == []

    run_virtual(main())


def test_aclose_waits_for_the_clean_up() -> None:
    async def main() -> None:
        ended: list[float] = []

        async def items() -> AsyncIterator[int]:
            try:
                yield 1
                await asyncio.sleep(100)
            finally:
                await asyncio.sleep(5)
                ended.append(asyncio.get_running_loop().time())

        iterator = FlowIterator(from_async_iterable(items))
        await anext(iterator)
        await asyncio.sleep(1)
        await iterator.aclose()
        assert ended == [6]
        await iterator.aclose()

    run_virtual(main())


# --- async with -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["break", "raise", "return", "unused"])
def test_async_with_leaves_nothing(how: str) -> None:
    async def main() -> None:
        source = Source()

        async def body() -> None:
            async with source.flow() as values:
                if how == "unused":
                    return
                async for value in values:
                    if value == 1 and how == "break":
                        break
                    if value == 1 and how == "raise":
                        raise ValueError("body")
                    if value == 1:
                        return

        if how == "raise":
            with pytest.raises(ValueError, match="body"):
                await body()
        else:
            await body()
        assert source.log == ([] if how == "unused" else ["start", "end"])

    run_virtual(main())


def test_one_flow_object_may_be_entered_by_many() -> None:
    async def main() -> None:
        source = Source()
        one = source.flow()

        async def reader(n: int) -> list[int]:
            async with one as values:
                seen = []
                async for value in values:
                    seen.append(value)
                    if len(seen) == n:
                        break
                return seen

        assert await asyncio.gather(reader(1), reader(3), reader(2)) == [[0], [0, 1, 2], [0, 1]]
        async with one as outer, one as inner:
            assert (await anext(outer), await anext(inner)) == (0, 0)
            assert outer is not inner
        assert source.log.count("start") == source.log.count("end") == 5

    run_virtual(main())


def test_an_async_generator_left_half_way_closes_its_run() -> None:
    async def main() -> None:
        source = Source()

        async def wrapped() -> AsyncIterator[int]:
            async with source.flow() as values:
                async for value in values:
                    yield value

        async for _ in wrapped():
            break
        gc.collect()
        await asyncio.sleep(1)
        assert source.log == ["start", "end"]

    run_virtual(main())


def test_each_generator_left_half_way_ends_its_own_run() -> None:
    async def main() -> None:
        ended: list[int] = []

        def once() -> Flow[int]:
            number = next(numbers)

            async def items() -> AsyncIterator[int]:
                try:
                    while True:
                        await asyncio.sleep(1)
                        yield number
                finally:
                    ended.append(number)

            return from_async_iterable(items)

        numbers = itertools.count()
        one = defer(once)

        async def wrapped() -> AsyncIterator[int]:
            async with one as values:
                async for value in values:
                    yield value

        async def left(generator: Any) -> None:
            await generator.aclose()

        generators = [wrapped() for _ in range(3)]
        assert [await anext(generator) for generator in generators] == [0, 1, 2]
        for number in (1, 0):
            # as the loop closes an async generator: from another task than the one that entered
            await asyncio.create_task(left(generators[number]))
            assert ended[-1] == number
        assert await anext(generators[2]) == 2, "the one that is still read goes on"
        async with contextlib.AsyncExitStack() as stack:
            values = await stack.enter_async_context(one)
            assert await anext(values) == 3
        assert ended == [1, 0, 3]
        await generators[2].aclose()
        assert ended == [1, 0, 3, 2]

    run_virtual(main())


# --- the loop and what is bound to it ---------------------------------------------------------------------------------


def test_resources_are_made_once_a_loop_and_closed_with_it() -> None:
    log: list[str] = []

    class Client:
        async def close(self) -> None:
            await asyncio.sleep(0)
            log.append("closed")

    async def use() -> Client:
        def make() -> Client:
            log.append("made")
            return Client()

        return await runtime().resource("client", make, Client.close)

    async def main() -> None:
        first, second, *_ = await asyncio.gather(use(), use(), from_callable(use))
        assert first is second is await use()

        async def until_the_end() -> None:
            try:
                await asyncio.sleep(100)
            finally:
                log.append("task")

        from_callable(until_the_end).subscribe(on_error=lambda error: None)
        await turns()

    for _ in range(2):
        asyncio.run(main())
    assert log == ["made", "task", "closed"] * 2


def test_a_failing_close_does_not_keep_others_open() -> None:
    closed: list[str] = []

    async def close(name: str) -> None:
        if name == "bad":
            raise ValueError("close")
        closed.append(name)

    async def main() -> None:
        for name in ("first", "bad", "last"):
            await runtime().resource(name, lambda name=name: name, close)

    with collect_dropped() as dropped:
        asyncio.run(main())
    assert closed == ["last", "first"]
    assert repr(dropped) == "[ValueError('close')]"


def test_flow_lifts_any_observable() -> None:
    import reactivex as rx

    async def main() -> None:
        lifted = flow(rx.of(1, 2, 3))
        assert isinstance(lifted, Flow)
        assert await lifted == 3
        assert flow(lifted) is lifted
        assert [v async for v in flow(just(1, 2).map(lambda v: v + 1))] == [2, 3]

    run_virtual(main())
    assert flow(rx.of(1, 2)).run() == 2


def test_never_awaited_is_no_run() -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await never()

    run_virtual(main())


def test_an_iterator_tells_how_far_it_is() -> None:
    async def main() -> None:
        values = just(1, 2, 3).buffered(5)
        assert repr(values) == "<FlowIterator not begun>"
        assert await anext(values) == 1
        assert repr(values) == "<FlowIterator 3 received, 2 waiting>"
        await values.aclose()
        unused = just(1).buffered()
        await unused.aclose()
        assert repr(unused) == "<FlowIterator closed>"

    asyncio.run(main())
