"""`conflate`: the latest value, as often as the subscriber reads; the source never waits.

source          --abc-----d-e----|
conflate(3s)    --a--c----d--e---|       at most one value in 3 s, the first at once
read slowly     --a------c-------e|      what was replaced before it was read is dropped

It is for states, such as progress, of which the last one says all. The last value is emitted at the end, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from reactivex import Observable

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, attach
from agentscope_rx.reactive.kernel.operator import Producer
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")


def conflate(every: float = 0.0) -> Callable[[Observable[T]], Flow[T]]:
    """Emits the latest value while there is demand, at most one in `every` seconds, and the last one at the end.

    The source has endless demand, so a slow reader never slows it. The operator keeps one value.

    Signals: values; completion or the error of the source, after the kept value.
    Cancels: the source and the timer.
    """
    if not every >= 0:
        raise ConfigurationError(f"conflate: every must be a number of seconds of at least 0, not {every!r:.60}.")
    return partial(Producer, partial(_Conflate, every))


class _Conflate(OperatorSink, Generic[T]):
    __slots__ = ("_due", "_every", "_forget", "_held", "_is_held", "_scope", "_sink", "_timer")

    def __init__(self, every: float, sink: Sink[T], scope: Scope) -> None:
        self._upstream = None
        # or ended
        self.disposed = False
        self._every = every
        self._sink = sink
        self._scope = scope
        self._held: T | None = None
        self._is_held = False
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._forget: Callable[[], None] | None = None

    def start(self, source: Observable[T]) -> None:
        scope = self._scope
        self._due = scope.loop.time()
        attach(source, self, Scope(scope.loop, scope.context, None, scope.work))

    def on_next(self, value: T) -> None:
        self._held = value
        self._is_held = True
        if self._timer is None and self._forget is None:
            self._offer()

    def on_error(self, error: Exception) -> None:
        if self._end():
            self._sink.on_error(error)

    def on_completed(self) -> None:
        if self._end():
            self._sink.on_completed()

    def dispose(self) -> None:
        super().dispose()
        self._stop_waiting()
        self._held = None
        self._is_held = False

    def _offer(self) -> None:
        """Emit the value that is kept, now or when it is due and asked for."""
        if self.disposed or not self._is_held:
            return
        rest = self._due - self._scope.loop.time()
        demand = self._scope.demand
        if rest > 1e-9:
            self._timer = self._scope.call_later(rest, self._rung)
        elif demand is not None and not demand.ready:
            # through the loop: not inside of the consumer's pull
            self._forget = demand.when_ready(lambda: self._scope.call_soon(self._resumed))
        else:
            self._due = self._scope.loop.time() + self._every
            self._emit()

    def _emit(self) -> None:
        value, self._held, self._is_held = self._held, None, False
        self._sink.on_next(value)  # pyright: ignore[reportArgumentType]

    def _rung(self) -> None:
        self._timer = None
        self._offer()

    def _resumed(self) -> None:
        self._forget = None
        self._offer()

    def _end(self) -> bool:
        """Emit what is kept, whatever the demand; False if the subscriber has left."""
        self._upstream = None
        self._stop_waiting()
        if self._is_held:
            self._emit()
        if self.disposed:
            return False
        self.disposed = True
        return True

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._forget is not None:
            self._forget()
            self._forget = None
