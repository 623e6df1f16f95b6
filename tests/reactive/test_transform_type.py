"""transform_type and flat_map_iterable: an operator over one class of values, and one value that becomes several."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import reactivex as rx
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from agentscope_rx.reactive import Flow, concat, flat_map_iterable, from_iterable, just, throw, timer, transform_type
from agentscope_rx.testing import run_virtual
from tests.reactive.recorder import Recorder, after, record, turns

VALUES = st.lists(st.integers(0, 9) | st.sampled_from("abc"), max_size=8)


@given(values=VALUES, late=st.booleans())
def test_only_values_of_the_class_go_through_in_order(values: list[Any], late: bool) -> None:
    async def main() -> None:
        source = after(1, *values) if late else just(*values)
        heard = (await record(source.pipe(transform_type(int, ops.map(lambda v: -v))))).heard
        assert heard == [-v if isinstance(v, int) else v for v in values] + ["|"]

    run_virtual(main())


@given(values=VALUES)
def test_the_operator_is_flushed_before_completion(values: list[Any]) -> None:
    async def main() -> None:
        heard = (await record(just(*values).pipe(transform_type(int, ops.last_or_default(99))))).heard
        numbers = [v for v in values if isinstance(v, int)]
        assert heard == [v for v in values if isinstance(v, str)] + [numbers[-1] if numbers else 99, "|"]

    run_virtual(main())


def test_an_operator_that_leaves_lets_the_others_go_on() -> None:
    async def main() -> None:
        assert (await record(just(1, "a", 2, "b").pipe(transform_type(int, ops.take(1))))).heard == [1, "a", "b", "|"]

    run_virtual(main())


def test_time_in_the_operator() -> None:
    async def main() -> None:
        recorder = await record(just(1, "a", 2).pipe(transform_type(int, ops.delay(3))))
        assert recorder.timeline == [(0, "a"), (3, 1), (3, 2), (3, "|")]

    run_virtual(main())


def test_errors_of_either_and_of_making() -> None:
    def broken(source: Any) -> Any:
        raise ValueError("making")

    async def main() -> None:
        assert repr((await record(just(1).pipe(transform_type(int, broken)))).heard) == "[ValueError('making')]"
        source = concat(just("a", 1), throw(KeyError(1)))
        assert (
            repr((await record(source.pipe(transform_type(int, ops.map(lambda v: v))))).heard)
            == "['a', 1, KeyError(1)]"
        )
        log: list[str] = []
        source = concat(just(0), after(9, 1, log=log))
        heard = (await record(source.pipe(transform_type(int, ops.map(lambda v: 1 / v))))).heard
        assert isinstance(heard[0], ZeroDivisionError)
        await turns()
        assert log.count("start") == log.count("end")

    run_virtual(main())


@given(values=VALUES, late=st.booleans())
def test_an_operator_that_listens_late_hears_all(values: list[Any], late: bool) -> None:
    async def main() -> None:
        source = after(1, *values) if late else just(*values)
        numbers = [v for v in values if isinstance(v, int)]
        others = [v for v in values if isinstance(v, str)]
        recorder = await record(source.pipe(transform_type(int, ops.delay_subscription(5))))
        assert recorder.heard == [*others, *numbers, "|"]
        heard = (await record(source.pipe(transform_type(int, lambda ints: concat(timer(0.5), ints))))).heard
        assert [v for v in heard if isinstance(v, int)] == [0, *numbers]
        assert [v for v in heard if isinstance(v, str)] == [*others, "|"]

    run_virtual(main())


@given(values=VALUES)
def test_below_stock_operators_alone_nothing_is_lost(values: list[Any]) -> None:
    """A stock trampoline puts off what the operator subscribes to, but not a source of ours."""

    async def main() -> None:
        def stock(ints: Any) -> Any:
            return rx.concat(rx.of(-1), ints, rx.of(-2))

        passed = just(*values).pipe(transform_type(int, stock))
        for source in (passed, passed.pipe(ops.start_with("start")), rx.of("x").pipe(ops.flat_map(lambda _: passed))):
            heard = (await record(source)).heard
            numbers = [v for v in values if isinstance(v, int)]
            assert [v for v in heard if isinstance(v, int)] == [-1, *numbers, -2]
            assert [v for v in heard if v in ("a", "b", "c")] == [v for v in values if isinstance(v, str)]

    run_virtual(main())


@given(values=VALUES)
def test_an_operator_may_listen_twice(values: list[Any]) -> None:
    def split(ints: Any) -> Any:
        return rx.merge(ints.pipe(ops.filter(lambda v: v % 2 == 0)), ints.pipe(ops.filter(lambda v: v % 2 == 1)))

    async def main() -> None:
        heard = (await record(just(*values).pipe(transform_type(int, split)))).heard
        assert heard == [*values, "|"]

    run_virtual(main())


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (lambda ints: rx.of(7), [7, "a", "b", "|"]),  # never listens
        (ops.take(0), ["a", "b", "|"]),
        (lambda ints: ints.pipe(ops.take(1), ops.repeat(2)), [1, "a", 2, "b", "|"]),  # leaves, and comes back
        (lambda ints: ints.pipe(ops.repeat(2)), [1, "a", 2, "b", "|"]),  # listens again when all is over
        (lambda ints: concat(timer(9), ints), ["a", "b", 0, 1, 2, "|"]),
        (lambda ints: timer(9), ["a", "b", 0, "|"]),
    ],
)
def test_when_it_listens_is_the_operators_choice(operator: Any, expected: list[Any]) -> None:
    async def main() -> None:
        assert (await record(just(1, "a", 2, "b").pipe(transform_type(int, operator)))).heard == expected

    run_virtual(main())


@given(
    values=st.lists(st.integers(0, 9) | st.sampled_from("ab") | st.just("!"), max_size=12),
    delay=st.sampled_from([0, 3]),
)
def test_what_is_void_is_not_emitted_any_more(values: list[Any], delay: int) -> None:
    """Behind a value that says so the operator begins anew: nothing comes late, and nothing of the rest is lost."""

    async def main() -> None:
        made: list[int] = []

        def operator(source: Any) -> Any:
            made.append(0)
            return source.pipe(ops.delay(delay) if delay else ops.map(lambda v: v))

        source = just(*values).pipe(transform_type(int, operator, void=lambda v: v == "!"))
        heard = (await record(source)).heard
        last = max((i for i, v in enumerate(values) if v == "!"), default=-1) + 1
        if delay:
            others = [v for v in values if isinstance(v, str)]
            assert heard == others + [v for v in values[last:] if isinstance(v, int)] + ["|"]
        else:
            assert heard == [*values, "|"]
        assert len(made) == 1 + values.count("!")

    run_virtual(main())


def test_an_operator_that_had_left_begins_anew_too() -> None:
    async def main() -> None:
        source = just(1, 2, "!", 3, 4).pipe(transform_type(int, ops.take(1), void=lambda v: v == "!"))
        assert (await record(source)).heard == [1, "!", 3, "|"]

    run_virtual(main())


def test_making_it_anew_may_fail() -> None:
    async def main() -> None:
        made: list[int] = []

        def once(source: Any) -> Any:
            made.append(1)
            if len(made) > 1:
                raise ValueError("making")
            return source

        recorder = await record(just(1, "!", 3).pipe(transform_type(int, once, void=lambda v: v == "!")))
        assert recorder.heard[:2] == [1, "!"] and isinstance(recorder.heard[2], ValueError)

    run_virtual(main())


def test_an_error_of_the_source_does_not_wait_for_the_operator() -> None:
    async def main() -> None:
        source = concat(just(1, "a"), after(1, error=KeyError(1)))
        recorder = await record(source.pipe(transform_type(int, ops.delay_subscription(5))))
        assert repr(recorder.heard) == "['a', KeyError(1)]"
        assert recorder.at[-1] == 1

    run_virtual(main())


@pytest.mark.parametrize("at", [0.5, 1.5])
def test_disposal_ends_both(at: float) -> None:
    async def main() -> None:
        log: list[str] = []
        source = concat(timer(1), after(1, 1, log=log)).pipe(transform_type(int, ops.delay(5)))
        recorder = Recorder().listen(source)
        await asyncio.sleep(at)
        recorder.dispose()
        await asyncio.sleep(20)
        assert recorder.heard == []
        assert log.count("start") == log.count("end")

    run_virtual(main())


@given(counts=st.lists(st.integers(0, 3), max_size=5), take=st.integers(1, 5))
def test_expand_in_order_and_no_more_than_is_taken(counts: list[int], take: int) -> None:
    async def main() -> None:
        called: list[int] = []

        def several(n: int) -> list[int]:
            called.append(n)
            return [n] * n

        source: Flow[int] = from_iterable(counts).pipe(flat_map_iterable(several))
        everything = [n for n in counts for _ in range(n)]
        assert (await record(source)).heard == [*everything, "|"]
        called.clear()
        assert (await record(source.pipe(ops.take(take)))).heard == [*everything[:take], "|"]
        if take <= len(everything):
            assert sum(called[:-1]) < take

    run_virtual(main())


def test_expand_fails_with_its_function() -> None:
    async def main() -> None:
        assert repr((await record(just(1, 0, 2).pipe(flat_map_iterable(lambda v: [1 // v])))).heard).startswith(
            "[1, ZeroDivisionError"
        )

    run_virtual(main())


@given(counts=st.lists(st.integers(0, 2), max_size=3), more=st.integers(0, 2), take=st.integers(1, 5))
def test_flat_map_iterable_at_end_stops_at_take(counts: list[int], more: int, take: int) -> None:
    async def main() -> None:
        ends: list[int] = []

        def at_end() -> list[str]:
            ends.append(more)
            return ["end"] * more

        source: Flow[Any] = from_iterable(counts).pipe(flat_map_iterable(lambda n: [n] * n, at_end))
        everything: list[Any] = [n for n in counts for _ in range(n)] + ["end"] * more
        assert (await record(source)).heard == [*everything, "|"]
        assert (await record(source.pipe(ops.take(take)))).heard == [*everything[:take], "|"]
        assert len(ends) <= 2
        # what has failed says no more
        assert repr(
            (await record(concat(just(1), throw(KeyError(1))).pipe(flat_map_iterable(lambda n: [n], at_end)))).heard
        ) == ("[1, KeyError(1)]")
        assert len(ends) <= 2

    run_virtual(main())


def test_expand_fails_with_the_function_of_its_end() -> None:
    async def main() -> None:
        heard = (await record(just(1).pipe(flat_map_iterable(lambda v: [v], lambda: [1 // 0])))).heard
        assert repr(heard).startswith("[1, ZeroDivisionError")

    run_virtual(main())
