"""`ServerClient`: the client of a database server, for callers on any loop and thread.

A connection belongs to one event loop, and sessions are used from many (each `run()` on a thread has another). So the
client lives on the library's loop, and its uses are sent there.

    caller's loop     --look, change--------------------value--|         close()--------------|
    library's loop        --opened once--work (a timeout each)--              work ends--closed

| the client is closed                                                                              |
|---------------------------------------------------------------------------------------------------|
| by `close()`, when the work that has begun has ended; the next use opens another one               |
| when its owner is garbage, and when the library's loop stops, at the interpreter's exit            |
| never in a forked child, where its connections are the parent's: the child opens one of its own    |

Changes of one key take turns in the order of their subscriptions: one that was disposed of while it waited does not
begin, and one that has begun ends before the next, so an abandoned change never overwrites a later one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Generic, TypeVar, cast
from weakref import WeakSet, WeakValueDictionary, finalize

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.reactive import Flow, Semaphore, defer, from_callable, just, on_library_loop, shield
from agentscope_rx.reactive.background import spawn_background
from agentscope_rx.reactive.kernel.forking import call_after_fork, keep_inherited, new_lock
from agentscope_rx.reactive.kernel.runtime import runtime

C = TypeVar("C")
T = TypeVar("T")

TIMEOUT = 30.0
"""Seconds that one use of a server may take, unless its owner is told otherwise."""


class _Opened(Generic[C]):
    """A client that is open, and the loop it belongs to."""

    __slots__ = ("client", "idle", "loop", "users")

    def __init__(self, client: C) -> None:
        self.client = client
        self.loop = asyncio.get_running_loop()
        self.users = 0
        self.idle = asyncio.Event()
        self.idle.set()

    def enter(self) -> None:
        self.users += 1
        self.idle.clear()

    def leave(self) -> None:
        self.users -= 1
        if not self.users:
            self.idle.set()


class _Holder(Generic[C]):
    """Holds what is open; it is closed from here, so that the client itself can be garbage."""

    __slots__ = ("__weakref__", "_end", "_where", "opened")

    def __init__(self, end: Callable[[C], Awaitable[object]], where: str) -> None:
        self._end = end
        self._where = where
        self.opened: _Opened[C] | None = None
        call_after_fork(self)

    def after_fork(self) -> None:
        """Forget the parent's client without closing it."""
        keep_inherited(self.opened)
        self.opened = None

    async def close(self) -> None:
        """Close what is open when its uses have ended."""
        opened, self.opened = self.opened, None
        if opened is not None:
            await opened.idle.wait()
            await self._end(opened.client)

    def abandon(self) -> None:
        """Close in the background. The collector calls it, on any thread and in the middle of anything: no locks."""
        opened = self.opened
        if opened is not None:
            # (a closed loop has closed its clients)
            with suppress(RuntimeError):
                opened.loop.call_soon_threadsafe(self._close_in_background)

    def _close_in_background(self) -> None:
        spawn_background(from_callable(self.close), f"closing {self._where}")


class ServerClient(Generic[C]):
    """One client on the library's loop; `make` makes it at the first use, `end` closes it.

    Neither may refer to the owner of this object, which is closed when it is garbage.
    """

    def __init__(self, make: Callable[[], C], end: Callable[[C], Awaitable[object]], where: str) -> None:
        self._make = make
        self._lock = new_lock()
        self._turns: WeakValueDictionary[str, Semaphore] = WeakValueDictionary()
        self._holder: _Holder[C] = _Holder(end, where)
        # not for its owner: a Flow may outlive it
        finalize(self, self._holder.abandon).atexit = False

    def look(self, work: Callable[[C], Awaitable[T]]) -> Flow[T]:
        """Emits the result of work with the client.

        Signals: its result and completion, or its exception.
        Cancels: the work.
        """
        return on_library_loop(from_callable(lambda: self._use(work)))

    def change(self, key: str, work: Callable[[C], Awaitable[T]]) -> Flow[T]:
        """Emits the result of work that changes what is stored under a key.

        Signals: its result and completion, or its exception.
        Cancels: work that waits for its turn; what has begun runs to its end.
        """
        return defer(lambda: self._turn(key).around(shield(self.look(work))))

    def close(self) -> Flow[None]:
        """Close the client, if there is one, when the work that has begun has ended. Cancels: nothing."""

        def close() -> Flow[None]:
            if self._holder.opened is None:
                return just(None)
            return on_library_loop(shield(from_callable(self._holder.close)))

        return defer(close)

    def _turn(self, key: str) -> Semaphore:
        with self._lock:
            turn = self._turns.get(key)
            if turn is None:
                turn = self._turns[key] = Semaphore(1)
            return turn

    async def _use(self, work: Callable[[C], Awaitable[T]]) -> T:
        holder = self._holder
        if holder.opened is None or holder.opened.loop.is_closed():
            all_open = await runtime().resource(_KEY, _new_set, _close_all)
            # (another use may have opened it meanwhile)
            if holder.opened is None or holder.opened.loop.is_closed():
                holder.opened = _Opened(self._make())
                all_open.add(cast("_Holder[object]", holder))
        opened = holder.opened
        opened.enter()
        try:
            return await work(opened.client)
        finally:
            opened.leave()


_KEY = "server clients"


def _new_set() -> WeakSet[_Holder[object]]:
    return WeakSet()


async def _close_all(holders: WeakSet[_Holder[object]]) -> None:
    for holder in list(holders):
        await holder.close()


def check_timeout(timeout: float) -> None:
    """`ConfigurationError` unless the timeout of the uses of a server is above 0."""
    if not timeout > 0:
        raise ConfigurationError(f"timeout must be more than 0 seconds, not {timeout!r}.")
