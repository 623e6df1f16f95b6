"""`check_publisher` rejects what breaks a rule: one fault for each rule, so that none is vacuous."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from reactivex import Observable

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.reactive import (
    Flow,
    Scope,
    defer,
    empty,
    from_async_iterable,
    from_iterable,
    just,
)
from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.reactive.kernel.observer import BooleanDisposable, attach
from agentscope_rx.reactive.kernel.subscription import Subscription
from agentscope_rx.testing import check_publisher
from agentscope_rx.testing.kits import publisher_rules, rules
from agentscope_rx.testing.kits.publisher_rules import NOT_APPLICABLE
from tests.testing.faults import broken

FIVE = range(5)


class Disposal:
    """Calls a function at each disposal."""

    def __init__(self, call: Callable[[], object] = lambda: None) -> None:
        self.disposed = False
        self._call = call

    def dispose(self) -> None:
        self.disposed = True
        self._call()


async def five() -> AsyncIterator[int]:
    for number in FIVE:
        await asyncio.sleep(1)
        yield number


# --- publishers, each with one fault ----------------------------------------------------------------------------------


def never_ends(sink: Any, scope: Scope) -> None:
    sink.on_subscribe(Disposal())


def hasty(sink: Any, scope: Scope) -> None:
    attach(from_async_iterable(five), sink, Scope(scope.loop, scope.context, None, scope.work))


def nested(sink: Any, scope: Scope) -> None:
    flag = BooleanDisposable()
    sink.on_subscribe(flag)
    if scope.demand is not None:
        scope.demand._waiters.append(lambda: sink.on_next(2))
    for value in (1, 3) if scope.demand is not None else (1, 2, 3):
        if not flag.disposed:
            sink.on_next(value)
    if not flag.disposed:
        sink.on_completed()


def signals_at_disposal(sink: Any, scope: Scope) -> None:
    ended: list[bool] = []
    flag = Disposal(lambda: ended and sink.on_next(9))
    sink.on_subscribe(flag)
    if not flag.disposed:
        ended.append(True)
        sink.on_completed()


def ends_twice(sink: Any, scope: Scope) -> None:
    flag = BooleanDisposable()
    sink.on_subscribe(flag)
    if not flag.disposed:
        sink.on_completed()
        scope.call_soon(lambda: flag.disposed or sink.on_completed())


def deaf_inside(sink: Any, scope: Scope) -> None:
    flag = BooleanDisposable()
    sink.on_subscribe(flag)
    if not flag.disposed:
        for value in FIVE:
            sink.on_next(value)
        if not flag.disposed:
            sink.on_completed()


def late_to_hand_over(sink: Any, scope: Scope) -> None:
    sink.on_next(1)
    flag = BooleanDisposable()
    sink.on_subscribe(flag)
    if not flag.disposed:
        sink.on_completed()


def hands_over_twice(sink: Any, scope: Scope) -> None:
    sink.on_subscribe(BooleanDisposable())
    flag = BooleanDisposable()
    sink.on_subscribe(flag)
    if not flag.disposed:
        sink.on_completed()


def deaf_at_first(sink: Any, scope: Scope) -> None:
    flag = BooleanDisposable()
    sink.on_subscribe(flag)
    sink.on_next(1)
    if not flag.disposed:
        sink.on_completed()


def leaves_a_task(sink: Any, scope: Scope) -> None:
    def stop() -> None:
        flag.disposed = True
        for timer in timers:
            timer.cancel()
        if scope.demand is not None:
            scope.loop.call_later(99, lambda: None)

    flag = BooleanDisposable()
    timers: list[Any] = []
    sink.on_subscribe(Disposal(stop))
    if not flag.disposed:
        timers.append(scope.call_later(1, lambda: sink.on_next(1)))
        timers.append(scope.call_later(2, sink.on_completed))


def deepens(sink: Any, scope: Scope) -> None:
    flag = BooleanDisposable()
    sink.on_subscribe(flag)

    def emit(value: int) -> None:
        if flag.disposed:
            return
        if value == 5:
            sink.on_completed()
            return
        sink.on_next(value)
        emit(value + 1)

    emit(0)


def wakes_after_disposal(sink: Any, scope: Scope) -> None:
    flag = BooleanDisposable()
    sink.on_subscribe(flag)
    if flag.disposed:
        return
    sink.on_next(1)
    if scope.demand is not None and not scope.demand.ready:
        scope.demand.when_ready(lambda: sink.on_next(2))
    elif not flag.disposed:
        sink.on_next(2)
        if not flag.disposed:
            sink.on_completed()


def never_resumes(sink: Any, scope: Scope) -> None:
    flag = BooleanDisposable()
    sink.on_subscribe(flag)
    for value in FIVE:
        if flag.disposed or (scope.demand is not None and not scope.demand.ready):
            return
        sink.on_next(value)
        if scope.demand is not None and scope.demand.ready and value == 4 and not flag.disposed:
            sink.on_completed()
    if scope.demand is None and not flag.disposed:
        sink.on_completed()


def deaf_between(sink: Any, scope: Scope) -> None:
    """Hears a disposal inside of a signal, and before the third value; later ones between signals are lost."""
    hears = [True]
    timers: list[asyncio.TimerHandle] = []

    def stop() -> None:
        flag.disposed = bool(hears)
        for timer in timers if hears else ():
            timer.cancel()

    def emit(number: int) -> None:
        hears.append(True)
        if number == len(FIVE):
            sink.on_completed()
            return
        sink.on_next(number)
        if not flag.disposed:
            timers.append(scope.call_later(1, partial(emit, number + 1)))
        if number > 1:
            hears.clear()

    flag = Disposal(stop)
    sink.on_subscribe(flag)
    if not flag.disposed:
        emit(0)


RAW: dict[str, tuple[Callable[[Any, Scope], object], str, dict[str, Any]]] = {
    "never ends": (never_ends, "1.05", {}),
    "reads on without demand": (hasty, "1.01", {}),
    "a value inside of a value": (nested, "1.03", {"ahead": None}),
    "signals at disposal": (signals_at_disposal, "1.06", {}),
    "ends twice": (ends_twice, "1.07", {}),
    "does not look at disposal": (deaf_inside, "1.08", {"ahead": None}),
    "a value before on_subscribe": (late_to_hand_over, "1.09", {}),
    "on_subscribe twice": (hands_over_twice, "1.09", {}),
    "disposed in on_subscribe, goes on": (deaf_at_first, "1.09", {}),
    "leaves a timer": (leaves_a_task, "2.06", {"ahead": None}),
    "recursion": (deepens, "3.03", {"ahead": None}),
    "demand after disposal": (wakes_after_disposal, "3.06", {"ahead": None}),
    "demand that returns is lost": (never_resumes, "3.08", {}),
    "disposed between signals, goes on": (deaf_between, "3.12", {"ahead": None}),
}


@pytest.mark.parametrize("fault", RAW)
def test_a_fault_of_a_publisher_is_found(fault: str):
    connect, rule, given = RAW[fault]
    broken(lambda: check_publisher(lambda: Flow(connect), name=fault, **given), rule)


def test_a_failure_must_be_an_error():
    found = broken(lambda: check_publisher(lambda: just(1), failing=lambda: just(1), name="it"), "1.04")
    assert found.seen == "1 values, completed, where an error was expected"
    assert str(found).startswith("it breaks rule 1.04: a failure is one on_error")


def test_runs_of_one_publisher_are_alike():
    def once() -> Observable[int]:
        items = iter(FIVE)
        return from_iterable(items)

    broken(lambda: check_publisher(once), "1.10")
    check_publisher(once, repeatable=False)


def test_runs_at_the_same_time_are_apart():
    def shared() -> Observable[int]:
        under_way: list[bool] = []

        async def alone() -> AsyncIterator[int]:
            if under_way:
                return
            under_way.append(True)
            try:
                await asyncio.sleep(1)
                yield 1
            finally:
                under_way.clear()

        return from_async_iterable(alone)

    broken(lambda: check_publisher(shared), "1.11")
    check_publisher(shared, concurrent=False)


def test_a_disposal_of_one_run_leaves_the_others():
    def coupled() -> Observable[int]:
        stopped: list[bool] = []

        async def until_stopped() -> AsyncIterator[int]:
            try:
                for number in FIVE:
                    await asyncio.sleep(1)
                    if stopped:
                        return
                    yield number
            except (asyncio.CancelledError, GeneratorExit):
                stopped.append(True)
                raise

        return from_async_iterable(until_stopped)

    broken(lambda: check_publisher(coupled), "3.14")


def test_a_subscriber_that_is_kept_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(publisher_rules, "LET_GO_TURNS", 1)

    def keeping() -> Observable[int]:
        kept: list[object] = []

        def connect(sink: Any, scope: Scope) -> None:
            kept.append(sink)
            attach(just(1), sink, scope)

        return Flow(connect)

    broken(lambda: check_publisher(keeping), "3.13")


def test_work_before_a_subscription_is_found():
    broken(lambda: check_publisher(BackgroundWork, name="hot"), "cold")


class BackgroundWork(Flow[int]):
    """Begins with its first look at the loop, and ends with its subscription."""

    def __init__(self) -> None:
        loop = asyncio._get_running_loop()
        self._task = None if loop is None else asyncio.ensure_future(asyncio.sleep(999))
        super().__init__(self._connect)

    def _connect(self, sink: Any, scope: Scope) -> None:
        if self._task is not None:
            self._task.cancel()
        attach(just(1), sink, scope)


def test_an_observable_that_is_bound_to_a_loop_is_found():
    def bound() -> Observable[int]:
        loops: list[object] = []

        async def one() -> AsyncIterator[int]:
            loops.append(asyncio.get_running_loop())
            if loops[0] is not loops[-1]:
                raise RuntimeError("another loop")
            yield 1

        return from_async_iterable(one)

    broken(lambda: check_publisher(bound), "loops, second")


def test_a_boundary_that_ignores_subscribers_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Subscription, "_subscriber_failed", lambda self, error: None)
    broken(lambda: check_publisher(lambda: just(1)), "2.13")


def test_a_boundary_that_is_not_thread_safe_is_found(monkeypatch: pytest.MonkeyPatch):
    def dispose(self: Subscription[object]) -> None:
        if self.scope.is_here():
            self.disposed = True
            self._stop_upstream()

    monkeypatch.setattr(Subscription, "dispose", dispose)
    broken(lambda: check_publisher(lambda: from_async_iterable(five)), "3.05")


class TimerAtOnce(Flow[int]):
    def __init__(self) -> None:
        loop = asyncio._get_running_loop()
        self._timer = None if loop is None else loop.call_later(999, lambda: None)
        super().__init__(self._connect)

    def _connect(self, sink: Any, scope: Scope) -> None:
        if self._timer is not None:
            self._timer.cancel()
        attach(just(1), sink, scope)


def test_a_timer_before_a_subscription_is_found():
    assert "timer" in broken(lambda: check_publisher(TimerAtOnce), "cold").seen


def test_what_is_left_after_a_rule_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rules, "THREADS_SECONDS", 0.0)
    stop = threading.Event()

    def with_thread() -> Observable[int]:
        thread = threading.Thread(target=stop.wait, name="left over")
        return defer(lambda: just(thread.start()))

    async def dropping() -> AsyncIterator[int]:
        report_dropped(ValueError("nobody hears this"), "a test")
        yield 1

    async def leaving_a_task() -> AsyncIterator[int]:
        asyncio.get_running_loop().create_task(asyncio.sleep(999), name="left over")
        yield 1

    try:
        seen = broken(lambda: check_publisher(with_thread), "1.05").seen
        assert seen == "thread left over is left"
    finally:
        stop.set()
    assert "nobody hears this" in broken(lambda: check_publisher(lambda: from_async_iterable(dropping)), "1.05").seen
    for real_time in (False, True):
        found = broken(
            lambda real_time=real_time: check_publisher(
                lambda: from_async_iterable(leaving_a_task), real_time=real_time
            ),
            "1.05",
        )
        assert "left over" in found.seen


def test_a_kit_says_so_where_a_loop_runs():
    async def main() -> None:
        check_publisher(empty)

    with pytest.raises(ConfigurationError, match=r"Call it from a plain test function, or by asyncio\.to_thread"):
        asyncio.run(main())


def test_what_was_checked_and_skipped_is_reported():
    report = check_publisher(lambda: just(1, 2), ahead=None, name="two")
    assert (
        "1.08" in report.checked and dict(report.skipped)["1.01"] == "the values are there already, whatever the demand"
    )
    assert str(report).startswith(f"two: {len(report.checked)} rules hold, {len(report.skipped)} skipped\n  1.05\n")
    numbers = {*report.checked, *dict(report.skipped)}
    counts = {"1": 11, "2": 13, "3": 17}
    named = {f"{part}.{number:02}" for part, count in counts.items() for number in range(1, count + 1)}
    # these are checked together with another one, which names them
    assert named - numbers == {"2.04", "2.08", "2.12", "3.02", "3.07", "3.10", "3.11", "3.15", "3.16", "3.17"}


def test_the_docs_table_says_which_rules_apply():
    text = (Path(__file__).parents[2] / "docs" / "reference" / "publisher-rules.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d., ]+) \| (yes|no|differs) \| .+ \|$", text, re.MULTILINE)
    applies = {number: word for numbers, word in rows for number in numbers.split(", ")}
    counts = {"1": 11, "2": 13, "3": 17}
    assert set(applies) == {f"{part}.{number:02}" for part, count in counts.items() for number in range(1, count + 1)}
    assert {number for number, word in applies.items() if word == "no"} <= set(NOT_APPLICABLE)
    assert not {number for number, word in applies.items() if word == "yes"} & set(NOT_APPLICABLE)
