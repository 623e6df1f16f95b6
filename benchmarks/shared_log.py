"""What a `ReplayLog` costs a value with many readers, beside a plain fan-out that does no more than hand values over.

    python -m benchmarks.shared_log            every way and number of readers: CPU in us per value, and the ratio
    python -m benchmarks.shared_log pull 100   one of them

| way         | readers of the log                              | the plain fan-out                                   |
|-------------|-------------------------------------------------|-----------------------------------------------------|
| `subscribe` | subscriptions with a callback each              | one loop over the same callbacks                    |
| `pull`      | readers, each in a task that reads all          | one loop over `asyncio.Queue`s, each read by a task |
| `mixed`     | of both kinds, turn about                       | both, turn about                                    |
| `slow`      | as mixed; every tenth reads at every tenth turn | the same                                            |

The source gives the loop a turn after each `BURST` values, as a model's stream does after each network read. The log
counts bytes; the column `unsized` is of one without `size_of`.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import NamedTuple

from agentscope_rx.reactive import Flow, Scope
from agentscope_rx.reactive.kernel.observer import Sink
from agentscope_rx.reactive.log_readers import LogFollower, LogReader
from agentscope_rx.reactive.replay_log import ReplayLog

WAYS = ("subscribe", "pull", "mixed", "slow")
READERS = (1, 3, 100, 1_000)
BURST = 4
DELIVERIES = 60_000
ROUNDS = 5


class Value(NamedTuple):
    """A value of a run."""

    event: int
    size: int = 100


class Counted:
    """What a subscriber does with a value: as little as a callback in Python can."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def note(self, event: object) -> None:
        """A value came."""
        self.count += 1


def _pulls(way: str, number: int) -> bool:
    return way == "pull" or (way in ("mixed", "slow") and number % 2 == 1)


def _pause(way: str, number: int) -> int:
    return 10 if way == "slow" and number % 10 == 1 else 0


async def _feed(values: list[Value], add: Callable[[Value], object]) -> None:
    for number, value in enumerate(values):
        add(value)
        if number % BURST == BURST - 1:
            await asyncio.sleep(0)


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


Main = Callable[[], Awaitable[tuple[int, float]]]
"""Returns how many values were seen, and the CPU seconds from the first value to the end."""


def plain(way: str, readers: int, values: list[Value]) -> Main:
    """The fan-out by hand."""

    async def main() -> tuple[int, float]:
        seen = [Counted() for _ in range(readers)]
        calls: list[Callable[[object], object]] = []
        ends: list[Callable[[object], object]] = []
        tasks: list[asyncio.Task[None]] = []

        async def read(queue: asyncio.Queue[object], note: Callable[[object], object], pause: int) -> None:
            while (event := await queue.get()) is not None:
                note(event)
                if pause:
                    await _turns(pause)

        for number, each in enumerate(seen):
            if _pulls(way, number):
                queue: asyncio.Queue[object] = asyncio.Queue()
                calls.append(queue.put_nowait)
                ends.append(queue.put_nowait)
                tasks.append(asyncio.ensure_future(read(queue, each.note, _pause(way, number))))
            else:
                calls.append(each.note)

        def add(value: Value) -> None:
            for call in calls:
                call(value.event)

        await asyncio.sleep(0)
        begin = time.process_time()
        await _feed(values, add)
        for end in ends:
            end(None)
        await asyncio.gather(*tasks)
        return sum(each.count for each in seen), time.process_time() - begin

    return main


def logged(way: str, readers: int, values: list[Value], *, sized: bool = True) -> Main:
    """The same through a log."""

    async def main() -> tuple[int, float]:
        seen = [Counted() for _ in range(readers)]
        log: ReplayLog[Value] = ReplayLog(
            10_000,
            size_of=attrgetter("size") if sized else None,
            max_bytes=1 << 24 if sized else None,
            pushed=attrgetter("event"),
        )
        tasks: list[asyncio.Task[None]] = []

        async def read(reader: LogReader[Value], note: Callable[[object], object], pause: int) -> None:
            async for value in reader:
                note(value.event)
                if pause:
                    await _turns(pause)
            reader.close()

        for number, each in enumerate(seen):
            if _pulls(way, number):
                tasks.append(asyncio.ensure_future(read(log.read(), each.note, _pause(way, number))))
            else:
                _followed(log).subscribe(each.note)
        await asyncio.sleep(0)
        begin = time.process_time()
        await _feed(values, log.add)
        log.dispose()
        await asyncio.gather(*tasks)
        return sum(each.count for each in seen), time.process_time() - begin

    return main


def _followed(log: ReplayLog[Value]) -> Flow[object]:
    def connect(sink: Sink[object], scope: Scope) -> None:
        follower: LogFollower[Value] = LogFollower(log, 0, sink, scope)
        sink.on_subscribe(follower)
        log.join(follower)
        follower.begin()

    return Flow(connect)


async def _run(main: Main) -> tuple[int, float]:
    return await main()


def measure(way: str, readers: int) -> tuple[float, float, float]:
    """CPU in us per value, turn about: plain, through a log, through a log that counts no bytes; medians."""
    count = max(DELIVERIES // readers, 200)
    values = [Value(number) for number in range(count)]
    cases = (plain(way, readers, values), logged(way, readers, values), logged(way, readers, values, sized=False))
    spent: list[list[float]] = [[], [], []]
    for _ in range(ROUNDS):
        for main, times in zip(cases, spent, strict=True):
            gc.collect()
            seen, seconds = asyncio.run(_run(main))
            assert seen == readers * count, f"{seen} values of {readers * count} were seen"
            times.append(seconds / count * 1e6)
    medians = [statistics.median(times) for times in spent]
    return medians[0], medians[1], medians[2]


def main() -> None:
    """Measure and print."""
    ways = (sys.argv[1],) if len(sys.argv) > 1 else WAYS
    counts = (int(sys.argv[2]),) if len(sys.argv) > 2 else READERS
    print(f"{'':12}{'readers':>8}{'plain':>10}{'log':>10}{'ratio':>8}{'unsized':>10}{'ratio':>8}")
    for way in ways:
        for readers in counts:
            by_hand, sized, unsized = measure(way, readers)
            ratios = f"{sized:10.2f}{sized / by_hand:7.1f}x{unsized:10.2f}{unsized / by_hand:7.1f}x"
            print(f"{way:12}{readers:>8,}{by_hand:10.2f}{ratios}", flush=True)


if __name__ == "__main__":
    main()
