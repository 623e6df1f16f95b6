"""recurse: stages one after the other, at constant depth and in flat memory."""

from __future__ import annotations

import asyncio
import gc
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from agentscope_rx.reactive import Flow, Tail, concat, flat_map, from_callable, just, never, recurse, tail, throw, timer
from agentscope_rx.testing import run_virtual
from tests.reactive.recorder import Recorder, after, record


@given(st.lists(st.tuples(st.lists(st.integers(), max_size=3), st.booleans()), max_size=8))
def test_stages_run_in_turn(stages: list[tuple[list[int], bool]]) -> None:
    async def main() -> None:
        def stage(i: int) -> Callable[[], Flow[Any]]:
            def build() -> Flow[Any]:
                if i == len(stages):
                    return just("done")
                values, late = stages[i]
                body = just(tail(stage(i + 1)), *values)
                return concat(timer(1).pipe(ops.ignore_elements()), body) if late else body

            return build

        recorder = await record(recurse(stage(0)))
        assert recorder.heard == [value for values, _ in stages for value in values] + ["done", "|"]
        assert recorder.at[-1] == sum(late for _, late in stages)

    run_virtual(main())


def test_the_last_tail_of_a_stage_counts_at_its_end() -> None:
    async def main() -> None:
        built: list[str] = []

        def named(name: str) -> Tail[str]:
            return tail(lambda: just(built.append(name) or name))

        first = concat(just(named("wrong")), timer(5).pipe(flat_map(lambda _: just(named("right")))))
        recorder = Recorder().listen(recurse(lambda: first))
        await asyncio.sleep(4)
        assert built == []
        await recorder.end()
        assert recorder.timeline == [(5, "right"), (5, "|")]
        assert built == ["right"]

    run_virtual(main())


def test_an_error_ends_all_and_a_named_stage_is_not_built() -> None:
    async def main() -> None:
        built: list[int] = []
        source = recurse(lambda: concat(just(1, tail(lambda: just(built.append(1)))), throw(ValueError("stage"))))
        assert repr((await record(source)).heard) == "[1, ValueError('stage')]"
        assert built == []

        def broken() -> Flow[Any]:
            raise ValueError("building")

        assert repr((await record(recurse(lambda: just(1, tail(broken))))).heard) == "[1, ValueError('building')]"
        assert repr((await record(recurse(broken))).heard) == "[ValueError('building')]"

    run_virtual(main())


@pytest.mark.parametrize("late", [False, True])
def test_no_stage_is_built_after_disposal(late: bool) -> None:
    async def main() -> None:
        built: list[int] = []

        def build() -> Flow[Any]:
            built.append(len(built))
            body = just(built[-1], tail(build))
            return timer(1).pipe(flat_map(lambda _: body)) if late else body

        assert (await record(recurse(build).pipe(ops.take(3)))).heard == [0, 1, 2, "|"]
        await asyncio.sleep(10)
        assert len(built) == 3
        # the first value of a run that others follow: by a kernel operator's disposal as by a stock one's
        assert await recurse(build).pipe(flat_map(just), ops.first()) == 3
        assert len(built) == 4

    run_virtual(main())


def test_disposal_stops_the_stage_in_progress() -> None:
    async def main() -> None:
        log: list[str] = []
        recorder = Recorder().listen(
            recurse(lambda: concat(just(tail(lambda: after(1, log=log))), after(9, 1, log=log)))
        )
        await asyncio.sleep(5)
        recorder.dispose()
        await asyncio.sleep(50)
        assert log == ["start", "end"]
        assert recorder.heard == []

    run_virtual(main())


def _depth() -> int:
    depth, frame = 0, sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return depth


async def _call() -> int:
    return 1


SHAPES: dict[str, Callable[[Any], Flow[Any]]] = {
    "synchronous": lambda next_stage: just(1, tail(next_stage)),
    "flat_map": lambda next_stage: just(1).pipe(flat_map(lambda v: just(v, tail(next_stage)))),
    "task": lambda next_stage: from_callable(_call).pipe(flat_map(lambda v: just(v, tail(next_stage)))),
    "timer": lambda next_stage: timer(1).pipe(flat_map(lambda v: just(v, tail(next_stage)))),
    "stock": lambda next_stage: just(1).pipe(ops.flat_map(lambda v: just(v, tail(next_stage)))),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_ten_thousand_stages_at_constant_depth(shape: str) -> None:
    depths: set[int] = set()
    sizes: list[int] = []
    stages = 500 if shape == "stock" else 10_000

    async def main() -> None:
        built = 0

        def build() -> Flow[Any]:
            nonlocal built
            built += 1
            if built % (stages // 4) == 0:
                depths.add(_depth())
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
            return just(0) if built == stages else SHAPES[shape](build)

        count = 0

        def add(value: int) -> None:
            nonlocal count
            count += 1

        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        recurse(build).subscribe(add, done.set_exception, lambda: done.set_result(None))
        await done
        assert count == stages

    limit = sys.getrecursionlimit()
    tracemalloc.start()
    try:
        sys.setrecursionlimit(_depth() + 150)
        run_virtual(main())
    finally:
        sys.setrecursionlimit(limit)
        tracemalloc.stop()
    assert len(depths) == 1
    # less than 4 bytes a stage between the first quarter and the last
    assert sizes[-1] - sizes[0] < 30_000, sizes


def test_a_done_value_names_the_last_stage() -> None:
    async def main() -> None:
        stages = concat(just("a", Ended("bye"), "b"), timer(2).pipe(ops.ignore_elements()))
        whole = recurse(lambda: just(tail(lambda: stages)), done=Ended, last=lambda ended: just(ended.word, "z"))
        recorder = await record(whole)
        assert recorder.timeline == [(0, "a"), (0, "b"), (2, "bye"), (2, "z"), (2, "|")]

        left = Recorder().listen(recurse(lambda: concat(just(Ended("bye")), never()), done=Ended, last=throw))
        await asyncio.sleep(1)
        left.dispose()
        assert left.heard == []

    run_virtual(main())


@dataclass
class Ended:
    """What the last stage emits."""

    word: str
