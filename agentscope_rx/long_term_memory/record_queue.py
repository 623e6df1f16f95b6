"""`RecordQueue`: records that runs do not wait for, one after the other, on the library's loop.

    run 1  --PostCall--|                    run 2  --PostCall--|
                \\                                      \\
                 '--> record 1 ============|--> record 2 ==|          drained() emits here

A record outlives its run and the loop of its run. The queue is bounded: when it is full, a run waits for its own record
instead of leaving it in the queue, so none is dropped. An error is reported, and the next record begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from agentscope_rx.hooks.base import Hook
from agentscope_rx.models.checks import check_count
from agentscope_rx.reactive import (
    Flow,
    Semaphore,
    catch,
    defer,
    empty,
    from_callable,
    just,
    on_library_loop,
    spawn_background,
    then,
    using,
)
from agentscope_rx.reactive.kernel.forking import call_after_fork, new_lock


class RecordQueue:
    """At most `limit` records wait or are in progress in the background; `failed` gets the error of each that fails.

    `what` names a record in reports.
    """

    def __init__(
        self, limit: int, failed: Callable[[Exception], None], what: str = "a record of long-term memory"
    ) -> None:
        check_count("queue_limit", limit)
        self.limit = limit
        self._what = what
        self._failed = failed
        # (first come, first served: the order of the runs is the order of the records)
        self._line = Semaphore(1)
        self._lock = new_lock()
        self._reset()
        call_after_fork(self)

    def _reset(self) -> None:
        self._begun = 0
        self._ended = 0
        # what to call when so many have ended
        self._waiting: list[tuple[int, Callable[[], None]]] = []

    def after_fork(self) -> None:
        """The records in progress, and those who wait for them, are the parent's."""
        self._reset()

    @property
    def pending(self) -> int:
        """The number of records in the background that have not ended."""
        return self._begun - self._ended

    def put(self, record: Flow[None]) -> Flow[None]:
        """Store in the background, or before completion if the queue is full.

        Signals: completion, at once or when it is stored. Errors are reported.
        Cancels: the record, if it is waited for.
        """

        def begin() -> Flow[None]:
            one = self._line.around(record).pipe(then(_nothing), catch(self._report))
            with self._lock:
                full = self.pending >= self.limit
                self._begun += not full
            if full:
                return on_library_loop(one)
            # (counted whatever ends it: a SystemExit is no error that can be caught)
            counted = using(lambda: just(None), lambda _: one, lambda _, outcome: self._end())
            spawn_background(counted, self._what)
            return empty()

        return defer(begin)

    def drained(self) -> Flow[None]:
        """Wait until the records that have been put by then have ended.

        Signals: one None.
        Cancels: the waiting.
        """
        return from_callable(self._drained)

    async def _drained(self) -> None:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            # (its loop may be closed by now)
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(lambda: ended.done() or ended.set_result(None))

        with self._lock:
            if self.pending == 0:
                return
            waiting = (self._begun, wake)
            self._waiting.append(waiting)
        try:
            await ended
        finally:
            with self._lock:
                if waiting in self._waiting:
                    self._waiting.remove(waiting)

    def _end(self) -> None:
        with self._lock:
            self._ended += 1
            due = [wake for until, wake in self._waiting if until <= self._ended]
        for wake in due:
            wake()

    def _report(self, error: Exception) -> Flow[None]:
        self._failed(error)
        return empty()


class RecordingHook(Hook):
    """A hook that records calls, also in the background: an agent adds it to what its `GracefulShutdown` waits for."""

    _queue: RecordQueue

    @property
    def pending(self) -> int:
        """The number of background records that have not ended."""
        return self._queue.pending

    def drained(self) -> Flow[None]:
        """Wait until the background records of the calls that have ended are stored, or have failed.

        A `GracefulShutdown` waits for it, if the agent has one. Without one, await it before the program ends.

        Signals: one None.
        Cancels: the waiting; the records go on.
        """
        return self._queue.drained()


def _nothing() -> Flow[None]:
    return empty()
