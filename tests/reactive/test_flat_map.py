"""flat_map and its kin: as the stock operators, but prompt at disposal and flat in stack and memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from agentscope_rx.reactive import (
    Flow,
    append_if_missing,
    concat,
    concat_map,
    concat_map_type,
    defer,
    empty,
    flat_map,
    flow,
    from_iterable,
    just,
    never,
    onward,
    then,
    throw,
    timer,
)
from agentscope_rx.testing import run_virtual
from tests.reactive.recorder import Recorder, after, record, turns

PLANS = st.lists(
    st.tuples(
        st.integers(0, 4), st.lists(st.integers(0, 99), max_size=3), st.sampled_from([False, False, False, True])
    ),
    max_size=5,
)
"""For each outer value: the delay (0: synchronous), values and failure (True if it fails) of its inner flow."""


def planned(index: int, plan: tuple[int, list[int], bool]) -> Flow[Any]:
    delay, values, fails = plan
    error = ValueError(index) if fails else None
    # odd fractions: no two events of a plan at the same time but for the synchronous ones
    if delay:
        return after(delay + index / 64, *values, error=error)
    return concat(just(*values), throw(error)) if error else just(*values)


def heard_as_text(recorder: Recorder) -> str:
    return repr(recorder.timeline)


@given(plans=PLANS)
def test_flat_map_is_the_stock_operator(plans: list[Any]) -> None:
    async def main(operator: Any) -> str:
        source = from_iterable(range(len(plans))).pipe(operator(lambda i: planned(i, plans[i])))
        recorder = await record(source)
        await turns()
        return heard_as_text(recorder)

    assert run_virtual(main(flat_map)) == run_virtual(main(ops.flat_map))


@given(plans=PLANS)
def test_concat_map_is_the_stock_operator(plans: list[Any]) -> None:
    async def main(operator: Any) -> str:
        return heard_as_text(
            await record(from_iterable(range(len(plans))).pipe(operator(lambda i: planned(i, plans[i]))))
        )

    def stock(function: Any) -> Any:
        return lambda source: flow(source).pipe(ops.map(function), ops.merge(max_concurrent=1))

    assert run_virtual(main(concat_map)) == run_virtual(main(stock))


@given(plans=PLANS, dispose_at=st.integers(1, 6))
@pytest.mark.parametrize("operator", [flat_map, concat_map])
def test_disposal_stops_every_inner_flow(operator: Any, plans: list[Any], dispose_at: int) -> None:
    async def main() -> None:
        log: list[str] = []
        started: list[int] = []

        def inner(i: int) -> Flow[Any]:
            started.append(i)
            return concat(just(-1), after(1 + i / 64, *plans[i][1], log=log))

        recorder = await record(from_iterable(range(len(plans))).pipe(operator(inner)), dispose_at)
        seen = len(started)
        await asyncio.sleep(100)
        assert len(started) == seen
        assert log.count("start") == log.count("end")
        assert len(recorder.heard) <= max(dispose_at, 1) or recorder.over

    run_virtual(main())


@pytest.mark.parametrize("operator", [flat_map, concat_map])
def test_take_one_calls_the_function_once(operator: Any) -> None:
    async def main() -> None:
        called: list[int] = []

        def inner(i: int) -> Flow[int]:
            called.append(i)
            return just(i, i)

        source = from_iterable(range(100))
        assert (await record(source.pipe(operator(inner), ops.take(1)))).heard == [0, "|"]
        assert (await record(source.pipe(operator(inner), operator(just), ops.first()))).heard == [0, "|"]
        assert called == [0, 0]

    run_virtual(main())


@pytest.mark.parametrize("operator", [flat_map, concat_map])
def test_nothing_is_made_once_a_function_has_disposed_the_run(operator: Any) -> None:
    async def main() -> None:
        made: list[str] = []
        recorder = Recorder()

        def leave(value: int) -> Flow[int]:
            recorder.dispose()
            return defer(lambda: just(made.append("deferred")))

        def later(value: int) -> Flow[int]:
            made.append("later")
            return just(value)

        chain = just(1).pipe(operator(leave), operator(later), then(lambda: just(made.append("after"))))
        recorder.listen(timer(1).pipe(flat_map(lambda _: chain)))
        await asyncio.sleep(5)
        assert recorder.heard == []
        assert made == []

    run_virtual(main())


@pytest.mark.parametrize("operator", [flat_map, concat_map])
def test_a_failing_function_is_the_error_and_disposes(operator: Any) -> None:
    async def main() -> None:
        log: list[str] = []

        def inner(i: int) -> Flow[Any]:
            if i == 1:
                raise ValueError("no flow")
            return after(0, i, log=log) if operator is flat_map else just(i)

        source = concat(just(0), timer(1).pipe(ops.map(lambda _: 1)), after(50, 3, log=log))
        heard = (await record(source.pipe(operator(inner)))).heard
        assert repr(heard) == "[0, ValueError('no flow')]"
        await turns()
        assert log.count("start") == log.count("end")

    run_virtual(main())


def test_what_is_not_an_observable_is_a_clear_error() -> None:
    async def main() -> None:
        (error,) = (await record(just(1).pipe(flat_map(lambda _: 42)))).heard
        assert isinstance(error, TypeError)
        assert "int: 42" in str(error)

    run_virtual(main())


def test_the_first_error_ends_the_siblings() -> None:
    async def main() -> None:
        log: list[str] = []
        source = just(3, 1, 2).pipe(
            flat_map(lambda d: after(d, d, error=ValueError(d) if d == 2 else None, log=log)),
        )
        recorder = await record(source)
        assert repr(recorder.timeline) == "[(1.0, 1), (2.0, 2), (2.0, ValueError(2))]"
        await turns()
        assert log.count("end") == 3

    run_virtual(main())


def test_concat_map_type_passes_other_values_at_once() -> None:
    async def main() -> None:
        source = just("x", 3, "y", 1, "z")
        recorder = await record(source.pipe(concat_map_type(int, lambda i: after(i, i))))
        assert recorder.timeline == [(0, "x"), (0, "y"), (0, "z"), (3, 3), (4, 1), (4, "|")]

    run_virtual(main())


def test_concat_map_keeps_the_order_of_plain_and_late_answers() -> None:
    async def main() -> None:
        source = just(1, 2, 3, 4)
        recorder = await record(source.pipe(concat_map(lambda i: i if i % 2 else after(i, i, -i))))
        assert recorder.timeline == [(0, 1), (2, 2), (2, -2), (2, 3), (6, 4), (6, -4), (6, "|")]

    run_virtual(main())


def test_concat_subscribes_to_one_after_the_other() -> None:
    async def main() -> None:
        log: list[str] = []
        recorder = await record(concat(after(1, 1, log=log), empty(), after(1, 2, log=log)))
        assert recorder.timeline == [(1, 1), (2, 2), (2, "|")]
        assert log == ["start", "end", "start", "end"]
        never_begun = Recorder().listen(concat(never(), after(1, log=log)))
        await asyncio.sleep(10)
        never_begun.dispose()
        assert len(log) == 4

    run_virtual(main())


def test_then_and_append_if_missing() -> None:
    def bad() -> Any:
        raise ValueError("bad")

    async def main() -> None:
        assert (await record(just(1).pipe(then(lambda: just(2))))).heard == [2, "|"]
        assert (await record(just(1).pipe(append_if_missing(str, lambda: "made")))).heard == [1, "made", "|"]
        assert (await record(just("x").pipe(append_if_missing(str, lambda: "made")))).heard == ["x", "|"]
        assert repr((await record(just(1).pipe(then(bad)))).heard) == "[ValueError('bad')]"
        assert repr((await record(just(1).pipe(append_if_missing(str, bad)))).heard) == "[1, ValueError('bad')]"
        assert repr((await record(throw(KeyError(1)).pipe(then(lambda: just(2))))).heard) == "[KeyError(1)]"

    run_virtual(main())


def test_ten_thousand_late_inner_flows_do_not_nest() -> None:
    async def main() -> None:
        assert await from_iterable(range(10_000)).pipe(concat_map(lambda i: timer(1)), ops.count()) == 10_000
        assert asyncio.get_running_loop().time() == 10_000
        assert await from_iterable(range(10_000)).pipe(concat_map(just), ops.count()) == 10_000

    run_virtual(main())


@pytest.mark.parametrize("wait", [0, 1])
def test_onward_is_concat_map_without_a_flow_for_a_value(wait: int) -> None:
    async def main() -> None:
        source = defer(lambda: just(1)) if not wait else timer(wait).pipe(concat_map(lambda _: 1))
        answer = just(2)
        built: list[Flow[int]] = []

        def begin() -> Flow[int]:
            built.append(onward(source.pipe(concat_map(lambda n: n + 1)), lambda n: answer if n == 2 else empty()))
            return built[-1]

        recorder = await record(defer(begin))
        assert recorder.timeline == [(wait, 2), (wait, "|")]
        assert (built[0] is answer) == (wait == 0)
        assert repr((await record(defer(lambda: onward(throw(KeyError(1)), just)))).heard) == "[KeyError(1)]"

    run_virtual(main())
