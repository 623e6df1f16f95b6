"""An event loop whose clock jumps to the next timer if, and only if, no real work is outstanding.

| outstanding                                             | a wait for the next timer                                 |
|---------------------------------------------------------|-----------------------------------------------------------|
| nothing                                                 | takes no time; the clock is set to exactly its time       |
| jobs of worker pools, `run_in_executor`, `hold()`       | is real; the clock stands still, moves in grains of 0.1 s |
| a socket or pipe                                        | is real; the clock follows real time                      |

So backoff, deadlines and slow models are instant and exact in tests, while a thread or a server gets the time it needs.
An abandoned worker job is not outstanding. A test with threads of its own holds the clock with `loop.hold()`.
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

from agentscope_rx.errors import RunInsideLoopError
from agentscope_rx.reactive import Flow, flow
from agentscope_rx.reactive.kernel.runtime import running_loop
from agentscope_rx.reactive.workers import outstanding_jobs

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

DAY = 86_400.0
GRAIN = 0.1
"""Real seconds of waiting for worker jobs after which the clock follows; shorter jobs take no virtual time."""
SLICE = 0.02


def run_virtual(main: Coroutine[object, object, T] | Observable[T], *, limit: float = DAY, patience: float = 20.0) -> T:
    """Run a coroutine or a flow to its end in virtual time and return its (last) value; it must leave nothing behind.

    The clock jumps to the next timer if, and only if, no real work is outstanding:

    | outstanding                                          | a wait for the next timer                                 |
    |------------------------------------------------------|-----------------------------------------------------------|
    | nothing                                              | takes no time; the clock is set to exactly its time       |
    | jobs of worker pools, `run_in_executor`, `hold()`    | is real; the clock stands still, moves in grains of 0.1 s |
    | a socket or pipe                                     | is real; the clock follows real time                      |

    So timeouts, retries and slow models are instant and exact, and a thread or a server gets the time that it needs.
    `limit` bounds the virtual seconds, `patience` the real seconds without progress.

    Raises `AssertionError` at one of these bounds, naming the pending work; and if tasks, timers, worker jobs or
    unhandled failures are left at the end. Raises `RunInsideLoopError` on the thread of a running loop,
    such as in a notebook or an async test.
    """
    if running_loop() is not None:
        # (the error says enough: no warning of what was never begun)
        if isinstance(main, Flow):
            main.take_over()
        elif not isinstance(main, Observable):
            main.close()
        raise RunInsideLoopError(
            "Virtual time needs a loop of its own, and this thread is running one already. Call run_virtual, or the "
            "run() of a verifier, from a function without async; here `await` the flow or the verifier, in real time."
        )
    loop = VirtualLoop(limit=limit, patience=patience)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        try:
            result = runner.run(_last(main) if isinstance(main, Observable) else main)
        except AssertionError as failure:
            if left := loop.settle():
                failure.add_note(_report(left))
            raise
        except Exception as failure:
            # a test that expects this error must not hide what is left
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
    """A loop in virtual time, as in `asyncio.Runner(loop_factory=virtual_loop)`."""
    return VirtualLoop()


class VirtualLoop(asyncio.SelectorEventLoop):
    """A selector loop in virtual time, see `run_virtual`; its `time()` starts at 0."""

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
        """Like asyncio's; the job is outstanding until its future is done."""
        future = super().run_in_executor(executor, func, *args)
        self._count(1)
        future.add_done_callback(lambda _: self._count(-1))
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Like asyncio's; its threads are outstanding until they are joined, so `timeout` cannot pass before."""
        with self.hold():
            await super().shutdown_default_executor()

    @contextmanager
    def hold(self) -> Generator[None]:
        """Count real work as outstanding inside this block, such as a thread of the test; from any thread."""
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
        """The number of worker jobs, executor jobs and holds that are outstanding."""
        return self._jobs + outstanding_jobs()

    @property
    def files(self) -> int:
        """The number of sockets and pipes that the loop watches, without its own."""
        return len(self._virtual.get_map()) - self._own_files

    def jump(self) -> None:
        """Set the clock to the next timer's time."""
        when = self._scheduled[0].when()
        if when > self._limit:
            raise AssertionError(f"{self._limit:g} s of virtual time have passed; pending:\n  {self._pending_text()}")
        self._now = max(self._now, when)

    def advance(self, seconds: float) -> None:
        """Move the clock by the real seconds that have passed, at most to the next timer."""
        target = self._now + seconds
        self._now = max(self._now, min(target, self._scheduled[0].when())) if self._scheduled else target

    def check_patience(self, waited: float) -> None:
        """Raise `AssertionError` if there was no progress for `patience` seconds."""
        if waited >= self._patience:
            raise AssertionError(f"nothing happened for {waited:.1f} real s; pending:\n  {self._pending_text()}")

    def settle(self) -> list[str]:
        """Run ready callbacks and wait for jobs without moving the clock to a timer; names the work that is left."""
        deadline = time.monotonic() + self._patience
        self.run_until_complete(self._run_ready())
        while outstanding_jobs() and time.monotonic() < deadline:
            time.sleep(0.001)
            self.run_until_complete(self._run_ready())
        return self.pending() + self._failures

    async def _run_ready(self) -> None:
        for _ in range(10_000):
            await asyncio.sleep(0)
            if not self._ready:
                return

    def pending(self) -> list[str]:
        """The tasks, timers and worker jobs that are under way."""
        tasks = [f"task {task!r}" for task in asyncio.all_tasks(self)]
        timers = [f"timer {timer!r}" for timer in self._scheduled if not timer.cancelled()]
        return tasks + timers + ([f"{self.jobs} worker jobs"] if self.jobs else [])

    def _pending_text(self) -> str:
        return "\n  ".join(self.pending()) or "nothing: no task, timer or job can make the loop go on"

    def note_failure(self, text: str) -> None:
        """Remember an exception that only the loop's exception handler received."""
        self._failures.append(text)


def _note_failure(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    assert isinstance(loop, VirtualLoop)
    error = context.get("exception")
    trace = "".join(traceback.format_exception(error)) if isinstance(error, BaseException) else ""
    loop.note_failure(f"unhandled: {context.get('message')}\n{trace}")


class _VirtualSelector(selectors.BaseSelector):
    """The system's selector; waits only for real work."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._system = selectors.DefaultSelector()
        self._held = 0.0
        self._quiet = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # counted before the poll: a job that ends in between wakes the loop before it is counted out
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
        """Wait for one slice of real time, because a job may end without waking the loop."""
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
