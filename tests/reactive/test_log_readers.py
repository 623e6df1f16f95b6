"""Subscriptions to a log: each has its place and its demand; a pause withholds demand for all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.reactive import Flow, concat, just, never, throw
from agentscope_rx.reactive.log_readers import LogFollower
from agentscope_rx.reactive.replay_log import ReplayLog
from agentscope_rx.testing import collect_dropped, run_virtual
from tests.reactive.test_replay_log import Counting, turns


def followed(log: ReplayLog[int], start: int = 0) -> Flow[int]:
    """The values of the log from this place on."""

    def connect(sink: Any, scope: Any) -> None:
        follower: LogFollower[int] = LogFollower(log, start, sink, scope)
        sink.on_subscribe(follower)
        log.join(follower)
        follower.begin()

    return Flow(connect)


STEPS = st.lists(st.tuples(st.sampled_from(["join", "plain", "read", "leave", "turn", "pause"]), st.integers(0, 9)))


@given(st.integers(1, 6), st.integers(1, 4), STEPS)
def test_subscribers_that_come_and_go_see_whole_stretches(
    capacity: int, buffer: int, steps: list[tuple[str, int]]
) -> None:
    async def main() -> None:
        source = Counting()
        log: ReplayLog[int] = ReplayLog(capacity)
        log.open(source.flow())
        pulled: list[tuple[Any, list[int]]] = []
        plain: list[tuple[Any, list[int]]] = []
        for what, number in steps:
            place = min(log.first + number, log.end)
            if what == "join":
                values = [place - 1]
                reader = followed(log, place).buffered(buffer)
                # (a first read with nothing to read would wait)
                if place < log.end:
                    values.append(await anext(reader))
                    pulled.append((reader, values))
            elif what == "plain":
                values = [place - 1]
                plain.append((followed(log, place).subscribe(values.append), values))
                await turns(1)
            elif what == "read" and pulled:
                reader, values = pulled[number % len(pulled)]
                if reader.statistics().waiting:
                    values.append(await anext(reader))
            elif what == "leave" and pulled:
                await pulled.pop(number % len(pulled))[0].aclose()
            elif what == "pause":
                log.pause()
                read = source.read
                await turns(number)
                assert source.read <= read + 1
                log.resume()
            else:
                await turns(number)
            for _, values in plain:
                assert values[-1] == log.end - 1, "a subscriber without demand is never behind"
            for reader, values in pulled:
                assert len(values) + reader.statistics().waiting <= log.end - values[0]
                assert reader.statistics().waiting <= buffer
            assert len(log.values) <= capacity + max(map(_unread(log), pulled), default=0) + 1
            for _, values in (*pulled, *plain):
                assert values == list(range(values[0], values[0] + len(values)))
        assert log.readers == len(pulled) + len(plain)
        for reader, _ in pulled:
            await reader.aclose()
        for subscription, _ in plain:
            subscription.dispose()
        assert log.readers == 0
        log.dispose()
        await log.idle()
        assert source.closed

    run_virtual(main(), patience=2)


def _unread(log: ReplayLog[int]) -> Any:
    return lambda each: log.end - each[1][-1]


def test_a_stalled_subscriber_withholds_demand_until_it_leaves() -> None:
    async def main() -> None:
        source = Counting(100)
        log: ReplayLog[int] = ReplayLog(8)
        log.open(source.flow())
        values: list[int] = []
        followed(log).subscribe(values.append)
        stalled = followed(log).buffered(4)
        await anext(stalled)
        await turns(50)
        assert source.read <= 7 and values == list(range(source.read))
        statistics = log.statistics()
        assert statistics.withheld and statistics.behind == source.read - 5 and statistics.overshoot == (0, 0)
        assert sorted(log.behind()) == [0, source.read - 1]
        await stalled.aclose()
        await turns(300)
        assert values == list(range(100)) and log.ended.fired

    run_virtual(main())


def test_values_that_are_needed_count_as_overshoot() -> None:
    async def main() -> None:
        log: ReplayLog[int] = ReplayLog(4, size_of=lambda value: 10, max_bytes=30)
        stalled = followed(log).buffered(1)
        waiting = asyncio.ensure_future(anext(stalled))
        await turns(2)
        # a source that knows no demand
        log.open(just(*range(20)))
        statistics = log.statistics()
        assert await waiting == 0
        assert (statistics.kept, statistics.overshoot.items) == (19, 15)
        assert (statistics.bytes, statistics.max_bytes, statistics.overshoot.bytes) == (190, 30, 160)
        assert [value async for value in stalled] == list(range(1, 20))
        assert log.statistics()[2] == 3

    run_virtual(main())


def test_the_end_comes_behind_the_last_value() -> None:
    async def main() -> None:
        log: ReplayLog[int] = ReplayLog(8)
        log.open(concat(just(1, 2, 3), throw(ValueError("over"))))
        for start in range(4):
            seen: list[object] = []
            followed(log, start).subscribe(seen.append, seen.append)
            assert not seen, "not before subscribe has returned"
            await turns(2)
            assert seen[:-1] == [1, 2, 3][start:] and str(seen[-1]) == "over"
        with pytest.raises(ValueError, match="over"):
            await followed(log, 3)

    run_virtual(main())


def test_one_that_leaves_at_once_gets_nothing() -> None:
    async def main() -> None:
        log: ReplayLog[int] = ReplayLog(8)
        log.open(concat(just(1, 2), never()))
        seen: list[int] = []
        followed(log).subscribe(seen.append).dispose()
        await turns(3)
        assert not seen and log.readers == 0
        log.dispose()

    run_virtual(main())


def test_a_sink_that_raises_ends_its_own_subscription() -> None:
    class Raising:
        def on_subscribe(self, upstream: object) -> None: ...

        def on_next(self, value: int) -> None:
            raise ZeroDivisionError("a broken operator")

    async def main() -> None:
        log: ReplayLog[int] = ReplayLog(8)
        sink: Any = Raising()
        broken: LogFollower[int] = LogFollower(log, 0, sink, log.scope)
        log.join(broken)
        broken.begin()
        seen: list[int] = []
        followed(log).subscribe(seen.append)
        errors: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
        await turns(2)
        log.open(just(1, 2))
        await turns(2)
        assert seen == [1, 2] and log.readers == 0
        assert [type(error["exception"]) for error in errors] == [ZeroDivisionError]

    with collect_dropped():
        run_virtual(main())
