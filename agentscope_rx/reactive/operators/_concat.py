"""`concat`: one source after the other.

x         --a--b|
y               --c|
result    --a--b--c|        y is attached when x has completed

Sources are attached in a loop, so that synchronous ones do not nest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from reactivex import abc

from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.fuse import Deferred, Immediate
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, attach
from agentscope_rx.reactive.kernel.operator import Producer
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")


def concat(*sources: abc.ObservableBase[T]) -> Flow[T]:
    """Emits the values of each source; a source begins when the one before it has completed.

    Signals: the values of all; the first error.
    Cancels: the source in progress; those after it are not attached.
    """
    return Producer(_Concat, sources)


class _Concat(OperatorSink, Generic[T]):
    __slots__ = ("_advancing", "_done", "_index", "_scope", "_sink", "_sources", "on_next")

    def __init__(self, sink: Sink[T], scope: Scope) -> None:
        self._upstream = None
        self.disposed = False
        self._sink = sink
        self._scope = scope
        self._sources: Sequence[abc.ObservableBase[T]] = ()
        self._index = 0
        self._done = True
        self._advancing = False
        self.on_next = sink.on_next

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._sources = ()
        self._sink.on_error(error)

    def dispose(self) -> None:
        # a source may hold what is behind this operator
        self._sources = ()
        super().dispose()

    def on_completed(self) -> None:
        self._upstream = None
        self._done = True
        if not self._advancing:
            self.start(self._sources)

    def start(self, sources: Sequence[abc.ObservableBase[T]]) -> None:
        """Attach the next source, and those after it for as long as each completes while it is being attached."""
        self._sources = sources
        self._advancing = True
        while self._done and not self.disposed:
            if self._index == len(sources):
                self._advancing = False
                self._sources = ()
                self._sink.on_completed()
                return
            source = sources[self._index]
            self._index += 1
            try:
                # made here, as in `fuse`: most sources behind the first are `defer(...)`
                while type(source) is Deferred and not self.disposed:  # pyright: ignore[reportUnknownArgumentType]
                    source = source.make()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            except Exception as error:
                self._sink.on_error(error)
                return
            if self.disposed:
                return
            if type(source) is Immediate:  # pyright: ignore[reportUnknownArgumentType]
                self.on_next(source.value)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
                continue
            self._done = False
            attach(source, self, self._scope)  # pyright: ignore[reportUnknownArgumentType]
        self._advancing = False
