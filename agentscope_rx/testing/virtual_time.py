"""An event loop whose clock jumps to the next timer when, and only when, nothing real is outstanding.

| outstanding                                             | a wait for the next timer                                 |
|---------------------------------------------------------|-----------------------------------------------------------|
| nothing                                                 | costs nothing; the clock is set to exactly its time       |
| jobs of worker pools, `run_in_executor`, `hold()`       | is real; the clock stands still, moves in grains of 0.1 s |
| a socket or pipe                                        | is real; the clock follows real time                      |

So backoff, deadlines and slow models are instant and exact in tests, while a thread or a server gets the time it needs.
A worker job that nobody waits for any more (abandoned) is not outstanding. Other threads of a test say `loop.hold()`.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

from reactivex import Observable

from agentscope_rx.reactive import flow
from agentscope_rx.reactive.workers import outstanding_jobs

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

DAY = 86_400.0
GRAIN = 0.1
"""Seconds of waiting for worker jobs after which the clock follows; shorter jobs take no time at all."""
SLICE = 0.02


def run_virtual(main: Coroutine[object, object, T] | Observable[T], *, limit: float = DAY, patience: float = 20.0) -> T:
    """Runs a coroutine or a flow to its end in virtual time and returns its (last) value; nothing may be left.

    `limit` bounds the virtual seconds, `patience` the real ones during which nothing happens at all. `AssertionError`
    names what was pending then, and at the end the tasks, timers, worker jobs and unheard failures that are left.
    """
    loop = VirtualLoop(limit=limit, patience=patience)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        try:
            result = runner.run(_last(main) if isinstance(main, Observable) else main)
        except AssertionError as failure:
            if left := loop.settle():
                failure.add_note(_report(left))
            raise
        except Exception as failure:
            # a test that expects this very error must not overlook what it left
            if left := loop.settle():
                raise AssertionError(_report(left)) from failure
            raise
        if left := loop.settle():
            raise AssertionError(_report(left))
        return result


def _report(left: list[str]) -> str:
    return "left after the end of the run:\n  " + "\n  ".join(left)


async def _last(source: Observable[T]) -> T:
    return await flow(source)


def virtual_loop() -> VirtualLoop:
    """A loop in virtual time, for `asyncio.Runner(loop_factory=virtual_loop)` and the like."""
    return VirtualLoop()


class VirtualLoop(asyncio.SelectorEventLoop):
    """A selector loop that keeps the law above; `time()` starts at 0."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, *, limit: float = DAY, patience: float = 20.0) -> None:
        self._now = 0.0
        self._limit = limit
        self._patience = patience
        self._jobs = 0
        self._guard = threading.Lock()
        self._failures: list[str] = []
        self._virtual = _VirtualSelector(self)
        super().__init__(self._virtual)
        self._own_files = len(self._virtual.get_map())
        self.set_exception_handler(_note_failure)

    def time(self) -> float:
        """Seconds of virtual time since the loop was made."""
        return self._now

    def run_in_executor(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """As asyncio's; the job is outstanding until its future is done."""
        future = super().run_in_executor(executor, func, *args)
        self._count(1)
        future.add_done_callback(lambda _: self._count(-1))
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """As asyncio's; its threads are outstanding until they have been joined, so no `timeout` runs out before."""
        with self.hold():
            await super().shutdown_default_executor()

    @contextmanager
    def hold(self) -> Generator[None]:
        """Something real is outstanding inside this block, such as a test's own thread; from any thread."""
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def _count(self, change: int) -> None:
        with self._guard:
            self._jobs += change

    @property
    def jobs(self) -> int:
        """Worker jobs, executor jobs and holds that are outstanding."""
        return self._jobs + outstanding_jobs()

    @property
    def files(self) -> int:
        """Sockets and pipes that the loop watches, but for its own."""
        return len(self._virtual.get_map()) - self._own_files

    def jump(self) -> None:
        """Set the clock to the next timer's time."""
        when = self._scheduled[0].when()
        if when > self._limit:
            raise AssertionError(f"{self._limit:g} s of virtual time have passed; pending:\n  {self._pending_text()}")
        self._now = max(self._now, when)

    def advance(self, seconds: float) -> None:
        """Move the clock by real seconds that have passed, not beyond the next timer."""
        target = self._now + seconds
        self._now = max(self._now, min(target, self._scheduled[0].when())) if self._scheduled else target

    def check_patience(self, waited: float) -> None:
        """Fail if nothing at all has happened for too long."""
        if waited >= self._patience:
            raise AssertionError(f"nothing happened for {waited:.1f} real s; pending:\n  {self._pending_text()}")

    def settle(self) -> list[str]:
        """Run what is ready and wait for jobs, without moving the clock on to a timer; names what is left then."""
        deadline = time.monotonic() + self._patience
        self.run_until_complete(self._run_ready())
        while outstanding_jobs() and time.monotonic() < deadline:
            time.sleep(0.001)
            self.run_until_complete(self._run_ready())
        return self._pending() + self._failures

    async def _run_ready(self) -> None:
        for _ in range(10_000):
            await asyncio.sleep(0)
            if not self._ready:
                return

    def _pending(self) -> list[str]:
        tasks = [f"task {task!r}" for task in asyncio.all_tasks(self)]
        timers = [f"timer {timer!r}" for timer in self._scheduled if not timer.cancelled()]
        return tasks + timers + ([f"{self.jobs} worker jobs"] if self.jobs else [])

    def _pending_text(self) -> str:
        return "\n  ".join(self._pending()) or "nothing: the loop waits for a signal that nobody will send"

    def note_failure(self, text: str) -> None:
        """Remember an exception that only the loop's exception handler heard of."""
        self._failures.append(text)


def _note_failure(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    assert isinstance(loop, VirtualLoop)
    error = context.get("exception")
    told = "".join(traceback.format_exception(error)) if isinstance(error, BaseException) else ""
    loop.note_failure(f"unheard: {context.get('message')}\n{told}")


class _VirtualSelector(selectors.BaseSelector):
    """The system's selector, asked to wait only for what is real."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._system = selectors.DefaultSelector()
        self._held = 0.0
        self._quiet = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # counted before the poll: a job that ends in between has woken the loop before it stopped counting
        jobs, files = self._loop.jobs, self._loop.files
        events = self._system.select(0)
        if events or (timeout is not None and timeout <= 0):
            self._quiet = 0.0
            return events
        if timeout is not None and not jobs and not files:
            self._jump()
            return events
        return self._wait(timeout, files > 0)

    def _wait(self, timeout: float | None, follow: bool) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for real, one slice: a job may end without a word to the loop."""
        left = SLICE if timeout is None else min(SLICE, max(0.0, timeout - self._held))
        began = time.monotonic()
        events = self._system.select(left)
        spent = time.monotonic() - began
        self._held += spent
        self._quiet = 0.0 if events else self._quiet + spent
        if not events and timeout is not None and self._held >= timeout:
            self._jump()
        elif follow or self._held >= GRAIN:
            self._loop.advance(self._held)
            self._held = 0.0
        self._loop.check_patience(self._quiet)
        return events

    def _jump(self) -> None:
        self._held = self._quiet = 0.0
        self._loop.jump()

    def register(self, fileobj: FileDescriptorLike, events: int, data: object = None) -> selectors.SelectorKey:
        return self._system.register(fileobj, events, data)

    def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        return self._system.unregister(fileobj)

    def modify(self, fileobj: FileDescriptorLike, events: int, data: object = None) -> selectors.SelectorKey:
        return self._system.modify(fileobj, events, data)

    def get_map(self) -> Mapping[FileDescriptorLike, selectors.SelectorKey]:
        return self._system.get_map()

    def close(self) -> None:
        self._system.close()
