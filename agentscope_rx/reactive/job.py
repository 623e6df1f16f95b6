"""`Job`: one blocking call on a worker's thread, and what becomes of it when nobody waits for it any more.

    queued ---> running ---> ended         its outcome is told
       |           +-------> abandoned --> ended        it runs on: counted, its outcome dropped
       +-------> dropped                   abandoned before it began: it never does
       +-------> refused                   all threads are taken by abandoned jobs: told by an error

`Tally` counts the abandoned ones of a run.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING

from agentscope_rx.reactive.kernel.forking import new_lock

if TYPE_CHECKING:
    from agentscope_rx.reactive.workers import WorkerPool

_tallying = new_lock()


class Tally:
    """How many calls that a run has left behind run on, those of runs within it included."""

    __slots__ = ("count", "outer")

    def __init__(self) -> None:
        self.count = 0
        self.outer: Tally | None = None

    def add(self, change: int) -> None:
        """So many more; from any thread."""
        tally: Tally | None = self
        with _tallying:
            while tally is not None:
                tally.count += change
                tally = tally.outer


class Job:
    """One blocking call; `done(value, error)` is called on its thread unless it was abandoned before it ended.

    If it was, `late()` is called there instead, once it has ended. `over()` is called once, on any thread, when nothing
    of it is left to come: it has ended, or it will never begin. One that is `owed` begins even if it was refused, when
    there is a thread for it.
    """

    __slots__ = (
        "_abandoned",
        "_done",
        "_ended",
        "_epoch",
        "_late",
        "_name",
        "_over",
        "_pool",
        "_started",
        "_tally",
        "call",
        "context",
        "foreign",
        "owed",
    )

    def __init__(
        self,
        pool: WorkerPool,
        context: Context,
        call: Callable[[], object],
        done: Callable[[object, BaseException | None], None],
        late: Callable[[], object] | None = None,
        over: Callable[[], object] | None = None,
        *,
        name: str = "",
        foreign: bool = False,
        owed: bool = False,
        tally: Tally | None = None,
    ) -> None:
        self._pool = pool
        self._epoch = pool.epoch
        self.context = context
        self.call = call
        self._done = done
        self._late = late
        self._over = over
        self._tally = tally
        self._name = name
        self.foreign = foreign
        """Whether it is for an executor of the caller's."""
        self.owed = owed
        self._started = False
        self._abandoned = False
        self._ended = False

    @property
    def name(self) -> str:
        """What is called, for error messages."""
        return self._name or name_of(self.call)

    def abandon(self) -> bool:
        """Forget the job: it will not start, or its result will be dropped. True if it runs on."""
        pool = self._pool
        if self._epoch != pool.epoch:
            # of the parent of this process: there is no thread that could run it here
            return False
        with pool.lock:
            if self._abandoned or self._ended:
                return False
            self._abandoned = True
            pool.outstanding -= 1
            runs_on = self._started
            refused = pool.left_behind(self) if runs_on else pool.dropped(self)
            if runs_on and self._tally is not None:
                self._tally.add(1)
        pool.refuse(refused)
        if not runs_on:
            self._is_over()
        return runs_on

    def refuse(self, error: Exception) -> None:
        """There is no thread for it. One that is owed is to begin later all the same."""
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
        """Do the work; called by a worker thread, once."""
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
            # the call has forked, and this is the child: its thread is none of the pool's
            return
        with pool.lock:
            # from here on a late abandon() must not count a job that has ended
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
            if self._tally is not None:
                self._tally.add(-1)
            self._is_over()

    def _begin(self) -> bool:
        pool, refused = self._pool, list[Job]()
        with pool.lock:
            if self._ended or self._started or (self._abandoned and not self.owed):
                return False
            self._started = True
            pool.running += 1
            if self._abandoned:
                refused = pool.left_behind(self)
                if self._tally is not None:
                    self._tally.add(1)
        pool.refuse(refused)
        return True

    def dropped_by_executor(self, future: Future[None]) -> None:
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


def name_of(call: object) -> str:
    """What a function is called, for error messages."""
    while isinstance(call, partial):
        call = call.func
    found = getattr(call, "__qualname__", None)
    return found if isinstance(found, str) else type(call).__name__
