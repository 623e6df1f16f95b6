"""merge_ordered: results in order, at most n at once, live values at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops
from reactivex.subject import Subject

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.reactive import Flow, concat, defer, from_async_iterable, just, merge_ordered
from agentscope_rx.testing import run_virtual
from tests.reactive.recorder import Recorder, after, record


def live(value: Any) -> bool:
    return isinstance(value, str)


LANES = st.lists(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=4), max_size=6)
"""For each lane: pauses before its values, and True for each live value."""


class Gauge:
    def __init__(self) -> None:
        self.now = self.most = self.begun = 0

    def lane(self, index: int, plan: list[tuple[int, bool]]) -> Flow[Any]:
        async def items() -> Any:
            self.now += 1
            self.begun += 1
            self.most = max(self.most, self.now)
            try:
                for n, (pause, alive) in enumerate(plan):
                    if pause:
                        await asyncio.sleep(pause)
                    yield f"{index}.{n}" if alive else (index, n)
            finally:
                self.now -= 1

        return from_async_iterable(items)


@given(plans=LANES, n=st.integers(1, 4))
def test_order_and_bound(plans: list[Any], n: int) -> None:
    async def main() -> None:
        gauge = Gauge()
        lanes = [gauge.lane(i, plan) for i, plan in enumerate(plans)]
        recorder = await record(merge_ordered(lanes, max_concurrency=n, live=live))
        results = [value for value in recorder.heard if isinstance(value, tuple)]
        assert results == sorted(results)
        assert len(results) == sum(not alive for plan in plans for _, alive in plan)
        assert gauge.most <= n
        assert gauge.begun == len(plans)
        for i, plan in enumerate(plans):
            # a lane's own values never overtake one another within their kind
            chunks = [value for value in recorder.heard if isinstance(value, str) and value.startswith(f"{i}.")]
            assert chunks == [f"{i}.{k}" for k, (_, alive) in enumerate(plan) if alive]

    run_virtual(main())


@given(plans=LANES, n=st.integers(1, 4), dispose_at=st.integers(1, 6))
def test_nothing_starts_after_disposal_and_all_ends(plans: list[Any], n: int, dispose_at: int) -> None:
    async def main() -> None:
        gauge = Gauge()
        lanes = [gauge.lane(i, plan) for i, plan in enumerate(plans)]
        await record(merge_ordered(lanes, max_concurrency=n, live=live), dispose_at)
        begun = gauge.begun
        await asyncio.sleep(100)
        assert gauge.begun == begun
        assert gauge.now == 0

    run_virtual(main())


@given(values=st.lists(st.lists(st.integers(), max_size=3), max_size=6))
def test_one_at_once_is_concat(values: list[list[int]]) -> None:
    async def main() -> None:
        lanes = [just(*lane) for lane in values]
        assert (await record(merge_ordered(lanes, max_concurrency=1))).heard == (await record(concat(*lanes))).heard

    run_virtual(main())


def test_a_timeline() -> None:
    async def main() -> None:
        recorder = await record(
            merge_ordered([concat(after(2, "p"), after(4, 1)), concat(after(1, "q"), after(2, 2))], live=live)
        )
        assert recorder.timeline == [(1, "q"), (2, "p"), (6, 1), (6, 2), (6, "|")]

    run_virtual(main())


def test_a_result_comes_as_soon_as_its_turn_does() -> None:
    async def main() -> None:
        recorder = await record(merge_ordered([after(2, 1), after(1, 2), after(3, 3)]))
        assert recorder.timeline == [(2, 1), (2, 2), (3, 3), (3, "|")]

    run_virtual(main())


def test_the_first_error_ends_the_rest() -> None:
    async def main() -> None:
        log: list[str] = []
        lanes = [after(5, 1, log=log), after(1, error=ValueError("second"), log=log), after(9, 3, log=log)]
        recorder = await record(merge_ordered(lanes, max_concurrency=2))
        assert repr(recorder.timeline) == "[(1.0, ValueError('second'))]"
        await asyncio.sleep(20)
        assert log == ["start", "start", "end", "end"]

    run_virtual(main())


def test_a_failing_question_is_the_error() -> None:
    def broken(value: object) -> bool:
        raise ValueError("live?")

    async def main() -> None:
        log: list[str] = []
        recorder = await record(merge_ordered([after(5, 1, log=log), after(1, 2, log=log)], live=broken))
        assert repr(recorder.timeline) == "[(1.0, ValueError('live?'))]"

    run_virtual(main())


def test_take_one_starts_no_second_synchronous_lane() -> None:
    async def main() -> None:
        begun: list[int] = []
        lanes = [defer(lambda i=i: just(begun.append(i) or i)) for i in range(10)]
        assert (await record(merge_ordered(lanes).pipe(ops.take(1)))).heard == [0, "|"]
        assert begun == [0]

    run_virtual(main())


def test_new_values_go_behind_the_held_ones() -> None:
    async def main() -> None:
        first: Subject[int] = Subject()
        second: Subject[int] = Subject()
        heard: list[int] = []

        def hear(value: int) -> None:
            heard.append(value)
            if value == 10:
                second.on_next(12)

        merge_ordered([first, second]).subscribe(hear)
        second.on_next(10)
        second.on_next(11)
        first.on_completed()
        second.on_completed()
        assert heard == [10, 11, 12]

    run_virtual(main())


def test_a_thousand_synchronous_lanes_do_not_nest() -> None:
    async def main() -> None:
        assert len((await record(merge_ordered([just(i) for i in range(10_000)]))).heard) == 10_001

    run_virtual(main())


def test_a_bound_below_one_is_refused_where_it_is_given() -> None:
    with pytest.raises(ConfigurationError):
        merge_ordered([], max_concurrency=0)


def test_no_lanes_complete_at_once() -> None:
    async def main() -> None:
        assert Recorder().listen(merge_ordered([])).heard == ["|"]

    run_virtual(main())


@given(plans=LANES, n=st.integers(1, 4), alone=st.sets(st.integers(0, 5)))
def test_those_that_are_alone_are_barriers(plans: list[Any], n: int, alone: set[int]) -> None:
    async def main() -> None:
        running: list[int] = []
        order: list[int] = []

        def lane(index: int, plan: list[tuple[int, bool]]) -> Flow[Any]:
            async def items() -> Any:
                running.append(index)
                order.append(index)
                assert len(running) <= n and (len(running) == 1 or not alone & set(running))
                try:
                    for pause, alive in plan:
                        if pause:
                            await asyncio.sleep(pause)
                        yield "live" if alive else index
                finally:
                    running.remove(index)

            return from_async_iterable(items)

        lanes = [lane(i, plan) for i, plan in enumerate(plans)]
        recorder = await record(merge_ordered(lanes, max_concurrency=n, live=live, alone=alone))
        results = [value for value in recorder.heard if isinstance(value, int)]
        assert results == sorted(results) and order == list(range(len(plans)))

    run_virtual(main())
