"""`flat_map`, `concat_map`, `concat_map_type`: one value becomes a Flow.

    flat_map(f)              --a-----b-----|          all inner flows at once, as the stock operator
                             --a1-b1-a2-b2-|
    concat_map(f)            one inner flow at a time, in the order of the values
    concat_map_type(K, f)      concat_map for the values of class K; every other value passes at once

A function is not called, and an inner flow not started, after disposal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar, cast

from reactivex import Observable, abc

from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.fuse import Bound, Immediate, reduced
from agentscope_rx.reactive.kernel.observer import OperatorSink, Processor, Sink, attach
from agentscope_rx.reactive.kernel.scope import Scope

A = TypeVar("A")
B = TypeVar("B")
K = TypeVar("K")
T = TypeVar("T")


def flat_map(function: Callable[[A], abc.ObservableBase[B]]) -> Callable[[Observable[A]], Flow[B]]:
    """Merges what `function(value)` emits for every value; the first error ends all.

    Signals: the inner values as they come; completion when the source and all inner flows have completed.
    Cancels: the source and every inner flow.
    """

    def make_sink(sink: Sink[B], scope: Scope) -> Processor[A]:
        return FlatMapSink(sink, scope, function, None, 0)

    return lambda source: Bound(source, function, make_sink)


def concat_map(function: Callable[[A], abc.ObservableBase[B]]) -> Callable[[Observable[A]], Flow[B]]:
    """Emits what `function(value)` emits for each value in turn; the next begins when the one before has completed."""

    def make_sink(sink: Sink[B], scope: Scope) -> Processor[A]:
        return FlatMapSink(sink, scope, function, None, 1)

    return lambda source: Bound(source, function, make_sink)


def concat_map_type(
    kind: type[K], function: Callable[[K], abc.ObservableBase[T]]
) -> Callable[[Observable[T | K]], Flow[T]]:
    """Replaces each value of class `kind`, in order, by what `function(value)` emits; other values pass at once."""

    def make_sink(sink: Sink[T], scope: Scope) -> Processor[T | K]:
        return FlatMapSink(sink, scope, function, kind, 1)  # pyright: ignore[reportArgumentType, reportReturnType]

    def answer(value: T | K) -> abc.ObservableBase[T]:
        return function(value) if isinstance(value, kind) else Immediate(cast("T", value))

    return lambda source: Bound(source, answer, make_sink)


def onward(source: abc.ObservableBase[A], function: Callable[[A], Flow[B]]) -> Flow[B]:
    """`concat_map`, worked out at once if the source is one value that is there: then it is `function(value)`.

    Part of a subscription, as `reduced`: for use inside of `defer` and the like. Disposal is looked for before and
    after, not between the two: `function` builds what comes next, and does nothing that shows.
    """
    rest = reduced(source)
    return function(rest.value) if type(rest) is Immediate else concat_map(function)(rest)  # pyright: ignore


class FlatMapSink(OperatorSink, Generic[A, B]):
    """Attaches an inner flow for each value, at most `limit` at once (0: no limit); the rest wait in order."""

    __slots__ = (
        "_active",
        "_draining",
        "_kind",
        "_limit",
        "_outer_done",
        "_scope",
        "_waiting",
        "function",
        "sink",
    )

    def __init__(
        self,
        sink: Sink[B],
        scope: Scope,
        function: Callable[[A], abc.ObservableBase[B]],
        kind: type[A] | None,
        limit: int,
    ) -> None:
        self._upstream = None
        self.disposed = False
        self.sink = sink
        self._scope = scope
        self.function = function
        self._kind = kind
        self._limit = limit
        self._active: set[Inner[A, B]] = set()
        self._waiting: deque[A] = deque()
        self._outer_done = False
        self._draining = False

    def on_next(self, value: A) -> None:
        kind = self._kind
        if kind is not None and not isinstance(value, kind):
            self.sink.on_next(value)  # pyright: ignore[reportArgumentType]
        elif self._limit and (len(self._active) >= self._limit or self._draining):
            self._waiting.append(value)
        else:
            self.open(value)

    def on_error(self, error: Exception) -> None:
        self.dispose()
        self.sink.on_error(error)

    def on_completed(self) -> None:
        self._upstream = None
        self._outer_done = True
        if not self._active and not self._waiting and not self._draining:
            self.sink.on_completed()

    def dispose(self) -> None:
        if self.disposed:
            return
        self.disposed = True
        self._waiting.clear()
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.dispose()
        active, self._active = self._active, set()
        for inner in active:
            inner.dispose()

    def open(self, value: A) -> None:
        """Begin with the value; it is its turn."""
        try:
            source = self.function(value)
        except Exception as error:
            self.on_error(error)
            return
        if not self.disposed:
            self.open_inner(source)

    def open_inner(self, source: abc.ObservableBase[B]) -> None:
        """Attach an inner flow."""
        inner = Inner(self)
        self._active.add(inner)
        attach(source, inner, self._scope)

    def inner_completed(self, inner: Inner[A, B]) -> None:
        self._active.discard(inner)
        if self.disposed or self._draining:
            return
        # a loop, so that synchronous inner flows do not nest
        self._draining = True
        while self._waiting and not self.disposed and len(self._active) < self._limit:
            self.open(self._waiting.popleft())
        self._draining = False
        if self._outer_done and not self._active and not self.disposed:
            self.sink.on_completed()

    def inner_failed(self, inner: Inner[A, B], error: Exception) -> None:
        self._active.discard(inner)
        if not self.disposed:
            self.on_error(error)


class Inner(OperatorSink, Generic[A, B]):
    """What an inner flow is attached to."""

    __slots__ = ("_parent", "on_next")

    def __init__(self, parent: FlatMapSink[A, B]) -> None:
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
