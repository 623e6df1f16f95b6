"""`flat_map_iterable`: one value becomes several, at once and in order.

source     --a------b--|
result     --a1a2---b1--z|      function(a) gives a1, a2; at_end() gives z
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Generic, TypeVar

from reactivex import Observable

from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink
from agentscope_rx.reactive.kernel.operator import OperatorFlow
from agentscope_rx.reactive.kernel.scope import Scope

A = TypeVar("A")
B = TypeVar("B")


def flat_map_iterable(
    function: Callable[[A], Iterable[B]], at_end: Callable[[], Iterable[B]] | None = None
) -> Callable[[Observable[A]], Flow[B]]:
    """Emits every item of `function(value)`, and of `at_end()` once the source has completed.

    Signals: the items; the error of the source or of a function.
    Cancels: the source; the items that are left are not emitted.
    """
    return partial(OperatorFlow, partial(_FlatMapIterable, function, at_end))


class _FlatMapIterable(OperatorSink, Generic[A, B]):
    __slots__ = ("_at_end", "_function", "_sink")

    def __init__(
        self,
        function: Callable[[A], Iterable[B]],
        at_end: Callable[[], Iterable[B]] | None,
        sink: Sink[B],
        scope: Scope,
    ) -> None:
        self._upstream = None
        self.disposed = False
        self._sink = sink
        self._function = function
        self._at_end = at_end

    def on_next(self, value: A) -> None:
        try:
            items = list(self._function(value))
        except Exception as error:
            self.dispose()
            self._sink.on_error(error)
            return
        for item in items:
            if self.disposed:
                return
            self._sink.on_next(item)

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._sink.on_error(error)

    def on_completed(self) -> None:
        self._upstream = None
        if self._at_end is not None:
            try:
                items = list(self._at_end())
            except Exception as error:
                self._sink.on_error(error)
                return
            for item in items:
                if self.disposed:
                    return
                self._sink.on_next(item)
        if not self.disposed:
            self._sink.on_completed()
