"""`and_then`: first one thing, then another; only the second is heard.

first      --x--y--|
after()             --a--b--|
result     -----------a--b--|
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from reactivex import Observable, abc

from agentscope_rx.reactive.flow import Flow
from agentscope_rx.reactive.fuse import Bound
from agentscope_rx.reactive.observer import Sink, Upstream, attach
from agentscope_rx.reactive.scope import Scope

T = TypeVar("T")


def and_then(after: Callable[[], abc.ObservableBase[T]]) -> Callable[[Observable[object]], Flow[T]]:
    """Passes the source's values over and, once it has completed, emits what `after()` emits.

    Signals: the values of `after()`; the error of either.
    Cancels: whichever is in progress; `after` is not called.
    """

    def make_sink(sink: Sink[T], scope: Scope) -> Sink[object]:
        return _First(sink, scope, after)

    return lambda source: Bound(source, lambda _: after(), make_sink)


class _First(Generic[T]):
    __slots__ = ("_after", "_scope", "_sink", "_told", "_upstream", "disposed", "on_error")

    def __init__(self, sink: Sink[T], scope: Scope, after: Callable[[], abc.ObservableBase[T]]) -> None:
        self._sink = sink
        self._scope = scope
        self._after = after
        self._upstream: Upstream | None = None
        self._told = False
        self.disposed = False
        self.on_error = sink.on_error

    def on_subscribe(self, upstream: Upstream) -> None:
        self._upstream = upstream
        if not self._told:
            self._told = True
            self._sink.on_subscribe(self)
        if self.disposed:
            upstream.dispose()

    def on_next(self, value: object) -> None: ...

    def on_completed(self) -> None:
        if self.disposed:
            return
        try:
            source = self._after()
        except Exception as error:
            self._sink.on_error(error)
            return
        if not self.disposed:
            attach(source, _Second(self, self._sink), self._scope)

    def dispose(self) -> None:
        self.disposed = True
        if self._upstream is not None:
            self._upstream.dispose()


class _Second(Generic[T]):
    """The downstream sink, but for the disposable, which it got already."""

    __slots__ = ("on_completed", "on_error", "on_next", "on_subscribe")

    def __init__(self, first: _First[T], sink: Sink[T]) -> None:
        self.on_subscribe = first.on_subscribe
        self.on_next = sink.on_next
        self.on_error = sink.on_error
        self.on_completed = sink.on_completed
