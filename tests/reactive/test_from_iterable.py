"""`from_iterable` reads as fast as there is demand; `just` has its values already."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from agentscope_rx.reactive import OneShotEvent, concat, concat_map, from_iterable, just, take_until
from agentscope_rx.testing import run_virtual
from tests.reactive.recorder import Recorder, record, turns


class Endless:
    """Counts up for ever; notes how far it was read, and if it was closed."""

    def __init__(self) -> None:
        self.read = 0
        self.closed = False

    def __iter__(self) -> Iterator[int]:
        try:
            while True:
                self.read += 1
                yield self.read - 1
        finally:
            self.closed = True


def test_an_endless_iterable_can_be_pulled() -> None:
    async def main() -> None:
        seen = []
        async for value in from_iterable(itertools.count()):
            seen.append(value)
            if value == 1000:
                break
        assert seen == list(range(1001))

    run_virtual(main())


@given(capacity=st.integers(1, 9), pauses=st.lists(st.integers(0, 2), min_size=1, max_size=30))
def test_it_is_never_read_further_than_the_buffer(capacity: int, pauses: list[int]) -> None:
    async def main() -> None:
        source = Endless()
        async with from_iterable(source).pipe(ops.map(str), concat_map(just)).buffered(capacity) as values:
            for n, pause in enumerate(pauses, 1):
                assert await anext(values) == str(n - 1)
                await asyncio.sleep(pause)
                assert source.read <= n + capacity
        assert source.closed

    run_virtual(main())


@given(items=st.lists(st.integers(), max_size=200), capacity=st.integers(1, 70))
def test_all_items_come_in_order_whatever_the_buffer(items: list[int], capacity: int) -> None:
    async def main() -> list[int]:
        return [item async for item in from_iterable(items).buffered(capacity)]

    assert run_virtual(main()) == items


def test_a_stalled_consumer_blocks_neither_disposal_nor_a_stop() -> None:
    async def main() -> None:
        source, stop = Endless(), OneShotEvent()
        stream = concat(from_iterable(source).pipe(take_until(stop)), just("after")).buffered(2)
        assert await anext(stream) == 0
        await asyncio.sleep(60)
        assert source.read == 3
        stop.fire()
        assert source.closed, "let go of without demand"
        assert [value async for value in stream] == [1, 2, "after"]

        source = Endless()
        stream = from_iterable(source).buffered(2)
        await anext(stream)
        await asyncio.sleep(60)
        await stream.aclose()
        assert source.closed
        await turns()
        assert source.read == 3

    run_virtual(main())


def test_values_that_are_there_do_not_ask_for_demand() -> None:
    async def main() -> None:
        stream = just(*range(100)).buffered(2)
        await anext(stream)
        assert stream.statistics().received == 100

    run_virtual(main())


def test_without_a_bounded_consumer_all_comes_at_once() -> None:
    async def main() -> None:
        recorder = Recorder().listen(from_iterable(range(1000)))
        assert recorder.heard == [*range(1000), "|"]

    run_virtual(main())


def test_an_error_of_the_iterator_comes_after_its_items() -> None:
    def broken() -> Iterator[int]:
        yield from range(5)
        raise ValueError("six")

    async def main() -> None:
        assert repr((await record(from_iterable(broken()))).heard) == "[0, 1, 2, 3, 4, ValueError('six')]"
        values = from_iterable(broken()).buffered(1)
        assert [await anext(values) for _ in range(5)] == [0, 1, 2, 3, 4]
        with pytest.raises(ValueError, match="six"):
            await anext(values)
        heard: list[Any] = (await record(from_iterable(7))).heard  # type: ignore[arg-type]
        assert isinstance(heard[0], TypeError)

    run_virtual(main())


def test_reading_goes_on_in_the_subscribers_context() -> None:
    who: ContextVar[str] = ContextVar("who", default="nobody")
    seen: set[str] = set()

    async def main() -> None:
        who.set("subscriber")
        stream = from_iterable(range(50)).pipe(ops.map(lambda n: seen.add(who.get()) or n)).buffered(2)
        await anext(stream)
        who.set("puller")
        async for _ in stream:
            pass
        assert seen == {"subscriber"}

    run_virtual(main())
