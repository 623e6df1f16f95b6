"""`map_flow`: `map` whose function may also answer later, or with several values, by giving an Observable.

    source     --a-----b--c--|
    result     --A-----b1-b2-C--|       function(a) = A, function(b) = a Flow of b1 and b2, function(c) = C

A plain answer costs no more than a call. Order is kept: while a Flow is being emitted, the values after it wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from reactivex import Observable, abc

from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.fuse import Bound, is_observable
from agentscope_rx.reactive.kernel.observer import Processor, Sink
from agentscope_rx.reactive.kernel.scope import Scope
from agentscope_rx.reactive.operators._flat_map import FlatMapSink

A = TypeVar("A")
B = TypeVar("B")


def map_flow(function: Callable[[A], B | abc.ObservableBase[B]]) -> Callable[[Observable[A]], Flow[B]]:
    """Emits `function(value)` for each value or, if that is an Observable, what it emits; in order.

    Signals: the answers; the first error, of the source, of `function` or of an answer.
    Cancels: the source and the answer in progress.
    """

    def make_sink(sink: Sink[B], scope: Scope) -> Processor[A]:
        # one at a time: `open` itself tells plain answers from Flows
        return MapFlowSink(sink, scope, function, None, 1)  # pyright: ignore[reportArgumentType]

    return lambda source: Bound(source, function, make_sink, plain=True)


class MapFlowSink(FlatMapSink[A, B]):
    """Of plain answers and Flows."""

    __slots__ = ()

    def open(self, value: A) -> None:
        try:
            answer = self.function(value)
        except Exception as error:
            self.on_error(error)
            return
        if self.disposed:
            return
        if is_observable(answer):  # pyright: ignore[reportUnnecessaryIsInstance]
            self.open_inner(answer)
        else:
            self.sink.on_next(answer)
