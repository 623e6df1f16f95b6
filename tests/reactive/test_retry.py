"""retry: a new subscription for each attempt, waits by the loop's clock, and an honest last error."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops
from tenacity import (
    retry_if_exception_type,
    stop_after_attempt,
    stop_after_delay,
    wait_chain,
    wait_exponential,
    wait_fixed,
)
from tenacity.stop import stop_before_delay

from agentscope_rx.errors import RateLimitError
from agentscope_rx.reactive import (
    Attempt,
    Flow,
    RetryPolicy,
    concat,
    defer,
    from_callable,
    jittered,
    just,
    retry,
    throw,
)
from agentscope_rx.testing import run_virtual
from tests.reactive.recorder import Recorder, after, record


class Failing:
    """Fails so many times, then succeeds; notes when it was asked."""

    def __init__(self, times: int, error: Exception | None = None, values: tuple[Any, ...] = ()) -> None:
        self.asked: list[float] = []
        self.times = times
        self.error = error
        self.values = values

    def flow(self) -> Flow[Any]:
        def attempt() -> Flow[Any]:
            self.asked.append(asyncio.get_running_loop().time())
            n = len(self.asked)
            if n <= self.times:
                return concat(just(*self.values), throw(self.error or ValueError(n)))
            return just("ok")

        return defer(attempt)


def policy(attempts: int, wait: Any = None, **more: Any) -> RetryPolicy:
    return RetryPolicy(stop=stop_after_attempt(attempts), wait=wait or wait_fixed(1), **more)


def test_backoff_doubles_up_to_its_bound_by_the_loops_clock() -> None:
    async def main() -> None:
        source = Failing(5)
        wait = wait_exponential(multiplier=2, max=10)
        assert (await record(source.flow().pipe(retry(policy(9, wait))))).heard == ["ok", "|"]
        assert source.asked == [0, 2, 6, 14, 24, 34]

    run_virtual(main())


@given(numbers=st.lists(st.floats(0, 1, exclude_max=True), min_size=4, max_size=4), spread=st.floats(0, 1))
def test_jitter_comes_from_its_source(numbers: list[float], spread: float) -> None:
    async def main() -> None:
        source = Failing(4)
        left = list(numbers)
        wait = jittered(wait_fixed(10), spread, lambda: left.pop(0))
        await record(source.flow().pipe(retry(policy(9, wait))))
        gaps = [b - a for a, b in zip(source.asked, source.asked[1:], strict=False)]
        assert gaps == pytest.approx([10 * (1 + spread * (2 * number - 1)) for number in numbers])
        assert all(10 * (1 - spread) - 1e-9 <= gap <= 10 * (1 + spread) + 1e-9 for gap in gaps)

    run_virtual(main())


@given(fails=st.integers(0, 6), attempts=st.integers(1, 5))
def test_at_most_so_many_attempts(fails: int, attempts: int) -> None:
    async def main() -> None:
        source = Failing(fails)
        heard = (await record(source.flow().pipe(retry(policy(attempts))))).heard
        assert len(source.asked) == min(fails + 1, attempts)
        if fails < attempts:
            assert heard == ["ok", "|"]
        else:
            assert repr(heard) == f"[ValueError({attempts})]"

    run_virtual(main())


def test_the_last_error_tells_of_the_ones_before() -> None:
    async def main() -> None:
        with pytest.raises(ValueError) as caught:
            await Failing(9).flow().pipe(retry(policy(3)))
        assert caught.value.__notes__ == ["Attempt 3 of 3. Before: ValueError: 1; ValueError: 2"]
        with pytest.raises(ValueError) as caught:
            await Failing(9).flow().pipe(retry(policy(1)))
        assert not hasattr(caught.value, "__notes__")

    run_virtual(main())


def test_a_repeated_error_has_one_note() -> None:
    error = ValueError("the same")
    error.add_note("its own")

    async def main() -> None:
        for attempts in (3, 2, 3):
            with pytest.raises(ValueError):
                await throw(error).pipe(retry(policy(attempts)))
        assert error.__notes__ == ["its own", "Attempt 3 of 3. Before: ValueError: the same; ValueError: the same"]

    run_virtual(main())


def test_a_call_is_made_anew_for_each_attempt() -> None:
    calls = []

    async def call() -> int:
        calls.append(1)
        if len(calls) < 3:
            raise ValueError
        return len(calls)

    assert run_virtual(from_callable(call).pipe(retry(policy(5)))) == 3


def test_no_retry_after_a_value_unless_it_discards() -> None:
    async def main() -> None:
        source = Failing(1, values=("half",))
        assert repr((await record(source.flow().pipe(retry(policy(3))))).heard) == "['half', ValueError(1)]"
        source = Failing(1, values=("half",))
        recorder = await record(source.flow().pipe(retry(policy(3, discards=True), notice=lambda attempt: attempt)))
        half, attempt, *rest = recorder.heard
        assert half == "half"
        assert isinstance(attempt, Attempt)
        assert (attempt.number, attempt.delay, attempt.discarded) == (1, 1, True)
        assert rest == ["ok", "|"]
        assert recorder.at == [0, 0, 1, 1]

    run_virtual(main())


def test_retry_after_makes_the_wait_at_least_as_long() -> None:
    async def main() -> None:
        for asked, expected in ((30.0, 30), (0.5, 1), (None, 1)):
            source = Failing(1, RateLimitError("slow down", status=429, retry_after=asked))
            began = asyncio.get_running_loop().time()
            await record(source.flow().pipe(retry(policy(3))))
            assert source.asked[1] - began == expected

    run_virtual(main())


def test_tenacitys_own_conditions_see_the_loops_clock() -> None:
    async def main() -> None:
        source = Failing(99)
        await record(source.flow().pipe(retry(RetryPolicy(stop=stop_after_delay(10), wait=wait_fixed(4)))))
        assert source.asked == [0, 4, 8, 12]
        source = Failing(99)
        began = asyncio.get_running_loop().time()
        await record(source.flow().pipe(retry(RetryPolicy(stop=stop_before_delay(10), wait=wait_fixed(4)))))
        assert [at - began for at in source.asked] == [0, 4, 8]
        source = Failing(99)
        only = retry_if_exception_type(KeyError)
        await record(source.flow().pipe(retry(policy(9, retry=only))))
        assert len(source.asked) == 1
        chain = wait_chain(wait_fixed(1), wait_fixed(5))
        source = Failing(3)
        began = asyncio.get_running_loop().time()
        await record(source.flow().pipe(retry(policy(9, chain))))
        assert [at - began for at in source.asked] == [0, 1, 6, 11]

    run_virtual(main())


@pytest.mark.parametrize("part", ["stop", "wait", "retry", "notice"])
def test_a_policy_that_raises_is_the_error_and_names_its_cause(part: str) -> None:
    def broken(_: object) -> Any:
        raise TypeError(part)

    async def main() -> None:
        parts: dict[str, Any] = {"stop": stop_after_attempt(3), part: broken}
        notice = parts.pop("notice", None)
        (error,) = (await record(Failing(9).flow().pipe(retry(RetryPolicy(**parts), notice=notice)))).heard
        assert repr(error) == f"TypeError('{part}')"
        assert isinstance(error.__cause__, ValueError)

    run_virtual(main())


@pytest.mark.parametrize("at", [0.5, 1.5, 2.5])
def test_disposal_stops_the_attempt_or_the_wait(at: float) -> None:
    async def main() -> None:
        log: list[str] = []
        source = after(1, error=ValueError(), log=log).pipe(retry(policy(9)))
        recorder = Recorder().listen(source)
        await asyncio.sleep(at)
        recorder.dispose()
        begun = log.count("start")
        await asyncio.sleep(50)
        assert log == ["start", "end"] * begun
        assert recorder.heard == []

    run_virtual(main())


def test_a_subscribers_exception_is_not_retried() -> None:
    from agentscope_rx.testing import collect_dropped

    async def main() -> None:
        source = Failing(0)

        def bad(value: object) -> None:
            raise ValueError("mine")

        heard: list[Any] = []
        source.flow().pipe(retry(policy(5))).subscribe(bad, heard.append, lambda: heard.append("|"))
        await asyncio.sleep(50)
        assert len(source.asked) == 1
        assert heard == []

    with collect_dropped() as dropped:
        run_virtual(main())
    assert repr(dropped) == "[ValueError('mine')]"


def test_as_the_stock_operator_where_they_mean_the_same() -> None:
    async def main(operator: Any) -> Any:
        source = Failing(9)
        heard = (await record(source.flow().pipe(operator))).heard
        return repr(heard), len(source.asked)

    ours = run_virtual(main(retry(RetryPolicy(stop=stop_after_attempt(3)))))
    assert ours == run_virtual(main(ops.retry(3)))


def test_ten_thousand_attempts_keep_no_errors() -> None:
    class Big(Exception):
        pass

    refs: list[weakref.ref[Exception]] = []

    async def main() -> None:
        def attempt() -> Flow[Any]:
            error = Big()
            refs.append(weakref.ref(error))
            return throw(error) if len(refs) < 10_000 else just(1)

        assert await defer(attempt).pipe(retry(RetryPolicy(stop=lambda state: False))) == 1
        gc.collect()
        assert sum(ref() is not None for ref in refs) <= 2

    run_virtual(main())
