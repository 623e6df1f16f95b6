"""Which loop a run lives on, and what the library keeps for each loop.

A subscription made on a running loop lives there. Without one it lives on the library's own loop: one daemon thread,
started on first use, stopped at exit. Nothing is bound to a loop for good: what must be (an HTTP client) is kept in
that loop's `Runtime` and closed with the loop.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar
from weakref import WeakKeyDictionary

from agentscope_rx.reactive.dropped import report_dropped

R = TypeVar("R")


class Runtime:
    """What the library keeps for one loop: resources that are closed when the loop ends."""

    __slots__ = ("_closers", "_guard", "_resources")

    def __init__(self) -> None:
        self._resources: dict[object, object] = {}
        self._closers: list[Callable[[], Awaitable[object]]] = []
        self._guard: AsyncGenerator[None] | None = None

    async def resource(self, key: object, make: Callable[[], R], close: Callable[[R], Awaitable[object]]) -> R:
        """The loop's one resource under `key`, made on first use and closed with the loop."""
        if key not in self._resources:
            resource = make()
            self._resources[key] = resource
            self._closers.append(lambda: close(resource))
            if self._guard is None:
                # A started async generator is closed by the loop's own shutdown (`asyncio.run` waits for it): the one
                # hook that asyncio gives to code that must clean up on a loop before it is gone.
                self._guard = self._until_shutdown()
                await anext(self._guard)
        return self._resources[key]  # pyright: ignore[reportReturnType]

    async def _until_shutdown(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await self.close()

    async def close(self) -> None:
        """Close every resource, the latest first."""
        closers, self._closers = self._closers, []
        self._resources.clear()
        for close in reversed(closers):
            try:
                await close()
            except Exception as error:
                report_dropped(error, "closing a loop's resource")


_runtimes: WeakKeyDictionary[asyncio.AbstractEventLoop, Runtime] = WeakKeyDictionary()
_lock = threading.Lock()


def runtime() -> Runtime:
    """The running loop's runtime."""
    loop = asyncio.get_running_loop()
    with _lock:
        found = _runtimes.get(loop)
        if found is None:
            found = _runtimes[loop] = Runtime()
        return found


class _LibraryLoop:
    """The library's background loop and its thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._main, name="agentscope-rx-loop", daemon=True)
        self._thread.start()

    def alive(self) -> bool:
        # a forked child has the object but not the thread
        return self._pid == os.getpid() and not self.loop.is_closed()

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
