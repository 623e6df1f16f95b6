"""A log's readers each see every value from their place on, and the log keeps no more than it must."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
import reactivex
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.reactive import Flow, concat, from_async_iterable, just, never, throw
from agentscope_rx.reactive.replay_log import LogReader, ReplayLog
from agentscope_rx.testing import collect_dropped, run_virtual


class Counting:
    """A fast source that notes how far it was read and how it ended; gives the loop a turn before each item."""

    def __init__(self, items: int = 1000) -> None:
        self.read = 0
        self.closed = True
        self.items = items

    def flow(self) -> Flow[int]:
        async def read() -> Any:
            self.closed = False
            try:
                for i in range(self.items):
                    await asyncio.sleep(0)
                    self.read += 1
                    yield i
            finally:
                await asyncio.sleep(0)
                self.closed = True

        return from_async_iterable(read)


async def rest(reader: LogReader[int]) -> list[int]:
    return [value async for value in reader]


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@given(st.integers(1, 6), st.lists(st.tuples(st.sampled_from(["join", "read", "leave", "turn"]), st.integers(0, 9))))
def test_readers_that_come_and_go_each_see_a_whole_stretch(capacity: int, steps: list[tuple[str, int]]) -> None:
    async def main() -> None:
        source = Counting()
        log: ReplayLog[int] = ReplayLog(capacity)
        log.open(source.flow())
        readers: list[LogReader[int]] = []
        for what, number in steps:
            if what == "join":
                readers.append(log.read(min(log.first + number, log.end)))
            elif readers and what == "leave":
                readers.pop(number % len(readers)).close()
            elif readers and what == "read":
                reader = readers[number % len(readers)]
                place = reader.position
                # with nothing to read it may be another reader that the source waits for
                assert not reader.waiting or await anext(reader) == place
            else:
                await turns(number)
            behind = [log.end - reader.position for reader in readers]
            # one item may be under way as demand is withheld
            assert max(behind, default=0) <= capacity + 1
            assert len(log.values) <= capacity + 1
            assert list(log.values) == list(range(log.first, log.end))
            assert log.dropped == (log.first - 1 if log.first else None)
            assert log.statistics().behind == max(behind, default=0)
        log.dispose()
        await log.idle()
        assert source.closed

    run_virtual(main(), patience=2)


@given(st.integers(0, 20), st.integers(0, 20), st.integers(1, 30))
def test_leaving_and_returning_loses_and_repeats_nothing(items: int, cut: int, capacity: int) -> None:
    async def main() -> None:
        log: ReplayLog[int] = ReplayLog(capacity)
        reader = log.read()
        log.open(Counting(items).flow())
        seen = [await anext(reader) for _ in range(min(cut, items))]
        place = reader.position
        reader.close()
        again = log.read(place)
        assert seen + await rest(again) == list(range(items))
        again.close()
        await log.idle()

    run_virtual(main())


def test_the_source_waits_for_the_slowest_reader() -> None:
    async def main() -> None:
        source = Counting(100)
        log: ReplayLog[int] = ReplayLog(8)
        slow, fast = log.read(), log.read()
        log.open(source.flow())
        seen = [await anext(fast) for _ in range(8)]
        await turns(50)
        assert source.read == 8 and log.statistics().withheld and log.statistics().behind == 8
        for _ in range(4):
            await anext(slow)
        seen += [await anext(fast) for _ in range(4)]
        await turns(50)
        assert source.read == 12
        slow.close()
        assert seen + await rest(fast) == list(range(100))
        fast.close()
        assert log.statistics()[:7] == (100, 92, 8, 8, 0, 0, False)

    run_virtual(main())


def test_without_readers_the_run_goes_on_within_bounds() -> None:
    async def main() -> None:
        source = Counting(100)
        log: ReplayLog[int] = ReplayLog(8)
        log.open(source.flow())
        await turns(500)
        assert log.ended.fired and source.closed
        assert list(log.values) == list(range(92, 100)) and log.dropped == 91
        with pytest.raises(LookupError, match="values 92 to 99, not 91"):
            log.read(91)
        with pytest.raises(LookupError):
            log.read(101)
        assert await rest(log.read(100)) == []

    run_virtual(main())


def test_all_values_of_one_item_are_kept_for_readers() -> None:
    async def main() -> None:
        log: ReplayLog[int] = ReplayLog(2)
        reader = log.read()
        # a stock source, which knows no demand
        log.open(reactivex.from_iterable(range(50)))
        assert await rest(reader) == list(range(50))
        assert len(log.values) == 2

    run_virtual(main())


def test_a_cancelled_read_loses_nothing() -> None:
    async def main() -> None:
        log: ReplayLog[int] = ReplayLog(2)
        reader = log.read()
        log.open(Counting(3).flow())
        seen: list[int] = []
        while True:
            try:
                async with asyncio.timeout(0):
                    seen.append(await anext(reader))
            except TimeoutError:
                continue
            except StopAsyncIteration:
                break
        assert seen == [0, 1, 2]

    run_virtual(main())


def test_every_reader_hears_the_error_after_what_it_has_to_read() -> None:
    async def main() -> None:
        log: ReplayLog[int] = ReplayLog(9)
        first = log.read()
        log.open(concat(just(1, 2), throw(StopIteration())))
        late = log.read()
        for reader in (first, late):
            assert [await anext(reader), await anext(reader)] == [1, 2]
            with pytest.raises(RuntimeError, match="StopIteration"):
                await anext(reader)

    run_virtual(main())


@pytest.mark.parametrize("first_they_leave", [False, True])
def test_an_error_that_no_reader_had_is_reported_in_the_end(first_they_leave: bool) -> None:
    async def main() -> None:
        log: ReplayLog[int] = ReplayLog(9)
        reader = log.read()
        if first_they_leave:
            reader.close()
        log.open(throw(ValueError("unheard")))
        reader.close()
        reader.close()
        assert not await reader.wait()
        assert not dropped

    with collect_dropped() as dropped:
        run_virtual(main())
        gc.collect()
    assert [str(error) for error in dropped] == ["unheard"]


def test_an_error_is_kept_for_a_reader_to_come() -> None:
    async def main() -> None:
        log: ReplayLog[int] = ReplayLog(9)
        log.open(concat(just(1), throw(ValueError("late"))))
        with pytest.raises(ValueError, match="late"):
            await rest(log.read(1))
        # its values tell of the error
        assert await rest(log.read(0, lambda: True)) == [1]

    run_virtual(main())
    gc.collect()


def test_readers_get_the_last_values_of_a_disposal() -> None:
    async def main() -> None:
        source = Counting()
        log: ReplayLog[int] = ReplayLog(2)
        reader = log.read()
        log.open(source.flow())
        assert await anext(reader) == 0
        log.dispose(-1)
        log.dispose(-2)
        assert (await rest(reader))[-1] == -1
        await log.idle()
        assert source.closed
        told: ReplayLog[int] = ReplayLog(2)
        reader = told.read()
        told.open(never())
        told.dispose(error=ValueError("stopped"))
        with pytest.raises(ValueError, match="stopped"):
            await anext(reader)

    run_virtual(main())


def test_misuse_is_said() -> None:
    async def main() -> None:
        with pytest.raises(ConfigurationError, match="at least 1"):
            ReplayLog(0)
        log: ReplayLog[int] = ReplayLog(1)
        reader = log.read()
        waiting = asyncio.ensure_future(reader.wait())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="second value"):
            await reader.wait()
        reader.close()
        assert not await waiting

    run_virtual(main())
