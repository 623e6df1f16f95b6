"""`flat_map`, `concat_map`, `concat_map_type`: one value becomes a Flow.

    source                     --a-----b-----|
    flat_map(f)                --a1-b1-a2-b2-|     all inner flows at once, as the stock operator
    concat_map(f)              --a1----a2-b1-b2-|  one inner flow at a time, in the order of the values
    concat_map(f, prefetch=n)                      the source stops reading while n values wait for their turn
    concat_map_type(K, f)                          concat_map for the values of class K; others pass at once

A function is not called, and an inner flow not started, after disposal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar, cast, overload

from reactivex import Observable, abc

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.reactive.kernel.demand import BufferDemand
from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.fuse import FuseableOperator, Immediate, reduced
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, attach
from agentscope_rx.reactive.kernel.operator import Producer
from agentscope_rx.reactive.kernel.scope import Scope

A = TypeVar("A")
B = TypeVar("B")
K = TypeVar("K")
T = TypeVar("T")


def flat_map(function: Callable[[A], abc.ObservableBase[B]]) -> Callable[[Observable[A]], Flow[B]]:
    """Merges the flows `function(value)` of all values; the first error ends all.

    Signals: the inner values as they come; completion when the source and all inner flows have completed.
    Cancels: the source and every inner flow.
    """
    link = partial(_FlatMap, function)
    return lambda source: FuseableOperator(link, source, function)


def concat_map(
    function: Callable[[A], B | abc.ObservableBase[B]], *, prefetch: int | None = None
) -> Callable[[Observable[A]], Flow[B]]:
    """Emits `function(value)` for each value in turn or, if that is an Observable, its values.

        source      --1----2-------3|
        result      ----1a-1b-2a-2b----3a-3b|           function(n) emits na, nb

    An Observable is an instance of reactivex's `ObservableBase`; everything else, also a list, is a plain value. Values
    that come during an inner flow wait, without a bound. With `prefetch` the source stops reading while so many wait,
    until half of them are left. Inner flows have the subscriber's demand.

    Signals: the answers; the first error, of the source, of `function` or of an inner flow.
    Cancels: the source and the inner flow in progress.
    """
    if prefetch is not None:
        if prefetch < 1:
            raise ConfigurationError(f"concat_map: prefetch must be at least 1, not {prefetch}.")
        return partial(Producer, partial(_PrefetchingConcatMap, function, prefetch))
    link = partial(_ConcatMap, function, None)
    return lambda source: FuseableOperator(link, source, function, plain=True)


def concat_map_type(
    kind: type[K], function: Callable[[K], T | abc.ObservableBase[T]]
) -> Callable[[Observable[T | K]], Flow[T]]:
    """Applies `concat_map` to values of class `kind`; other values pass at once."""
    link = partial(_ConcatMap, function, kind)

    def answer(value: T | K) -> T | abc.ObservableBase[T]:
        return function(value) if isinstance(value, kind) else Immediate(cast("T", value))

    return lambda source: FuseableOperator(link, source, answer, plain=True)  # pyright: ignore


@overload
def onward(source: abc.ObservableBase[A], function: Callable[[A], Flow[B]]) -> Flow[B]: ...
@overload
def onward(source: abc.ObservableBase[A], function: Callable[[A], B | Flow[B]]) -> B | Flow[B]: ...
def onward(source: abc.ObservableBase[A], function: Callable[[A], B | Flow[B]]) -> B | Flow[B]:
    """`concat_map` for use inside of a `defer` or of `steps`. If the source has its one value, it is `function(value)`.

    It evaluates the source at once, so it must be part of a subscription. It checks for a disposal before and after,
    not in between: `function` must only build the next flow, without effects of its own.
    """
    rest = reduced(source)
    return function(rest.value) if type(rest) is Immediate else concat_map(function)(rest)  # pyright: ignore


class _FlatMap(OperatorSink, Generic[A, B]):
    """Attaches an inner flow for each value, all at once."""

    __slots__ = ("_active", "_function", "_outer_done", "_scope", "sink")

    def __init__(self, function: Callable[[A], B | abc.ObservableBase[B]], sink: Sink[B], scope: Scope) -> None:
        self._upstream = None
        self.disposed = False
        self.sink = sink
        self._scope = scope
        self._function = function
        self._active: set[_Inner[A, B]] = set()
        self._outer_done = False

    def on_next(self, value: A) -> None:
        try:
            source = self._function(value)
        except Exception as error:
            self.on_error(error)
            return
        if not self.disposed:
            self._attach_inner(source)  # pyright: ignore[reportArgumentType]

    def on_error(self, error: Exception) -> None:
        self.dispose()
        self.sink.on_error(error)

    def on_completed(self) -> None:
        self._upstream = None
        self._outer_done = True
        if not self._active:
            self.sink.on_completed()

    def dispose(self) -> None:
        if self.disposed:
            return
        self.disposed = True
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.dispose()
        active, self._active = self._active, set()
        for inner in active:
            inner.dispose()

    def _attach_inner(self, source: abc.ObservableBase[B]) -> None:
        inner = _Inner(self)
        self._active.add(inner)
        attach(source, inner, self._scope)

    def inner_completed(self, inner: _Inner[A, B]) -> None:
        self._active.discard(inner)
        if self._outer_done and not self._active and not self.disposed:
            self.sink.on_completed()

    def inner_failed(self, inner: _Inner[A, B], error: Exception) -> None:
        self._active.discard(inner)
        if not self.disposed:
            self.on_error(error)


class _ConcatMap(_FlatMap[A, B]):
    """Attaches one inner flow at a time; the values behind it wait in order."""

    __slots__ = ("_draining", "_kind", "_waiting")

    def __init__(
        self,
        function: Callable[[A], B | abc.ObservableBase[B]],
        kind: type[A] | None,
        sink: Sink[B],
        scope: Scope,
    ) -> None:
        super().__init__(function, sink, scope)
        self._kind = kind
        self._waiting: deque[A] = deque()
        self._draining = False

    def on_next(self, value: A) -> None:
        kind = self._kind
        if kind is not None and not isinstance(value, kind):
            self.sink.on_next(value)  # pyright: ignore[reportArgumentType]
        elif self._active or self._draining:
            self._waiting.append(value)
        else:
            self._answer(value)

    def on_completed(self) -> None:
        self._upstream = None
        self._outer_done = True
        if not self._active and not self._waiting and not self._draining:
            self.sink.on_completed()

    def dispose(self) -> None:
        self._waiting.clear()
        super().dispose()

    def _answer(self, value: A) -> None:
        try:
            answer = self._function(value)
        except Exception as error:
            self.on_error(error)
            return
        if self.disposed:
            return
        if hasattr(answer, "_attach") or isinstance(answer, abc.ObservableBase):
            self._attach_inner(cast("abc.ObservableBase[B]", answer))
        else:
            self.sink.on_next(answer)

    def inner_completed(self, inner: _Inner[A, B]) -> None:
        self._active.discard(inner)
        if self.disposed or self._draining:
            return
        # a loop, so that synchronous inner flows do not nest
        self._draining = True
        while self._waiting and not self._active and not self.disposed:
            self._answer(self._waiting.popleft())
        self._draining = False
        if self._outer_done and not self._active and not self.disposed:
            self.sink.on_completed()


class _PrefetchingConcatMap(_ConcatMap[A, B]):
    """Attaches the source with a demand of its own, which is withheld while too many values wait."""

    __slots__ = ("_demand", "_prefetch")

    def __init__(
        self,
        function: Callable[[A], B | abc.ObservableBase[B]],
        prefetch: int,
        sink: Sink[B],
        scope: Scope,
    ) -> None:
        super().__init__(function, None, sink, scope)
        self._prefetch = prefetch
        self._demand = BufferDemand(scope.loop, scope.demand)

    def start(self, source: Observable[A]) -> None:
        scope = self._scope
        attach(source, self, Scope(scope.loop, scope.context, self._demand, scope.work))

    def on_next(self, value: A) -> None:
        super().on_next(value)
        if len(self._waiting) >= self._prefetch:
            self._demand.shut()

    def inner_completed(self, inner: _Inner[A, B]) -> None:
        super().inner_completed(inner)
        if self._demand.is_shut and len(self._waiting) <= self._prefetch // 2:
            self._demand.open()

    def dispose(self) -> None:
        super().dispose()
        # the source may go on for other subscribers (see `transform_type`), which must not wait for this one
        self._demand.open()


class _Inner(OperatorSink, Generic[A, B]):
    """The sink of an inner flow."""

    __slots__ = ("_parent", "on_next")

    def __init__(self, parent: _FlatMap[A, B]) -> None:
        self._upstream = None
        self.disposed = False
        self._parent = parent
        # the downstream sink's own method: an inner value costs no call here
        self.on_next = parent.sink.on_next

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._parent.inner_failed(self, error)

    def on_completed(self) -> None:
        self._upstream = None
        self._parent.inner_completed(self)
