"""timeout: three deadlines, exact by the loop's clock, two of which stand still while demand is withheld."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex.subject import Subject

from agentscope_rx.errors import ConfigurationError, DeadlineError
from agentscope_rx.reactive import Flow, concat, flat_map, from_async_iterable, just, never, timeout, timer
from agentscope_rx.reactive.kernel.bridge import FlowIterator
from agentscope_rx.testing import run_virtual
from tests.reactive.recorder import Recorder, record


def paced(*pauses: float, log: list[str] | None = None) -> Flow[int]:
    async def items() -> Any:
        try:
            for i, pause in enumerate(pauses):
                if pause:
                    await asyncio.sleep(pause)
                if i < len(pauses) - 1:
                    yield i
        finally:
            if log is not None:
                log.append("closed")

    return from_async_iterable(items)


@given(
    pauses=st.lists(st.integers(0, 6), min_size=1, max_size=6),
    first=st.none() | st.integers(1, 6),
    idle=st.none() | st.integers(1, 6),
    total=st.none() | st.integers(1, 20),
)
def test_against_the_definition(pauses: list[int], first: int | None, idle: int | None, total: int | None) -> None:
    # no two events at the same time: pauses in whole seconds, limits a bit beyond
    limits = {
        "first": first and first + 0.25,
        "idle": idle and idle + 0.125,
        "total": total and total + 0.0625,
    }

    def expected() -> tuple[list[Any], float]:
        now = 0.0
        values: list[Any] = []
        for i, pause in enumerate(pauses):
            pace = "idle" if i else "first"
            due = [(now + limits[pace], pace)] if limits[pace] else []
            due += [(limits["total"], "total")] if limits["total"] else []
            if due and min(due)[0] < now + pause:
                return [*values, min(due)[1]], min(due)[0]
            now += pause
            values.append(i if i < len(pauses) - 1 else "|")
        return values, now

    async def main() -> None:
        log: list[str] = []
        recorder = await record(paced(*pauses, log=log).pipe(timeout(**limits)))
        heard = [one.which if isinstance(one, DeadlineError) else one for one in recorder.heard]
        assert (heard, recorder.at[-1]) == expected()
        for _ in range(3):
            await asyncio.sleep(0)
        assert log == ["closed"]

    run_virtual(main())


def test_the_error_says_which_deadline_of_what() -> None:
    async def main() -> None:
        with pytest.raises(DeadlineError, match=r"gave no first item within 2 s") as caught:
            await never().pipe(timeout(first=2))
        assert (caught.value.which, caught.value.limit) == ("first", 2)

        class Mine(Exception):
            pass

        with pytest.raises(Mine, match="total 3"):
            await never().pipe(timeout(total=3, error=lambda which, limit: Mine(f"{which} {limit}")))

        def broken(which: str, limit: float) -> Exception:
            raise TypeError("error")

        with pytest.raises(TypeError):
            await never().pipe(timeout(idle=1, total=3, error=broken))

    run_virtual(main())


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_that_cannot_work_is_refused_where_it_is_given(limit: float) -> None:
    with pytest.raises(ConfigurationError):
        timeout(first=limit)


def test_no_deadline_is_no_operator() -> None:
    async def main() -> None:
        assert (await record(just(1).pipe(timeout()))).heard == [1, "|"]
        recorder = Recorder().listen(never().pipe(timeout(first=5, idle=5, total=50)))
        await asyncio.sleep(1)
        recorder.dispose()

    run_virtual(main())


@pytest.mark.parametrize("deadlines", [{"first": 3}, {"idle": 3}, {"first": 3, "idle": 3}])
def test_clocks_stand_still_while_demand_is_withheld(deadlines: dict[str, float]) -> None:
    async def main() -> None:
        iterator = FlowIterator(paced(*[2] * 10).pipe(timeout(**deadlines)), capacity=2)
        seen = []
        async for value in iterator:
            seen.append(value)
            await asyncio.sleep(100)
        assert seen == list(range(9))

    run_virtual(main())


def test_idle_deadline_with_a_slow_consumer() -> None:
    async def main() -> None:
        iterator = FlowIterator(paced(0, 0, 0, 50, 0).pipe(timeout(idle=3)), capacity=2)
        assert await anext(iterator) == 0
        await asyncio.sleep(100)  # full: the clock stands
        assert await anext(iterator) == 1
        assert await anext(iterator) == 2
        began = asyncio.get_running_loop().time()
        with pytest.raises(DeadlineError):
            await anext(iterator)
        assert asyncio.get_running_loop().time() - began == pytest.approx(3)

    run_virtual(main())


def test_the_total_deadline_does_not_stand_still() -> None:
    async def main() -> None:
        iterator = FlowIterator(paced(*[1] * 10).pipe(timeout(total=20)), capacity=2)
        assert await anext(iterator) == 0
        await asyncio.sleep(30)
        with pytest.raises(DeadlineError):
            async for _ in iterator:
                pass

    run_virtual(main())


@pytest.mark.parametrize("idle", [None, 20])
def test_a_value_while_demand_is_withheld_sets_one_timer(idle: float | None) -> None:
    async def main() -> None:
        other: Subject[Any] = Subject()
        late = timer(4).pipe(flat_map(lambda _: concat(just("late"), timer(12)))).pipe(timeout(first=3, idle=idle))
        # two sources, one consumer: the other one fills the buffer, the late one's clock stands, then it speaks
        iterator = FlowIterator(just(other, late).pipe(flat_map(lambda source: source)), capacity=2)
        pulling = asyncio.ensure_future(anext(iterator))
        await asyncio.sleep(1)
        for i in range(4):
            other.on_next(i)
        assert await pulling == 0
        assert iterator.statistics().withheld
        await asyncio.sleep(10)
        assert [await anext(iterator) for _ in range(5)] == [1, 2, 3, "late", 0]
        other.on_completed()
        with pytest.raises(StopAsyncIteration):
            await anext(iterator)

    run_virtual(main())
