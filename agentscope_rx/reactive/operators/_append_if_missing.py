"""`ensure`: a stream that must say a certain thing says it at the end if it has not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from reactivex import Observable

from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, attach
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")


def append_if_missing(kind: type[T], make: Callable[[], T]) -> Callable[[Observable[T]], Flow[T]]:
    """Emits the source's values and, if none of them was of class `kind`, `make()` before completion."""

    def operator(source: Observable[T]) -> Flow[T]:
        def connect(sink: Sink[T], scope: Scope) -> None:
            ensuring = _Ensure(sink, kind, make)
            sink.on_subscribe(ensuring)
            if not ensuring.disposed:
                attach(source, ensuring, scope)

        return Flow(connect)

    return operator


class _Ensure(OperatorSink, Generic[T]):
    __slots__ = ("_kind", "_make", "_seen", "_sink")

    def __init__(self, sink: Sink[T], kind: type[T], make: Callable[[], T]) -> None:
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
