"""The loop that a run lives on, and the library's resources for each loop.

A subscription made on a running loop lives there. Without one it lives on the library's own loop: one daemon thread,
started on first use, stopped at exit. Objects that must stay on one loop (an HTTP client) are kept in that loop's
`Runtime` and closed with the loop.

A loop that shuts down (`asyncio.run` returns) cancels its tasks, but a run may wait for a timer, a thread or a
callback: the `Runtime` ends the runs that are left and waits for their clean-up. It does so when the loop closes its
async generators; a loop that is closed without `shutdown_asyncgens()` ends no run.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Protocol, TypeVar
from weakref import ref

from agentscope_rx.errors import AgentScopeError
from agentscope_rx.reactive.kernel.dropped import CleanUpTimeoutError, report_dropped
from agentscope_rx.reactive.kernel.forking import call_after_fork, keep_inherited, new_lock
from agentscope_rx.reactive.kernel.in_flight import InFlight

R = TypeVar("R")

CLEAN_UP_SECONDS = 10.0
"""How long a loop that shuts down waits for the clean-up of its runs."""
LOST_LOOP_SECONDS = 1.0
"""How often work that waits for another loop looks if that was closed: without a shutdown there is no other sign."""


class SourceCancelledError(AgentScopeError):
    """A source was cancelled, but not by its subscriber; for example, its loop shuts down."""


class RunAbortedError(SourceCancelledError):
    """The run was ended by an exception that is no `Exception`, which its subscriber receives (see `Scope.abort`)."""


def is_only_a_shutdown(error: BaseException) -> bool:
    """True if it says no more than that the source was ended: of no use to a subscriber that has left.

    Its disposal may be on the way from another thread when the loop of the source shuts down.
    """
    return type(error) is SourceCancelledError and error.__cause__ is None


class LiveRun(Protocol):
    """A run on a loop."""

    def cut_off(self, error: Exception) -> InFlight:
        """Stop the run and signal the error to its subscriber; returns the count of its work under way."""
        ...


class Runtime:
    """The runs of one loop, and the resources that are closed when it ends.

    The loop and its runtime (through the guard) hold each other, so that both are freed together. The runs are held
    weakly, but for those that are kept.
    """

    __slots__ = ("__weakref__", "_closers", "_forget", "_guard", "_kept", "_live", "_over", "_resources")

    def __init__(self) -> None:
        self._resources: dict[object, object] = {}
        self._closers: list[Callable[[], Awaitable[object]]] = []
        self._guard: AsyncGenerator[None] | None = None
        self._over = False
        # in the order of their beginning: ending a run ends those within it
        self._live: dict[ref[LiveRun], None] = {}
        # by identity
        self._kept: dict[int, object] = {}
        # a method of the dictionary: a run that is freed is taken out without a call in Python
        self._forget: Callable[[ref[LiveRun]], object] = self._live.pop
        call_after_fork(self)

    @property
    def over(self) -> bool:
        """True once the loop ends its runs."""
        return self._over

    def after_fork(self) -> None:
        """Drop the runs and the resources, which are the parent's, without ending or closing them."""
        keep_inherited(*self._resources.values(), *self._closers, *self._kept.values())
        self._resources.clear()
        self._closers.clear()
        self._forget_runs()
        self._kept.clear()

    def keep(self, run: object) -> None:
        """Hold a run that has no subscriber, until `release`."""
        self._kept[id(run)] = run

    def release(self, run: object) -> None:
        """Hold the run no longer."""
        self._kept.pop(id(run), None)

    def watch(self, run: LiveRun) -> None:
        """Call `run.cut_off()` when the loop shuts down, if the run still exists; after its end that does nothing."""
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
        # The loop's shutdown closes started async generators, and `asyncio.run` waits for it: asyncio has no other hook
        # for code that must clean up on a loop before it is closed. The generator starts without waiting.
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
        """End all runs, then once more those that have begun meanwhile."""
        # after the other generators of the loop: a run whose reader is closed there has ended by then
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
        self._forget_runs()
        return [run.cut_off(error) for run in runs]

    def _forget_runs(self) -> None:
        # another dictionary: runs that are freed later, perhaps by the collector on another thread, leave the old one
        self._live = {}
        self._forget = self._live.pop

    async def close(self) -> None:
        """Close all resources in reverse order."""
        closers, self._closers = self._closers, []
        self._resources.clear()
        for close in reversed(closers):
            try:
                await close()
            except Exception as error:
                report_dropped(error, "closing a loop's resource")


def cancelled_alone(error: Exception) -> bool:
    """True if a source was cancelled while its loop goes on; False if the loop shuts down, or a run was aborted.

    A loop that shuts down cancels all of its tasks before it ends its runs. If the cancelled task is the only one of
    its loop, it counts as a shutdown.
    """
    if not isinstance(error, SourceCancelledError) or isinstance(error, RunAbortedError) or runtime().over:
        return False
    return not all(task.cancelling() for task in asyncio.all_tasks())


_KEY = "_agentscope_rx_runtime"
_lock = new_lock()


def runtime() -> Runtime:
    """The running loop's runtime."""
    loop = asyncio.get_running_loop()
    # an attribute of the loop: in a weak dictionary the guard's hook would keep the loop alive for good
    found = getattr(loop, _KEY, None)
    if found is None:
        found = Runtime()
        setattr(loop, _KEY, found)
    return found  # pyright: ignore[reportReturnType, reportUnknownVariableType]


class _LibraryLoop:
    """The library's background loop and its thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._forked = False
        call_after_fork(self)
        self._thread = threading.Thread(target=self._main, name="agentscope-rx-loop", daemon=True)
        self._thread.start()

    def alive(self) -> bool:
        return not (self._forked or self.loop.is_closed())

    def after_fork(self) -> None:
        """Give the loop up: the child has no thread for it and shares its selector with the parent."""
        self._forked = True
        # nothing else may hold a task that waits: the collector would close it, with its clean-up, in the child
        keep_inherited(self, *asyncio.all_tasks(self.loop))

    def _main(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    def stop(self) -> None:
        """Cancel all tasks, close the loop's resources, end the thread, in bounded time: for the interpreter's exit."""
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
    """The library's background loop, started if needed."""
    global _library
    with _lock:
        if _library is None or not _library.alive():
            _library = _LibraryLoop()
            atexit.register(_library.stop)
        return _library.loop


def is_library_loop(loop: asyncio.AbstractEventLoop) -> bool:
    """True for the library's background loop."""
    return _library is not None and _library.loop is loop


def running_loop() -> asyncio.AbstractEventLoop | None:
    """This thread's running loop, or None."""
    return asyncio._get_running_loop()
