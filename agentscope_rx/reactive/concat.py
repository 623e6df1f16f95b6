"""`concat`: one source after the other.

x         --a--b|
y               --c|
result    --a--b--c|        y is attached when x has completed, in a loop: synchronous sources do not nest
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar, cast

from reactivex import abc

from agentscope_rx.reactive.flow import Flow
from agentscope_rx.reactive.fuse import Immediate, reduced
from agentscope_rx.reactive.observer import Sink, Upstream, attach
from agentscope_rx.reactive.scope import Scope

T = TypeVar("T")


def concat(*sources: abc.ObservableBase[T]) -> Flow[T]:
    """Emits each source after the one before has completed.

    Signals: the values of all; the first error.
    Cancels: the source in progress; those after it are not attached.
    """
    return Flow(lambda sink, scope: _Concat(sink, scope, sources).start())


class _Concat(Generic[T]):
    __slots__ = (
        "_advancing",
        "_disposed",
        "_done",
        "_index",
        "_scope",
        "_sink",
        "_sources",
        "_upstream",
        "on_error",
        "on_next",
    )

    def __init__(self, sink: Sink[T], scope: Scope, sources: Sequence[abc.ObservableBase[T]]) -> None:
        self._sink = sink
        self._scope = scope
        self._sources = sources
        self._index = 0
        self._done = True
        self._advancing = False
        self._disposed = False
        self._upstream: Upstream | None = None
        self.on_next = sink.on_next
        self.on_error = sink.on_error

    def start(self) -> None:
        self._sink.on_subscribe(self)
        self._advance()

    def on_subscribe(self, upstream: Upstream, /) -> None:
        self._upstream = upstream
        if self._disposed:
            upstream.dispose()

    def on_completed(self) -> None:
        self._done = True
        if not self._advancing:
            self._advance()

    def dispose(self) -> None:
        if not self._disposed:
            self._disposed = True
            if self._upstream is not None:
                self._upstream.dispose()

    def _advance(self) -> None:
        self._advancing = True
        while self._done and not self._disposed:
            if self._index == len(self._sources):
                self._advancing = False
                self._sink.on_completed()
                return
            source = self._sources[self._index]
            self._index += 1
            try:
                source = reduced(source)
            except Exception as error:
                self._disposed = True
                self._sink.on_error(error)
                break
            if self._disposed:
                break
            if type(source) is Immediate:
                self._sink.on_next(cast("Immediate[T]", source).value)
                continue
            self._done = False
            self._upstream = None
            attach(source, self, self._scope)
        self._advancing = False
