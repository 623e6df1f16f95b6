"""Running sources on another event loop, mostly the library's: for resources that outlast a run and need one loop.

    subscriber's loop     --subscribe------------------a--b--|
    the other loop            --attach--a--b--|              the source runs here

`on_library_loop(source)` runs a source there for a subscriber on any loop, `on_loop(source, loop)` on a loop of your
choice. `spawn_background(source)` runs one on the library's loop without a subscriber, until it ends or is disposed.
The life of a resource is a background source; its uses are sources on the library's loop.
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from typing import Generic, TypeVar

from reactivex import Observable, abc

from agentscope_rx.reactive.kernel.demand import Demand
from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.in_flight import InFlight
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, Upstream, attach
from agentscope_rx.reactive.kernel.runtime import (
    LOST_LOOP_SECONDS,
    SourceCancelledError,
    is_only_a_shutdown,
    library_loop,
    runtime,
)
from agentscope_rx.reactive.kernel.scope import Scope
from agentscope_rx.reactive.kernel.subscription import Subscription

T = TypeVar("T")

WINDOW = 64
"""How many values may be under way between two loops."""


def on_library_loop(source: Observable[T]) -> Flow[T]:
    """Runs the source on the library's loop, in the subscriber's context, without back-pressure.

    Signals: the source's, in order, on the subscriber's loop.
    Cancels: the source, on the library's loop; its clean-up counts as work under way in the subscriber's scope.
    """

    def connect(sink: Sink[T], scope: Scope) -> None:
        home = library_loop()
        attach(source if scope.loop is home else _elsewhere(source, home, None), sink, scope)

    return Flow(connect)


def on_loop(source: Observable[T], loop: asyncio.AbstractEventLoop, window: int = WINDOW) -> Flow[T]:
    """Runs the source on this loop, in the subscriber's context.

    Back-pressure: from another loop at most `window` values are under way, that is, not yet with a subscriber that is
    ready for more. Then the source stops reading. So a blocked loop slows it, too.

    Signals: the source's, in order, on the subscriber's loop; `SourceCancelledError` if `loop` is closed.
    Cancels: the source, on its loop; its clean-up counts as work under way in the subscriber's scope.
    """

    def connect(sink: Sink[T], scope: Scope) -> None:
        attach(source if scope.loop is loop else _elsewhere(source, loop, window), sink, scope)

    return Flow(connect)


def _elsewhere(source: Observable[T], loop: asyncio.AbstractEventLoop, window: int | None) -> Flow[T]:
    def connect(sink: Sink[T], scope: Scope) -> None:
        near = _Near(sink, scope, loop, window)
        sink.on_subscribe(near)
        if not near.disposed:
            near.start(source)

    return Flow(connect)


def spawn_background(
    source: Observable[object],
    where: str,
    context: Context | None = None,
    *,
    loop: asyncio.AbstractEventLoop | None = None,
) -> abc.DisposableBase:
    """Run the source without a subscriber on this loop, by default the library's; `where` names it in error reports.

    It runs in an empty context unless you give one. You may use the returned disposable from any thread.
    """
    scope = Scope(library_loop() if loop is None else loop, Context() if context is None else context)
    subscription: Subscription[object] = Subscription(scope, None, lambda error: report_dropped(error, where), None)
    subscription.start(source)
    return subscription


class _Near(OperatorSink, Generic[T]):
    """The subscriber's end: hands over the signals of the far end, and counts them for it if there is a window.

    A loop that is closed drops the calls that wait there: until the far end has begun, and between a disposal and its
    end, this one looks if that has happened. (The library's loop, which needs no window, is not closed.)
    """

    __slots__ = ("_acknowledges", "_far", "_far_ended", "_received", "_scope", "_sink", "_timer", "_waits")

    def __init__(self, sink: Sink[T], scope: Scope, loop: asyncio.AbstractEventLoop, window: int | None) -> None:
        self._upstream = None
        self.disposed = False
        self._sink = sink
        self._scope = scope
        self._received = 0
        self._waits = False
        self._acknowledges = 0 if window is None else max(1, window // 2)
        self._far_ended = False
        self._timer: asyncio.TimerHandle | None = None
        self._far = _Far(self, scope, Scope(loop, scope.context), window)

    def start(self, source: Observable[T]) -> None:
        self._scope.work.begin()
        if self._far.home.call_from_thread(self._far.start, source):
            self._watch()
        else:
            self._lost()

    def _watch(self) -> None:
        if self._acknowledges and self._timer is None and not self._far_ended:
            self._timer = self._scope.call_later(LOST_LOOP_SECONDS, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._far.home.loop.is_closed():
            self._lost()
        else:
            self._watch()

    def _lost(self) -> None:
        self.far_ended()
        self.cut_off(SourceCancelledError("The event loop of the source was closed."))

    def cut_off(self, error: Exception) -> None:
        """The loop of the source shuts down."""
        if not self.disposed:
            self.on_error(error)

    def _drop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def far_begun(self) -> None:
        """The source was begun on the other loop."""
        if not self.disposed:
            self._drop_timer()

    def far_ended(self) -> None:
        """Nothing is under way on the other loop any more."""
        self._drop_timer()
        if not self._far_ended:
            self._far_ended: bool = True
            self._scope.work.end()

    def on_next(self, value: T) -> None:
        if self.disposed:
            return
        self._sink.on_next(value)
        if self._acknowledges:
            self._received += 1
            if self._received % self._acknowledges == 0 and not self._waits and not self.disposed:
                self._acknowledge()

    def _acknowledge(self) -> None:
        """Report to the far end how many values were handed over, once the subscriber is ready for more."""
        demand = self._scope.demand
        if demand is None or demand.ready:
            self._waits = False
            self._far.home.call_from_thread(self._far.acknowledged, self._received)
        else:
            self._waits: bool = True
            demand.when_ready(self._acknowledge)

    def on_error(self, error: Exception) -> None:
        if self.disposed:
            if not is_only_a_shutdown(error):
                report_dropped(error, "a disposed run")
            return
        self.disposed = True
        self._sink.on_error(error)

    def on_completed(self) -> None:
        if not self.disposed:
            self.disposed = True
            self._sink.on_completed()

    def dispose(self) -> None:
        if not self.disposed:
            self.disposed = True
            if self._far.home.call_from_thread(self._far.dispose):
                self._watch()
            else:
                # the other loop was closed under the source: there is no clean-up to wait for
                self.far_ended()


class _Far(OperatorSink, Generic[T]):
    """The end on the other loop."""

    __slots__ = ("__weakref__", "_near", "_received", "_scope", "_sent", "_timer", "_window", "home")

    def __init__(self, near: _Near[T], scope: Scope, home: Scope, window: int | None) -> None:
        self._upstream: Upstream | None = None
        self.disposed = False
        self._near = near
        self._scope = scope
        self._window = window
        self._sent = self._received = 0
        self._timer: asyncio.TimerHandle | None = None
        if window is not None:
            home.demand = Demand(home.loop, self._under_way)
        self.home = home

    def start(self, source: Observable[T]) -> None:
        if self.disposed:
            self._end()
        else:
            if self._window is not None:
                runtime().watch(self)
                self._scope.call_from_thread(self._near.far_begun)
            self.home.work.on_abort = self._aborted
            self.home.context.copy().run(attach, source, self, self.home)

    def on_next(self, value: T) -> None:
        if self.disposed:
            return
        if not self._scope.call_from_thread(self._near.on_next, value):
            # the subscriber's loop was closed
            self.dispose()
        elif self._window is not None and self.home.demand is not None:
            self._sent += 1
            if self._under_way() >= self._window and self._timer is None:
                self.home.demand.withhold()
                self._timer = self.home.call_later(LOST_LOOP_SECONDS, self._look)

    def _look(self) -> None:
        """Dispose of the source if the subscriber's loop was closed without a shutdown, which gives no sign."""
        if self._scope.loop.is_closed():
            self.dispose()
        else:
            self._timer = self.home.call_later(LOST_LOOP_SECONDS, self._look)

    def _drop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _under_way(self) -> int:
        return self._sent - self._received

    def acknowledged(self, received: int) -> None:
        """So many values have been handed over."""
        if self._window is not None and self.home.demand is not None and not self.disposed:
            self._received = received
            if self._under_way() < self._window:
                self._drop_timer()
                self.home.demand.resume()

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._scope.call_from_thread(self._near.on_error, error)
        self._end()

    def on_completed(self) -> None:
        self._upstream = None
        self._scope.call_from_thread(self._near.on_completed)
        self._end()

    def _aborted(self, error: BaseException) -> None:
        # ends the subscriber's run, which disposes this end
        self._scope.call_from_thread(self._scope.abort, error)

    def dispose(self) -> None:
        if not self.disposed:
            attached = self._upstream is not None
            super().dispose()
            if attached:
                self._end()

    def cut_off(self, error: Exception) -> InFlight:
        """Stop the source, which may wait for a subscriber that is not ready; for a loop that shuts down."""
        if self._upstream is not None:
            self._scope.call_from_thread(self._near.cut_off, error)
            self.dispose()
        return self.home.work

    def _end(self) -> None:
        self._drop_timer()
        # it refers to this end; and what outlives the source (a shielded write) must not wait for it
        demand, self.home.demand = self.home.demand, None
        if demand is not None:
            demand.resume()
        self.home.work.on_abort = None
        self.home.work.when_idle(lambda: self._scope.call_from_thread(self._near.far_ended))
