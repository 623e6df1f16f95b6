"""`through`: put an operator over the values of one kind; all others pass beside it.

    source              --a--x--a--|
    operator over a         --A-----A--|
    result              ----Ax------A--|    completes when the operator has completed, hence flushed

The operator sees a stream of its kind alone, which completes when the source does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, cast

from reactivex import Observable

from agentscope_rx.reactive.flow import Flow
from agentscope_rx.reactive.observer import Sink, Upstream, attach
from agentscope_rx.reactive.scope import Scope

T = TypeVar("T")
K = TypeVar("K")


def through(kind: type[K], operator: Callable[[Observable[K]], Observable[K]]) -> Callable[[Observable[T]], Flow[T]]:
    """Applies `operator` to the values of class `kind`, passes the others at once.

    Signals: both; the error of either; completion when the source and the operator have completed.
    Cancels: both.
    """

    def wrap(source: Observable[T]) -> Flow[T]:
        return Flow(lambda sink, scope: _Through(sink, scope, kind, operator).start(source))  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]

    return wrap


class _Through(Generic[T, K]):
    """The outer sink. `_inside` is where the operator listens, `_Outside` takes what it emits."""

    __slots__ = (
        "_inside",
        "_inside_done",
        "_kind",
        "_operator",
        "_outside",
        "_outside_done",
        "_scope",
        "_source_done",
        "_upstream",
        "disposed",
        "sink",
    )

    def __init__(
        self, sink: Sink[T], scope: Scope, kind: type[K], operator: Callable[[Observable[K]], Observable[K]]
    ) -> None:
        self.sink = sink
        self._scope = scope
        self._kind = kind
        self._operator = operator
        self._inside: Sink[K] | None = None
        self._inside_done = False
        self._source_done = False
        self._outside_done = False
        self._outside: Upstream | None = None
        self._upstream: Upstream | None = None
        self.disposed = False

    def start(self, source: Observable[T]) -> None:
        self.sink.on_subscribe(self)
        if self.disposed:
            return
        inside: Flow[K] = Flow(self._listen)
        try:
            outside = self._operator(inside)
        except Exception as error:
            self.fail(error)
            return
        attach(outside, _Outside(cast("_Through[object, K]", self)), self._scope)
        if not self.disposed:
            attach(source, self, self._scope)

    def _listen(self, sink: Sink[K], scope: Scope) -> None:
        self._inside = sink
        sink.on_subscribe(_Ear(cast("_Through[object, object]", self)))

    def on_subscribe(self, upstream: Upstream) -> None:
        self._upstream = upstream
        if self.disposed:
            upstream.dispose()

    def on_next(self, value: T) -> None:
        if not isinstance(value, self._kind):
            self.sink.on_next(value)
        elif self._inside is not None and not self._inside_done:
            self._inside.on_next(value)

    def on_error(self, error: Exception) -> None:
        # not into the operator: it must not turn a failed stage into a completed one
        self.fail(error)

    def on_completed(self) -> None:
        self._source_done = True
        if self._inside is not None and not self._inside_done:
            self._inside_done = True
            self._inside.on_completed()
        elif self._outside_done:
            self.flushed()

    def operator_left(self) -> None:
        """The operator listens no more (as `take(1)` does): its values are over, the others go on."""
        self._inside_done = True

    def outside_subscribed(self, upstream: Upstream) -> None:
        self._outside = upstream
        if self.disposed:
            upstream.dispose()

    def emit(self, value: K) -> None:
        if not self.disposed:
            self.sink.on_next(cast("T", value))

    def flushed(self) -> None:
        """The operator has completed; if the source has too, all is over."""
        self._inside_done = True
        self._outside_done = True
        if self._source_done and not self.disposed:
            self.disposed = True
            self.sink.on_completed()

    def fail(self, error: Exception) -> None:
        if not self.disposed:
            self.dispose()
            self.sink.on_error(error)

    def dispose(self) -> None:
        if not self.disposed:
            self.disposed = True
            if self._upstream is not None:
                self._upstream.dispose()
            if self._outside is not None:
                self._outside.dispose()


class _Ear:
    __slots__ = ("_parent",)

    def __init__(self, parent: _Through[object, object]) -> None:
        self._parent = parent

    def dispose(self) -> None:
        self._parent.operator_left()


class _Outside(Generic[K]):
    __slots__ = ("on_completed", "on_error", "on_next", "on_subscribe")

    def __init__(self, parent: _Through[object, K]) -> None:
        self.on_subscribe = parent.outside_subscribed
        self.on_next = parent.emit
        self.on_error = parent.fail
        self.on_completed = parent.flushed
