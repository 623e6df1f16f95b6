"""Threads for blocking work: as many as are needed, at most 64, none of which keeps the interpreter from exiting.

A job that has started cannot be stopped. When its caller leaves it is *abandoned*: counted until it ends, its result
dropped. (`concurrent.futures` joins its threads at exit, so one stuck job would hang the program: hence this pool of
daemon threads.)

    threads for jobs that are not abandoned     max_workers, while at most max_abandoned jobs are abandoned;
                                                one less for each further abandoned job; none: jobs are refused

So an abandoned job takes no other job's place until `max_abandoned` of them run, and there are never more than
`max_workers + max_abandoned` threads. The caller's code (tools) runs in one pool and the library's own work (sessions,
files, media) in another, so that stuck tools do not keep a session from being saved.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextvars import Context
from itertools import islice
from typing import NamedTuple, ParamSpec, TypeVar, cast
from weakref import WeakSet

from agentscope_rx.errors import ConfigurationError, WorkersExhaustedError
from agentscope_rx.reactive.job import AbandonedCalls, Job, name_of
from agentscope_rx.reactive.kernel.forking import call_after_fork, new_lock

P = ParamSpec("P")
T = TypeVar("T")

MAX_WORKERS = 64
MAX_ABANDONED = 64
IDLE_SECONDS = 30.0
NAMED = 8
"""The number of abandoned calls that statistics and errors name."""


class WorkerStatistics(NamedTuple):
    """Counts of a pool's threads and jobs; `abandoned` jobs run on without a caller, `calls` names the oldest."""

    threads: int
    running: int
    queued: int
    abandoned: int
    calls: tuple[str, ...] = ()


class WorkerPool(Executor):
    """Runs jobs on daemon threads that are started as needed and end after some idle time.

    At most `max_workers` threads run jobs with a caller; up to `max_abandoned` more replace those with an abandoned
    job. `WorkersExhaustedError` if no thread is free and none may be started. Give a pool as an `executor` to a tool.
    In a forked child it is empty.
    """

    def __init__(
        self,
        max_workers: int = MAX_WORKERS,
        max_abandoned: int = MAX_ABANDONED,
        *,
        thread_name: str = "agentscope-rx-worker",
    ) -> None:
        self._max, self._spare = _checked(max_workers, max_abandoned)
        self._thread_name = thread_name
        self.lock: threading.Lock = new_lock()
        self.epoch: int = 0
        """The number of forks since the pool was made: a job of an earlier epoch has no thread here."""
        self._reset()
        _pools.add(self)
        call_after_fork(self)

    def _reset(self) -> None:
        self.running = 0
        # jobs with a caller, on threads of this pool and on callers' executors
        self.outstanding: int = 0
        # (taking the first key of a dict costs a scan over all keys removed before it)
        self._queue: OrderedDict[Job, None] = OrderedDict()
        self._wake = threading.Condition(self.lock)
        self._threads = 0
        self._idle = 0
        self._abandoned: dict[Job, None] = {}
        # the abandoned jobs on threads of this pool
        self._stuck = 0
        self._closed = False

    def after_fork(self) -> None:
        """Drop the threads and the jobs, which are the parent's."""
        self.epoch += 1
        self._reset()

    # --- for callers --------------------------------------------------------------------------------------------------

    def configure(self, *, max_workers: int | None = None, max_abandoned: int | None = None) -> None:
        """Set the bounds; jobs that run already finish."""
        with self.lock:
            self._max, self._spare = _checked(
                self._max if max_workers is None else max_workers,
                self._spare if max_abandoned is None else max_abandoned,
            )
            for _ in self._queue:
                self._grow()

    def begin(
        self,
        context: Context,
        call: Callable[[], object],
        done: Callable[[object, BaseException | None], None],
        executor: Executor | None = None,
        late: Callable[[], object] | None = None,
        over: Callable[[], object] | None = None,
        *,
        name: str = "",
        owed: bool = False,
        counter: AbandonedCalls | None = None,
    ) -> Job:
        """Run `call` in `context`, on `executor` if given, and hand its outcome to `done` (see `Job`)."""
        if self.epoch and executor is not None and _is_of_parent(executor):
            raise ConfigurationError(
                f"{executor!r:.80} was used before this process was forked, and its threads are the parent's: no call "
                "would ever end. Make it after the fork, or use a WorkerPool, which a child makes anew."
            )
        foreign = executor is not None
        job = Job(self, context, call, done, late, over, name=name, foreign=foreign, owed=owed, counter=counter)
        if executor is not None:
            with self.lock:
                self.outstanding += 1
            try:
                executor.submit(job.run).add_done_callback(job.dropped_by_executor)
            except BaseException:
                job.abandon()
                raise
            return job
        with self.lock:
            if self._closed:
                raise RuntimeError("This WorkerPool was shut down: it takes no new jobs.")
            self.outstanding += 1
            self._queue[job] = None
            failure = self._grow()
            hopeless = not self._served
        if hopeless:
            error = self._exhausted(failure)
            if not owed:
                job.abandon()
                raise error
            job.refuse(error)
        return job

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Like `Executor.submit`."""
        future: Future[T] = Future()

        def done(value: object, error: BaseException | None) -> None:
            if future.cancelled():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(cast("T", value))

        def call() -> object:
            return fn(*args, **kwargs) if future.set_running_or_notify_cancel() else None

        self.begin(Context(), call, done, name=name_of(fn))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no new jobs. `wait` waits for the outcome of the jobs taken, but not for abandoned ones."""
        with self.lock:
            self._closed = True
            queued = [job for job in self._queue if not job.owed] if cancel_futures else []
        for job in queued:
            job.refuse(CancelledError())
            self._drop(job)
        with self.lock:
            self._wake.notify_all()
        tick = threading.Event()
        while wait and self.outstanding:
            tick.wait(0.005)

    def statistics(self) -> WorkerStatistics:
        """Counts of threads and jobs, now."""
        with self.lock:
            calls = tuple(job.name for job in islice(self._abandoned, NAMED))
            return WorkerStatistics(self._threads, self.running, len(self._queue), len(self._abandoned), calls)

    # --- for its jobs, under the lock -----------------------------------------------------------------------------

    def abandoned(self, job: Job) -> list[Job]:
        """The job was abandoned and goes on; returns the jobs without a thread (see `refuse`)."""
        self._abandoned[job] = None
        if not job.foreign:
            self._stuck += 1
            self._grow()
        return [] if self._served else list(self._queue)

    def dropped(self, job: Job) -> list[Job]:
        """The job was abandoned before it began: remove it from the queue."""
        self._queue.pop(job, None)
        return []

    def returned(self, job: Job) -> None:
        """An abandoned job has ended."""
        self._abandoned.pop(job, None)
        if not job.foreign:
            self._stuck -= 1

    # --- without the lock -----------------------------------------------------------------------------------------

    def refuse(self, jobs: Iterable[Job]) -> None:
        """Report to each job that no thread is free."""
        for job in jobs:
            job.refuse(self._exhausted())
            if not job.owed:
                self._drop(job)

    def _drop(self, job: Job) -> None:
        with self.lock:
            self.dropped(job)

    def _exhausted(self, cause: Exception | None = None) -> WorkersExhaustedError:
        look = self.statistics()
        error = WorkersExhaustedError(look.abandoned, look.calls, None if cause is None else str(cause))
        error.__cause__ = cause
        return error

    # --- its threads ----------------------------------------------------------------------------------------------

    @property
    def _allowed(self) -> int:
        return self._max + min(self._stuck, self._spare)

    @property
    def _served(self) -> bool:
        """True if a thread is idle or runs a job with a caller."""
        return self._threads > self._stuck

    def _grow(self) -> Exception | None:
        """Wake or start a thread for the queue, if needed and allowed; returns the error if none can be started."""
        if not self._queue:
            return None
        if self._idle >= len(self._queue):
            self._wake.notify()
        elif self._threads < self._allowed:
            thread = threading.Thread(target=self._work, args=(self.epoch,), name=self._thread_name, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                # the system has no more threads, or the interpreter exits
                return error
            self._threads += 1
        return None

    def _work(self, epoch: int) -> None:
        while True:
            with self.lock:
                job = self._next(epoch)
            if job is None:
                return
            job.run()
            del job

    def _next(self, epoch: int) -> Job | None:
        """The next job; None if this thread is to end. Called with the lock."""
        while epoch == self.epoch:
            if self._threads > self._allowed:
                break
            if self._queue:
                return self._queue.popitem(last=False)[0]
            if self._closed:
                break
            self._idle += 1
            woken = self._wake.wait(IDLE_SECONDS)
            self._idle -= 1
            # (a thread that was not idle may have taken the job that this one was woken for: it waits for another)
            if not woken and not self._queue:
                break
        else:
            return None
        self._threads -= 1
        # (another thread takes the job that this one was woken for)
        self._wake.notify(min(1, len(self._queue)))
        return None


def _is_of_parent(executor: Executor) -> bool:
    # (a private attribute, as there is no public one; its threads end with the executor)
    threads = cast("Iterable[threading.Thread]", getattr(executor, "_threads", ()))
    return isinstance(executor, ThreadPoolExecutor) and not all(thread.is_alive() for thread in threads)


def _checked(max_workers: int, max_abandoned: int) -> tuple[int, int]:
    if type(max_workers) is not int or max_workers < 1:
        raise ConfigurationError(f"max_workers must be a whole number of at least 1, not {max_workers!r:.60}.")
    if type(max_abandoned) is not int or max_abandoned < 0:
        raise ConfigurationError(f"max_abandoned must be a whole number of at least 0, not {max_abandoned!r:.60}.")
    return max_workers, max_abandoned


_pools: WeakSet[WorkerPool] = WeakSet()

WORKERS = WorkerPool()
"""The pool for the caller's code: blocking tools and the iterators that they return."""
ENGINE_WORKERS = WorkerPool(thread_name="agentscope-rx-engine")
"""The pool for the library's own blocking work: sessions, files, media, counting."""


def outstanding_jobs() -> int:
    """The number of jobs with a caller, in all pools."""
    return sum(pool.outstanding for pool in tuple(_pools))
