"""`through`: put an operator over the values of one kind; all others pass beside it.

    source              --a--x--a--|
    operator over a         --A-----A--|
    result              ----Ax------A--|    completes when the operator has completed, hence flushed

The operator sees a stream of its kind alone, which completes when the source does. The demand that it listens with is
what the source reads on by.

| the operator            | a value of its kind                                                       |
|-------------------------|---------------------------------------------------------------------------|
| does not listen yet     | waits, and is the first that it hears (`delay_subscription`, `start_with`) |
| listens                 | goes to it; if it listens several times, to each from when it listens on  |
| has left or completed   | is over (`take(1)`)                                                       |
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar, cast

from reactivex import Observable

from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, attach
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")
K = TypeVar("K")


def transform_type(
    kind: type[K],
    operator: Callable[[Observable[K]], Observable[K]],
    *,
    void: Callable[[T], bool] | None = None,
) -> Callable[[Observable[T]], Flow[T]]:
    """Applies `operator` to the values of class `kind`, passes the others at once.

    `void(other)` says that what came before is void: what the operator still holds of it is not emitted any more, and
    the operator begins anew. (What it asks of the source's demand, it has then asked.)

    Signals: both; the error of either; completion when the source and the operator have completed.
    Cancels: both.
    """

    def wrap(source: Observable[T]) -> Flow[T]:
        return Flow(lambda sink, scope: _Through(sink, scope, kind, operator, void).start(source))  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]

    return wrap


class _Through(OperatorSink, Generic[T, K]):
    """The outer sink. `_inside` is where the operator listens, `_Outside` takes what it emits."""

    __slots__ = (
        "_inside",
        "_kind",
        "_operator",
        "_outside",
        "_outside_done",
        "_scope",
        "_source_done",
        "_void",
        "sink",
    )

    def __init__(
        self,
        sink: Sink[T],
        scope: Scope,
        kind: type[K],
        operator: Callable[[Observable[K]], Observable[K]],
        void: Callable[[T], bool] | None,
    ) -> None:
        self._upstream = None
        # or ended
        self.disposed = False
        self.sink = sink
        self._scope = scope
        self._kind = kind
        self._operator = operator
        self._void = void
        self._inside: _Inside[K] = _Inside()
        self._source_done = False
        self._outside_done = False
        self._outside: _Outside[K] | None = None

    def start(self, source: Observable[T]) -> None:
        self.sink.on_subscribe(self)
        if not self.disposed:
            self._operate()
        if not self.disposed:
            attach(source, self, self._source_scope())

    def _operate(self) -> None:
        try:
            outside = self._operator(Flow(self._inside.listen))
        except Exception as error:
            failure = error
        else:
            self._outside = _Outside(cast("_Through[object, K]", self))
            attach(outside, self._outside, self._scope)
            return
        self.fail(failure)

    def _begin_anew(self, value: T) -> None:
        """Leave the operator with all that it holds, and go on with it from the beginning behind this value."""
        self._inside.close()
        outside, self._outside = self._outside, None
        if outside is not None:
            outside.dispose()
        self._inside = _Inside()
        self._outside_done = False
        self.sink.on_next(value)
        if not self.disposed:
            self._operate()

    def _source_scope(self) -> Scope:
        """The operator's demand is the source's: who listens slowly is not sent more than there is room for."""
        scope, heard = self._scope, self._inside.scope
        if heard is None or heard.demand is None or heard.demand is scope.demand or heard.loop is not scope.loop:
            return scope
        return Scope(scope.loop, scope.context, heard.demand, scope.work)

    def on_next(self, value: T) -> None:
        if isinstance(value, self._kind):
            self._inside.emit(value)
        elif self._void is not None and self._void(value):
            self._begin_anew(value)
        else:
            self.sink.on_next(value)

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        # not into the operator: it must not turn a failed stage into a completed one
        self.fail(error)

    def on_completed(self) -> None:
        self._upstream = None
        self._source_done = True
        self._inside.complete()
        self._end_if_both_have()

    def emit(self, value: K) -> None:
        """What the operator emits."""
        if not self.disposed:
            self.sink.on_next(cast("T", value))

    def flushed(self) -> None:
        """The operator has completed; if the source has too, all is over."""
        self._inside.close()
        self._outside = None
        self._outside_done = True
        self._end_if_both_have()

    def _end_if_both_have(self) -> None:
        if self._source_done and self._outside_done and not self.disposed:
            self.disposed = True
            self.sink.on_completed()

    def fail(self, error: Exception) -> None:
        if not self.disposed:
            self.dispose()
            self.sink.on_error(error)

    def dispose(self) -> None:
        if not self.disposed:
            super().dispose()
            self._inside.close()
            outside, self._outside = self._outside, None
            if outside is not None:
                outside.dispose()


class _Inside(Generic[K]):
    """The stream that the operator listens to: once as a rule, never or several times if it likes."""

    __slots__ = ("_completed", "_early", "_ears", "scope")

    def __init__(self) -> None:
        self._ears: tuple[_Ear[K], ...] = ()
        # what has come before anybody listened; None once somebody has
        self._early: deque[K] | None = deque()
        self._completed = False
        self.scope: Scope | None = None
        """That of the first who listens."""

    def listen(self, sink: Sink[K], scope: Scope) -> None:
        ear = _Ear(self, sink)
        if self.scope is None:
            self.scope = scope
        sink.on_subscribe(ear)
        # what comes meanwhile goes behind
        while self._early and not ear.deaf:
            sink.on_next(self._early.popleft())
        self._early = None
        if ear.deaf:
            return
        if self._completed:
            sink.on_completed()
        else:
            self._ears = (*self._ears, ear)

    def emit(self, value: K) -> None:
        if self._early is not None:
            self._early.append(value)
            return
        for ear in self._ears:
            if not ear.deaf:
                ear.sink.on_next(value)

    def complete(self) -> None:
        self._completed = True
        ears, self._ears = self._ears, ()
        for ear in ears:
            if not ear.deaf:
                ear.sink.on_completed()

    def leave(self, ear: _Ear[K]) -> None:
        self._ears = tuple(other for other in self._ears if other is not ear)

    def close(self) -> None:
        """Nobody will listen any more."""
        self._early = None
        self._ears = ()


class _Ear(Generic[K]):
    __slots__ = ("_inside", "deaf", "sink")

    def __init__(self, inside: _Inside[K], sink: Sink[K]) -> None:
        self._inside = inside
        self.sink = sink
        self.deaf = False

    def dispose(self) -> None:
        if not self.deaf:
            self.deaf = True
            self._inside.leave(self)


class _Outside(OperatorSink, Generic[K]):
    __slots__ = ("_parent", "on_next")

    def __init__(self, parent: _Through[object, K]) -> None:
        self._upstream = None
        self.disposed = False
        self._parent = parent
        self.on_next = parent.emit

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._parent.fail(error)

    def on_completed(self) -> None:
        self._upstream = None
        self._parent.flushed()
