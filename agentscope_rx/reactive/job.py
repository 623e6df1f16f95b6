"""`Job`: one blocking call on a worker thread, which its caller may abandon.

    queued ---> running ---> ended                      the outcome is reported
       |           +-------> abandoned --> ended        it runs on: counted, its outcome dropped
       +-------> dropped                                abandoned before it began: it never begins
       +-------> refused                                all threads are taken by abandoned jobs: reported as an error

`AbandonedCalls` counts the abandoned jobs of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from contextvars import Context
from functools import partial
from typing import Protocol

from agentscope_rx.reactive.kernel.forking import new_lock

_counter_lock = new_lock()


class AbandonedCalls:
    """The number of abandoned jobs of a run, and of the runs within it, that run on."""

    __slots__ = ("count", "outer")

    def __init__(self) -> None:
        self.count: int = 0
        self.outer: AbandonedCalls | None = None

    def add(self, change: int) -> None:
        """Add to the count; from any thread."""
        counter: AbandonedCalls | None = self
        with _counter_lock:
            while counter is not None:
                counter.count += change
                counter = counter.outer


class JobPool(Protocol):
    """The pool of a job, as the job uses it."""

    epoch: int
    running: int
    outstanding: int

    @property
    def lock(self) -> AbstractContextManager[object]: ...

    def abandoned(self, job: Job, /) -> Iterable[Job]: ...
    def dropped(self, job: Job, /) -> Iterable[Job]: ...
    def returned(self, job: Job, /) -> None: ...
    def refuse(self, jobs: Iterable[Job], /) -> None: ...


class Job:
    """One blocking call; `done(value, error)` is called on its thread when it has ended.

    If the job was abandoned, `late()` is called there instead. `over()` is called once, on any thread, when the call
    has ended or will never begin. A job that is `owed` begins even if it was refused, when a thread is free.
    """

    __slots__ = (
        "_abandoned",
        "_counter",
        "_done",
        "_ended",
        "_epoch",
        "_late",
        "_name",
        "_over",
        "_pool",
        "_started",
        "call",
        "context",
        "foreign",
        "owed",
    )

    def __init__(
        self,
        pool: JobPool,
        context: Context,
        call: Callable[[], object],
        done: Callable[[object, BaseException | None], None],
        late: Callable[[], object] | None = None,
        over: Callable[[], object] | None = None,
        *,
        name: str = "",
        foreign: bool = False,
        owed: bool = False,
        counter: AbandonedCalls | None = None,
    ) -> None:
        self._pool = pool
        self._epoch = pool.epoch
        self.context: Context = context
        self.call: Callable[[], object] = call
        self._done = done
        self._late = late
        self._over = over
        self._counter = counter
        self._name = name
        self.foreign: bool = foreign
        """True if it runs on an executor of the caller's."""
        self.owed: bool = owed
        self._started = False
        self._abandoned = False
        self._ended = False

    @property
    def name(self) -> str:
        """The name of the function, for error messages."""
        return self._name or name_of(self.call)

    def abandon(self) -> bool:
        """Drop the job before it starts, or its result afterwards. True if it runs on."""
        pool = self._pool
        if self._epoch != pool.epoch:
            # a job of the parent process: no thread runs it here
            return False
        with pool.lock:
            if self._abandoned or self._ended:
                return False
            self._abandoned = True
            pool.outstanding -= 1
            runs_on = self._started
            refused = pool.abandoned(self) if runs_on else pool.dropped(self)
            if runs_on and self._counter is not None:
                self._counter.add(1)
        pool.refuse(refused)
        if not runs_on:
            self._is_over()
        return runs_on

    def refuse(self, error: Exception) -> None:
        """Report that no thread is free. A job that is owed begins later all the same."""
        with self._pool.lock:
            if self._abandoned or self._started or self._ended:
                return
            if self.owed:
                self._abandoned = True
            else:
                self._ended = True
        if not self.owed:
            self._is_over()
        self._settle(None, error)

    def run(self) -> None:
        """Make the call; called by a worker thread, once."""
        if not self._begin():
            return
        value: object = None
        failure: BaseException | None = None
        try:
            value = self.context.run(self.call)
        except BaseException as error:
            failure = error
        pool = self._pool
        if self._epoch != pool.epoch:
            # the call has forked and this is the child, where the pool has no such thread
            return
        with pool.lock:
            # a late abandon() must not count a job that has ended
            self._ended = True
            if not self._abandoned:
                pool.running -= 1
        if not self._abandoned:
            self._is_over()
            self._settle(value, failure)
            return
        try:
            if self._late is not None:
                self.context.run(self._late)
        finally:
            with pool.lock:
                pool.running -= 1
                pool.returned(self)
            if self._counter is not None:
                self._counter.add(-1)
            self._is_over()

    def _begin(self) -> bool:
        pool = self._pool
        refused: Iterable[Job] = ()
        with pool.lock:
            if self._ended or self._started or (self._abandoned and not self.owed):
                return False
            self._started = True
            pool.running += 1
            if self._abandoned:
                refused = pool.abandoned(self)
                if self._counter is not None:
                    self._counter.add(1)
        pool.refuse(refused)
        return True

    def dropped_by_executor(self, future: Future[None]) -> None:
        """Report an outcome if the caller's executor has dropped the job without running it."""
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
            # after the report: when no job is outstanding, all outcomes have been reported
            with self._pool.lock:
                self._pool.outstanding -= 1


def name_of(call: object) -> str:
    """The name of a function, for error messages."""
    while isinstance(call, partial):
        call = call.func
    found = getattr(call, "__qualname__", None)
    return found if isinstance(found, str) else type(call).__name__
