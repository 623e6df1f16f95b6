"""`expand`: one value becomes several, at once and in order.

source     --a------b--|
result     --a1a2---b1-|        function(a) gives a1, a2
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from reactivex import Observable

from agentscope_rx.reactive.flow import Flow
from agentscope_rx.reactive.observer import Sink, Upstream, attach

A = TypeVar("A")
B = TypeVar("B")


def expand(function: Callable[[A], Iterable[B]]) -> Callable[[Observable[A]], Flow[B]]:
    """Emits every item of `function(value)`; looks for disposal between items.

    Signals: the items; the error of the source or of `function`.
    Cancels: the source.
    """

    def operator(source: Observable[A]) -> Flow[B]:
        return Flow(lambda sink, scope: attach(source, _Expand(sink, function), scope))

    return operator


class _Expand(Generic[A, B]):
    __slots__ = ("_disposed", "_function", "_sink", "_upstream", "on_completed", "on_error")

    def __init__(self, sink: Sink[B], function: Callable[[A], Iterable[B]]) -> None:
        self._sink = sink
        self._function = function
        self._disposed = False
        self._upstream: Upstream | None = None
        self.on_error = sink.on_error
        self.on_completed = sink.on_completed

    def on_subscribe(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._sink.on_subscribe(self)

    def on_next(self, value: A) -> None:
        try:
            items = list(self._function(value))
        except Exception as error:
            self.dispose()
            self._sink.on_error(error)
            return
        for item in items:
            if self._disposed:
                return
            self._sink.on_next(item)

    def dispose(self) -> None:
        if not self._disposed:
            self._disposed = True
            if self._upstream is not None:
                self._upstream.dispose()
