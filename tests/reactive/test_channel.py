"""A channel's bound holds by its policy, and a full one never blocks disposal."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex.subject import Subject

from agentscope_rx.errors import ChannelFullError, ConfigurationError
from agentscope_rx.reactive import (
    Flow,
    Overflow,
    concat,
    concat_map,
    flow,
    from_async_iterable,
    iterate_on_worker,
    just,
)
from agentscope_rx.reactive.channel import Channel
from agentscope_rx.reactive.kernel.bridge import FlowIterator
from agentscope_rx.testing import collect_dropped, run_virtual
from tests.reactive.recorder import after, turns


class Counting:
    """A fast source that notes how far it was read and how it ended."""

    def __init__(self, items: int = 1000) -> None:
        self.read = 0
        self.closed = False
        self.items = items

    def flow(self) -> Flow[int]:
        async def read() -> Any:
            try:
                for i in range(self.items):
                    self.read += 1
                    yield i
            finally:
                self.closed = True

        return from_async_iterable(read)


@given(capacity=st.integers(1, 9), pauses=st.lists(st.integers(0, 3), min_size=1, max_size=30))
def test_wait_bounds_how_far_the_source_is_ahead(capacity: int, pauses: list[int]) -> None:
    async def main() -> None:
        source = Counting()
        iterator = FlowIterator(source.flow(), capacity)
        for n, pause in enumerate(pauses, 1):
            assert await anext(iterator) == n - 1
            await asyncio.sleep(pause)
            assert source.read <= n + capacity
        await iterator.aclose()
        assert source.closed

    run_virtual(main())


@given(items=st.integers(0, 40), capacity=st.integers(1, 5))
def test_wait_loses_nothing(items: int, capacity: int) -> None:
    async def main() -> None:
        iterator = FlowIterator(Counting(items).flow(), capacity)
        seen = []
        async for value in iterator:
            seen.append(value)
            if value % 3 == 0:
                await asyncio.sleep(1)
        assert seen == list(range(items))
        statistics = iterator.statistics()
        assert (statistics.received, statistics.delivered, statistics.dropped) == (items, items, 0)

    run_virtual(main())


def test_demand_reaches_through_kernel_and_stock_operators() -> None:
    from reactivex import operators as ops

    async def main() -> None:
        source = Counting()
        piped = source.flow().pipe(ops.map(lambda i: i + 1), concat_map(just), ops.filter(lambda i: True))
        iterator = FlowIterator(piped, 4)
        assert await anext(iterator) == 1
        await asyncio.sleep(100)
        assert source.read <= 5
        await iterator.aclose()
        assert source.closed

    run_virtual(main())


def test_a_blocking_generator_waits_for_demand_too() -> None:
    read: list[int] = []

    def items() -> Any:
        for i in range(1000):
            read.append(i)
            yield i

    async def main() -> None:
        iterator = FlowIterator(iterate_on_worker(items), 3)
        assert await anext(iterator) == 0
        await asyncio.sleep(100)
        assert len(read) <= 4
        await iterator.aclose()

    run_virtual(main())


@pytest.mark.parametrize(
    ("policy", "kept"),
    [(Overflow.DROP_OLDEST, [7, 8, 9]), (Overflow.DROP_NEWEST, [0, 1, 2]), (Overflow.WAIT, range(10))],
)
def test_policies(policy: Overflow, kept: Any) -> None:
    async def main() -> None:
        subject: Subject[int] = Subject()
        iterator = FlowIterator(flow(subject), 3, policy)
        first = asyncio.ensure_future(anext(iterator))
        await turns()
        subject.on_next(-1)
        assert await first == -1
        for i in range(10):
            subject.on_next(i)
        statistics = iterator.statistics()
        assert statistics.waiting == len(kept)
        assert statistics.dropped == 10 - len(kept)
        assert statistics.withheld == (policy is Overflow.WAIT)
        subject.on_completed()
        assert [value async for value in iterator] == list(kept)

    run_virtual(main())


def test_fail_ends_the_run_and_tells_the_consumer() -> None:
    async def main() -> None:
        source = Counting()
        iterator = FlowIterator(source.flow(), 3, Overflow.FAIL)
        seen = []

        async def read_slowly() -> None:
            while True:
                seen.append(await anext(iterator))
                await turns()

        with pytest.raises(ChannelFullError) as caught:
            await read_slowly()
        assert caught.value.capacity == 3
        assert seen == list(range(len(seen)))
        assert source.read < 10
        await turns()
        assert source.closed

    run_virtual(main())


def test_the_bound_is_at_least_one() -> None:
    async def main() -> None:
        with pytest.raises(ConfigurationError):
            await anext(FlowIterator(just(1), 0))

    run_virtual(main())


def test_a_cancelled_pull_loses_nothing() -> None:
    async def main() -> None:
        channel_source = concat(after(1, 1), after(1, 2))
        channel: Any = Channel()
        channel.open(channel_source)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await channel.pull()
        assert [await channel.pull(), await channel.pull()] == [1, 2]
        with pytest.raises(StopAsyncIteration):
            await channel.pull()

    run_virtual(main())


def test_two_pulls_at_once_are_refused_and_neither_hangs() -> None:
    async def main() -> None:
        iterator = FlowIterator(after(5, 1))
        outcomes = await asyncio.gather(anext(iterator), anext(iterator, "end"), return_exceptions=True)
        assert sum(isinstance(outcome, RuntimeError) for outcome in outcomes) == 1
        await iterator.aclose()

    run_virtual(main())


def test_an_error_behind_unread_items_is_not_lost() -> None:
    async def main() -> None:
        iterator = FlowIterator(after(0, 1, 2, error=ValueError("unread")))
        assert await anext(iterator) == 1
        await turns()
        await iterator.aclose()

    with collect_dropped() as dropped:
        run_virtual(main())
    assert repr(dropped) == "[ValueError('unread')]"


def test_an_error_comes_after_the_items_before_it() -> None:
    async def main() -> None:
        seen = []

        async def read_slowly() -> None:
            async for value in FlowIterator(after(0, 1, 2, 3, error=ValueError("end")), 1):
                seen.append(value)
                await asyncio.sleep(1)

        with pytest.raises(ValueError, match="end"):
            await read_slowly()
        assert seen == [1, 2, 3]

    run_virtual(main())
