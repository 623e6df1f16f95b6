"""The clock jumps only when nothing real is outstanding, and nothing may be left."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentscope_rx.errors import RunInsideLoopError
from agentscope_rx.reactive import from_callable, just, never, on_worker, throw, timer
from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.testing import collect_dropped, run_virtual, verify, virtual_loop


def now() -> float:
    return asyncio.get_running_loop().time()


def test_delays_cost_nothing_and_are_exact() -> None:
    async def main() -> list[float]:
        times = []
        for delay in (0.5, 3600.0, 2.0**-20, 0.25):
            await asyncio.sleep(delay)
            times.append(now())
        return times

    began = time.monotonic()
    assert run_virtual(main()) == [0.5, 3600.5, 3600.5 + 2.0**-20, 3600.75 + 2.0**-20]
    assert time.monotonic() - began < 60.0


def test_timers_ring_in_the_order_of_their_times() -> None:
    async def main() -> list[int]:
        rung: list[int] = []
        loop = asyncio.get_running_loop()
        for delay in (5, 1, 3, 2, 4):
            loop.call_later(delay, rung.append, delay)
        await asyncio.sleep(6)
        return rung

    assert run_virtual(main()) == [1, 2, 3, 4, 5]


def test_a_flow_is_run_to_its_last_value() -> None:
    assert run_virtual(just(1, 2, 3)) == 3
    assert run_virtual(timer(1000)) == 0


@pytest.mark.parametrize("where", ["worker", "executor", "default executor"])
def test_the_clock_stands_still_for_a_job(where: str) -> None:
    release = threading.Event()

    async def main() -> float:
        loop = asyncio.get_running_loop()
        soon = loop.call_later(0.09, lambda: pytest.fail("the clock moved past a job"))
        late = loop.call_later(1000, print)
        threading.Timer(0.02, release.set).start()
        with ThreadPoolExecutor(1) as pool:
            if where == "worker":
                await on_worker(lambda: release.wait(5))
            else:
                await loop.run_in_executor(pool if where == "executor" else None, release.wait, 5)
        soon.cancel()
        late.cancel()
        return now()

    assert run_virtual(main()) == 0.0


def test_a_deadline_over_a_stuck_job_passes_in_real_time() -> None:
    release = threading.Event()

    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await on_worker(lambda: release.wait(5))
        # the job is no longer awaited: time is virtual again
        await asyncio.sleep(3600)
        release.set()
        return now()

    began = time.monotonic()
    assert run_virtual(main()) == 3600.05
    assert 0.04 < time.monotonic() - began < 60


def test_joining_an_executors_threads_takes_no_virtual_time() -> None:
    """From Python 3.12 on a runner bounds it by a timeout on the loop's clock, which must not jump there."""

    async def main() -> None:
        await asyncio.get_running_loop().run_in_executor(None, int)

    for _ in range(50):
        run_virtual(main())


def test_a_socket_is_waited_for_in_real_time() -> None:
    ours, theirs = socket.socketpair()

    async def main() -> bytes:
        reader, writer = await asyncio.open_connection(sock=ours)
        threading.Timer(0.05, theirs.sendall, [b"hello"]).start()
        async with asyncio.timeout(1):
            data = await reader.read(5)
        assert 0.01 < now() < 1
        writer.close()
        await writer.wait_closed()
        await asyncio.sleep(1000)
        return data

    with theirs:
        assert run_virtual(main()) == b"hello"


def test_hold_is_for_the_tests_own_threads() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        done = asyncio.Event()
        began = threading.Event()

        def work() -> None:
            with loop.hold():
                began.set()
                release.wait(5)
                loop.call_soon_threadsafe(done.set)

        release = threading.Event()
        thread = threading.Thread(target=work)
        thread.start()
        began.wait()
        threading.Timer(0.02, release.set).start()
        async with asyncio.timeout(0.09):
            await done.wait()
        thread.join()
        return now()

    assert run_virtual(main()) < 0.09


def test_what_is_left_is_named() -> None:
    tasks: list[asyncio.Task[None]] = []

    async def leave() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(5, print)
        tasks.append(loop.create_task(asyncio.sleep(1), name="forgotten"))
        loop.call_soon(lambda: 1 / 0)

    with pytest.raises(AssertionError, match=r"(?s)forgotten.*timer.*print.*ZeroDivisionError"):
        run_virtual(leave())


def test_an_expected_error_does_not_hide_what_is_left() -> None:
    async def leave() -> None:
        asyncio.get_running_loop().call_later(5, print)
        raise ValueError("expected")

    with pytest.raises(AssertionError, match="timer") as caught:
        run_virtual(leave())
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(ValueError, match="as it came"):
        run_virtual(throw(ValueError("as it came")))


def test_a_deadlock_is_an_error_that_names_the_task() -> None:
    async def stuck() -> None:
        await never()

    with pytest.raises(AssertionError, match="stuck"):
        run_virtual(stuck(), patience=0.05)


def test_the_limit_bounds_virtual_time() -> None:
    async def ticking() -> None:
        for _ in range(1000):
            await asyncio.sleep(1)

    with pytest.raises(AssertionError, match=r"(?s)60 s of virtual time.*ticking"):
        run_virtual(ticking(), limit=60)


def test_the_loop_alone_works_with_a_runner() -> None:
    with asyncio.Runner(loop_factory=virtual_loop) as runner:
        assert runner.run(asyncio.sleep(100, "slept")) == "slept"


def test_a_cancelled_source_may_end_after_the_main_coroutine() -> None:
    ended = []

    async def source() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            ended.append(True)

    async def main() -> None:
        from_callable(source).subscribe().dispose()
        subscription = from_callable(source).subscribe()
        await asyncio.sleep(1)
        subscription.dispose()

    run_virtual(main())
    assert ended == [True]


def test_a_running_loop_is_reported_at_once() -> None:
    async def main() -> None:
        script = verify(timer(1)).expect_count(1).expect_completed()
        for begin in (lambda: run_virtual(timer(1)), lambda: run_virtual(asyncio.sleep(1)), script.run):
            with pytest.raises(RunInsideLoopError, match="Virtual time needs a loop of its own"):
                begin()

    asyncio.run(main())


def test_collect_dropped_takes_and_restores() -> None:
    with collect_dropped() as outer:
        with collect_dropped() as inner:
            report_dropped(ValueError("in"), "there")
        report_dropped(KeyError("out"), "here")
    assert [type(e) for e in inner] == [ValueError]
    assert inner.where == ["there"]
    assert [type(e) for e in outer] == [KeyError]
