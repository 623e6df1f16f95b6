"""A log knows its slowest reader without asking all: the same as a model that asks all, at a cost by the readers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx.reactive import Flow, FlowIterator
from agentscope_rx.reactive.log_readers import LogFollower, LogReader
from agentscope_rx.reactive.replay_log import ReplayLog
from agentscope_rx.testing import run_virtual
from tests.reactive.test_replay_log import turns

MOST = 20
COUNTED = ("reactive/replay_log.py", "reactive/log_readers.py", "kernel/subscription.py")


def followed(log: ReplayLog[int], start: int) -> Flow[int]:
    """The values of the log from this place on."""

    def connect(sink: Any, scope: Any) -> None:
        follower: LogFollower[int] = LogFollower(log, start, sink, scope)
        sink.on_subscribe(follower)
        log.join(follower)
        follower.begin()

    return Flow(connect)


def size(value: int) -> int:
    return value % 7 + 1


class Model:
    """What a log has to do, found by asking all readers at each moment."""

    def __init__(self, log: ReplayLog[int], capacity: int, max_bytes: int | None) -> None:
        self.log = log
        self.capacity = capacity
        self.max_bytes = max_bytes

    def full(self, values: list[int]) -> bool:
        return len(values) > self.capacity or (self.max_bytes is not None and sum(map(size, values)) > self.max_bytes)

    def check(self) -> None:
        log = self.log
        positions = [reader.position for reader in log._readers]
        stalled = any(getattr(reader, "_stalled", False) for reader in log._readers)
        slowest = min(positions, default=log.end)
        values = list(log.values)
        counts = log.statistics()
        assert (counts.behind, counts.readers) == (log.end - slowest, len(positions))
        assert values == list(range(log.first, log.end)) and log.first <= slowest
        assert not self.full(values) or log.first == slowest, "a value is kept that nobody needs"
        if self.max_bytes is not None:
            assert counts.bytes == sum(map(size, values))
        large = self.max_bytes is not None and sum(map(size, values)) > self.max_bytes
        behind = log.end - slowest
        if stalled or log.paused or large or behind > self.capacity:
            assert counts.withheld
        elif behind < self.capacity // 2 + 1:
            assert not counts.withheld


class Life:
    """A log and readers of all kinds, each with what it has seen."""

    def __init__(self, capacity: int, max_bytes: int | None) -> None:
        self.log: ReplayLog[int] = ReplayLog(capacity, size_of=None if max_bytes is None else size, max_bytes=max_bytes)
        self.model = Model(self.log, capacity, max_bytes)
        self.pulling: list[tuple[LogReader[int], list[int]]] = []
        self.plain: list[tuple[Any, list[int]]] = []
        self.buffered: list[tuple[FlowIterator[int], list[int], Any]] = []
        self.adding = 0

    @property
    def readers(self) -> int:
        return len(self.pulling) + len(self.plain) + len(self.buffered)

    def add(self, count: int) -> None:
        for _ in range(count):
            # a source reads on while it is asked to
            if self.log.demand.ready:
                self.log.add(self.log.end)

    async def step(self, what: str, number: int) -> None:
        place = min(self.log.first + number, self.log.end)
        if what == "add":
            self.add(number)
        elif what == "pause":
            self.log.pause()
        elif what == "resume":
            self.log.resume()
        elif what == "turn":
            await turns(number)
        elif what == "leave":
            await self.leave(number)
        elif what == "take":
            self.take(number)
        elif self.readers < MOST:
            await self.join(what, place, number)

    async def join(self, what: str, place: int, number: int) -> None:
        seen = [place - 1]
        if what == "pull":
            self.pulling.append((self.log.read(place), seen))
        elif what == "plain":
            self.plain.append((followed(self.log, place).subscribe(seen.append), seen))
        elif what == "nested":

            def note(value: int) -> None:
                seen.append(value)
                if self.adding < 5 and self.log.demand.ready:
                    # a callback that adds a value itself
                    self.adding += 1
                    self.log.add(self.log.end)

            self.adding = 0
            self.plain.append((followed(self.log, place).subscribe(note), seen))
        else:
            iterator = followed(self.log, place).buffered(number % 3 + 1)
            self.buffered.append((iterator, seen, asyncio.ensure_future(anext(iterator))))
        await turns(2)

    def take(self, number: int) -> None:
        if self.pulling:
            reader, seen = self.pulling[number % len(self.pulling)]
            if reader.waiting:
                seen.append(reader.take())
        for at, (iterator, seen, task) in enumerate(self.buffered):
            if at % 2 == number % 2 and task.done():
                seen.append(task.result())
                self.buffered[at] = (iterator, seen, asyncio.ensure_future(anext(iterator)))

    async def leave(self, number: int) -> None:
        kind = number % 3
        if kind == 0 and self.pulling:
            self.pulling.pop(number % len(self.pulling))[0].close()
        elif kind == 1 and self.plain:
            self.plain.pop(number % len(self.plain))[0].dispose()
        elif self.buffered:
            await self.close(*self.buffered.pop(number % len(self.buffered)))

    async def close(self, iterator: FlowIterator[int], seen: list[int], task: Any) -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await iterator.aclose()

    def check(self) -> None:
        self.model.check()
        kinds = (self.pulling, self.plain, [each[:2] for each in self.buffered])
        for _, seen in (each for kind in kinds for each in kind):
            assert seen == list(range(seen[0], seen[0] + len(seen)))
        for reader, seen in self.pulling:
            assert seen[-1] == reader.position - 1
        for _, seen in self.plain:
            assert seen[-1] == self.log.end - 1

    async def end(self) -> None:
        end = self.log.end
        for reader, seen in self.pulling:
            seen.extend([await anext(reader) for _ in range(reader.waiting)])
            assert seen[-1] == end - 1
        self.log.dispose()
        for iterator, seen, task in self.buffered:
            for value in await asyncio.gather(task, return_exceptions=True):
                if not isinstance(value, StopAsyncIteration):
                    seen.append(value)
                    seen.extend([value async for value in iterator])
            assert seen[-1] == end - 1, "a reader loses nothing"
        for reader, _ in self.pulling:
            assert not await reader.wait()
            reader.close()
        assert self.log.readers == 0 and not self.log._counts and not self.log._live and self.log.stalled == 0
        self.check_end(end)

    def check_end(self, end: int) -> None:
        for kind in (self.pulling, self.plain):
            assert all(seen == list(range(seen[0], end)) for _, seen in kind)


ACTIONS = (
    "add",
    "add",
    "add",
    "take",
    "take",
    "take",
    "turn",
    "pull",
    "pull",
    "plain",
    "nested",
    "buffer",
    "leave",
    "leave",
)
STEPS = st.lists(
    st.tuples(st.sampled_from((*ACTIONS, "pause", "resume")), st.integers(0, 12)), min_size=10, max_size=60
)


@settings(max_examples=300)
@given(st.integers(1, 8), st.none() | st.integers(1, 40), STEPS)
def test_it_does_as_a_model_that_asks_all_readers(
    capacity: int, max_bytes: int | None, steps: list[tuple[str, int]]
) -> None:
    async def main() -> None:
        life = Life(capacity, max_bytes)
        for what, number in steps:
            await life.step(what, number)
            await turns(3)
            life.check()
        life.log.resume()
        await life.end()

    run_virtual(main(), patience=2)


async def _counted(main: Callable[[], Any]) -> int:
    calls = 0

    def note(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename.endswith(COUNTED)

    sys.setprofile(note)
    try:
        await main()
    finally:
        sys.setprofile(None)
    return calls


def calls_per_value(kind: str, readers: int, max_bytes: int | None) -> float:
    """The Python calls that a value costs, in all; some readers take a value only now and then."""
    values = 40

    async def main() -> float:
        log: ReplayLog[int] = ReplayLog(4 * values, size_of=None if max_bytes is None else size, max_bytes=max_bytes)
        tasks: list[asyncio.Task[None]] = []
        seen: list[int] = []

        async def read(reader: LogReader[int], slow: bool) -> None:
            async for value in reader:
                seen.append(value)
                await turns(2 * slow)

        for number in range(readers):
            if kind == "pull" or (kind != "subscribe" and number % 2):
                tasks.append(asyncio.ensure_future(read(log.read(), kind == "slow" and number % 10 == 1)))
            else:
                followed(log, 0).subscribe(seen.append)
        await turns(2)

        async def feed() -> None:
            for number in range(values):
                log.add(number)
                await turns(1)
            await turns(4 * values)

        calls = await _counted(feed)
        assert len(seen) == values * readers
        log.dispose()
        await asyncio.gather(*tasks)
        return calls / values

    return run_virtual(main(), patience=2)


@pytest.mark.parametrize("max_bytes", [None, 1 << 20])
@pytest.mark.parametrize(("kind", "most"), [("subscribe", 1), ("pull", 6), ("mixed", 4), ("slow", 4)])
def test_a_value_costs_a_few_calls_for_each_reader(kind: str, most: int, max_bytes: int | None) -> None:
    ten, hundred, thousand = (calls_per_value(kind, readers, max_bytes) for readers in (10, 100, 1_000))
    assert hundred <= 10 * ten and thousand <= 10 * hundred
    assert hundred <= 100 * most + 5, hundred
