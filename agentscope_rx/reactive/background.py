"""Where a thing lives that outlasts a run, and belongs to one loop all the same: the library's own.

    subscriber's loop     --subscribe------------------a--b--|
    library's loop            --attach--a--b--|              what the source does, happens here

`on_library_loop(source)` runs a source there, for subscribers on any loop; `spawn_background(source)` runs one there
without a subscriber, until it ends or is disposed: the life of a resource is one such source,
its uses are others.
"""

from __future__ import annotations

from contextvars import Context
from typing import Generic, TypeVar

from reactivex import Observable, abc

from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, Upstream, attach
from agentscope_rx.reactive.kernel.runtime import library_loop
from agentscope_rx.reactive.kernel.scope import Scope
from agentscope_rx.reactive.kernel.subscription import Subscription

T = TypeVar("T")


def on_library_loop(source: Observable[T]) -> Flow[T]:
    """Runs the source on the library's loop, in the subscriber's context, without back-pressure.

    Signals: the source's, in order, on the subscriber's loop.
    Cancels: the source, over there; what it cleans up counts as work under way in the subscriber's scope.
    """

    def connect(sink: Sink[T], scope: Scope) -> None:
        home = library_loop()
        if scope.loop is home:
            attach(source, sink, scope)
            return
        near = _Near(sink, scope, Scope(home, scope.context))
        sink.on_subscribe(near)
        if not near.disposed:
            near.start(source)

    return Flow(connect)


def spawn_background(source: Observable[object], where: str, context: Context | None = None) -> abc.DisposableBase:
    """Run the source on the library's loop for its own sake; `where` names it where its error is dropped.

    It gets none of the caller's context variables, unless they are given. Dispose of what is returned from any thread.
    """
    scope = Scope(library_loop(), Context() if context is None else context)
    subscription: Subscription[object] = Subscription(scope, None, lambda error: report_dropped(error, where), None)
    subscription.start(source)
    return subscription


class _Near(OperatorSink, Generic[T]):
    """The subscriber's end: hands over what comes from the far one."""

    __slots__ = ("_far", "_scope", "_sink")

    def __init__(self, sink: Sink[T], scope: Scope, home: Scope) -> None:
        self._upstream = None
        self.disposed = False
        self._sink = sink
        self._scope = scope
        self._far = _Far(self, scope, home)

    def start(self, source: Observable[T]) -> None:
        self._scope.work.begin()
        self._far.home.call_from_thread(self._far.start, source)

    def gone(self) -> None:
        """Nothing is under way over there."""
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
        # the subscriber's run ends with it, and disposes this end
        self._scope.call_from_thread(self._scope.abort, error)

    def dispose(self) -> None:
        if not self.disposed:
            attached = self._upstream is not None
            super().dispose()
            if attached:
                self._end()

    def _end(self) -> None:
        self.home.work.on_abort = None
        self.home.work.when_idle(lambda: self._scope.call_from_thread(self._near.gone))
