"""Deadlines of a run share one timer of the loop: exact, in order, and none is left."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tenacity import stop_after_attempt, wait_fixed

from agentscope_rx.errors import DeadlineError
from agentscope_rx.reactive import Flow, RetryPolicy, Scope, concat, from_async_iterable, retry, timeout
from agentscope_rx.reactive.kernel.deadline import Deadline
from agentscope_rx.testing import run_virtual
from tests.reactive.recorder import record


def timers() -> int:
    loop: Any = asyncio.get_running_loop()
    return sum(not each.cancelled() for each in loop._scheduled)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9), st.none() | st.integers(0, 8)), max_size=12))
def test_each_rings_at_its_time_unless_it_was_cancelled_before(plan: list[tuple[int, int, int | None]]) -> None:
    """(made at, seconds, cancelled after): cancellations come half a second late."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        scope, began = Scope.here(), loop.time()
        rang: list[tuple[int, float]] = []

        async def one(number: int, at: int, delay: int, cancelled: int | None) -> None:
            await asyncio.sleep(at)
            deadline = Deadline(scope, delay, lambda: rang.append((number, loop.time() - began)))
            if cancelled is not None:
                await asyncio.sleep(cancelled + 0.5)
                deadline.cancel()
                deadline.cancel()

        scope.work.begin()
        await asyncio.gather(*(one(number, *each) for number, each in enumerate(plan)))
        await asyncio.sleep(20)
        expected = [
            (number, float(at + delay))
            for number, (at, delay, cancelled) in enumerate(plan)
            if cancelled is None or cancelled + 0.5 > delay
        ]
        assert sorted(rang) == expected
        assert [at for _, at in rang] == sorted(at for _, at in expected)
        scope.work.end()
        assert timers() == 0

    run_virtual(main())


def test_a_thousand_attempts_set_one_timer() -> None:
    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        calls, set_ = 0, loop.call_at

        def counting(*args: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            return set_(*args, **options)

        async def items() -> Any:
            yield 1

        def attempt() -> Flow[int]:
            return from_async_iterable(items).pipe(timeout(total=300))

        loop.call_at = counting
        await record(concat(*(attempt() for _ in range(1_000))))
        assert calls == 1 and timers() == 0

    run_virtual(main())


def test_a_timer_is_dropped_with_the_work() -> None:
    async def main() -> None:
        async def items() -> Any:
            await asyncio.sleep(5)
            yield 1

        disposable = from_async_iterable(items).pipe(timeout(total=300)).subscribe()
        await asyncio.sleep(1)
        disposable.dispose()
        await asyncio.sleep(0.1)
        assert timers() == 0

    run_virtual(main())


PAUSES = st.lists(st.integers(1, 9), min_size=1, max_size=4)


@given(PAUSES, st.integers(1, 9), st.integers(1, 30), st.booleans())
def test_retry_with_deadlines_is_retry_between_two_timeouts(
    pauses: list[int], each: int, total: int, fails: bool
) -> None:
    """Attempt n takes `pauses[n]` seconds; limits are a bit longer, so that no two moments are the same."""

    async def main() -> None:
        def source() -> Flow[int]:
            left = iter(pauses)

            async def items() -> Any:
                await asyncio.sleep(next(left, 1))
                if fails:
                    raise ValueError("no")
                yield 1

            return from_async_iterable(items)

        policy = RetryPolicy(stop=stop_after_attempt(3), wait=wait_fixed(2))
        late = DeadlineError
        one = source().pipe(retry(policy, each=each + 0.25, total=total + 0.125, late=late))
        other = source().pipe(
            timeout(total=each + 0.25, error=late),
            retry(policy),
            timeout(total=total + 0.125, error=lambda which, limit: late("overall", limit)),
        )
        first, second = await record(one), await record(other)
        assert [repr(each) for each in first.heard] == [repr(each) for each in second.heard]
        began = first.at[-1]
        assert second.at[-1] - began == began
        await asyncio.sleep(0.01)
        assert timers() == 0

    run_virtual(main())
