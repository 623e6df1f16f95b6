"""COALESCE: what is merged is all there, what is not keeps its place, and the bound holds, at any speeds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex.subject import Subject

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.reactive import (
    Buffering,
    ChannelStatistics,
    Flow,
    Overflow,
    flat_map_iterable,
    flow,
    from_async_iterable,
    just,
)
from agentscope_rx.testing import run_virtual
from tests.reactive.recorder import turns


class Control:
    """Something that must come through as it is."""


def join(waiting: Any, item: Any) -> Any:
    """Texts merge, up to 10 characters."""
    if isinstance(waiting, str) and isinstance(item, str) and len(waiting) + len(item) <= 10:
        return waiting + item
    return None


def gist(items: list[Any]) -> list[Any]:
    """The items with adjacent texts joined: what must be the same on both sides."""
    said: list[Any] = []
    for item in items:
        if said and isinstance(item, str) and isinstance(said[-1], str):
            said[-1] += item
        else:
            said.append(item)
    return said


PAUSES = st.sampled_from([0, 0, 0, 1, 2, 5, 30])
ITEMS = st.text("abc", min_size=1, max_size=3) | st.builds(Control)


@given(
    script=st.lists(st.tuples(PAUSES, st.lists(ITEMS, min_size=1, max_size=3)), max_size=40),
    paces=st.lists(PAUSES, min_size=1, max_size=20),
    capacity=st.integers(1, 5),
)
def test_nothing_is_lost_and_the_bound_holds(script: Any, paces: list[int], capacity: int) -> None:
    """Each read of the source expands to up to three items; the consumer takes its time."""

    async def main() -> None:
        sent: list[Any] = []

        async def read() -> AsyncIterator[list[Any]]:
            for pause, items in script:
                await asyncio.sleep(pause)
                assert events.statistics().waiting <= capacity, "read on although an unmergeable item had no place"
                sent.extend(items)
                yield items

        source: Flow[Any] = from_async_iterable(read).pipe(flat_map_iterable(lambda items: items))
        events = source.buffered(capacity, coalesce=join)
        seen: list[Any] = []
        async for item in events:
            seen.append(item)
            counts = events.statistics()
            assert counts.received == counts.waiting + counts.delivered + counts.merged
            assert counts.waiting <= capacity + 3
            await asyncio.sleep(paces[len(seen) % len(paces)])
        assert gist(seen) == gist(sent)
        assert [item for item in seen if isinstance(item, Control)] == [i for i in sent if isinstance(i, Control)]
        assert events.statistics().received == len(sent)

    run_virtual(main())


def test_a_fast_reader_sees_all_items_a_slow_one_merged() -> None:
    async def main() -> None:
        subject: Subject[str] = Subject()
        events = flow(subject).buffered(2, coalesce=lambda a, b: a + b)
        first = asyncio.ensure_future(anext(events))
        await turns()
        subject.on_next("a")
        assert await first == "a"
        second = asyncio.ensure_future(anext(events))
        await turns()
        for letter in "bcdefg":
            subject.on_next(letter)
        assert events.statistics() == ChannelStatistics(1, 2, 7, 1, 0, 5, False)
        assert await second == "bcdefg"
        subject.on_completed()
        assert [event async for event in events] == []

    run_virtual(main())


@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_a_full_buffer_reads_on_while_items_merge(capacity: int) -> None:
    read: list[object] = []

    async def items() -> AsyncIterator[object]:
        for item in ["first", *range(1, capacity), *"text", 8, 9, "more"]:
            await asyncio.sleep(0.1)
            read.append(item)
            yield item

    async def main() -> None:
        events = from_async_iterable(items).buffered(capacity, coalesce=join)
        assert await anext(events) == "first"
        await asyncio.sleep(10)
        assert read[-1] == 8
        assert events.statistics().withheld
        assert events.statistics().waiting == capacity + 1
        assert [event async for event in events] == [*range(1, capacity), "text", 8, 9, "more"]

    run_virtual(main())


def test_what_coalesce_raises_is_the_error_of_the_stream() -> None:
    def broken(waiting: int, item: int) -> int:
        raise ZeroDivisionError("merging")

    async def main() -> None:
        closed: list[bool] = []

        async def items() -> AsyncIterator[int]:
            try:
                for i in range(10):
                    yield i
            finally:
                closed.append(True)

        seen: list[int] = []

        async def read_slowly() -> None:
            async for item in from_async_iterable(items).buffered(4, coalesce=broken):
                seen.append(item)
                await turns()

        with pytest.raises(ZeroDivisionError, match="merging"):
            await read_slowly()
        assert seen == list(range(len(seen)))
        await turns()
        assert closed == [True]

    run_virtual(main())


def test_a_full_channel_is_disposed_at_once() -> None:
    async def main() -> None:
        log: list[str] = []

        async def items() -> AsyncIterator[object]:
            try:
                for _ in range(100):
                    yield object()
            finally:
                log.append("closed")

        async with from_async_iterable(items).buffered(2, coalesce=join) as events:
            await anext(events)
            await asyncio.sleep(1)
            assert events.statistics().withheld
        assert log == ["closed"]
        with pytest.raises(StopAsyncIteration):
            await anext(events)

    run_virtual(main())


@pytest.mark.parametrize(
    "options",
    [
        {"capacity": 0},
        {"overflow": Overflow.COALESCE},
        {"overflow": Overflow.WAIT, "coalesce": join},
        {"overflow": "sometimes"},
    ],
)
def test_what_makes_no_sense_is_said_at_once(options: Any) -> None:
    with pytest.raises(ConfigurationError):
        just(1).buffered(**options)


def test_policies_can_be_named_by_their_text() -> None:
    assert Buffering(3, "drop_oldest").overflow is Overflow.DROP_OLDEST  # type: ignore[arg-type]


def test_buffered_is_for_one_use() -> None:
    async def main() -> None:
        events = just(1, 2).buffered(8)
        assert events.statistics() == ChannelStatistics(0, 8, 0, 0, 0, 0, False)
        assert [event async for event in events] == [1, 2]
        assert [event async for event in events] == []
        assert events.statistics().delivered == 2

    run_virtual(main())
