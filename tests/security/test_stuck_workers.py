"""Blocking tools that outlive their timeout: what they leave behind is counted and bounded, and stops nothing else."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import ReActAgent, Toolkit, tool
from agentscope_rx.errors import ConfigurationError, WorkersExhaustedError
from agentscope_rx.messages import ToolResultKind
from agentscope_rx.models import ExecutionConfig
from agentscope_rx.reactive import ENGINE_WORKERS, WORKERS, WorkerPool, iterate_on_worker, on_worker
from agentscope_rx.session import JsonSession
from agentscope_rx.testing import Delay, ScriptedModel, call, collect_dropped, run_virtual
from agentscope_rx.tools.files import FileTools
from tests.agent.parts import remembered
from tests.reactive.recorder import Recorder
from tests.reactive.test_workers import until

STUCK = 70


class Blocks:
    """Blocking calls, until the end of the test."""

    def __init__(self) -> None:
        self.release = threading.Event()

    def wait(self) -> None:
        self.release.wait(60)


@contextmanager
def blocks(*pools: WorkerPool) -> Iterator[Blocks]:
    """Nothing of what was blocked is left at the end: all counts are back at 0."""
    given = Blocks()
    try:
        yield given
    finally:
        given.release.set()
        for pool in (WORKERS, ENGINE_WORKERS, *pools):
            until(lambda pool=pool: pool.statistics()[1:4] == (0, 0, 0) and not pool.outstanding)


def blocking(given: Blocks) -> Any:
    @tool(execution_config=ExecutionConfig(timeout=0.2))
    def block(number: int) -> str:
        """Block."""
        given.wait()
        return f"{number}"

    return block


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def results(messages: Any) -> list[Any]:
    return [block for message in messages for block in message.tool_results]


async def in_turn(agent: ReActAgent, turn: int) -> Any:
    """The run, once it is in this turn."""
    while not (agent.runs and agent.runs[0].stats().turn == turn):  # noqa: ASYNC110 - nothing tells
        await asyncio.sleep(0.05)
    return agent.runs[0]


# --- the reproduction -------------------------------------------------------------------------------------------------


def test_stuck_tools_stop_nothing_else(tmp_path: Any) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    model = ScriptedModel(
        [call("block", number=number) for number in range(STUCK)],
        [Delay(5), call("add", a=1, b=2), call("read_file", path="a.txt")],
        "done",
    )

    async def main() -> None:
        with blocks() as given:
            toolkit = Toolkit([blocking(given), add, FileTools(tmp_path, read_only=True)], max_concurrency=STUCK)
            friday = ReActAgent("Friday", model, toolkit=toolkit)
            task = friday.call("go").as_task()
            run = await in_turn(friday, 1)
            # of the 70, those that have begun: 64, and those who took the place of one whose time was over
            assert run.stats().abandoned == WORKERS.statistics().abandoned
            assert 64 <= run.stats().abandoned <= STUCK
            assert WORKERS.statistics().queued == 0
            assert (await task).text == "done"
            *stuck, sum_of, file = results(remembered(friday))
            assert {each.kind for each in stuck} == {ToolResultKind.TIMEOUT} and len(stuck) == STUCK
            assert sum_of.text == "3" and "hello" in file.text
            session = JsonSession(tmp_path / "sessions")
            await session.save_all("ann", {"x": 1})
            assert (await session.load_all("ann")).values["x"] == 1
            given.release.set()
            until(lambda: run.stats().abandoned == 0)

    run_virtual(main())


def test_past_the_bound_a_call_is_refused(tmp_path: Any) -> None:
    async def main() -> None:
        with blocks() as given:
            left = [Recorder().listen(on_worker(given.wait)) for _ in range(64)]
            until(lambda: WORKERS.statistics().running == 64)
            for each in left:
                each.dispose()
            assert WORKERS.statistics()[:4] == (64, 64, 0, 64)
            assert await on_worker(lambda: 1) == 1
            left = [Recorder().listen(on_worker(given.wait)) for _ in range(64)]
            waits = Recorder().listen(on_worker(lambda: 1))
            until(lambda: WORKERS.statistics().running == 128)
            for each in left:
                each.dispose()
            # who was waiting for a thread is told as well
            (error,) = (await waits.end()).heard
            assert isinstance(error, WorkersExhaustedError)
            assert error.abandoned == 128 and error.retryable and "Blocks.wait" in str(error)
            assert len(error.calls) == 8
            toolkit = Toolkit([add])
            friday = ReActAgent("Friday", ScriptedModel(call("add", a=1, b=2), "I see"), toolkit=toolkit)
            # one failing tool never fails the run
            assert (await friday.call("go")).text == "I see"
            (result,) = results(remembered(friday))
            assert result.kind is ToolResultKind.FAILED and "No worker thread is free" in result.text
            assert result.metadata["error_type"] == "WorkersExhaustedError"
            await JsonSession(tmp_path).save_all("ann", {"x": 1})
            files = Toolkit([FileTools(tmp_path).list_directory])
            assert "ann" in (await files.call(call("list_directory"))).text
        assert await on_worker(lambda: 2) == 2

    run_virtual(main())


def test_a_run_counts_what_its_sub_agents_leave_behind() -> None:
    async def main() -> None:
        with blocks() as given:
            inner = ReActAgent("Inner", ScriptedModel(call("block", number=1), "in"), tools=[blocking(given)])
            outer = ReActAgent("Outer", ScriptedModel(call("ask", message="go"), [Delay(5), "out"]))
            outer.toolkit.register(inner.as_tool(name="ask"))
            task = outer.call("go").as_task()
            run = await in_turn(outer, 1)
            assert run.stats().abandoned == 1
            assert (await task).text == "out"
            given.release.set()
            until(lambda: run.stats().abandoned == 0)

    run_virtual(main())


# --- the pool ---------------------------------------------------------------------------------------------------------


class Submitted:
    """Jobs of a pool, and what became of them."""

    def __init__(self, pool: WorkerPool) -> None:
        self.pool = pool
        self.outcomes: list[Any] = []

    def begin(self, call: Any, **options: Any) -> Any:
        return self.pool.begin(Context(), call, lambda value, error: self.outcomes.append(error or value), **options)


def test_an_abandoned_job_frees_its_place_for_those_who_wait() -> None:
    pool = WorkerPool(1, 1)
    jobs = Submitted(pool)
    with blocks(pool) as given:
        stuck = jobs.begin(given.wait)
        jobs.begin(lambda: "next")
        until(lambda: pool.statistics()[:3] == (1, 1, 1))
        assert stuck.abandon()
        until(lambda: jobs.outcomes == ["next"])
        assert pool.statistics()[:4] == (2, 1, 0, 1)
    # one thread is enough again
    until(lambda: pool.statistics().threads == 1)
    jobs.begin(lambda: "more")
    until(lambda: jobs.outcomes == ["next", "more"])


def test_without_spare_threads_a_stuck_job_keeps_its_place() -> None:
    pool = WorkerPool(1, 0)
    jobs = Submitted(pool)
    with blocks(pool) as given:
        stuck = jobs.begin(given.wait)
        until(lambda: pool.statistics().running == 1)
        assert stuck.abandon()
        with pytest.raises(WorkersExhaustedError, match=r"Blocks\.wait") as raised:
            jobs.begin(lambda: 1)
        assert raised.value.abandoned == 1 and not pool.outstanding and pool.statistics().queued == 0
        pool.configure(max_abandoned=1)
        jobs.begin(lambda: "room")
        until(lambda: jobs.outcomes == ["room"])


def test_a_job_that_was_dropped_leaves_the_queue() -> None:
    pool = WorkerPool(1)
    jobs = Submitted(pool)
    with blocks(pool) as given:
        jobs.begin(given.wait)
        waiting = [jobs.begin(lambda: 1) for _ in range(1000)]
        until(lambda: pool.statistics()[1:3] == (1, 1000))
        for each in waiting:
            each.abandon()
        assert pool.statistics().queued == 0


def test_jobs_on_the_callers_executor_take_no_place() -> None:
    pool = WorkerPool(1, 0)
    jobs = Submitted(pool)
    with ThreadPoolExecutor(2) as mine, blocks(pool) as given:
        stuck = [jobs.begin(given.wait, executor=mine) for _ in range(2)]
        until(lambda: pool.statistics().running == 2)
        assert all(each.abandon() for each in stuck)
        assert pool.statistics() == (0, 2, 0, 2, ("Blocks.wait", "Blocks.wait"))
        jobs.begin(lambda: "mine")
        until(lambda: jobs.outcomes == ["mine"])


@given(
    steps=st.lists(st.sampled_from(["begin", "abandon", "end"]), max_size=30),
    bounds=st.tuples(st.integers(1, 3), st.integers(0, 3)),
)
def test_however_it_goes_the_bounds_hold_and_nothing_is_left(steps: list[str], bounds: tuple[int, int]) -> None:
    """Model: a job is waiting, running, or left behind; the pool refuses exactly when all threads are left behind."""
    pool = WorkerPool(*bounds)
    most = sum(bounds)
    events: list[tuple[Any, threading.Event]] = []
    told = 0

    def done(value: object, error: BaseException | None) -> None:
        nonlocal told
        told += 1

    begun = 0
    try:
        for step in steps:
            if step == "begin":
                event = threading.Event()
                stuck = pool.statistics().abandoned
                try:
                    events.append((pool.begin(Context(), lambda event=event: event.wait(20), done), event))
                    begun += 1
                    assert stuck < most
                except WorkersExhaustedError:
                    assert stuck == most
            elif events and step == "abandon":
                job, _ = events[0]
                job.abandon()
                events.append(events.pop(0))
            elif events:
                events.pop()[1].set()
            look = pool.statistics()
            assert look.threads <= most and look.abandoned <= most
    finally:
        for _, event in events:
            event.set()
    until(lambda: pool.statistics()[1:4] == (0, 0, 0) and not pool.outstanding)
    until(lambda: pool.statistics().threads <= bounds[0])
    assert told <= begun
    pool.shutdown()


def test_a_thread_that_cannot_be_started_is_no_lost_place(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = WorkerPool(1)
    jobs = Submitted(pool)

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(WorkersExhaustedError) as raised:
            jobs.begin(lambda: 1)
    assert "can't start" in str(raised.value.__cause__) and "can't start" in str(raised.value)
    assert pool.statistics()[:4] == (0, 0, 0, 0) and not pool.outstanding
    jobs.begin(lambda: "later")
    until(lambda: jobs.outcomes == ["later"])


@pytest.mark.parametrize("bounds", [(0, 1), (1, -1), (True, 1), (1.5, 1), (1, None)])
def test_bounds_that_are_none(bounds: Any) -> None:
    with pytest.raises(ConfigurationError, match="must be a whole number"):
        WorkerPool(*bounds)


# --- generators -------------------------------------------------------------------------------------------------------


def test_a_generator_without_a_thread_is_closed_later() -> None:
    pool = WorkerPool(1, 0)
    closed: list[str] = []

    def items() -> Iterator[int]:
        try:
            yield 1
            yield 2
        finally:
            closed.append(threading.current_thread().name)

    async def main() -> None:
        with blocks(pool) as given:
            values: list[Any] = []

            def stick(value: int) -> None:
                # before the generator is asked again: the only thread is taken for good
                values.append(value)
                job = Submitted(pool).begin(given.wait)
                until(lambda: pool.statistics().running == 1)
                job.abandon()

            errors: list[Exception] = []
            with collect_dropped() as dropped:
                iterate_on_worker(items, pool).subscribe(stick, errors.append)
                while not errors:  # noqa: ASYNC110 - a thread tells
                    await asyncio.sleep(0.01)
                assert closed == []
            assert [type(each) for each in (*errors, *dropped)] == [WorkersExhaustedError] * 2
        until(lambda: closed)
        # on a worker, and not where it was let go of
        assert closed == ["agentscope-rx-worker"]

    run_virtual(main())


# --- as an executor ---------------------------------------------------------------------------------------------------


def test_a_pool_of_ones_own_keeps_its_stuck_jobs() -> None:
    pool = WorkerPool(1, 0)

    async def main() -> None:
        with blocks(pool) as given:
            toolkit = Toolkit([blocking(given)], executor=pool)
            late = await toolkit.call(call("block", number=1))
            refused = await toolkit.call(call("block", number=2))
            assert (late.kind, refused.kind) == (ToolResultKind.TIMEOUT, ToolResultKind.FAILED)
            assert WORKERS.statistics().abandoned == 0 and pool.statistics().abandoned == 1
            assert await asyncio.get_running_loop().run_in_executor(WorkerPool(1), lambda: "other") == "other"

    run_virtual(main())


def test_futures_of_a_pool() -> None:
    pool = WorkerPool(1)
    with blocks(pool) as given:
        busy = pool.submit(given.wait)
        never, cancelled = pool.submit(int, "7"), pool.submit(int, "8")
        assert cancelled.cancel()
        given.release.set()
        assert never.result(20) == 7 and busy.result(20) is None
        failed = pool.submit(int, "x")
        assert isinstance(failed.exception(20), ValueError)
    with blocks(pool) as given:
        busy = pool.submit(given.wait)
        until(lambda: pool.statistics().running == 1)
        waiting: Future[int] = pool.submit(int, "9")
        pool.shutdown(wait=False, cancel_futures=True)
        with pytest.raises(CancelledError):
            waiting.result(20)
        with pytest.raises(RuntimeError, match="shut down"):
            pool.submit(int, "1")
        given.release.set()
        pool.shutdown()
        assert busy.done()


# --- the end of the program -------------------------------------------------------------------------------------------


def test_abandoned_threads_let_the_interpreter_exit() -> None:
    script = """
import threading
from agentscope_rx import Toolkit, tool
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.models import ExecutionConfig

@tool(execution_config=ExecutionConfig(timeout=0.1))
def block() -> str:
    threading.Event().wait()

print(Toolkit([block]).call(ToolUseBlock("1", "block", {})).run().kind.value)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "timeout", "")
