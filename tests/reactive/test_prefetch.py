"""concat_map with prefetch: the source waits for slow answers; and BufferDemand, by which it does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.reactive import (
    Flow,
    concat,
    concat_map,
    from_async_iterable,
    from_iterable,
    iterate_on_worker,
    just,
    throw,
    timer,
    transform_type,
)
from agentscope_rx.reactive.kernel.demand import BufferDemand, Demand
from agentscope_rx.testing import run_virtual
from tests.reactive.recorder import record

ANSWERS = {
    "plain": lambda v: v * 10,
    "flow": lambda v: just(v, -v),
    "later": lambda v: timer(1).pipe(ops.map(lambda _: v)),
    "mixed": lambda v: timer(1).pipe(ops.map(lambda _: v)) if v % 3 else v,
    "items": lambda v: from_iterable([v, v]),
    "none": lambda v: from_iterable([]) if v % 2 else v,
}


class Counted:
    """A source that counts what has been read of it, and what has not come out of the operator yet."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.read = 0
        self.done = 0
        self.most = 0

    def _next(self, value: int) -> int:
        self.read += 1
        self.most = max(self.most, self.read - self.done)
        return value

    async def _items(self) -> AsyncIterator[int]:
        for value in range(self.count):
            yield self._next(value)

    def of(self, form: str) -> Flow[int]:
        if form == "async":
            return from_async_iterable(self._items)
        items = (self._next(value) for value in range(self.count))
        return from_iterable(items) if form == "sync" else iterate_on_worker(lambda: items)

    def slow(self, value: int) -> Flow[int]:
        def came(_: object) -> int:
            self.done += 1
            return value

        return timer(1).pipe(ops.map(came))


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
@given(count=st.integers(0, 40), limit=st.integers(1, 5), error=st.booleans())
def test_prefetch_does_not_change_what_is_emitted(answer: Any, count: int, limit: int, error: bool) -> None:
    async def main() -> None:
        source = concat(from_iterable(range(count)), throw(ValueError("x")) if error else just(count))
        heard = (await record(source.pipe(concat_map(answer, prefetch=limit)))).heard
        plain = (await record(source.pipe(concat_map(answer)))).heard
        if error:
            # an error does not wait: what is said before it depends on how much was read
            assert isinstance(heard.pop(), ValueError) and isinstance(plain.pop(), ValueError)
            assert plain == heard[: len(plain)] or heard == plain[: len(heard)]
        else:
            assert heard == plain

    run_virtual(main())


@pytest.mark.parametrize("form", ["async", "sync"])
@given(count=st.integers(0, 60), limit=st.integers(1, 8))
def test_the_queue_is_bounded_and_nothing_is_lost(form: str, count: int, limit: int) -> None:
    """The law: at most `limit` wait, one is in progress and one is on its way; all of it within the answers' time."""

    async def main() -> None:
        source = Counted(count)
        recorder = await record(source.of(form).pipe(concat_map(source.slow, prefetch=limit)))
        assert recorder.heard == [*range(count), "|"]
        assert source.most <= limit + 2
        # the source keeps up: no answer waits for it
        assert recorder.at[-1] == count

    run_virtual(main())


def test_a_worker_is_not_advanced_either() -> None:
    async def main() -> None:
        source = Counted(50)
        assert (await record(source.of("worker").pipe(concat_map(source.slow, prefetch=4)))).heard == [*range(50), "|"]
        assert source.most <= 6

    run_virtual(main())


def test_one_behind_another_bounds_both() -> None:
    async def main() -> None:
        source = Counted(60)
        quick = concat_map(lambda v: timer(0.1).pipe(ops.map(lambda _: v)), prefetch=3)
        recorder = await record(source.of("async").pipe(quick, concat_map(source.slow, prefetch=3)))
        assert recorder.heard == [*range(60), "|"]
        assert source.most <= 2 * 5

    run_virtual(main())


def test_demand_passes_transform_type_and_stock_operators() -> None:
    async def main() -> None:
        source = Counted(60)
        stock = ops.map(lambda v: v + 0)
        operator = transform_type(
            int, lambda s: s.pipe(stock, concat_map(source.slow, prefetch=3), ops.filter(lambda v: True))
        )
        recorder = await record(source.of("async").pipe(operator))
        assert recorder.heard == [*range(60), "|"]
        assert source.most <= 5

    run_virtual(main())


def test_what_answers_does_not_wait_for_itself() -> None:
    """An answer that looks at demand, while the queue is full, goes on: only the source waits."""

    async def main() -> None:
        source = Counted(30)

        def answer(value: int) -> Flow[int]:
            return concat(source.slow(value), from_iterable([value, value]))

        recorder = await record(source.of("async").pipe(concat_map(answer, prefetch=2)))
        assert recorder.heard == [value for value in range(30) for _ in range(3)] + ["|"]

    run_virtual(main())


@pytest.mark.parametrize("at", [0.5, 3.5, 10.5])
def test_disposal_ends_source_and_answer(at: float) -> None:
    async def main() -> None:
        source = Counted(1000)
        running = source.of("async").pipe(concat_map(source.slow, prefetch=4)).subscribe()
        await asyncio.sleep(at)
        running.dispose()
        done = source.done
        await asyncio.sleep(100)
        assert source.done == done == int(at) and source.read <= done + 6

    run_virtual(main())


def test_a_slow_reader_and_a_slow_answer_bound_it_together() -> None:
    async def main() -> None:
        source = Counted(100)
        seen: list[int] = []
        async for value in source.of("async").pipe(concat_map(source.slow, prefetch=3)).buffered(2):
            seen.append(value)
            await asyncio.sleep(3)
            assert source.read - len(seen) <= 2 + 1 + 3 + 2
        assert seen == list(range(100))

    run_virtual(main())


@given(st.lists(st.sampled_from(["shut", "open", "withhold", "resume", "waive"]), max_size=12))
def test_buffer_demand_needs_room_and_a_ready_consumer(steps: list[str]) -> None:
    async def main() -> None:
        above = Demand(asyncio.get_running_loop())
        gate = BufferDemand(asyncio.get_running_loop(), above)
        woken: list[bool] = []
        for step in steps:
            gate.when_ready(lambda: woken.append(gate.ready))
            getattr(gate if step in ("shut", "open") else above, step)()
            assert gate.ready == (above.ready and not gate.is_shut)
        gate.open()
        above.resume()
        assert gate.ready and woken == [True] * len(steps)

    run_virtual(main())


def test_buffer_demand_follows_a_withheld_demand() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        above = Demand(loop)
        above.withhold()
        gate = BufferDemand(loop, above)
        assert not gate.ready
        await asyncio.sleep(2)
        assert gate.withheld() == 2
        above.resume()
        assert gate.ready and BufferDemand(loop).ready

    run_virtual(main())


@pytest.mark.parametrize("prefetch", [0, -1])
def test_prefetch_must_be_at_least_one(prefetch: int) -> None:
    with pytest.raises(ConfigurationError, match="prefetch"):
        concat_map(just, prefetch=prefetch)
