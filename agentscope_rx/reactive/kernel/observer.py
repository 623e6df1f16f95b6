"""The protocol between kernel sources and operators: sinks, disposables and `attach`.

    source --attach(source, sink, scope)--> sink.on_subscribe(upstream)     exactly once, before any other signal
                                            sink.on_next(value)*            serial, on the scope's loop
                                            sink.on_error(e) | sink.on_completed()     at most one, and nothing after

A sink is attached directly: there is no wrapper, lock or trampoline between two kernel operators. Other Observables
(stock operators, a user's) are attached through their public `subscribe`; signals from other threads hop to the loop.

Laws that every source keeps: it hands over its disposable before its first signal, looks at it before each signal, and
signals outside the `try` that maps its own errors. Disposal is idempotent and travels up at once.

The sink of an operator is an `OperatorSink`. It was handed downstream before it is attached, so a source that only has
to see if it is disposed needs no disposable of its own: it looks at the sink's `disposed`. References downstream stay;
those upstream are dropped at the end of the run, so that its objects are freed at once, without the garbage collector.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from reactivex import Observable, abc

from agentscope_rx.reactive.kernel.dropped import report_dropped

if TYPE_CHECKING:
    from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")
T_in = TypeVar("T_in", contravariant=True)


class Upstream(Protocol):
    """Stops a source."""

    def dispose(self) -> None: ...


class Sink(Protocol[T_in]):
    """Receives the signals of a source."""

    def on_subscribe(self, upstream: Upstream, /) -> None: ...
    def on_next(self, value: T_in, /) -> None: ...
    def on_error(self, error: Exception, /) -> None: ...
    def on_completed(self) -> None: ...


class Processor(Sink[T_in], Upstream, Protocol):
    """A sink between a source and another sink, which disposes of it to stop the source."""

    disposed: bool


class BooleanDisposable(abc.DisposableBase):
    """A disposable that is a flag for its source to look at."""

    __slots__ = ("disposed",)

    def __init__(self) -> None:
        self.disposed = False

    def dispose(self) -> None:
        self.disposed: bool = True


class OperatorSink:
    """The sink of an operator, between its source and the sink downstream.

    A subclass is handed downstream before it is attached, sets `_upstream` to None at the terminal signal, and disposes
    itself, not its upstream, to stop the source.
    """

    __slots__ = ("_upstream", "disposed")

    def __init__(self) -> None:
        self._upstream: Upstream | None = None
        self.disposed = False

    def on_subscribe(self, upstream: Upstream, /) -> None:
        """Keep the source's disposable, or dispose of it if this sink is disposed."""
        if self.disposed:
            upstream.dispose()
        else:
            self._upstream = upstream

    def dispose(self) -> None:
        """Stop the source. Idempotent."""
        self.disposed: bool = True
        upstream = self._upstream
        if upstream is not None:
            self._upstream = None
            upstream.dispose()


class Relay(OperatorSink, Generic[T]):
    """Passes all signals on to a sink that has its disposable already: this object."""

    __slots__ = ("_sink", "on_next")

    def __init__(self, sink: Sink[T]) -> None:
        self._upstream = None
        self.disposed = False
        self._sink = sink
        self.on_next = sink.on_next  # pyright: ignore[reportAttributeAccessIssue]

    if TYPE_CHECKING:

        def on_next(self, value: T, /) -> None: ...

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._sink.on_error(error)

    def on_completed(self) -> None:
        self._upstream = None
        self._sink.on_completed()


def attach(source: abc.ObservableBase[T], sink: Sink[T], scope: Scope) -> None:
    """Connect a source to a sink, in this scope, on the scope's loop thread."""
    connect = getattr(source, "_attach", None)
    if connect is not None:
        connect(sink, scope)
    elif isinstance(source, Observable) or hasattr(source, "subscribe"):
        _Foreign(sink, scope).start(source)
    else:
        sink.on_subscribe(BooleanDisposable())
        sink.on_error(TypeError(f"An Observable was expected here, not {type(source).__name__}: {source!r:.80}"))


class PendingSubscriptions(threading.local):
    """Flows that stock operators have subscribed to while they were being subscribed to themselves.

    Such a flow starts when the operators have handed over their disposable. Otherwise a `take(1)` could not stop a flow
    that emits while it is being attached.
    """

    waiting: list[Callable[[], None]] | None = None


PENDING = PendingSubscriptions()


class _Foreign(Generic[T]):
    """Subscribes to an Observable that is no Flow, and keeps the laws above even if that does not."""

    __slots__ = ("_disposed", "_done", "_hops", "_scope", "_sink", "_subscription")

    def __init__(self, sink: Sink[T], scope: Scope) -> None:
        self._sink = sink
        self._scope = scope
        self._disposed = False
        self._done = False
        # once a signal has come from another thread, later ones queue behind it, wherever they come from
        self._hops = False
        self._subscription: abc.DisposableBase | None = None

    def start(self, source: abc.ObservableBase[T]) -> None:
        self._sink.on_subscribe(self)
        if self._disposed:
            return
        outer, PENDING.waiting = PENDING.waiting, []
        failure: Exception | None = None
        try:
            self._subscription = source.subscribe(self.on_next, self.on_error, self.on_completed, scheduler=self._scope)
        except Exception as error:
            failure = error
        finally:
            pending, PENDING.waiting = PENDING.waiting, outer
        if failure is not None:
            self.on_error(failure)
            return
        if self._disposed:
            self.dispose()
        elif self._done:
            self._subscription = None
        for start in pending:
            start()

    def dispose(self) -> None:
        self._disposed = True
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            try:
                subscription.dispose()
            except Exception as error:
                # must not keep the rest of the run from being disposed
                report_dropped(error, "disposing a source")

    def on_next(self, value: T) -> None:
        if self._hops or asyncio._get_running_loop() is not self._scope.loop:
            self._hops = True
            self._scope.call_from_thread(self._next, value)
        else:
            self._next(value)

    def on_error(self, error: Exception) -> None:
        if self._hops or asyncio._get_running_loop() is not self._scope.loop:
            self._hops = True
            self._scope.call_from_thread(self._error, error)
        else:
            self._error(error)

    def on_completed(self) -> None:
        if self._hops or asyncio._get_running_loop() is not self._scope.loop:
            self._hops = True
            self._scope.call_from_thread(self._completed)
        else:
            self._completed()

    def _next(self, value: T) -> None:
        if not (self._disposed or self._done):
            self._sink.on_next(value)

    def _error(self, error: Exception) -> None:
        if not (self._disposed or self._done):
            self._done = True
            self._subscription = None
            self._sink.on_error(error)

    def _completed(self) -> None:
        if not (self._disposed or self._done):
            self._done = True
            self._subscription = None
            self._sink.on_completed()
