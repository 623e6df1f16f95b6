"""`steps`: functions one after the other, each of which gives a value or a flow; linked once, begun anew each time.

    first()    --a|
    second()       --b1--b2|
    third()                  -None
    fourth()                  --d|
    steps      --a---b1--b2-----d|

It is `concat` of a `defer` for each function, for a chain that is subscribed to again and again, such as a stage of a
run: neither flows nor sinks are made for a further subscription of the same sink.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from reactivex import abc

from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.fuse import Immediate
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, attach
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")

Step = Callable[[], T | abc.ObservableBase[T] | None]
"""Gives a value, an Observable of values, or None for nothing."""


def steps(*functions: Step[T]) -> Flow[T]:
    """Calls each function when what the ones before it have given is complete, and emits what it gives.

    Signals: the values, and those of the Observables; the first error, of a function or of an Observable.
    Cancels: the Observable in progress; the functions after it are not called.
    """
    return _StepsFlow(functions)


class _StepsFlow(Flow[T]):
    """Keeps the sink of its last subscription, for the next one."""

    def __init__(self, functions: tuple[Step[T], ...]) -> None:
        self._functions = functions
        self._last: _Steps[T] | None = None

    def _attach(self, sink: Sink[T], scope: Scope) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        link = self._last
        if link is None or not link.completed or link.sink is not sink or link.scope is not scope:
            link = self._last = _Steps(self._functions, sink, scope)
        link.completed = False
        sink.on_subscribe(link)
        if not link.disposed:
            link.advance(0)


class _Steps(OperatorSink, Generic[T]):
    __slots__ = ("_advancing", "_functions", "_index", "_waiting", "completed", "on_next", "scope", "sink")

    def __init__(self, functions: tuple[Step[T], ...], sink: Sink[T], scope: Scope) -> None:
        self._upstream = None
        self.disposed = False
        self.sink = sink
        self.scope = scope
        self._functions = functions
        self._index = 0
        self._advancing = False
        self._waiting = False
        # of itself, and so free for another subscription
        self.completed = False
        self.on_next = sink.on_next

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self.sink.on_error(error)

    def on_completed(self) -> None:
        self._upstream = None
        self._waiting = False
        if not self._advancing:
            self.advance(self._index)

    def advance(self, index: int) -> None:
        """Call the functions from `index` on, for as long as none gives a flow that takes time."""
        functions = self._functions
        self._advancing = True
        while not self.disposed:
            if index == len(functions):
                self._advancing = False
                self.completed = True
                self.sink.on_completed()
                return
            try:
                given = functions[index]()
            except Exception as error:
                self.sink.on_error(error)
                return
            index += 1
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
                connect(self, self.scope)
            else:
                attach(given, self, self.scope)  # pyright: ignore[reportArgumentType]
            if self._waiting:
                self._advancing = False
                return
