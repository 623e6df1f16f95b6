"""`conflate`: the latest value as often as it is read, the last one at the end, and a source that never waits."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.reactive import Flow, concat, conflate, just, never, then, throw, timer
from agentscope_rx.testing import run_virtual
from tests.reactive.recorder import Recorder


def at(*times: float) -> Flow[float]:
    """Each time as a value, when it has come."""
    parts = [
        timer(time - before).pipe(then(lambda time=time: just(time)))
        for before, time in zip((0, *times), times, strict=False)
    ]
    return concat(*parts)


def test_one_value_in_each_interval():
    async def main() -> Recorder:
        return await Recorder().listen(at(1, 2, 3, 9, 10, 14).pipe(conflate(3))).end()

    heard = run_virtual(main())
    assert heard.heard == [1, 3, 9, 10, 14, "|"]
    # 2 is replaced; the end brings 14, which is not due
    assert heard.at == [1, 4, 9, 12, 14, 14]


@given(st.lists(st.floats(0.01, 5), min_size=1, max_size=20), st.floats(0, 3))
def test_first_and_last_are_emitted_in_order(gaps: list[float], every: float):
    times = [sum(gaps[: n + 1]) for n in range(len(gaps))]

    async def main() -> Recorder:
        return await Recorder().listen(at(*times).pipe(conflate(every))).end()

    heard = run_virtual(main())
    *values, end = heard.heard
    assert end == "|" and values[0] == times[0] and values[-1] == times[-1]
    assert values == sorted(values) and len(values) == len(set(values))
    # all but the one that the end brings keep the distance
    distances = [later - earlier for earlier, later in zip(heard.at, heard.at[1:-2], strict=False)]
    assert all(distance >= every - 1e-6 for distance in distances)


def test_a_slow_reader_sees_the_latest_and_slows_nothing():
    read: list[int] = []
    made: list[float] = []

    def number(each: int) -> Flow[int]:
        def note() -> Flow[int]:
            made.append(asyncio.get_running_loop().time())
            return just(each)

        return timer(1).pipe(then(note))

    async def main() -> None:
        numbers = concat(*map(number, range(20))).pipe(conflate())
        async for each in numbers.buffered(1):
            read.append(each)
            await asyncio.sleep(5)

    run_virtual(main())
    assert made == [float(n) for n in range(1, 21)]
    assert read[0] == 0 and read[-1] == 19 and len(read) <= 8


def test_an_error_comes_behind_the_last_value():
    async def main() -> Recorder:
        source = concat(just(1, 2), throw(ValueError("x")))
        return await Recorder().listen(source.pipe(conflate(60))).end()

    heard = run_virtual(main()).heard
    assert heard[:2] == [1, 2] and isinstance(heard[2], ValueError)


def test_disposal_stops_timer_and_source():
    async def main() -> Recorder:
        heard = Recorder().listen(concat(just(1, 2), never()).pipe(conflate(60)))
        await asyncio.sleep(1)
        heard.dispose()
        await asyncio.sleep(120)
        return heard

    assert run_virtual(main()).heard == [1]


def test_disposal_inside_of_the_last_value():
    async def main() -> Recorder:
        return await Recorder(dispose_at=2).listen(at(1, 2).pipe(conflate(60))).end()

    assert run_virtual(main()).heard == [1, 2]


@pytest.mark.parametrize("every", [-1, float("nan")])
def test_bad_interval(every: float):
    with pytest.raises(ConfigurationError, match="every"):
        conflate(every)
