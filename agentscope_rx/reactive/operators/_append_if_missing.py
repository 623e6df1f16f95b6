"""`append_if_missing`: append a value to a stream that has none of its class.

source     --a--b--|
result     --a--b--k|       neither a nor b is of class K; make() gives k
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from reactivex import Observable

from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink
from agentscope_rx.reactive.kernel.operator import OperatorFlow
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")


def append_if_missing(kind: type[T], make: Callable[[], T]) -> Callable[[Observable[T]], Flow[T]]:
    """Emits the source's values and, if none is of class `kind`, `make()` before completion.

    Signals: those of the source; the exception of `make`.
    Cancels: the source.
    """
    return partial(OperatorFlow, partial(_AppendIfMissing, kind, make))


class _AppendIfMissing(OperatorSink, Generic[T]):
    __slots__ = ("_kind", "_make", "_seen", "_sink")

    def __init__(self, kind: type[T], make: Callable[[], T], sink: Sink[T], scope: Scope) -> None:
        self._upstream = None
        self.disposed = False
        self._sink = sink
        self._kind = kind
        self._make = make
        self._seen = False

    def on_next(self, value: T) -> None:
        if isinstance(value, self._kind):
            self._seen = True
        self._sink.on_next(value)

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._sink.on_error(error)

    def on_completed(self) -> None:
        self._upstream = None
        if not self._seen:
            try:
                value = self._make()
            except Exception as error:
                self._sink.on_error(error)
                return
            self._sink.on_next(value)
        if not self.disposed:
            self._sink.on_completed()
