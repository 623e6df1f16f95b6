"""`steps`: functions one after the other, each of which gives a value or a flow.

    first()    --a|
    second()       --b1--b2|
    third()                  -None
    fourth()                  --d|
    steps      --a---b1--b2-----d|

It is `concat` of a `defer` for each function, for a chain that is subscribed to again and again, such as a stage of a
run: a subscription makes one sink, and no flow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from reactivex import abc

from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.fuse import Immediate
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, attach
from agentscope_rx.reactive.kernel.operator import Producer
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")

Step = Callable[[], T | abc.ObservableBase[T] | None]
"""Gives a value, an Observable of values, or None for nothing."""


def steps(*functions: Step[T]) -> Flow[T]:
    """Calls each function when what the ones before it have given is complete, and emits what it gives.

    Signals: the values, and those of the Observables; the first error, of a function or of an Observable.
    Cancels: the Observable in progress; the functions after it are not called.
    """
    return Producer(_Steps, functions)


class _Steps(OperatorSink, Generic[T]):
    __slots__ = ("_advancing", "_functions", "_index", "_scope", "_sink", "_waiting", "on_next")

    def __init__(self, sink: Sink[T], scope: Scope) -> None:
        self._upstream = None
        self.disposed = False
        self._sink = sink
        self._scope = scope
        self._functions: tuple[Step[T], ...] = ()
        self._index = 0
        self._advancing = False
        self._waiting = False
        self.on_next = sink.on_next

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._functions = ()
        if not self.disposed:
            self._sink.on_error(error)

    def dispose(self) -> None:
        # a function may hold what is behind this operator
        self._functions = ()
        super().dispose()

    def on_completed(self) -> None:
        self._upstream = None
        self._waiting = False
        if not self._advancing:
            self.start(self._functions)

    def start(self, functions: tuple[Step[T], ...]) -> None:
        """Call the next function, and those after it for as long as none gives a flow that takes time."""
        self._functions = functions
        index, count = self._index, len(functions)
        self._advancing = True
        while not self.disposed:
            if index == count:
                self._advancing = False
                self._sink.on_completed()
                return
            function = functions[index]
            index += 1
            if index == count:
                # the last one: nothing that the functions hold is kept while its values come
                self._functions = functions = ()
                index = count = 0
            try:
                given = function()
            except Exception as error:
                self._functions = ()
                if not self.disposed:
                    self._sink.on_error(error)
                return
            if given is None:
                continue
            if self.disposed:
                return
            if type(given) is Immediate:
                self.on_next(given.value)  # pyright: ignore
                continue
            # (looked at as `attach` does: the check of an abstract class costs more than all else here)
            connect = getattr(given, "_attach", None)
            if connect is None and not hasattr(given, "subscribe"):
                self.on_next(given)  # pyright: ignore[reportArgumentType]
                continue
            self._index = index
            self._waiting = True
            if connect is not None:
                connect(self, self._scope)
            else:
                attach(given, self, self._scope)  # pyright: ignore[reportArgumentType]
            if self._waiting:
                self._advancing = False
                return
