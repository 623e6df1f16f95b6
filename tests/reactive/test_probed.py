"""probed: a probe sees a flow begin, its items and its end, however it ends, and chooses the flow's context."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator
from contextvars import Context, ContextVar, copy_context
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.reactive import (
    Flow,
    OneShotEvent,
    Outcome,
    Probe,
    Scope,
    concat_map,
    defer,
    from_async_iterable,
    from_callable,
    iterate_on_worker,
    just,
    never,
    on_worker,
    probed,
    retry,
    take_until,
    throw,
)
from agentscope_rx.reactive.operators._retry import RetryPolicy
from agentscope_rx.testing import collect_dropped, run_virtual
from tests.reactive.recorder import record

PLACE: ContextVar[str] = ContextVar("place", default="outside")


class Noting(Probe[object]):
    """Notes what it sees, and sets `PLACE` for the source."""

    def __init__(self, log: list[Any], place: str = "inside") -> None:
        self.log = log
        self.place = place

    def begin(self, scope: Scope) -> Context:
        self.log.append("begin")
        context = scope.context.copy()
        context.run(PLACE.set, self.place)
        return context

    def item(self, value: object) -> None:
        self.log.append(value)

    def end(self, outcome: Outcome, error: Exception | None) -> None:
        self.log.append((outcome.value, error))


class Ends(Probe[object]):
    """Sees no items."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def end(self, outcome: Outcome, error: Exception | None) -> None:
        self.log.append(outcome.value)


async def items() -> AsyncIterator[int]:
    for item in range(3):
        await asyncio.sleep(1)
        yield item


def test_it_sees_the_items_and_the_end() -> None:
    log: list[Any] = []

    async def main() -> None:
        recorder = await record(from_async_iterable(items).pipe(probed(lambda: Noting(log))))
        assert recorder.heard == [0, 1, 2, "|"]

    run_virtual(main())
    assert log == ["begin", 0, 1, 2, ("completed", None)]


def test_it_sees_the_error_before_the_subscriber() -> None:
    log: list[Any] = []
    wrong = ValueError("wrong")

    async def main() -> None:
        with pytest.raises(ValueError, match="wrong"):
            await throw(wrong).pipe(probed(lambda: Noting(log)))

    run_virtual(main())
    assert log == ["begin", ("failed", wrong)]


@given(at=st.integers(0, 4), sees=st.booleans())
def test_a_disposal_at_any_moment_is_an_end(at: int, sees: bool) -> None:
    log: list[Any] = []

    async def main() -> None:
        make = (lambda: Noting(log)) if sees else (lambda: Ends(log))
        flow = from_async_iterable(items).pipe(probed(make))
        subscription = flow.subscribe(lambda item: None, print)
        await asyncio.sleep(at + 0.5)
        subscription.dispose()
        await asyncio.sleep(5)

    run_virtual(main())
    ends = [each[0] if isinstance(each, tuple) else each for each in log]
    assert [each for each in ends if each in ("disposed", "completed")] == ["disposed" if at < 3 else "completed"]


def test_the_source_runs_in_the_context_and_nothing_else() -> None:
    seen: list[tuple[str, str]] = []

    def note(where: str) -> None:
        seen.append((where, PLACE.get()))

    async def source() -> AsyncIterator[int]:
        note("task")
        await asyncio.sleep(1)
        note("task, later")
        yield 1
        note("task, after an item")

    def blocking() -> int:
        note("thread")
        return 1

    def attached() -> Flow[int]:
        note("attach")
        return from_async_iterable(source)

    def behind(value: int) -> Flow[int]:
        note("item")
        return just(value)

    def done() -> None:
        note("end")

    async def main() -> None:
        inner = defer(attached).pipe(probed(lambda: Noting([])))
        ended = asyncio.Event()

        def completed() -> None:
            done()
            ended.set()

        inner.pipe(concat_map(behind)).subscribe(lambda _: note("callback"), print, completed)
        await ended.wait()
        await on_worker(blocking).pipe(probed(lambda: Noting([])))
        note("afterwards")

    run_virtual(main())
    within = {"attach", "task", "task, later", "task, after an item", "thread"}
    assert {where for where, place in seen if place == "inside"} == within
    assert {where for where, place in seen if place == "outside"} == {"item", "callback", "end", "afterwards"}


def test_it_may_see_some_kinds_only() -> None:
    log: list[Any] = []

    class Texts(Noting):
        kinds = frozenset((str,))

    async def main() -> None:
        assert await record(just(1, "a", 2).pipe(probed(lambda: Texts(log)))) is not None

    run_virtual(main())
    assert log == ["begin", "a", ("completed", None)]


def test_probes_nest() -> None:
    log: list[Any] = []
    places: list[str] = []

    async def main() -> None:
        source = defer(lambda: just(places.append(PLACE.get())))
        inner = source.pipe(probed(lambda: Noting(log, "inner")), probed(lambda: Noting(log, "outer")))
        await inner

    run_virtual(main())
    assert places == ["inner"]
    assert log == ["begin", "begin", None, None, ("completed", None), ("completed", None)]


def test_each_attempt_has_a_probe_of_its_own() -> None:
    log: list[Any] = []
    count = 0

    async def attempt() -> int:
        nonlocal count
        count += 1
        if count < 3:
            raise ValueError(count)
        return count

    async def main() -> int:
        seen = from_callable(attempt).pipe(probed(lambda: Ends(log)))
        return await seen.pipe(retry(RetryPolicy(retry=lambda state: True, stop=lambda state: False)))

    assert run_virtual(main()) == 3
    assert log == ["failed", "failed", "completed"]


def test_no_probe_is_no_change() -> None:
    async def main() -> None:
        assert await just(1).pipe(probed(lambda: None)) == 1

    run_virtual(main())


class Broken(Probe[object]):
    def __init__(self, where: str) -> None:
        self.where = where

    def fail(self, where: str) -> None:
        if where == self.where:
            raise ValueError(where)

    def begin(self, scope: Scope) -> Context | None:
        self.fail("begin")
        return None

    def item(self, value: object) -> None:
        self.fail("item")

    def end(self, outcome: Outcome, error: Exception | None) -> None:
        self.fail("end")


@pytest.mark.parametrize("where", ["begin", "item", "end"])
def test_a_probe_that_fails_changes_nothing(where: str) -> None:
    async def main() -> None:
        with collect_dropped() as dropped:
            recorder = await record(just(1).pipe(probed(lambda: Broken(where))))
        assert recorder.heard == [1, "|"]
        assert [str(each) for each in dropped] == [where]

    run_virtual(main())


def test_a_probe_that_cannot_be_made_changes_nothing() -> None:
    def make() -> Probe[object]:
        raise ValueError("made")

    async def main() -> None:
        with collect_dropped() as dropped:
            assert await just(1).pipe(probed(make)) == 1
        assert [str(each) for each in dropped] == ["made"]

    run_virtual(main())


def test_a_source_that_cannot_start_is_an_end() -> None:
    log: list[Any] = []

    def broken(sink: Any, scope: Scope) -> None:
        raise ValueError("broken")

    async def main() -> None:
        with pytest.raises(ValueError, match="broken"):
            await Flow[int](broken).pipe(probed(lambda: Noting(log)))

    run_virtual(main())
    assert log[0] == "begin" and log[1][0] == "failed" and len(log) == 2


def test_a_subscriber_that_throws_is_an_end() -> None:
    log: list[Any] = []

    def refuses(item: object) -> None:
        raise ValueError("refused")

    async def main() -> None:
        with collect_dropped() as dropped:
            from_async_iterable(items).pipe(probed(lambda: Noting(log))).subscribe(refuses)
            await asyncio.sleep(5)
        assert len(dropped) == 1

    run_virtual(main())
    assert log == ["begin", 0, ("disposed", None)]


def test_a_signal_that_ends_it_from_behind_is_an_end() -> None:
    log: list[Any] = []

    async def main() -> None:
        signal = OneShotEvent()
        asyncio.get_running_loop().call_later(1, signal.fire)
        await record(never().pipe(probed(lambda: Ends(log)), take_until(signal)))

    run_virtual(main())
    assert log == ["disposed"]


def test_a_loop_that_shuts_down_ends_it() -> None:
    log: list[Any] = []

    async def main() -> None:
        never().pipe(probed(lambda: Ends(log))).subscribe(on_error=lambda error: None)
        await asyncio.sleep(0)

    asyncio.run(main())
    assert log == ["disposed"]


def test_a_flow_that_is_freed_on_a_lost_loop_has_ended() -> None:
    log: list[Any] = []
    loop = asyncio.new_event_loop()

    async def main() -> None:
        never().pipe(probed(lambda: Ends(log))).subscribe()

    loop.run_until_complete(main())
    loop.close()
    del loop
    gc.collect()
    assert log == ["disposed"]


def test_iteration_that_is_left_is_an_end() -> None:
    log: list[Any] = []

    async def main() -> None:
        async for _ in from_async_iterable(items).pipe(probed(lambda: Noting(log))):
            break
        gc.collect()
        await asyncio.sleep(0)

    run_virtual(main())
    assert log[-1] == ("disposed", None)


def test_a_generator_on_a_worker_runs_in_the_context() -> None:
    places: list[str] = []

    def numbers() -> Any:
        assert threading.current_thread() is not threading.main_thread()
        for number in range(3):
            places.append(PLACE.get())
            yield number

    async def main() -> None:
        await iterate_on_worker(numbers).pipe(probed(lambda: Noting([])))

    run_virtual(main())
    assert places == ["inside"] * 3


def test_the_context_of_the_subscriber_stays_as_it_is() -> None:
    async def main() -> None:
        before = dict(copy_context().items())
        await just(1).pipe(probed(lambda: Noting([])))
        assert dict(copy_context().items()) == before

    run_virtual(main())
