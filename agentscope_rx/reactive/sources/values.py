"""Sources that emit without waiting; and `timer`.

| source                    | emits                                                        | disposal                 |
|---------------------------|--------------------------------------------------------------|--------------------------|
| `just(a, b)`              | the values, at once, whatever the demand                     | no further value         |
| `from_iterable(items)`    | the items, at once while there is demand, then as it returns | no further item          |
| `empty`, `never`, `throw` | nothing; nothing, ever; an error                             |                          |
| `defer(make)`             | the Observable that `make` returns at subscription           | disposes that Observable |
| `timer(seconds)`          | 0 after a delay of the loop's clock                          | cancels the timer        |
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from agentscope_rx.reactive.kernel.demand import Demand
from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.fuse import Deferred, Immediate
from agentscope_rx.reactive.kernel.observer import BooleanDisposable, OperatorSink, Sink
from agentscope_rx.reactive.kernel.operator import Producer
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")

defer = Deferred
"""`defer(make)` calls `make` at each subscription, and emits the Observable that it returns."""


def just(*values: T) -> Flow[T]:
    """Emits the values at once, whatever the demand, and completes."""
    return Immediate(values[0]) if len(values) == 1 else _Several(values)


class _Several(Flow[T]):
    """Emits several values. Its own `Flow`, as `Immediate` is: below an `OperatorSink` it needs no disposable."""

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
    """Emits the items of a fresh iterator, synchronously while there is demand, and completes.

    Before each item it checks the demand; reading goes on in a later turn of the loop. `subscribe` and `await` have
    endless demand: with an endless iterable they block the thread for good.

    Signals: the items and completion, or the iterator's exception.
    Cancels: the rest, before the next item; a generator is closed.
    """
    return Producer(_Items, values)


class _Items(Generic[T]):
    """An iterator that is read in turns: each lasts until the items or the demand are used up."""

    __slots__ = ("_demand", "_forget", "_iterator", "_scope", "_sink", "disposed")

    def __init__(self, sink: Sink[T], scope: Scope) -> None:
        self._sink = sink
        self._scope = scope
        self._demand: Demand | None = scope.demand
        # held between turns only, so that a generator that is left closes at once
        self._iterator: Iterator[T] | None = None
        self._forget: Callable[[], None] | None = None
        self.disposed = False

    def start(self, values: Iterable[T]) -> None:
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


def empty() -> Flow[T]:  # pyright: ignore[reportInvalidTypeVarUse]
    """Completes at once."""

    def connect(sink: Sink[T], scope: Scope) -> None:
        flag = BooleanDisposable()
        sink.on_subscribe(flag)
        if not flag.disposed:
            sink.on_completed()

    return Flow(connect)


def never() -> Flow[T]:  # pyright: ignore[reportInvalidTypeVarUse]
    """Signals nothing."""
    return Flow(lambda sink, scope: sink.on_subscribe(BooleanDisposable()))


def throw(error: Exception) -> Flow[T]:  # pyright: ignore[reportInvalidTypeVarUse]
    """Signals the error at once."""

    def connect(sink: Sink[T], scope: Scope) -> None:
        flag = BooleanDisposable()
        sink.on_subscribe(flag)
        if not flag.disposed:
            sink.on_error(error)

    return Flow(connect)


def timer(seconds: float) -> Flow[int]:
    """Emits 0 and completes after so many seconds of the loop's clock."""
    return Producer(_Timer, seconds)


class _Timer:
    __slots__ = ("_handle", "_scope", "_sink", "disposed")

    def __init__(self, sink: Sink[int], scope: Scope) -> None:
        self._sink = sink
        self._scope = scope
        self._handle: asyncio.TimerHandle | None = None
        self.disposed = False

    def start(self, seconds: float) -> None:
        self._handle = self._scope.call_later(seconds, self._ring)

    def _ring(self) -> None:
        self._handle = None
        self._sink.on_next(0)
        if not self.disposed:
            self._sink.on_completed()

    def dispose(self) -> None:
        self.disposed = True
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
