"""`paced`: `map_flow` whose source waits for slow answers.

    source   --a-b-c-d-e-f-g-h- - - - - - - - i-j-     reads on while fewer than `limit` values wait for their turn
    f(a)       ------A|
    f(b)              ------B|
    result   --------A------B------C------D----...

Demand is withheld from the source alone (see `BufferDemand`): what `function` gives does not wait for itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from reactivex import Observable, abc

from agentscope_rx.reactive.kernel.demand import BufferDemand
from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.observer import Sink, attach
from agentscope_rx.reactive.kernel.scope import Scope
from agentscope_rx.reactive.operators._flat_map import Inner
from agentscope_rx.reactive.operators._map_flow import MapFlowSink

A = TypeVar("A")
B = TypeVar("B")

LIMIT = 16
"""How many values wait before the source is asked to stop reading."""


def paced(function: Callable[[A], B | abc.ObservableBase[B]], limit: int = LIMIT) -> Callable[[Observable[A]], Flow[B]]:
    """Emits `function(value)` for each value or, if that is an Observable, what it emits; in order.

    While `limit` values wait, demand is withheld: sources that look at it stop reading, until half of those are left.

    Signals: the answers; the first error, of the source, of `function` or of an answer.
    Cancels: the source and the answer in progress.
    """

    def operator(source: Observable[A]) -> Flow[B]:
        def connect(sink: Sink[B], scope: Scope) -> None:
            gate = BufferDemand(scope.loop, scope.demand)
            pacing = _Paced(sink, scope, function, gate, limit)
            sink.on_subscribe(pacing)
            if not pacing.disposed:
                attach(source, pacing, Scope(scope.loop, scope.context, gate, scope.work))

        return Flow(connect)

    return operator


class _Paced(MapFlowSink[A, B]):
    __slots__ = ("_gate", "_high")

    def __init__(
        self,
        sink: Sink[B],
        scope: Scope,
        function: Callable[[A], B | abc.ObservableBase[B]],
        gate: BufferDemand,
        limit: int,
    ) -> None:
        super().__init__(sink, scope, function, None, 1)  # pyright: ignore[reportArgumentType]
        self._gate = gate
        self._high = limit

    def on_next(self, value: A) -> None:
        if not self._active and not self._draining:
            self.open(value)
            return
        self._waiting.append(value)
        if len(self._waiting) >= self._high:
            self._gate.shut()

    def inner_completed(self, inner: Inner[A, B]) -> None:
        super().inner_completed(inner)
        if self._gate.is_shut and len(self._waiting) <= self._high // 2:
            self._gate.open()

    def dispose(self) -> None:
        super().dispose()
        # who is left behind need not wait: the source may go on for others (see `through`)
        self._gate.open()
