"""Blocking functions and generators as sources: they run on worker threads, their signals on the loop.

Disposal cannot stop a thread: a job that has begun is abandoned, its late result dropped and counted (see `workers`).
A generator is advanced one item at a time, only while there is demand, and closed on a worker at disposal.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Executor
from functools import partial
from typing import Generic, TypeVar, cast

from agentscope_rx.errors import ConfigurationError, WorkersExhaustedError
from agentscope_rx.reactive.job import AbandonedCalls, Job, name_of
from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.observer import Sink, attach
from agentscope_rx.reactive.kernel.operator import Producer
from agentscope_rx.reactive.kernel.runtime import RunAbortedError
from agentscope_rx.reactive.kernel.scope import Scope
from agentscope_rx.reactive.workers import WORKERS, WorkerPool

T = TypeVar("T")

_END = object()


def on_worker(call: Callable[[], T], executor: Executor | None = None) -> Flow[T]:
    """Emits the result of one blocking call, made on a worker thread in a copy of the subscriber's context.

    `executor` has the thread, by default the library's `WORKERS`.

    Signals: its result and completion, or its exception; `WorkersExhaustedError` if abandoned calls have all threads.
    Cancels: nothing if the call has begun; its late result is dropped.
    """

    return Producer(partial(_Blocking, executor), call)


def iterate_on_worker(make: Callable[[], Iterable[T]], executor: Executor | None = None) -> Flow[T]:
    """Emits the items of a blocking iterable, each fetched on a worker thread.

    A generator's return value, unless it is None, is emitted last.

    Signals: the items and completion, or its exception; `WorkersExhaustedError` like `on_worker`.
    Cancels: the fetch to come; a generator's `finally` blocks run on a worker.
    """

    return Producer(partial(_BlockingItems, executor), make)


def count_abandoned(source: Flow[T], counter: AbandonedCalls) -> Flow[T]:
    """Emits the source's values; adds the calls that it abandons on threads to `counter`, and to an outer one."""

    def connect(sink: Sink[T], scope: Scope) -> None:
        inner = scope.child()
        abandoned_in(inner, counter)
        attach(source, sink, inner)

    return Flow(connect)


def abandoned_in(scope: Scope, counter: AbandonedCalls) -> None:
    """Count the calls that are abandoned on threads in this scope, which nothing else uses; before anything begins."""
    counter.outer, scope.work.abandoned = scope.work.abandoned, counter


class _Worker(Generic[T]):
    """Submits jobs to a pool and hands their outcome over on the loop."""

    __slots__ = ("_context", "_executor", "_job", "_name", "_pool", "_scope", "_sink", "disposed")

    def __init__(self, executor: Executor | None, sink: Sink[T], scope: Scope) -> None:
        self._sink = sink
        self._scope = scope
        pooled = isinstance(executor, WorkerPool)
        self._pool = executor if pooled else WORKERS
        self._executor = None if pooled else executor
        self._name = ""
        self._context = scope.context.copy()
        self._job: Job | None = None
        self.disposed = False

    def submit(
        self,
        call: Callable[[], object],
        then: Callable[[object, BaseException | None], None],
        late: Callable[[], object] | None = None,
    ) -> None:
        def done(value: object, error: BaseException | None) -> None:
            self._scope.call_from_thread(then, value, error)

        over: Callable[[], object] | None = None
        work = self._scope.work
        if (lease := work.lease) is not None:
            lease.hold()
            over = lease.let_go
        try:
            self._job = self._pool.begin(
                self._context, call, done, self._executor, late, over, name=self._name, counter=work.abandoned
            )
        except (RuntimeError, ConfigurationError, WorkersExhaustedError) as failure:
            # an executor that was shut down or belongs to the parent process, or no thread is free
            refusal = failure
        else:
            return
        then(None, refusal)

    def _failed(self, error: BaseException) -> None:
        if isinstance(error, Exception):
            self._sink.on_error(error)
        elif isinstance(error, (asyncio.CancelledError, GeneratorExit)):
            # on a thread they cancel no task and close no generator
            self._sink.on_error(RuntimeError(f"A worker's call raised {error!r}"))
        else:
            self._scope.abort(error)
            if not self.disposed:
                # a `shield` has kept this source from disposal, and waits for its last signal
                self._sink.on_error(RunAbortedError(f"The run was ended by {error!r}."))

    def dispose(self) -> None:
        if not self.disposed:
            self.disposed = True
            job, self._job = self._job, None
            if job is not None:
                job.abandon()


class _Blocking(_Worker[T]):
    __slots__ = ()

    def start(self, call: Callable[[], T]) -> None:
        self.submit(call, self._emit)

    def _emit(self, value: object, error: BaseException | None) -> None:
        self._job = None
        if self.disposed:
            return
        if error is not None:
            self._failed(error)
            return
        self._sink.on_next(cast("T", value))
        if not self.disposed:
            self._sink.on_completed()


class _BlockingItems(_Worker[T]):
    __slots__ = ("_iterator", "_returned")

    def __init__(self, executor: Executor | None, sink: Sink[T], scope: Scope) -> None:
        super().__init__(executor, sink, scope)
        self._iterator: Iterator[T] | None = None
        self._returned: T | None = None

    def start(self, make: Callable[[], Iterable[T]]) -> None:
        self._name = name_of(make)

        def first() -> object:
            self._iterator = iter(make())
            return self._fetch()

        self.submit(first, self._emit, self._close)

    def _fetch(self) -> object:
        """One item, on a worker thread."""
        assert self._iterator is not None
        try:
            return next(self._iterator)
        except StopIteration as stop:
            self._returned = stop.value
            return _END

    def _emit(self, value: object, error: BaseException | None) -> None:
        self._job = None
        if self.disposed:
            return
        if error is not None:
            # a generator that has failed is over; one that could not be advanced is not
            self._close_on_worker()
            self._iterator = None
            self._failed(error)
            return
        if value is _END:
            self._iterator = None
            if self._returned is not None:
                self._sink.on_next(self._returned)
            if not self.disposed:
                self._sink.on_completed()
            return
        self._sink.on_next(cast("T", value))
        if not self.disposed:
            demand = self._scope.demand
            if demand is None or demand.ready:
                self._advance()
            else:
                demand.when_ready(self._advance)

    def _advance(self) -> None:
        if not self.disposed:
            self.submit(self._fetch, self._emit, self._close)

    def dispose(self) -> None:
        if self.disposed:
            return
        self.disposed = True
        # a fetch that is under way is abandoned, and closes the iterator when it returns
        job, self._job = self._job, None
        if job is None or not job.abandon():
            self._close_on_worker()

    def _close_on_worker(self) -> None:
        if not isinstance(self._iterator, Generator):
            return
        generator = cast("Generator[object]", self._iterator)
        if _is_over(generator):
            return
        work = self._scope.work
        work.begin()

        def done(value: object, error: BaseException | None) -> None:
            self._scope.call_from_thread(work.end)
            if error is not None:
                # no thread is free: it is closed when there is one, and this run does not wait
                report_dropped(error, "closing a generator")

        def close() -> None:
            _close(generator)

        def submit(executor: Executor | None) -> None:
            pool, name = self._pool, self._name
            pool.begin(self._context, close, done, executor, name=name, owed=True, counter=work.abandoned)

        try:
            submit(self._executor)
        except (RuntimeError, ConfigurationError):
            # the caller's executor takes no more jobs, but the generator has to be closed
            submit(None)

    def _close(self) -> None:
        if isinstance(self._iterator, Generator):
            _close(cast("Generator[object]", self._iterator))


def _is_over(generator: Generator[object]) -> bool:
    return inspect.isgenerator(generator) and generator.gi_frame is None


def _close(generator: Generator[object]) -> None:
    try:
        generator.close()
    except BaseException as error:
        report_dropped(error, "closing a generator")
