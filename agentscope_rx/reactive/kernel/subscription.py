"""The boundary between a flow and its subscriber: at most one terminal signal, and no subscriber's exception upstream.

`dispose()` may be called from any thread. After it has returned there is no signal; if it was called on another thread
than the loop's, the signal in progress may still end. The work upstream is stopped on the loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Generic, TypeVar, cast

from reactivex import abc
from reactivex.scheduler import CurrentThreadScheduler

from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.reactive.kernel.in_flight import InFlight
from agentscope_rx.reactive.kernel.observer import PENDING, OperatorSink, attach
from agentscope_rx.reactive.kernel.runtime import (
    CLEAN_UP_SECONDS,
    RunAbortedError,
    is_library_loop,
    is_only_a_shutdown,
    runtime,
)
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")

_log = logging.getLogger("agentscope_rx")
SLOW_CALLBACK_SECONDS = 0.1
# one object for all threads: it finds the trampoline of the thread that calls it
_TRAMPOLINE = CurrentThreadScheduler.singleton()


class Subscription(OperatorSink, abc.DisposableBase, Generic[T]):
    """One subscriber of one run."""

    __slots__ = ("__weakref__", "_abort", "_completed", "_error", "_next", "scope")

    def __init__(
        self,
        scope: Scope,
        on_next: abc.ObserverBase[T] | abc.OnNext[T] | None,
        on_error: abc.OnError | None,
        on_completed: abc.OnCompleted | None,
        on_abort: Callable[[BaseException], object] | None = None,
    ) -> None:
        if on_next is not None and callable(getattr(on_next, "on_next", None)):
            observer = cast("abc.ObserverBase[T]", on_next)
            on_next, on_error, on_completed = observer.on_next, observer.on_error, observer.on_completed
        call: abc.OnNext[T] | None = on_next  # pyright: ignore[reportAssignmentType]
        if call is not None and is_library_loop(scope.loop):
            call = _watched(call)
        self.scope: Scope = scope
        self._next: abc.OnNext[T] | None = call
        self._error = on_error
        self._completed = on_completed
        self._abort = on_abort
        self._upstream = None
        # or ended
        self.disposed = False

    def start(self, source: abc.ObservableBase[T]) -> None:
        """Attach to the source: now on the loop's thread, from another thread in a later turn of the loop."""
        if not self.scope.is_here():
            self.scope.call_from_thread(self.begin, source)
        elif PENDING.waiting is not None:
            PENDING.waiting.append(lambda: self._attach_here(source))
        elif _TRAMPOLINE.schedule_required():
            self._attach_here(source)
        else:
            # beneath stock operators alone: as a stock source, begin when they hold this disposable
            _TRAMPOLINE.schedule(lambda scheduler, state: self._attach_here(source))

    def cut_off(self, error: Exception) -> InFlight:
        """Stop the sources, then signal the error to the subscriber; for a loop that shuts down."""
        if not self.disposed:
            self.scope.context.copy().run(self._cut_off, error)
        return self.scope.work

    def _cut_off(self, error: Exception) -> None:
        self._stop_upstream()
        self.on_error(error)

    def _attach_here(self, source: abc.ObservableBase[T]) -> None:
        """Attach before `subscribe` has returned to the subscriber (see `next_turn`)."""
        work = self.scope.work.outermost()
        # beneath stock operators the outermost subscription is another one, of the same scope
        outermost = work.on_abort is None
        if outermost:
            work.subscribing = True
        try:
            self.begin(source)
        finally:
            if outermost:
                work.subscribing = False

    def begin(self, source: abc.ObservableBase[T]) -> None:
        """Attach to the source now, on the loop's thread: signals may come before this returns.

        It is for a subscriber that hands the subscription to nobody: an `await`, an `async for`.
        """
        if self.disposed:
            return
        runtime().watch(self)
        work = self.scope.work.outermost()
        if work.on_abort is None:
            work.on_abort = self._aborted
        try:
            # in a copy: variables that a hook sets while it is attached must not reach the subscriber
            self.scope.context.copy().run(attach, source, self, self.scope)
        except Exception as error:
            # an operator failed to start; a subscriber's exceptions never get here
            self._stop_upstream()
            self.on_error(error)
        except BaseException as error:
            self.scope.abort(error)

    def _aborted(self, error: BaseException) -> None:
        """Dispose of the run; after its clean-up the subscriber receives the exception itself."""
        deliver = self._deliver()
        self.disposed = True
        self._forget()
        self.scope.context.copy().run(self._stop_upstream)
        delivered: list[asyncio.TimerHandle] = []

        def deliver_once() -> None:
            if delivered:
                delivered.pop().cancel()
                deliver(error)

        # `finally` blocks that never end must not keep the exception back
        delivered.append(self.scope.loop.call_later(CLEAN_UP_SECONDS, deliver_once))
        self.scope.work.when_idle(deliver_once)

    def _deliver(self) -> Callable[[BaseException], object]:
        """What gives the subscriber an exception that is no `Exception`."""
        return self._abort or self._out_of_loop

    def _out_of_loop(self, error: BaseException) -> None:
        """Raise it out of the loop, as callbacks have no place for it; but never stop the library's loop."""

        def throw() -> None:
            raise error

        if is_library_loop(self.scope.loop):
            report_dropped(error, "a run on the library's loop")
        else:
            self.scope.loop.call_soon(throw)

    def on_next(self, value: T) -> None:
        # read once, as another thread may dispose
        on_next = self._next
        if self.disposed or on_next is None:
            return
        try:
            on_next(value)
        except BaseException as error:
            self._subscriber_failed(error)

    def on_error(self, error: Exception) -> None:
        on_error = self._error
        if self.disposed:
            # (of a run that was aborted, the subscriber receives the exception itself)
            if not isinstance(error, RunAbortedError) and not is_only_a_shutdown(error):
                report_dropped(error, "a disposed run")
            return
        self._end()
        if on_error is None:
            report_dropped(error, "a run without on_error")
            return
        try:
            on_error(error)
        except BaseException as failure:
            self._subscriber_failed(failure)

    def on_completed(self) -> None:
        on_completed = self._completed
        if self.disposed:
            return
        self._end()
        if on_completed is None:
            return
        try:
            on_completed()
        except BaseException as error:
            self._subscriber_failed(error)

    def dispose(self) -> None:
        """Stop the run: no signal follows. Idempotent, from any thread."""
        if self.disposed:
            return
        self.disposed = True
        if self.scope.is_here():
            self._stop_upstream()
        else:
            self.scope.call_from_thread(self._stop_upstream)
        self._forget()

    def _end(self) -> None:
        self.disposed = True
        self._upstream = None
        self._forget()

    def _forget(self) -> None:
        # the callbacks may hold this subscription
        self._next = self._error = self._completed = self._abort = None
        work = self.scope.work.outermost()
        if work.on_abort == self._aborted:
            work.on_abort = None

    def _stop_upstream(self) -> None:
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.dispose()

    def _subscriber_failed(self, error: BaseException) -> None:
        self.disposed: bool = True
        self._stop_upstream()
        self._forget()
        if not isinstance(error, Exception):
            raise error
        report_dropped(error, "a subscriber's callback")


def raisable(error: Exception) -> Exception:
    """The error, wrapped if a coroutine that raises it would seem to end an iteration."""
    if isinstance(error, (StopIteration, StopAsyncIteration)):
        wrapped = RuntimeError(f"A flow failed with {error!r}")
        wrapped.__cause__ = error
        return wrapped
    return error


def _watched(on_next: Callable[[T], object]) -> Callable[[T], None]:
    """The callback, with one warning if it blocks the library's loop, as all other runs there wait for it."""
    warned = False

    def watched(value: T) -> None:
        nonlocal warned
        start = time.perf_counter()
        on_next(value)
        taken = time.perf_counter() - start
        if taken > SLOW_CALLBACK_SECONDS and not warned:
            warned = True
            _log.warning(
                "A subscriber's callback blocked the library's event loop for %.2f s; other runs waited. "
                "Move slow work to ops.observe_on(...) or to an async subscriber.",
                taken,
            )

    return watched
