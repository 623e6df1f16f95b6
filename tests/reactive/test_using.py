"""using: released exactly once, before the last signal, however it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops
from reactivex.subject import Subject

from agentscope_rx.reactive import (
    Flow,
    Outcome,
    catch,
    concat,
    flat_map,
    from_async_iterable,
    from_callable,
    just,
    never,
    shield,
    throw,
    timer,
    using,
)
from agentscope_rx.reactive.kernel.bridge import FlowIterator
from agentscope_rx.reactive.kernel.dropped import CleanUpTimeoutError
from agentscope_rx.testing import collect_dropped, run_virtual
from tests.reactive.recorder import Recorder, after, record, turns


class Flag:
    """A resource that must be taken and given back in turn."""

    def __init__(self, slow: float = 0.0) -> None:
        self.held = False
        self.endings: list[tuple[float, Outcome]] = []
        self.slow = slow

    def take(self) -> Flow[Flag]:
        assert not self.held
        self.held = True
        return just(self)

    def release(self, flag: Flag, ending: Outcome) -> Flow[Any] | None:
        assert flag is self
        assert self.held
        if self.slow:
            return timer(self.slow).pipe(ops.do_action(lambda _: self._freed(ending)))
        self._freed(ending)
        return None

    def _freed(self, ending: Outcome) -> None:
        self.held = False
        self.endings.append((asyncio.get_running_loop().time(), ending))

    def over(self, source: Callable[[], Flow[Any]], eager: bool = True) -> Flow[Any]:
        return using(self.take, lambda _: source(), self.release, eager=eager)


@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize("slow", [0.0, 2.0])
@pytest.mark.parametrize("error", [None, ValueError("x")])
@pytest.mark.parametrize("delay", [0.0, 1.0])
def test_release_comes_before_the_last_signal_or_after_it(
    eager: bool, slow: float, error: Exception | None, delay: float
) -> None:
    async def main() -> None:
        flag = Flag(slow)
        held_at_the_end: list[bool] = []

        def source() -> Flow[Any]:
            return after(delay, 1, error=error) if delay else concat(just(1), throw(error) if error else just())

        recorder = Recorder()
        flow = flag.over(source, eager)
        recorder.subscription = flow.subscribe(
            recorder.on_next,
            lambda e: (held_at_the_end.append(flag.held), recorder.on_error(e)),
            lambda: (held_at_the_end.append(flag.held), recorder.on_completed()),
        )
        await recorder.end()
        assert held_at_the_end == [not eager]
        assert recorder.timeline == [(delay, 1), (delay + slow * eager, error or "|")]
        await asyncio.sleep(10)
        assert flag.endings == [(delay + slow, Outcome.FAILED if error else Outcome.COMPLETED)]

    run_virtual(main())


@given(
    dispose_at=st.sampled_from([None, 0.0, 0.5, 1.0, 1.5, 2.5, 3.5, 4.5, 6.5]),
    fails=st.booleans(),
    eager=st.booleans(),
    slow=st.sampled_from([0.0, 2.0]),
    late_acquire=st.booleans(),
)
def test_exactly_one_release_whenever_it_is_left(
    dispose_at: float | None, fails: bool, eager: bool, slow: float, late_acquire: bool
) -> None:
    async def main() -> None:
        flag = Flag(slow)
        log: list[str] = []
        taken: list[int] = []

        def acquire() -> Flow[Flag]:
            source = timer(1) if late_acquire else just(0)
            return source.pipe(flat_map(lambda _: (taken.append(1), flag.take())[1]))

        def use(_: Flag) -> Flow[Any]:
            return concat(after(1, 1, log=log), after(1, 2, error=ValueError() if fails else None, log=log))

        recorder = Recorder()
        recorder.listen(using(acquire, use, flag.release, eager=eager))
        if dispose_at is not None:
            await asyncio.sleep(dispose_at)
            recorder.dispose()
        await asyncio.sleep(100)
        assert len(flag.endings) == len(taken)
        assert not flag.held
        assert log.count("start") == log.count("end")

    if fails and dispose_at is not None:
        with collect_dropped():  # an error between its failure and its end has no subscriber
            run_virtual(main())
    else:
        run_virtual(main())


def test_a_release_waits_for_the_clean_up_of_what_was_cancelled() -> None:
    async def main() -> None:
        flag = Flag()
        used: list[bool] = []

        async def slow_to_go() -> None:
            try:
                await asyncio.sleep(100)
            finally:
                await asyncio.sleep(3)
                used.append(flag.held)

        recorder = Recorder().listen(flag.over(lambda: from_callable(slow_to_go)))
        await asyncio.sleep(1)
        recorder.dispose()
        assert flag.held
        await asyncio.sleep(10)
        assert used == [True]
        assert flag.endings == [(4, Outcome.DISPOSED)]

        both = just(0, 1).pipe(
            flat_map(lambda i: from_callable(slow_to_go) if i else after(1, error=ValueError("sibling")))
        )
        began = asyncio.get_running_loop().time()
        recorder = await record(flag.over(lambda: both))
        assert repr(recorder.heard) == "[ValueError('sibling')]"
        assert recorder.at == [began + 4]
        assert used == [True, True]

    run_virtual(main())


def test_an_endless_clean_up_is_not_waited_for() -> None:
    async def main() -> None:
        flag = Flag()

        async def stubborn() -> None:
            while True:
                try:
                    await asyncio.sleep(100)
                    return
                except asyncio.CancelledError:
                    pass

        flow = using(flag.take, lambda _: from_callable(stubborn), flag.release, clean_up_seconds=5)
        recorder = Recorder().listen(flow)
        await asyncio.sleep(1)
        recorder.dispose()
        await asyncio.sleep(200)
        assert flag.endings == [(6, Outcome.DISPOSED)]

    with collect_dropped() as dropped:
        run_virtual(main())
    assert [type(error) for error in dropped] == [CleanUpTimeoutError]


def test_a_failing_release_never_replaces_the_signal() -> None:
    def release(_: int, ending: Outcome) -> Flow[Any]:
        if ending is Outcome.COMPLETED:
            raise ValueError("raised")
        return throw(ValueError("signalled"))

    async def main() -> None:
        assert (await record(using(lambda: just(1), just, release))).heard == [1, "|"]
        error = KeyError("the run's own")
        assert (await record(using(lambda: just(1), lambda _: throw(error), release))).heard == [error]

    with collect_dropped() as dropped:
        run_virtual(main())
    assert repr(dropped) == "[ValueError('raised'), ValueError('signalled')]"


def test_what_fails_before_it_is_held_is_not_released() -> None:
    def release(*_: object) -> None:
        pytest.fail("released")

    def broken() -> Flow[Any]:
        raise ValueError("acquire")

    async def main() -> None:
        assert repr((await record(using(broken, just, release))).heard) == "[ValueError('acquire')]"
        assert repr((await record(using(lambda: throw(KeyError(1)), just, release))).heard) == "[KeyError(1)]"
        (error,) = (await record(using(just, just, release))).heard
        assert isinstance(error, RuntimeError)
        recorder = Recorder().listen(using(never, just, release))
        await turns()
        recorder.dispose()

    run_virtual(main())


def test_what_fails_while_it_is_held_is_released() -> None:
    async def main() -> None:
        flag = Flag()
        half = using(lambda: concat(flag.take(), throw(ValueError("half"))), lambda _: just(1), flag.release)
        assert repr((await record(half)).heard) == "[ValueError('half')]"

        def broken(_: Flag) -> Flow[Any]:
            raise ValueError("use")

        assert repr((await record(using(flag.take, broken, flag.release))).heard) == "[ValueError('use')]"
        assert [ending for _, ending in flag.endings] == [Outcome.FAILED, Outcome.FAILED]

    run_virtual(main())


def test_a_raising_disposal_does_not_keep_the_resource() -> None:
    from reactivex import Observable
    from reactivex.disposable import Disposable

    def explode() -> None:
        raise ValueError("dispose")

    async def main() -> None:
        flag = Flag()
        foreign: Observable[int] = Observable(lambda observer, scheduler: Disposable(explode))
        recorder = Recorder().listen(using(flag.take, lambda _: foreign, flag.release))
        recorder.dispose()
        assert not flag.held

    with collect_dropped() as dropped:
        run_virtual(main())
    assert repr(dropped) == "[ValueError('dispose')]"


def test_the_resource_is_free_in_the_last_signal() -> None:
    async def main() -> None:
        flag = Flag()
        again: list[Any] = []
        flag.over(lambda: just(1)).subscribe(on_completed=lambda: flag.over(lambda: just(2)).subscribe(again.append))
        assert again == [2]

    run_virtual(main())


def test_nested_resources_are_released_from_the_inside() -> None:
    async def main() -> None:
        outer, inner = Flag(1), Flag(2)
        recorder = Recorder().listen(outer.over(lambda: inner.over(never)))
        recorder.dispose()
        await asyncio.sleep(10)
        assert inner.endings == [(2, Outcome.DISPOSED)]
        assert outer.endings == [(3, Outcome.DISPOSED)]

    run_virtual(main())


def test_a_stalled_consumer_does_not_hold_up_the_release() -> None:
    async def main() -> None:
        freed: list[float] = []

        async def write() -> Any:
            await asyncio.sleep(1)
            freed.append(asyncio.get_running_loop().time())
            yield None

        async def many() -> Any:
            for i in range(100):
                yield i

        flow = using(lambda: just(1), lambda _: from_async_iterable(many), lambda *_: from_async_iterable(write))
        iterator = FlowIterator(flow, capacity=2)
        assert await anext(iterator) == 0
        await turns()
        assert iterator.statistics().withheld
        await iterator.aclose()
        assert freed == [1]

    run_virtual(main())


def test_a_release_does_not_wait_for_a_slow_consumer() -> None:
    async def main() -> None:
        freed: list[float] = []

        async def write() -> Any:
            freed.append(asyncio.get_running_loop().time())
            yield None

        flow = using(lambda: just(1), lambda _: just(1, 2, 3), lambda *_: from_async_iterable(write))
        iterator = FlowIterator(flow, capacity=2)
        assert await anext(iterator) == 1
        assert iterator.statistics().withheld
        await asyncio.sleep(50)
        assert freed == [0]
        assert [value async for value in iterator] == [2, 3]

    run_virtual(main())


def test_shield_goes_on_while_demand_is_withheld() -> None:
    async def main() -> None:
        written: list[int] = []

        async def write() -> Any:
            for i in range(5):
                written.append(i)
                yield i

        iterator = FlowIterator(shield(from_async_iterable(write)), capacity=2)
        await anext(iterator)
        await turns()
        assert iterator.statistics().withheld
        await iterator.aclose()
        assert written == [0, 1, 2, 3, 4]

    run_virtual(main())


def test_leaving_is_called_at_once_and_may_fail() -> None:
    def leaving(_: Flag) -> None:
        raise ValueError("leaving")

    async def main() -> None:
        flag = Flag()
        recorder = Recorder().listen(using(flag.take, lambda _: never(), flag.release, on_dispose=leaving))
        recorder.dispose()
        assert not flag.held

    with collect_dropped() as dropped:
        run_virtual(main())
    assert repr(dropped) == "[ValueError('leaving')]"


def test_a_loop_that_shuts_down_releases() -> None:
    flag = Flag()

    async def call() -> None:
        await asyncio.sleep(100)

    async def main(n: int) -> None:
        flag.over(lambda: from_callable(call)).subscribe(on_error=lambda error: None)
        await turns(n)

    for n in (0, 1, 5):
        asyncio.run(main(n))
        assert not flag.held
    assert [ending for _, ending in flag.endings] == [Outcome.FAILED] * 3


def test_a_failing_subscriber_releases_once() -> None:
    def bad() -> None:
        raise ValueError("callback")

    async def main() -> None:
        for eager in (True, False):
            for source in (lambda: just(1), lambda: after(1, 1)):
                flag = Flag()
                flag.over(source, eager).subscribe(on_completed=bad)
                await asyncio.sleep(5)
                assert len(flag.endings) == 1

    with collect_dropped() as dropped:
        run_virtual(main())
    assert len(dropped) == 4


def test_further_resources_are_not_looked_at() -> None:
    async def main() -> None:
        released: list[Any] = []
        source = using(lambda: just(1, 2), just, lambda r, _: released.append(r))
        assert (await record(source)).heard == [1, "|"]
        assert released == [1]

    run_virtual(main())


def test_shield_runs_on_and_its_late_error_is_dropped() -> None:
    async def main() -> None:
        log: list[str] = []
        assert (await record(shield(after(1, 1, log=log)))).heard == [1, "|"]
        flag = Flag()
        recorder = Recorder().listen(flag.over(lambda: shield(after(5, 1, error=ValueError("late"), log=log))))
        await asyncio.sleep(1)
        recorder.dispose()
        assert flag.held
        await asyncio.sleep(10)
        assert log == ["start", "end", "start", "end"]
        assert flag.endings == [(6, Outcome.DISPOSED)]

    with collect_dropped() as dropped:
        run_virtual(main())
    assert repr(dropped) == "[ValueError('late')]"


def test_the_subject_of_a_release_is_awaited() -> None:
    async def main() -> None:
        gate: Subject[Any] = Subject()
        recorder = Recorder().listen(using(lambda: just(1), just, lambda *_: gate))
        assert recorder.heard == [1]
        gate.on_completed()
        assert recorder.heard == [1, "|"]

    run_virtual(main())


def test_catch_goes_on_with_another_flow_once() -> None:
    async def main() -> None:
        second = KeyError("second")
        source = concat(just(1), throw(ValueError())).pipe(catch(lambda e: concat(just(type(e)), throw(second))))
        assert (await record(source)).heard == [1, ValueError, second]

        def broken(error: Exception) -> Flow[Any]:
            raise TypeError("catching")

        assert repr((await record(throw(ValueError()).pipe(catch(broken)))).heard) == "[TypeError('catching')]"
        log: list[str] = []
        recorder = Recorder().listen(after(1, error=ValueError()).pipe(catch(lambda _: after(5, 1, log=log))))
        await asyncio.sleep(2)
        recorder.dispose()
        await asyncio.sleep(10)
        assert log == ["start", "end"]
        assert recorder.heard == []

    run_virtual(main())


def test_a_settled_catch_waits_for_what_the_error_has_cut_off():
    ends: list[str] = []

    async def slow_to_end() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(2)
            ends.append("ended")

    def caught(error: Exception) -> Flow[object]:
        return just((str(error), tuple(ends)))

    def run(settled: bool) -> list[object]:
        ends.clear()
        failing = concat(timer(1), throw(ValueError("no")))
        parts: Flow[object] = just(failing, from_callable(slow_to_end)).pipe(flat_map(lambda each: each))
        source = parts.pipe(ops.filter(lambda value: value != 0))
        held = using(lambda: just(None), lambda _: source.pipe(catch(caught, settled=settled)), lambda _, ending: None)
        return run_virtual(_all(held))

    assert run(settled=True) == [("no", ("ended",))]
    assert run(settled=False) == [("no", ())]


async def _all(source: Flow[object]) -> list[object]:
    values = [value async for value in source]
    await asyncio.sleep(5)
    return values
