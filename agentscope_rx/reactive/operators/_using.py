"""`using`: hold a resource for as long as a stream lasts, and release it exactly once, *before* the last signal.

    acquire -> resource -> use(resource) ... terminal signal
                                              eager=True:  release(resource), then the signal
                                              eager=False: the signal, then release(resource)
                           dispose()          the clean-up of the source ends, then release(resource)

(The stock operator releases after `on_completed`: a subscriber that acquires the resource again from there finds it
held.) The error of a failing release never replaces the signal: it goes to the dropped-error hook.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Generic, TypeVar

from reactivex import abc

from agentscope_rx.reactive.kernel.dropped import CleanUpTimeoutError, report_dropped
from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.fuse import Immediate
from agentscope_rx.reactive.kernel.in_flight import InFlight
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, Upstream, attach
from agentscope_rx.reactive.kernel.operator import Producer
from agentscope_rx.reactive.kernel.runtime import RunAbortedError
from agentscope_rx.reactive.kernel.scope import Scope

R = TypeVar("R")
T = TypeVar("T")

CLEAN_UP_SECONDS = 30.0
"""How long a release waits for cancelled sources to end."""


class Outcome(StrEnum):
    """The end of a subscription: `COMPLETED`, `FAILED` or `DISPOSED`."""

    COMPLETED = "completed"
    FAILED = "failed"
    DISPOSED = "disposed"


def using(
    acquire: Callable[[], abc.ObservableBase[R]],
    use: Callable[[R], abc.ObservableBase[T]],
    release: Callable[[R, Outcome], abc.ObservableBase[object] | None],
    *,
    eager: bool = True,
    on_dispose: Callable[[R], object] | None = None,
    clean_up_seconds: float = CLEAN_UP_SECONDS,
) -> Flow[T]:
    """Acquires a resource at subscription, emits the values of `use(resource)`, and releases exactly once.

    - `acquire` returns an Observable of one resource; further values are ignored.
    - `release` may return an Observable. With `eager` the terminal signal waits for it. It runs to its end after a
      disposal, too. Its error goes to `on_dropped` and replaces no signal.
    - After a failure or a disposal the release begins when the cancelled sources of `use` have ended, or after
      `clean_up_seconds`. `on_dispose` is called at once when a disposal begins.

    Signals: those of `use`; the error of `acquire`.
    Cancels: the acquisition or the use; the release follows, as work under way in the subscriber's scope.
    """
    return Producer(partial(_Using, use, release, eager, on_dispose, clean_up_seconds), acquire)


class _Using(OperatorSink, Generic[R, T]):
    __slots__ = (
        "_clean_up_seconds",
        "_eager",
        "_held",
        "_inner",
        "_on_dispose",
        "_release",
        "_resource",
        "_scope",
        "_use",
        "on_next",
        "sink",
    )

    def __init__(
        self,
        use: Callable[[R], abc.ObservableBase[T]],
        release: Callable[[R, Outcome], abc.ObservableBase[object] | None],
        eager: bool,
        on_dispose: Callable[[R], object] | None,
        clean_up_seconds: float,
        sink: Sink[T],
        scope: Scope,
    ) -> None:
        self._upstream = None
        self.disposed = False
        self.sink = sink
        self._scope = scope
        self._inner = scope.child()
        self._use = use
        self._release = release
        self._eager = eager
        self._on_dispose = on_dispose
        self._clean_up_seconds = clean_up_seconds
        self._held = False
        self.on_next = sink.on_next

    def start(self, acquire: Callable[[], abc.ObservableBase[R]]) -> None:
        try:
            resource = acquire()
        except Exception as error:
            self.sink.on_error(error)
            return
        if type(resource) is Immediate:
            # there already: no sink waits for it
            self.acquired(resource.value)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
            self.begin()
            return
        acquiring: _Acquiring[R] = _Acquiring(self)  # pyright: ignore[reportArgumentType]
        self.on_subscribe(acquiring)
        if not acquiring.disposed:
            attach(resource, acquiring, self._scope)

    def acquired(self, resource: R) -> None:
        if self._held:
            # one resource, one release: further resources are not closed here
            return
        self._resource = resource
        self._held = True
        if self.disposed:
            self._let_go(Outcome.DISPOSED, _nothing)

    def not_acquired(self, error: Exception) -> None:
        """The acquisition failed, maybe after it had emitted the resource."""
        if self._held:
            self.on_error(error)
        else:
            self.sink.on_error(error)

    def begin(self) -> None:
        if self.disposed:
            return
        if not self._held:
            self.sink.on_error(RuntimeError("using: acquire() completed without a resource"))
            return
        try:
            source = self._use(self._resource)
            # called once: what it holds is let go
            del self._use
        except Exception as error:
            self.on_error(error)
            return
        if not self.disposed:
            attach(source, self, self._inner)

    def on_completed(self) -> None:
        self._upstream = None
        self._end(Outcome.COMPLETED, self.sink.on_completed)

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        # parallel sources were cancelled by this error: their `finally` blocks may still use the resource
        self._when_idle(lambda: self._end(Outcome.FAILED, lambda: self.sink.on_error(error), error))

    def dispose(self) -> None:
        if self.disposed:
            return
        self.disposed = True
        if self._held and self._on_dispose is not None:
            try:
                self._on_dispose(self._resource)
            except Exception as error:
                report_dropped(error, "on_dispose of using")
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.dispose()
        if self._held:
            self._scope.work.begin()
            self._when_idle(lambda: self._let_go(Outcome.DISPOSED, self._scope.work.end))

    def _end(self, ending: Outcome, signal: Callable[[], None], error: Exception | None = None) -> None:
        if isinstance(error, RunAbortedError) and self.disposed:
            # the subscriber receives the exception itself
            error = None
        if not self._held:
            if error is not None:
                report_dropped(error, "a disposed run")
            return

        def unless_disposed() -> None:
            if not self.disposed:
                signal()
            elif error is not None:
                report_dropped(error, "a disposed run")

        if self._eager:
            self._let_go(ending, unless_disposed)
        else:
            unless_disposed()
            self._let_go(ending, _nothing)

    def _let_go(self, ending: Outcome, then: Callable[[], None]) -> None:
        """Release unless that was done; then call `then`, once, whatever happens."""
        if not self._held:
            then()
            return
        self._held = False
        try:
            releasing = self._release(self._resource, ending)
        except Exception as error:
            report_dropped(error, "releasing a resource")
            releasing = None
        if releasing is None:
            then()
        else:
            # without a disposable and without demand: a release that has begun runs to its end
            self._scope.work.begin()
            scope = self._scope.child()
            scope.demand = None
            attach(releasing, _Releasing(self._scope, then), scope)

    def _when_idle(self, call: Callable[[], None]) -> None:
        when_idle(self._inner.work, self._scope, self._clean_up_seconds, call)


def when_idle(work: InFlight, scope: Scope, seconds: float, call: Callable[[], None]) -> None:
    """Call when nothing is under way in `work`, at once if so; after so many seconds anyway, which is reported."""
    if work.count == 0:
        call()
        return
    timer: list[asyncio.TimerHandle] = []

    def idle() -> None:
        timer[0].cancel()
        call()

    def late() -> None:
        forget()
        report_dropped(
            CleanUpTimeoutError(f"{work.count} cancelled sources did not end in {seconds:g} s"), "releasing a resource"
        )
        call()

    timer.append(scope.call_later(seconds, late))
    forget = work.when_idle(idle)


class _Acquiring(OperatorSink, Generic[R]):
    __slots__ = ("_holder",)

    def __init__(self, holder: _Using[R, object]) -> None:
        self._upstream = None
        self.disposed = False
        self._holder = holder

    def on_next(self, value: R) -> None:
        self._holder.acquired(value)

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._holder.not_acquired(error)

    def on_completed(self) -> None:
        self._upstream = None
        self._holder.begin()


class _Releasing:
    __slots__ = ("_scope", "_then")

    def __init__(self, scope: Scope, then: Callable[[], None]) -> None:
        self._scope = scope
        self._then = then

    def on_subscribe(self, upstream: Upstream) -> None: ...

    def on_next(self, value: object) -> None: ...

    def on_error(self, error: Exception) -> None:
        report_dropped(error, "releasing a resource")
        self.on_completed()

    def on_completed(self) -> None:
        self._scope.work.end()
        self._then()


def _nothing() -> None: ...
