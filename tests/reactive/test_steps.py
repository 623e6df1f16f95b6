"""steps: functions in a row, each of which gives a value, a flow or nothing; linked once, begun anew each time."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from agentscope_rx.reactive import (
    Flow,
    concat,
    defer,
    empty,
    from_async_iterable,
    just,
    never,
    recurse,
    steps,
    tail,
    throw,
)
from agentscope_rx.reactive.kernel.observer import attach
from agentscope_rx.testing import run_virtual
from tests.reactive.recorder import Recorder, record
from tests.support.garbage import left_to_the_collector

GIVEN = st.sampled_from(["value", "none", "just", "two", "empty", "later", "stock"])


def given_as(kind: str, number: int) -> Any:
    async def later() -> Any:
        await asyncio.sleep(1)
        yield number

    return {
        "value": lambda: number,
        "none": lambda: None,
        "just": lambda: just(number),
        "two": lambda: just(number, -number),
        "empty": empty,
        "later": lambda: from_async_iterable(later),
        "stock": lambda: just(number).pipe(ops.map(lambda value: value)),
    }[kind]()


def as_flow(kind: str, number: int) -> Flow[Any]:
    what = given_as(kind, number)
    return empty() if what is None else what if hasattr(what, "subscribe") else just(what)


@given(st.lists(GIVEN, max_size=6))
def test_it_is_concat_of_a_defer_for_each_function(kinds: list[str]) -> None:
    async def main() -> None:
        chain = steps(*(lambda kind=kind, number=number: given_as(kind, number) for number, kind in enumerate(kinds)))
        expected = concat(
            *(defer(lambda kind=kind, number=number: as_flow(kind, number)) for number, kind in enumerate(kinds))
        )
        first, second, other = await record(chain), await record(chain), await record(expected)
        assert first.heard == second.heard == other.heard

    run_virtual(main())


@given(st.lists(GIVEN, min_size=1, max_size=5), st.integers(0, 6))
def test_disposed_at_any_value_no_further_function_is_called(kinds: list[str], at: int) -> None:
    async def main() -> None:
        called: list[int] = []

        def step(number: int, kind: str) -> Any:
            called.append(number)
            return given_as(kind, number)

        chain = steps(*(lambda number=number, kind=kind: step(number, kind) for number, kind in enumerate(kinds)))
        recorder = Recorder(dispose_at=at).listen(chain)
        await recorder.end()
        known = list(called)
        await asyncio.sleep(10)
        assert called == known == list(range(len(known)))

    run_virtual(main())


@pytest.mark.parametrize("make", [lambda: throw(ValueError("no")), lambda: 1 / 0], ids=["flow", "function"])
def test_the_first_error_ends_it(make: Any) -> None:
    async def main() -> None:
        called: list[str] = []
        recorder = await record(steps(lambda: 1, make, lambda: called.append("after")))
        assert recorder.heard[0] == 1 and isinstance(recorder.heard[1], (ValueError, ZeroDivisionError))
        assert not called
        # and the next subscription begins from the start
        assert len((await record(steps(lambda: 1, make))).heard) == 2

    run_virtual(main())


def test_a_chain_serves_all_rounds_of_a_run() -> None:
    left = 10_000

    def round_() -> Any:
        nonlocal left
        left -= 1
        return tail(lambda: chain) if left else None

    chain: Flow[Any] = steps(lambda: left, round_)
    recorder = run_virtual(record(recurse(lambda: chain)))
    assert recorder.heard == [*range(10_000, 0, -1), "|"]


def test_two_subscriptions_at_once_do_not_share_a_sink() -> None:
    async def main() -> None:
        numbers = iter(range(10))

        async def later() -> Any:
            await asyncio.sleep(1)
            yield "b"

        chain = steps(lambda: next(numbers), lambda: from_async_iterable(later), lambda: "c")
        recorders = [Recorder().listen(chain), Recorder().listen(chain)]
        for recorder in recorders:
            await recorder.end()
        assert [recorder.heard for recorder in recorders] == [[0, "b", "c", "|"], [1, "b", "c", "|"]]

    run_virtual(main())


@pytest.mark.parametrize("end", ["completed", "failed", "raised", "disposed"])
def test_functions_that_hold_the_sink_leave_no_cycle(end: str) -> None:
    first = {"failed": throw(ValueError("x")), "disposed": never()}.get(end, just(1))

    async def main() -> None:
        held: list[object] = []

        def connect(sink: Any, scope: Any) -> None:
            held.append(sink)
            attach(first, sink, scope)

        def last() -> int:
            if end == "raised":
                raise ValueError
            return len(held)

        recorder = Recorder().listen(steps(lambda: 0, lambda: Flow(connect), last))
        if end == "disposed":
            recorder.dispose()
        await recorder.end()
        # an error that was raised holds the frames
        recorder.heard.clear()

    assert left_to_the_collector(main) == Counter()


def test_ten_thousand_functions_do_not_nest() -> None:
    async def main() -> None:
        chain = steps(*(lambda: just(1) for _ in range(10_000)))
        assert len((await record(chain)).heard) == 10_001

    run_virtual(main())
