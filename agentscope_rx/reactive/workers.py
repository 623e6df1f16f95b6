"""Threads for blocking work: as many as are needed, at most 64, none of which keeps the interpreter from exiting.

A job that has started cannot be stopped. When nobody waits for it any more it is *abandoned*: counted until it ends,
its result dropped. (`concurrent.futures` joins its threads at exit, so one stuck job would hang the program: hence
this pool of daemon threads.)
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import Context
from typing import NamedTuple

MAX_WORKERS = 64
IDLE_SECONDS = 30.0


class WorkerStatistics(NamedTuple):
    """A look at the pool: `abandoned` jobs run on though nobody waits for them."""

    threads: int
    running: int
    queued: int
    abandoned: int


class Job:
    """One blocking call; `done(value, error)` is called on its thread unless it was abandoned before it ended.

    If it was, `late()` is called there instead, once it has ended. `over()` is called once, on any thread, when nothing
    of it is left to come: it has ended, or it will never begin.
    """

    __slots__ = ("_abandoned", "_call", "_context", "_done", "_ended", "_late", "_over", "_pool", "_started")

    def __init__(
        self,
        pool: WorkerPool,
        context: Context,
        call: Callable[[], object],
        done: Callable[[object, BaseException | None], None],
        late: Callable[[], object] | None,
        over: Callable[[], object] | None = None,
    ) -> None:
        self._pool = pool
        self._context = context
        self._call = call
        self._done = done
        self._late = late
        self._over = over
        self._started = False
        self._abandoned = False
        self._ended = False

    def abandon(self) -> bool:
        """Forget the job: it will not start, or its result will be dropped. True if it runs on."""
        with self._pool.lock:
            if self._abandoned or self._ended:
                return False
            self._abandoned = True
            self._pool.outstanding -= 1
            if self._started:
                self._pool.abandoned += 1
                return True
        self._is_over()
        return False

    def run(self) -> None:
        """Do the work; called by a worker thread, once."""
        with self._pool.lock:
            if self._abandoned:
                return
            self._started = True
            self._pool.running += 1
        value: object = None
        failure: BaseException | None = None
        try:
            value = self._context.run(self._call)
        except BaseException as error:
            failure = error
        with self._pool.lock:
            # from here on a late abandon() must not count a job that has ended
            self._ended = True
            if not self._abandoned:
                self._pool.running -= 1
        if not self._abandoned:
            self._is_over()
            self._settle(value, failure)
            return
        try:
            if self._late is not None:
                self._context.run(self._late)
        finally:
            with self._pool.lock:
                self._pool.running -= 1
                self._pool.abandoned -= 1
            self._is_over()

    def refused(self, future: Future[None]) -> None:
        """The caller's executor is through with the job: make sure that its outcome was told, whatever it did."""
        with self._pool.lock:
            if self._started or self._abandoned:
                return
            self._ended = True
        self._is_over()
        failure = None if future.cancelled() else future.exception()
        self._settle(None, failure or RuntimeError("The executor dropped the job before it began."))

    def _is_over(self) -> None:
        if self._over is not None:
            self._over()

    def _settle(self, value: object, failure: BaseException | None) -> None:
        try:
            self._done(value, failure)
        finally:
            # after the outcome was told: who sees no outstanding job has heard of all of them
            with self._pool.lock:
                self._pool.outstanding -= 1


class WorkerPool:
    """Runs jobs on daemon threads that are started as needed and end after some idle time."""

    def __init__(self, max_workers: int = MAX_WORKERS) -> None:
        self.lock = threading.Lock()
        self.abandoned = 0
        self.running = 0
        # jobs whose outcome somebody waits for, on threads of this pool and on callers' executors
        self.outstanding = 0
        self._max = max_workers
        self._queue: deque[Job] = deque()
        self._wake = threading.Condition(self.lock)
        self._threads = 0
        self._idle = 0

    def submit(
        self,
        context: Context,
        call: Callable[[], object],
        done: Callable[[object, BaseException | None], None],
        executor: Executor | None = None,
        late: Callable[[], object] | None = None,
        over: Callable[[], object] | None = None,
    ) -> Job:
        """Run `call` in `context`, on the caller's executor if given, and hand its outcome to `done` (see `Job`)."""
        job = Job(self, context, call, done, late, over)
        if executor is not None:
            with self.lock:
                self.outstanding += 1
            try:
                executor.submit(job.run).add_done_callback(job.refused)
            except BaseException:
                job.abandon()
                raise
            return job
        with self.lock:
            self.outstanding += 1
            self._queue.append(job)
            if self._idle >= len(self._queue):
                self._wake.notify()
            elif self._threads < self._max:
                self._threads += 1
                threading.Thread(target=self._work, name="agentscope-rx-worker", daemon=True).start()
        return job

    def statistics(self) -> WorkerStatistics:
        """How many threads there are and what they do."""
        with self.lock:
            return WorkerStatistics(self._threads, self.running, len(self._queue), self.abandoned)

    def _work(self) -> None:
        while True:
            with self.lock:
                if not self._queue:
                    self._idle += 1
                    self._wake.wait(IDLE_SECONDS)
                    self._idle -= 1
                    if not self._queue:
                        self._threads -= 1
                        return
                job = self._queue.popleft()
            job.run()
            del job


WORKERS = WorkerPool()
"""The library's own pool."""
