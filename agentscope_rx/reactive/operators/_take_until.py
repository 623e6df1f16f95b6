"""`take_until`: end a stream normally when a signal fires.

    source   --a--b--c--d--
    signal   --------!
    result   --a--b--|         the source is disposed at once; with `grace`, its clean-up is waited for, bounded

If the signal has fired before the subscription, the source is never attached.
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
from agentscope_rx.reactive.kernel.one_shot_event import OneShotEvent
from agentscope_rx.reactive.kernel.operator import Producer
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")


def take_until(signal: OneShotEvent, *, grace: float = 0.0) -> Callable[[Observable[T]], Flow[T]]:
    """Completes the stream when the event fires.

    Signals: the source's, until the event; then completion: at once or, with `grace`, when the source's cancelled tasks
    have run their `finally` blocks, after `grace` seconds at the latest.
    Cancels: the source.
    """
    if not isinstance(signal, OneShotEvent):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"take_until takes a OneShotEvent, not {signal!r:.60}. To end at a signal of an Observable use reactivex's "
            "ops.take_until."
        )
    return partial(Producer, partial(_TakeUntil, signal, grace))


class Stoppable(OperatorSink):
    """The sink of a source that a signal ends, within a grace: what `take_until` does, for any sink.

    A subclass keeps these fields, with a count of work of its own in `_scope` if there is a grace. It listens with
    `_stop`, asks `_signal.fired` at each value, because a source that never waits gives the loop no chance to call the
    listeners, and attaches the source in `_scope`. Its `on_completed` is called as well when the source has been ended,
    so it begins with `_finish()`. `disposed` is true from then on, or once the source was stopped.
    """

    __slots__ = ("_forget", "_grace", "_scope", "_signal", "_timer")
    _scope: Scope
    _signal: OneShotEvent
    _grace: float
    _forget: Callable[[], None] | None
    _timer: asyncio.TimerHandle | None

    def on_completed(self) -> None:
        """The source has completed, or was ended."""
        raise NotImplementedError

    def _stop(self) -> None:
        if self.disposed:
            return
        OperatorSink.dispose(self)
        if not self._grace or self._scope.work.count == 0:
            self.on_completed()
            return
        self._forget = self._scope.work.when_idle(self.on_completed)
        self._timer = self._scope.call_later(self._grace, self.on_completed)

    def _finish(self) -> None:
        self.disposed = True
        self._upstream = None
        self._signal.forget(self._stop)
        if self._forget is not None:
            self._forget()
            self._forget = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _TakeUntil(Stoppable, Generic[T]):
    __slots__ = ("_sink",)

    def __init__(self, signal: OneShotEvent, grace: float, sink: Sink[T], scope: Scope) -> None:
        self._upstream = None
        self.disposed = False
        self._sink = sink
        self._scope = Scope(scope.loop, scope.context, scope.demand, scope.work) if grace else scope
        self._signal = signal
        self._grace = grace
        self._forget = None
        self._timer = None

    def start(self, source: Observable[T]) -> None:
        if self._signal.fired:
            self.disposed = True
            self._sink.on_completed()
            return
        self._signal.listen(self._stop)
        attach(source, self, self._scope)

    def on_next(self, value: T) -> None:
        if self._signal.fired:
            self._stop()
        else:
            self._sink.on_next(value)

    def on_error(self, error: Exception) -> None:
        self._finish()
        self._sink.on_error(error)

    def on_completed(self) -> None:
        self._finish()
        self._sink.on_completed()

    def dispose(self) -> None:
        super().dispose()
        self._finish()
