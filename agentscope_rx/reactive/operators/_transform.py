"""`transform_type`: put an operator over the values of one class; all others pass beside it.

    source              --a--x--a--|
    operator over a         --A-----A--|
    result              ----Ax------A--|    completes when the operator has completed, hence flushed

The operator's source emits the values of the class alone and completes when the outer source does. The demand that the
operator subscribes with is the demand of the outer source.

| the operator                | a value of the class                                                              |
|-----------------------------|-----------------------------------------------------------------------------------|
| has not subscribed yet      | waits, and is the first that it receives (`delay_subscription`, `start_with`)     |
| has subscribed              | goes to it; with several subscriptions, to each from the moment it was made       |
| has disposed or completed   | is dropped (`take(1)`)                                                            |
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar, cast

from reactivex import Observable

from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, attach
from agentscope_rx.reactive.kernel.operator import Producer
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")
K = TypeVar("K")


def transform_type(
    kind: type[K],
    operator: Callable[[Observable[K]], Observable[K]],
    *,
    void: Callable[[T], bool] | None = None,
) -> Callable[[Observable[T]], Flow[T]]:
    """Applies `operator` to the values of class `kind`; other values pass at once.

    If `void(value)` is true, the values before it are void: the operator is disposed of with all that it holds, and
    applied anew. The source keeps the demand of the first application.

    Signals: both; the error of either; completion when the source and the operator have completed.
    Cancels: both.
    """
    return partial(Producer, partial(_Transform, kind, operator, void))


class _Transform(OperatorSink, Generic[T, K]):
    """The outer sink. `_input` is the operator's source, `_Output` its sink."""

    __slots__ = (
        "_input",
        "_kind",
        "_operator",
        "_output",
        "_output_done",
        "_scope",
        "_source_done",
        "_void",
        "sink",
    )

    def __init__(
        self,
        kind: type[K],
        operator: Callable[[Observable[K]], Observable[K]],
        void: Callable[[T], bool] | None,
        sink: Sink[T],
        scope: Scope,
    ) -> None:
        self._upstream = None
        # or ended
        self.disposed = False
        self.sink = sink
        self._scope = scope
        self._kind = kind
        self._operator = operator
        self._void = void
        self._input: _Input[K] = _Input()
        self._source_done = False
        self._output_done = False
        self._output: _Output[K] | None = None

    def start(self, source: Observable[T]) -> None:
        self._apply()
        if not self.disposed:
            attach(source, self, self._source_scope())

    def _apply(self) -> None:
        try:
            output = self._operator(Flow(self._input.subscribe))
        except Exception as error:
            failure = error
        else:
            self._output = _Output(cast("_Transform[object, K]", self))
            attach(output, self._output, self._scope)
            return
        self.fail(failure)

    def _apply_anew(self, value: T) -> None:
        """Dispose of the operator with all that it holds, emit the value, and apply the operator again."""
        self._input.close()
        output, self._output = self._output, None
        if output is not None:
            output.dispose()
        self._input = _Input()
        self._output_done = False
        self.sink.on_next(value)
        if not self.disposed:
            self._apply()

    def _source_scope(self) -> Scope:
        """The scope with the operator's demand, so that the source is not read faster than the operator can take it."""
        scope, inner = self._scope, self._input.scope
        if inner is None or inner.demand is None or inner.demand is scope.demand or inner.loop is not scope.loop:
            return scope
        return Scope(scope.loop, scope.context, inner.demand, scope.work)

    def on_next(self, value: T) -> None:
        if isinstance(value, self._kind):
            self._input.emit(value)
        elif self._void is not None and self._void(value):
            self._apply_anew(value)
        else:
            self.sink.on_next(value)

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        # not into the operator: it must not turn a failed stage into a completed one
        self.fail(error)

    def on_completed(self) -> None:
        self._upstream = None
        self._source_done = True
        self._input.complete()
        self._complete_if_both_have()

    def emit(self, value: K) -> None:
        """Pass on a value of the operator."""
        if not self.disposed:
            self.sink.on_next(cast("T", value))

    def output_completed(self) -> None:
        """Complete if the source has completed, too."""
        self._input.close()
        self._output = None
        self._output_done = True
        self._complete_if_both_have()

    def _complete_if_both_have(self) -> None:
        if self._source_done and self._output_done and not self.disposed:
            self.disposed = True
            self.sink.on_completed()

    def fail(self, error: Exception) -> None:
        if not self.disposed:
            self.dispose()
            self.sink.on_error(error)

    def dispose(self) -> None:
        if not self.disposed:
            super().dispose()
            self._input.close()
            output, self._output = self._output, None
            if output is not None:
                output.dispose()


class _Input(Generic[K]):
    """The operator's source. An operator subscribes to it once as a rule, but also never or several times."""

    __slots__ = ("_completed", "_early", "_subscriptions", "scope")

    def __init__(self) -> None:
        self._subscriptions: tuple[_InputSubscription[K], ...] = ()
        # the values before the first subscription; None after it
        self._early: deque[K] | None = deque()
        self._completed = False
        self.scope: Scope | None = None
        """The scope of the first subscription."""

    def subscribe(self, sink: Sink[K], scope: Scope) -> None:
        subscription = _InputSubscription(self, sink)
        if self.scope is None:
            self.scope = scope
        sink.on_subscribe(subscription)
        # values that come meanwhile are put behind these
        while self._early and not subscription.disposed:
            sink.on_next(self._early.popleft())
        self._early = None
        if subscription.disposed:
            return
        if self._completed:
            sink.on_completed()
        else:
            self._subscriptions = (*self._subscriptions, subscription)

    def emit(self, value: K) -> None:
        if self._early is not None:
            self._early.append(value)
            return
        for subscription in self._subscriptions:
            if not subscription.disposed:
                subscription.sink.on_next(value)

    def complete(self) -> None:
        self._completed = True
        subscriptions, self._subscriptions = self._subscriptions, ()
        for subscription in subscriptions:
            if not subscription.disposed:
                subscription.sink.on_completed()

    def leave(self, subscription: _InputSubscription[K]) -> None:
        self._subscriptions = tuple(other for other in self._subscriptions if other is not subscription)

    def close(self) -> None:
        """Drop all subscriptions and values."""
        self._early = None
        self._subscriptions = ()


class _InputSubscription(Generic[K]):
    __slots__ = ("_input", "disposed", "sink")

    def __init__(self, input: _Input[K], sink: Sink[K]) -> None:
        self._input = input
        self.sink = sink
        self.disposed = False

    def dispose(self) -> None:
        if not self.disposed:
            self.disposed = True
            self._input.leave(self)


class _Output(OperatorSink, Generic[K]):
    __slots__ = ("_parent", "on_next")

    def __init__(self, parent: _Transform[object, K]) -> None:
        self._upstream = None
        self.disposed = False
        self._parent = parent
        self.on_next = parent.emit

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._parent.fail(error)

    def on_completed(self) -> None:
        self._upstream = None
        self._parent.output_completed()
