"""`then`: first one thing, then another; only the second is heard.

first      --x--y--|
after()             --a--b--|
result     -----------a--b--|
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from reactivex import Observable, abc

from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.fuse import Bound
from agentscope_rx.reactive.kernel.observer import OperatorSink, Processor, Relay, Sink, attach
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")


def then(after: Callable[[], abc.ObservableBase[T]]) -> Callable[[Observable[object]], Flow[T]]:
    """Passes the source's values over and, once it has completed, emits what `after()` emits.

    Signals: the values of `after()`; the error of either.
    Cancels: whichever is in progress; `after` is not called.
    """

    def make_sink(sink: Sink[T], scope: Scope) -> Processor[object]:
        return _First(sink, scope, after)

    return lambda source: Bound(source, lambda _: after(), make_sink)


class _First(OperatorSink, Generic[T]):
    __slots__ = ("_after", "_scope", "_sink")

    def __init__(self, sink: Sink[T], scope: Scope, after: Callable[[], abc.ObservableBase[T]]) -> None:
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
