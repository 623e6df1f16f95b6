"""`on_library_loop` and `spawn_background`: on the library's loop, for subscribers on any loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextvars import ContextVar

import pytest
from reactivex import operators as ops

from agentscope_rx.reactive import (
    SourceCancelledError,
    concat,
    from_async_iterable,
    from_callable,
    from_iterable,
    just,
    never,
    on_library_loop,
    on_loop,
    spawn_background,
    throw,
)
from agentscope_rx.reactive.kernel.runtime import library_loop
from agentscope_rx.testing import collect_dropped, run_virtual

who: ContextVar[str] = ContextVar("who", default="nobody")


async def where() -> tuple[bool, str]:
    return asyncio.get_running_loop() is library_loop(), who.get()


class TestAtHome:
    def test_there_in_the_subscribers_context_and_back(self) -> None:
        async def main() -> None:
            who.set("ann")
            here = asyncio.get_running_loop()
            seen: list[bool] = []
            source = on_library_loop(from_callable(where)).pipe(
                ops.do_action(lambda _: seen.append(asyncio.get_running_loop() is here))
            )
            assert await source == (True, "ann")
            assert seen == [True]

        asyncio.run(main())
        assert on_library_loop(from_callable(where)).run() == (True, "nobody")

    def test_signals_in_order(self) -> None:
        async def main() -> None:
            assert await on_library_loop(from_iterable(range(1000))).pipe(ops.to_list()) == list(range(1000))
            assert [value async for value in on_library_loop(just(1, 2, 3))] == [1, 2, 3]
            with pytest.raises(ValueError, match="no"):
                await on_library_loop(throw(ValueError("no")))

        asyncio.run(main())

    def test_disposal_waits_for_what_is_cleaned_up_over_there(self) -> None:
        ended: list[str] = []

        async def items() -> AsyncIterator[int]:
            try:
                yield 1
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.01)
                ended.append("cleaned up")

        async def main() -> None:
            async with on_library_loop(from_async_iterable(items)) as values:
                assert await anext(values) == 1
            assert ended == ["cleaned up"]

        asyncio.run(main())

    def test_disposed_before_it_gets_there(self) -> None:
        begun: list[int] = []

        async def main() -> None:
            subscription = on_library_loop(from_callable(where)).subscribe(begun.append)
            subscription.dispose()
            await on_library_loop(from_callable(where))

        asyncio.run(main())
        assert not begun

    def test_an_error_behind_a_disposal_is_dropped(self) -> None:
        begun, gone = threading.Event(), threading.Event()

        async def stubborn() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                gone.set()
                raise ValueError("too late") from None

        async def main() -> None:
            task = on_library_loop(from_callable(stubborn)).as_task()
            await asyncio.to_thread(begun.wait, 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        with collect_dropped() as dropped:
            asyncio.run(main())
            assert gone.wait(10)
            on_library_loop(from_callable(where)).run()
        assert [str(error) for error in dropped] == ["too late"]


class TestKeep:
    def test_it_outlives_its_caller(self) -> None:
        seen: list[object] = []
        done = threading.Event()
        begun: list[asyncio.Event] = []

        async def live() -> None:
            begun.append(asyncio.Event())
            await begun[0].wait()
            seen.append(await where())
            done.set()

        async def main() -> None:
            who.set("ann")
            spawn_background(from_callable(live), "a test")
            await on_library_loop(from_callable(where))

        asyncio.run(main())
        library_loop().call_soon_threadsafe(begun[0].set)
        assert done.wait(10) and seen == [(True, "nobody")]

    def test_disposed_and_failed(self) -> None:
        left = threading.Event()

        async def live() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                left.set()

        kept = spawn_background(from_callable(live), "a test")
        on_library_loop(from_callable(where)).run()
        kept.dispose()
        assert left.wait(10)
        with collect_dropped() as dropped:
            spawn_background(throw(ValueError("no")), "a test")
            on_library_loop(from_callable(where)).run()
        assert [str(error) for error in dropped] == ["no"] and dropped.where == ["a test"]


class TestOnLoop:
    def test_values_under_way_are_bounded(self) -> None:
        read: list[int] = []

        async def items() -> AsyncIterator[int]:
            for number in range(1000):
                await asyncio.sleep(0)
                read.append(number)
                yield number

        async def main() -> None:
            async with on_loop(from_async_iterable(items), library_loop(), window=8) as values:
                assert await anext(values) == 0
                async for number in values:
                    # the window, the buffer of 64, and one that was read as demand was withheld
                    assert len(read) <= number + 1 + 8 + 64 + 1
            assert len(read) == 1000

        asyncio.run(main())

    def test_a_window_of_one_hands_over_one_by_one(self) -> None:
        async def main() -> None:
            source = on_loop(from_iterable(range(100)), library_loop(), window=1)
            assert await source.pipe(ops.to_list()) == list(range(100))

        asyncio.run(main())

    def test_on_its_own_loop_nothing_is_between(self) -> None:
        async def main() -> None:
            assert await on_loop(just(1), asyncio.get_running_loop()) == 1

        asyncio.run(main())

    def test_a_loop_that_is_closed_before_it_begins_the_source(self) -> None:
        async def main() -> None:
            other = asyncio.new_event_loop()
            waiting = on_loop(just(1), other).as_task()
            await asyncio.sleep(0)
            other.close()
            with pytest.raises(SourceCancelledError, match="was closed"):
                await waiting

        run_virtual(main())

    def test_a_loop_that_is_closed_before_it_stops_the_source(self) -> None:
        async def main() -> None:
            other = asyncio.new_event_loop()
            async with on_loop(concat(just(1), never()), other) as values:
                first = asyncio.ensure_future(anext(values))
                await asyncio.sleep(0)
                await asyncio.to_thread(other.run_until_complete, asyncio.sleep(0.01))
                assert await first == 1
                # the end of the block asks the source to stop, and waits for that
                asyncio.get_running_loop().call_soon(other.close)

        run_virtual(main())
