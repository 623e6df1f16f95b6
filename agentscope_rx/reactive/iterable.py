"""Sources of values that are there, or can be had without waiting.

| source                 | emits                                                             | disposal        |
|------------------------|-------------------------------------------------------------------|-----------------|
| `just(a, b)`           | the values, at once, whatever the demand                          | no further value |
| `from_iterable(items)` | the items, at once for as long as there is demand, then as it comes | no further item |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from agentscope_rx.reactive.kernel.demand import Demand
from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.fuse import Immediate
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")


def just(*values: T) -> Flow[T]:
    """Emits the values, synchronously, and completes. They are there already: demand is not asked for."""
    return Immediate(values[0]) if len(values) == 1 else _Several(values)


class _Several(Flow[T]):
    """Emits values that are there."""

    def __init__(self, values: Sequence[T]) -> None:
        self._values = values

    def _attach(self, sink: Sink[T], scope: Scope) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        link = sink if isinstance(sink, OperatorSink) else OperatorSink()
        if link is not sink:
            sink.on_subscribe(link)
        for value in self._values:
            if link.disposed:
                return
            sink.on_next(value)
        if not link.disposed:
            sink.on_completed()


def from_iterable(values: Iterable[T]) -> Flow[T]:
    """Emits the items of a fresh iterator, synchronously for as long as there is demand, and completes.

    Withheld demand is looked at before each item; it goes on in a later turn of the loop. (To `subscribe` and `await`
    demand is endless: an iterable that never ends gives the thread back to nobody there.)

    Signals: the items and completion, or the iterator's exception.
    Cancels: looked at before each item; a generator is let go of.
    """

    def connect(sink: Sink[T], scope: Scope) -> None:
        _Items(sink, scope).start(values)

    return Flow(connect)


class _Items(Generic[T]):
    """An iterator that is read in turns: each lasts until the items or the demand are used up."""

    __slots__ = ("_demand", "_forget", "_iterator", "_scope", "_sink", "disposed")

    def __init__(self, sink: Sink[T], scope: Scope) -> None:
        self._sink = sink
        self._scope = scope
        self._demand: Demand | None = scope.demand
        # held between turns only: who has left it lets a generator close at once
        self._iterator: Iterator[T] | None = None
        self._forget: Callable[[], None] | None = None
        self.disposed = False

    def start(self, values: Iterable[T]) -> None:
        self._sink.on_subscribe(self)
        if self.disposed:
            return
        try:
            iterator = iter(values)
        except Exception as error:
            failure = error
        else:
            self._read(iterator)
            return
        self._sink.on_error(failure)

    def _read(self, iterator: Iterator[T]) -> None:
        demand, on_next = self._demand, self._sink.on_next
        while True:
            if demand is not None and not demand.ready:
                self._iterator = iterator
                # through the loop: not inside of the consumer's pull, nor in its context
                self._forget = demand.when_ready(lambda: self._scope.call_soon(self._go_on))
                return
            try:
                value = next(iterator)
            except StopIteration:
                break
            except Exception as error:
                self._sink.on_error(error)
                return
            on_next(value)
            if self.disposed:
                return
        self._sink.on_completed()

    def _go_on(self) -> None:
        iterator, self._iterator = self._iterator, None
        if iterator is not None:
            self._read(iterator)

    def dispose(self) -> None:
        self.disposed = True
        self._iterator = None
        if self._forget is not None:
            self._forget()
            self._forget = None
