"""Limiters: at most n at once, at most n begun in a time; in line, on all loops and threads; no room is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.reactive import (
    Flow,
    OneShotEvent,
    Rate,
    Semaphore,
    admitted,
    concat,
    defer,
    from_callable,
    iterate_on_worker,
    just,
    never,
    on_worker,
    throw,
)
from agentscope_rx.reactive.budget import TokenBudget
from agentscope_rx.reactive.limiter import MAX_PASSED, Tokens
from agentscope_rx.reactive.rate import RateLimit
from agentscope_rx.testing import collect_dropped, run_virtual
from tests.reactive.recorder import Recorder, turns
from tests.reactive.test_workers import until


def nap(seconds: float, log: list[Any] | None = None, name: object = None) -> Flow[object]:
    """Waits, and logs its beginning and its end."""

    async def sleep() -> object:
        loop = asyncio.get_running_loop()
        if log is not None:
            log.append((loop.time(), "+", name))
        try:
            await asyncio.sleep(seconds)
        finally:
            if log is not None:
                log.append((loop.time(), "-", name))
        return name

    return from_callable(sleep)


def free(permits: Semaphore) -> bool:
    return permits.statistics() == (permits.limit, 0, 0)


def begun(log: list[Any]) -> list[Any]:
    return [(when, name) for when, what, name in log if what == "+"]


def test_at_most_n_at_once_first_come_first_served() -> None:
    permits, log = Semaphore(2), []

    async def main() -> None:
        tasks = [permits.around(nap(10, log, n)).as_task() for n in range(5)]
        await turns()
        assert permits.statistics() == (2, 2, 3)
        assert await asyncio.gather(*tasks) == [0, 1, 2, 3, 4]
        await turns()
        assert free(permits)

    run_virtual(main())
    assert begun(log) == [(0, 0), (0, 1), (10, 2), (10, 3), (20, 4)]


def test_room_is_used_at_once_and_without_a_turn_of_the_loop() -> None:
    heard: list[object] = []

    async def main() -> None:
        Semaphore(1).around(just(1, 2)).subscribe(heard.append)
        assert heard == [1, 2]

    run_virtual(main())


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, None, "2"])
def test_a_bad_limit_is_refused(limit: Any) -> None:
    with pytest.raises(ConfigurationError, match="semaphore"):
        Semaphore(limit)
    with pytest.raises(ConfigurationError, match="limit"):
        Rate(limit, per=1)


@pytest.mark.parametrize("per", [0, -1, True, None, "2", float("inf"), float("nan")])
def test_a_bad_period_is_refused(per: Any) -> None:
    with pytest.raises(ConfigurationError, match="per"):
        Rate(1, per=per)


def boom() -> Flow[object]:
    raise ValueError("boom")


@pytest.mark.parametrize("source", [lambda: throw(ValueError("boom")), boom, lambda: defer(boom)])
def test_released_after_an_error(source: Any) -> None:
    permits = Semaphore(1)

    async def main() -> None:
        for _ in range(3):
            with pytest.raises(ValueError, match="boom"):
                await admitted((permits,), lambda queued: source())
            await turns()
            assert free(permits)

    run_virtual(main())


def test_disposal_leaves_the_line_at_once() -> None:
    permits, log = Semaphore(1), []

    async def main() -> None:
        first = permits.around(nap(10, log, 1)).as_task()
        await turns()
        second = permits.around(nap(10, log, 2)).subscribe()
        third = permits.around(nap(10, log, 3)).as_task()
        await turns()
        assert permits.statistics() == (1, 1, 2)
        second.dispose()
        assert permits.statistics() == (1, 1, 1)
        await asyncio.gather(first, third)
        await turns()
        assert free(permits)

    run_virtual(main())
    assert begun(log) == [(0, 1), (10, 3)]


def test_disposal_just_after_being_let_through() -> None:
    permits, log = Semaphore(1), []

    async def main() -> None:
        holder = permits.around(never()).subscribe()
        second = permits.around(nap(1, log, 2)).subscribe()
        third = permits.around(nap(1, log, 3)).as_task()
        await turns()
        # lets the second through, which has not heard of it
        holder.dispose()
        assert permits.statistics() == (1, 1, 1)
        second.dispose()
        await third
        await turns()
        assert free(permits)

    run_virtual(main())
    assert begun(log) == [(0, 3)]


def test_released_when_the_clean_up_has_run() -> None:
    permits, log = Semaphore(1), []

    async def slow_to_leave() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(5)

    async def main() -> None:
        first = permits.around(from_callable(slow_to_leave)).subscribe()
        second = permits.around(nap(1, log, 2)).as_task()
        await asyncio.sleep(1)
        first.dispose()
        await second

    run_virtual(main())
    assert begun(log) == [(6, 2)]


def test_a_stop_event_ends_only_the_wait() -> None:
    permits, stop = Semaphore(1), OneShotEvent()

    async def main() -> None:
        first = Recorder().listen(admitted((permits,), lambda queued: nap(3, None, 1), stop=(OneShotEvent(), stop)))
        second = Recorder().listen(admitted((permits,), lambda queued: nap(3, None, 2), stop=(OneShotEvent(), stop)))
        await turns()
        stop.fire()
        assert second.heard == ["|"]
        assert Recorder().listen(admitted((permits,), lambda queued: just(1), stop=(stop,))).heard == ["|"]
        assert permits.statistics() == (1, 1, 0)
        await first.end()
        assert first.heard == [1, "|"]

    run_virtual(main())


def test_use_receives_the_seconds_waited() -> None:
    permits = Semaphore(1)

    async def main() -> None:
        def told(queued: float) -> Flow[object]:
            return concat(just(queued), nap(4, None, "end"))

        first = Recorder().listen(admitted((permits,), told))
        second = Recorder().listen(admitted((permits,), told))
        await second.end()
        assert first.heard == [0, "end", "|"] and second.heard == [4, "end", "|"]

    run_virtual(main())


def test_begun_comes_before_the_flow_and_may_end_it() -> None:
    permits = Semaphore(1)

    async def main() -> None:
        log: list[object] = []

        def use(queued: float) -> Flow[object]:
            log.append(queued)
            return nap(4, None, "end")

        def waits(name: str) -> Flow[object]:
            return admitted((permits,), use, waiting=lambda: f"{name} waits", begun=lambda queued: (name, queued))

        first, second = Recorder().listen(waits("a")), Recorder().listen(waits("b"))
        third = Recorder().listen(waits("c").pipe(ops.take(2)))
        await third.end()
        assert first.heard == [("a", 0), "end", "|"]
        assert second.heard == ["b waits", ("b", 4), "end", "|"]
        assert third.heard == ["c waits", ("c", 8), "|"]
        await turns()
        assert log == [0, 4] and free(permits)

    run_virtual(main())


# --- several limiters ------------------------------------------------------------------------------------------------


def test_a_waiting_request_holds_no_room() -> None:
    narrow, wide, log = Semaphore(1), Semaphore(2, shared=True), []

    async def main() -> None:
        a = [admitted((narrow, wide), lambda queued, n=n: nap(10, log, f"a{n}")).as_task() for n in range(3)]
        b = admitted((wide,), lambda queued: nap(10, log, "b")).as_task()
        await asyncio.gather(*a, b)
        await turns()
        assert free(narrow) and free(wide)

    run_virtual(main())
    assert begun(log) == [(0, "a0"), (0, "b"), (10, "a1"), (20, "a2")]


def test_a_request_is_not_passed_for_ever() -> None:
    """It needs two limiters that never have room at the same moment."""
    tool, kit, log = Semaphore(1), Semaphore(1, shared=True), []

    async def stream(limiters: tuple[Semaphore, ...], offset: float, name: str) -> None:
        await asyncio.sleep(offset)
        for n in range(60):
            admitted(limiters, lambda queued, n=n: nap(1, log, f"{name}{n}")).subscribe()
            await asyncio.sleep(1)

    async def main() -> None:
        others = [asyncio.create_task(stream((tool,), 0, "t")), asyncio.create_task(stream((kit,), 0.5, "k"))]
        await asyncio.sleep(0.75)
        await admitted((tool, kit), lambda queued: nap(1, log, "both"))
        await asyncio.gather(*others)
        await asyncio.sleep(100)
        assert free(tool) and free(kit)

    run_virtual(main())
    (when,) = [when for when, name in begun(log) if name == "both"]
    assert when <= MAX_PASSED + 3


def test_a_reservation_ends_when_its_request_leaves() -> None:
    tool, kit, log = Semaphore(1), Semaphore(1, shared=True), []

    async def main() -> None:
        holder = kit.around(never()).subscribe()
        waits = admitted((tool, kit), lambda queued: never()).subscribe()
        for n in range(MAX_PASSED):
            await tool.around(nap(1, log, n))
            await turns()
        late = tool.around(nap(1, log, "late")).as_task()
        await asyncio.sleep(5)
        assert not late.done()
        waits.dispose()
        await late
        holder.dispose()
        await turns()
        assert free(tool) and free(kit)

    run_virtual(main())


# --- rates --------------------------------------------------------------------------------------------------------


def test_at_most_n_begun_in_any_window() -> None:
    limiter, log = Rate(2, per=10).limiter(), []

    async def main() -> None:
        await asyncio.sleep(3)
        await asyncio.gather(*[admitted((limiter,), lambda queued, n=n: nap(1, log, n)).as_task() for n in range(5)])
        await asyncio.sleep(0.5)
        await admitted((limiter,), lambda queued: nap(1, log, 5))

    run_virtual(main())
    assert begun(log) == [(3, 0), (3, 1), (13, 2), (13, 3), (23, 4), (pytest.approx(24.5), 5)]


def test_disposed_while_it_waits_for_its_time() -> None:
    limiter, log = Rate(1, per=10).limiter(), []

    async def main() -> None:
        await admitted((limiter,), lambda queued: nap(1, log, 0))
        gone = admitted((limiter,), lambda queued: nap(1, log, 1)).subscribe()
        last = admitted((limiter,), lambda queued: nap(1, log, 2)).as_task()
        await asyncio.sleep(2)
        gone.dispose()
        await last

    run_virtual(main())
    assert begun(log) == [(0, 0), (10, 2)]


def test_time_that_matters_only_after_a_place_is_free() -> None:
    """It waits for the semaphore first and then for the rate."""
    permits, limiter, log = Semaphore(1), Rate(1, per=10).limiter(), []

    async def main() -> None:
        flows = [admitted((permits, limiter), lambda queued, n=n: nap(3, log, n)) for n in range(3)]
        await asyncio.gather(*[each.as_task() for each in flows])
        await turns()
        assert free(permits)

    run_virtual(main())
    assert begun(log) == [(0, 0), (10, 1), (20, 2)]


def test_virtual_clocks_keep_rates_of_their_own() -> None:
    limiter = Rate(1, per=10).limiter()

    async def main() -> float:
        await admitted((limiter,), lambda queued: just(1))
        await admitted((limiter,), lambda queued: just(1))
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == 10
    assert run_virtual(main()) == 10


def test_a_rate_holds_for_all_loops_on_the_system_s_clock() -> None:
    """A flow that has begun on one loop keeps a flow on another loop, on another thread, waiting."""
    limiter, begun, left = Rate(1, per=3600).limiter(), list[object](), list[float]()

    async def one(name: str) -> None:
        waiting = admitted((limiter,), lambda queued: just(name)).subscribe(begun.append)
        await turns()
        left.append(limiter.wait(asyncio.get_running_loop()))
        waiting.dispose()

    def on_a_thread(name: str) -> None:
        thread = threading.Thread(target=lambda: asyncio.run(one(name)))
        thread.start()
        thread.join()

    on_a_thread("first")
    on_a_thread("second")
    assert begun == ["first"] and all(0 < seconds <= 3600 for seconds in left)
    # an hour later
    loop = asyncio.new_event_loop()
    limiter._begun.of(loop)[1][0] -= 3600
    loop.close()
    on_a_thread("third")
    assert begun == ["first", "third"]


# --- blocking calls -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("own", [False, True])
def test_an_abandoned_blocking_call_keeps_its_place(own: bool) -> None:
    permits, go, entered = Semaphore(1), threading.Event(), threading.Event()
    pool = ThreadPoolExecutor(1) if own else None

    def block() -> str:
        entered.set()
        go.wait()
        return "late"

    async def main() -> None:
        first = permits.around(on_worker(block, pool)).subscribe()
        second = permits.around(just("second")).as_task()
        await asyncio.to_thread(entered.wait)
        first.dispose()
        await asyncio.sleep(100)
        assert permits.statistics() == (1, 1, 1) and not second.done()
        go.set()
        assert await second == "second"
        await turns()
        assert free(permits)

    run_virtual(main())
    if pool is not None:
        pool.shutdown()


def test_a_blocking_call_that_has_not_begun_keeps_none() -> None:
    permits, go, pool = Semaphore(1), threading.Event(), ThreadPoolExecutor(1)
    pool.submit(go.wait)

    async def main() -> None:
        first = permits.around(on_worker(lambda: None, pool)).subscribe()
        await turns()
        first.dispose()
        assert free(permits)
        refused = permits.around(on_worker(lambda: None, pool)).as_task()
        await turns()
        pool.shutdown(wait=False, cancel_futures=True)
        with pytest.raises(RuntimeError, match="dropped the job"):
            await refused
        with pytest.raises(RuntimeError):
            await permits.around(on_worker(lambda: None, pool))
        await turns()
        assert free(permits)
        go.set()

    run_virtual(main())
    pool.shutdown()


def test_a_generator_on_a_worker_keeps_its_place_till_closed() -> None:
    permits, go, closed = Semaphore(1), threading.Event(), list[str]()

    def items() -> Iterator[int]:
        try:
            yield 1
            go.wait()
            yield 2
        finally:
            closed.append("closed")

    async def main() -> None:
        first = permits.around(iterate_on_worker(items)).subscribe()
        await asyncio.sleep(1)
        first.dispose()
        second = permits.around(defer(lambda: just(list(closed)))).as_task()
        go.set()
        assert await second == ["closed"]

    run_virtual(main())


def test_semaphores_within_semaphores() -> None:
    """An abandoned call within a call keeps the places of both."""
    outer, inner, go, entered = Semaphore(1), Semaphore(1), threading.Event(), threading.Event()

    def block() -> None:
        entered.set()
        go.wait()

    async def main() -> None:
        subscription = outer.around(inner.around(on_worker(block))).subscribe()
        await asyncio.to_thread(entered.wait)
        subscription.dispose()
        await asyncio.sleep(1)
        assert not free(outer) and not free(inner)
        go.set()
        await outer.around(inner.around(just(1)))
        await turns()
        assert free(outer) and free(inner)

    run_virtual(main())


# --- loops --------------------------------------------------------------------------------------------------------


def test_shared_by_loops_on_several_threads() -> None:
    permits, running, most, lock = Semaphore(3), 0, 0, threading.Lock()

    async def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        await asyncio.sleep(0.001)
        with lock:
            running -= 1

    async def main() -> None:
        await asyncio.gather(*[permits.around(from_callable(work)).as_task() for _ in range(40)])

    threads = [threading.Thread(target=lambda: asyncio.run(main())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 3
    until(lambda: free(permits))


def test_a_loop_that_ends_releases_and_leaves_the_line() -> None:
    permits = Semaphore(1)

    async def leaves(held: threading.Event, go: threading.Event) -> None:
        permits.around(never()).subscribe(on_error=lambda error: None)
        permits.around(never()).subscribe(on_error=lambda error: None)
        held.set()
        await asyncio.to_thread(go.wait)

    async def waits() -> int:
        return await permits.around(just(1))

    held, go = threading.Event(), threading.Event()
    first = threading.Thread(target=lambda: asyncio.run(leaves(held, go)))
    first.start()
    held.wait()
    results: list[int] = []
    second = threading.Thread(target=lambda: results.append(asyncio.run(waits())))
    second.start()
    until(lambda: permits.statistics() == (1, 1, 2))
    go.set()
    first.join()
    second.join()
    assert results == [1]
    until(lambda: free(permits))


def test_a_new_request_reclaims_from_a_closed_loop() -> None:
    permits = Semaphore(1)

    async def begin() -> None:
        permits.around(never()).subscribe()
        permits.around(never()).subscribe()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(begin())
    loop.close()
    assert permits.statistics() == (1, 1, 1)

    async def main() -> int:
        return await permits.around(just(1))

    assert run_virtual(main()) == 1
    assert free(permits)


def test_a_waiting_request_reclaims_from_a_closed_loop() -> None:
    permits = Semaphore(1)

    async def begin() -> None:
        permits.around(never()).subscribe()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(begin())

    async def main() -> int:
        asyncio.get_running_loop().call_later(0.5, loop.close)
        return await permits.around(just(1))

    assert run_virtual(main()) == 1
    assert free(permits)


@pytest.mark.parametrize("kind", ["rate", "budget"])
def test_a_new_request_does_not_overtake_at_the_due_moment(kind: str) -> None:
    limiter = Rate(1, per=1).limiter() if kind == "rate" else TokenBudget(1, 1)
    begun: list[tuple[str, float]] = []

    def one(name: str) -> None:
        work = just(1).pipe(ops.do_action(lambda _: begun.append((name, asyncio.get_running_loop().time()))))
        admitted([limiter], lambda queued: work, tokens=Tokens(1)).subscribe()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        # (their clocks are set before those of who waits in line: they are here before that one is told)
        for name, when in (("third", 1), ("fourth", 2), ("first", 0), ("second", 0.5)):
            loop.call_at(when, one, name)
        await asyncio.sleep(5)

    run_virtual(main())
    assert begun == [("first", 0), ("second", 1), ("third", 2), ("fourth", 3)]


def test_a_new_request_looks_at_the_first_in_line_only() -> None:
    asked = 0

    class Counting(RateLimit):
        def wait(self, loop: asyncio.AbstractEventLoop, tokens: Tokens | None = None) -> float:
            nonlocal asked
            asked += 1
            return super().wait(loop, tokens)

    async def main() -> None:
        nonlocal asked
        limiters = [Semaphore(1), Counting(10**6, 1000.0)]
        line = [admitted(limiters, lambda queued: never()).subscribe() for _ in range(500)]
        asked = 0
        line.append(admitted(limiters, lambda queued: never()).subscribe())
        assert asked < 10
        for each in reversed(line):
            each.dispose()

    run_virtual(main())


# --- at random ----------------------------------------------------------------------------------------------------

FLOWS = st.lists(
    st.tuples(
        st.integers(0, 5),  # when it comes
        st.integers(0, 5),  # how long it takes
        st.sampled_from([(0,), (1,), (2,), (0, 2), (1, 2), (0, 3), (0, 2, 3)]),  # its limiters
        st.one_of(st.none(), st.integers(0, 12)),  # when it is disposed
        st.booleans(),  # True if it fails
    ),
    max_size=12,
)


@given(FLOWS, st.integers(1, 3), st.integers(1, 3))
def test_laws(flows: list[Any], n: int, per: int) -> None:
    permits = [Semaphore(n), Semaphore(1), Semaphore(3, shared=True)]
    limiters = [*permits, Rate(2, per=per).limiter()]
    held, most, begun_by_rate, ended = [0, 0, 0, 0], [0, 0, 0, 0], list[float](), list[int]()
    started: dict[tuple[int, ...], dict[int, float]] = {}
    arrived: list[int] = []

    async def one(
        index: int, when: float, seconds: float, mine: tuple[int, ...], gone: float | None, fails: bool
    ) -> None:
        async def work() -> None:
            now = asyncio.get_running_loop().time()
            started.setdefault(mine, {})[index] = now
            if 3 in mine:
                begun_by_rate.append(now)
            for limiter in mine:
                held[limiter] += 1
                most[limiter] = max(most[limiter], held[limiter])
            try:
                await asyncio.sleep(seconds)
                if fails:
                    raise ValueError
            finally:
                for limiter in mine:
                    held[limiter] -= 1

        await asyncio.sleep(when)
        arrived.append(index)
        recorder = Recorder().listen(admitted([limiters[each] for each in mine], lambda queued: from_callable(work)))
        if gone is not None:
            await asyncio.sleep(gone)
            recorder.subscription.dispose()
        else:
            await recorder.end()
        ended.append(index)

    async def main() -> None:
        await asyncio.gather(*[one(index, *each) for index, each in enumerate(flows)])
        await asyncio.sleep(0)
        await turns()

    with collect_dropped():
        run_virtual(main())
    assert sorted(ended) == list(range(len(flows)))
    assert all(free(each) for each in permits) and held == [0, 0, 0, 0]
    assert most[0] <= n and most[1] <= 1 and most[2] <= 3
    assert all(later - sooner > per - 1e-6 for sooner, later in zip(begun_by_rate, begun_by_rate[2:], strict=False))
    for begun in started.values():
        # first come, first served, among those that want the same
        times = [begun[index] for index in arrived if index in begun]
        assert times == sorted(times)
