"""`ensure`: a stream that must say a certain thing says it at the end if it has not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from reactivex import Observable

from agentscope_rx.reactive.flow import Flow
from agentscope_rx.reactive.observer import Sink, Upstream, attach

T = TypeVar("T")


def ensure(kind: type[T], make: Callable[[], T]) -> Callable[[Observable[T]], Flow[T]]:
    """Emits the source's values and, if none of them was of class `kind`, `make()` before completion."""

    def operator(source: Observable[T]) -> Flow[T]:
        return Flow(lambda sink, scope: attach(source, _Ensure(sink, kind, make), scope))

    return operator


class _Ensure(Generic[T]):
    __slots__ = ("_disposed", "_kind", "_make", "_seen", "_sink", "_upstream", "on_error")

    def __init__(self, sink: Sink[T], kind: type[T], make: Callable[[], T]) -> None:
        self._sink = sink
        self._kind = kind
        self._make = make
        self._seen = False
        self._disposed = False
        self._upstream: Upstream | None = None
        self.on_error = sink.on_error

    def on_subscribe(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._sink.on_subscribe(self)

    def on_next(self, value: T) -> None:
        if isinstance(value, self._kind):
            self._seen = True
        self._sink.on_next(value)

    def on_completed(self) -> None:
        if not self._seen:
            try:
                value = self._make()
            except Exception as error:
                self._sink.on_error(error)
                return
            self._sink.on_next(value)
        if not self._disposed:
            self._sink.on_completed()

    def dispose(self) -> None:
        self._disposed = True
        if self._upstream is not None:
            self._upstream.dispose()
