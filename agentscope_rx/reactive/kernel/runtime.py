"""Which loop a run lives on, and what the library keeps for each loop.

A subscription made on a running loop lives there. Without one it lives on the library's own loop: one daemon thread,
started on first use, stopped at exit. Nothing is bound to a loop for good: what must be (an HTTP client) is kept in
that loop's `Runtime` and closed with the loop.

A loop that shuts down (`asyncio.run` returns) cancels its tasks, but says nothing to who waits for a timer, a thread or
a callback: the `Runtime` tells the runs that are left, and gives their clean-ups time. A loop that is closed without
`shutdown_asyncgens()` tells nobody.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Protocol, TypeVar, cast
from weakref import ref

from agentscope_rx.errors import AgentScopeError
from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.reactive.kernel.forking import keep_inherited, new_lock, told_of_fork
from agentscope_rx.reactive.kernel.in_flight import CleanUpTimeoutError, InFlight

R = TypeVar("R")

CLEAN_UP_SECONDS = 10.0
"""How long a loop that shuts down waits for the clean-up of the runs that it ends."""


class SourceCancelledError(AgentScopeError):
    """A source was cancelled by someone else than its subscriber, such as a loop that shuts down."""


class RunAbortedError(SourceCancelledError):
    """The run was ended by an exception that is no `Exception`, which its subscriber gets; see `Scope.abort`."""


class LiveRun(Protocol):
    """A run as its loop knows it."""

    def cut_off(self, error: Exception) -> InFlight:
        """Stop the run and tell its subscriber; gives the count of what is under way still."""
        ...


class Runtime:
    """What the library keeps for one loop: the runs that live there, and resources that are closed when it ends.

    The loop holds it and it holds the loop (through its guard), so that the two go together; it does not hold the runs.
    """

    __slots__ = ("__weakref__", "_closers", "_forget", "_guard", "_live", "_over", "_resources")

    def __init__(self) -> None:
        self._resources: dict[object, object] = {}
        self._closers: list[Callable[[], Awaitable[object]]] = []
        self._guard: AsyncGenerator[None] | None = None
        self._over = False
        # in the order in which they began: who is ended first ends those within
        self._live: dict[ref[LiveRun], None] = {}
        self._forget: Callable[[ref[LiveRun]], object] = self._live.pop
        told_of_fork(self)

    def after_fork(self) -> None:
        """The runs and the resources are the parent's: they are neither ended here nor closed."""
        keep_inherited(*self._resources.values(), *self._closers)
        self._resources.clear()
        self._closers.clear()
        self._live.clear()

    def watch(self, run: LiveRun) -> None:
        """Cut the run off when the loop shuts down, if it is still there. One that has ended takes it for nothing."""
        if self._guard is None:
            self._stand_guard()
        self._live[ref(run, self._forget)] = None

    async def resource(self, key: object, make: Callable[[], R], close: Callable[[R], Awaitable[object]]) -> R:
        """The loop's one resource under `key`, made on first use and closed with the loop."""
        if key not in self._resources:
            resource = make()
            self._resources[key] = resource
            self._closers.append(lambda: close(resource))
            if self._guard is None:
                self._stand_guard()
        return self._resources[key]  # pyright: ignore[reportReturnType]

    def _stand_guard(self) -> None:
        # A started async generator is closed by the loop's own shutdown (`asyncio.run` waits for it): the one hook that
        # asyncio gives to code that must clean up on a loop before it is gone. It starts without waiting.
        if not self._over:
            self._guard = self._until_shutdown()
            with suppress(StopIteration):
                self._guard.asend(None).send(None)

    async def _until_shutdown(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            self._over = True
            self._guard = None
            try:
                await self._end_runs()
            finally:
                await self.close()

    async def _end_runs(self) -> None:
        """End what lives here, and then once more what has begun meanwhile."""
        # the other generators of the loop first: a run that is left with its reader needs no word from here
        await asyncio.sleep(0)
        for _ in range(2):
            under_way = self._cut_off()
            try:
                async with asyncio.timeout(CLEAN_UP_SECONDS):
                    for work in under_way:
                        await work.idle()
            except TimeoutError:
                left = sum(work.count for work in under_way)
                report_dropped(
                    CleanUpTimeoutError(
                        f"{left} clean-ups of runs did not end in {CLEAN_UP_SECONDS:g} s after their loop had shut down"
                    ),
                    "a loop's shutdown",
                )

    def _cut_off(self) -> list[InFlight]:
        error = SourceCancelledError("The event loop shut down before the run had ended.")
        runs = [run for each in list(self._live) if (run := each()) is not None]
        self._live.clear()
        return [run.cut_off(error) for run in runs]

    async def close(self) -> None:
        """Close every resource, the latest first."""
        closers, self._closers = self._closers, []
        self._resources.clear()
        for close in reversed(closers):
            try:
                await close()
            except Exception as error:
                report_dropped(error, "closing a loop's resource")


_KEY = "_agentscope_rx_runtime"
_lock = new_lock()


def runtime() -> Runtime:
    """The running loop's runtime."""
    loop = asyncio.get_running_loop()
    # kept in the loop itself: a weak dictionary of loops would hold the loop by the guard's hook, for good
    found = getattr(loop, _KEY, None)
    if found is None:
        found = Runtime()
        setattr(loop, _KEY, found)
    return cast("Runtime", found)


class _LibraryLoop:
    """The library's background loop and its thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._forked = False
        told_of_fork(self)
        self._thread = threading.Thread(target=self._main, name="agentscope-rx-loop", daemon=True)
        self._thread.start()

    def alive(self) -> bool:
        return not (self._forked or self.loop.is_closed())

    def after_fork(self) -> None:
        """A forked child has the object but not the thread, and shares the loop's selector with the parent's."""
        self._forked = True
        keep_inherited(self)

    def _main(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    def stop(self) -> None:
        """Cancel what runs, close the loop's resources, end the thread; bounded, for the interpreter's exit."""
        if not self.alive():
            return

        async def shut_down() -> None:
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=1.0)
            await self.loop.shutdown_asyncgens()
            self.loop.stop()

        self.loop.call_soon_threadsafe(lambda: self.loop.create_task(shut_down()))
        self._thread.join(timeout=2.0)


_library: _LibraryLoop | None = None


def library_loop() -> asyncio.AbstractEventLoop:
    """The library's background loop, started if it is not there."""
    global _library
    with _lock:
        if _library is None or not _library.alive():
            _library = _LibraryLoop()
            atexit.register(_library.stop)
        return _library.loop


def is_library_loop(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether this is the library's background loop."""
    return _library is not None and _library.loop is loop


def running_loop() -> asyncio.AbstractEventLoop | None:
    """This thread's running loop, or None."""
    return asyncio._get_running_loop()
