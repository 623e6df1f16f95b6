"""Running sources on the library's event loop, for resources that outlast a run and need one loop for good.

    subscriber's loop     --subscribe------------------a--b--|
    library's loop            --attach--a--b--|              the source runs here

`on_library_loop(source)` runs a source there for a subscriber on any loop. `spawn_background(source)` runs one there
without a subscriber, until it ends or is disposed. The life of a resource is a background source; its uses are sources
on the library's loop.
"""

from __future__ import annotations

from contextvars import Context
from typing import Generic, TypeVar

from reactivex import Observable, abc

from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, Upstream, attach
from agentscope_rx.reactive.kernel.operator import Producer
from agentscope_rx.reactive.kernel.runtime import library_loop
from agentscope_rx.reactive.kernel.scope import Scope
from agentscope_rx.reactive.kernel.subscription import Subscription

T = TypeVar("T")


def on_library_loop(source: Observable[T]) -> Flow[T]:
    """Runs the source on the library's loop, in the subscriber's context, without back-pressure.

    Signals: the source's, in order, on the subscriber's loop.
    Cancels: the source, on the library's loop; its clean-up counts as work under way in the subscriber's scope.
    """

    def connect(sink: Sink[T], scope: Scope) -> None:
        attach(source if scope.loop is library_loop() else Producer(_Near, source), sink, scope)

    return Flow(connect)


def spawn_background(source: Observable[object], where: str, context: Context | None = None) -> abc.DisposableBase:
    """Run the source on the library's loop without a subscriber; `where` names it in the report of a dropped error.

    It runs in an empty context unless one is given. The disposable that is returned may be used from any thread.
    """
    scope = Scope(library_loop(), Context() if context is None else context)
    subscription: Subscription[object] = Subscription(scope, None, lambda error: report_dropped(error, where), None)
    subscription.start(source)
    return subscription


class _Near(OperatorSink, Generic[T]):
    """The subscriber's end: hands over the signals of the far end."""

    __slots__ = ("_far", "_scope", "_sink")

    def __init__(self, sink: Sink[T], scope: Scope) -> None:
        self._upstream = None
        self.disposed = False
        self._sink = sink
        self._scope = scope
        self._far = _Far(self, scope, Scope(library_loop(), scope.context))

    def start(self, source: Observable[T]) -> None:
        self._scope.work.begin()
        self._far.home.call_from_thread(self._far.start, source)

    def far_ended(self) -> None:
        """Nothing is under way on the library's loop any more."""
        self._scope.work.end()

    def on_next(self, value: T) -> None:
        if not self.disposed:
            self._sink.on_next(value)

    def on_error(self, error: Exception) -> None:
        if self.disposed:
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
            self._far.home.call_from_thread(self._far.dispose)


class _Far(OperatorSink, Generic[T]):
    """The end on the library's loop."""

    __slots__ = ("_near", "_scope", "home")

    def __init__(self, near: _Near[T], scope: Scope, home: Scope) -> None:
        self._upstream: Upstream | None = None
        self.disposed = False
        self._near = near
        self._scope = scope
        self.home = home

    def start(self, source: Observable[T]) -> None:
        if self.disposed:
            self._end()
        else:
            self.home.work.on_abort = self._aborted
            self.home.context.copy().run(attach, source, self, self.home)

    def on_next(self, value: T) -> None:
        if not self.disposed:
            self._scope.call_from_thread(self._near.on_next, value)

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

    def _end(self) -> None:
        self.home.work.on_abort = None
        self.home.work.when_idle(lambda: self._scope.call_from_thread(self._near.far_ended))
