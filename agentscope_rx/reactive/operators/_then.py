"""`then`: run one flow, then another; only the values of the second are emitted.

first      --x--y--|
after()             --a--b--|
result     -----------a--b--|
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from reactivex import Observable, abc

from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.fuse import FuseableOperator
from agentscope_rx.reactive.kernel.observer import OperatorSink, Relay, Sink, attach
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")


def then(after: Callable[[], abc.ObservableBase[T]]) -> Callable[[Observable[object]], Flow[T]]:
    """Drops the source's values and, once it has completed, emits the values of `after()`.

    Signals: the values of `after()`; the error of either.
    Cancels: the one of the two that is in progress; then `after` is not called.
    """
    link = partial(_Then, after)
    return lambda source: FuseableOperator(link, source, lambda _: after())


class _Then(OperatorSink, Generic[T]):
    __slots__ = ("_after", "_scope", "_sink")

    def __init__(self, after: Callable[[], abc.ObservableBase[T]], sink: Sink[T], scope: Scope) -> None:
        self._upstream = None
        self.disposed = False
        self._sink = sink
        self._scope = scope
        self._after = after

    def on_next(self, value: object) -> None: ...

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._sink.on_error(error)

    def on_completed(self) -> None:
        self._upstream = None
        if self.disposed:
            return
        try:
            source = self._after()
        except Exception as error:
            self._sink.on_error(error)
            return
        second = Relay(self._sink)
        self.on_subscribe(second)
        if not second.disposed:
            attach(source, second, self._scope)
