"""`timeout`: three deadlines on one stream, by the loop's clock.

    first   from subscription to the first value           idle   from the first value on, between values and to the end
    total   from subscription to the end

The first and idle clocks stand still while the consumer withholds demand: a slow reader is not a silent source. The
total clock runs on. A busy stream pays little: a value only notes the time, and a timer that rings early is set again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from reactivex import Observable

from agentscope_rx.errors import ConfigurationError, DeadlineError
from agentscope_rx.reactive.kernel.deadline import Deadline
from agentscope_rx.reactive.kernel.flow import Flow, flow
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink
from agentscope_rx.reactive.kernel.operator import OperatorFlow
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")


def timeout(
    *,
    first: float | None = None,
    idle: float | None = None,
    total: float | None = None,
    error: Callable[[str, float], Exception] = DeadlineError,
) -> Callable[[Observable[T]], Flow[T]]:
    """Fails with `error(which, limit)` when a deadline (in seconds) passes; it disposes of the source first.

    `first` bounds the time to the first value, `idle` the time between values, `total` all of it. `first` and `idle`
    stand still while the subscriber withholds demand.

    Signals: the source's, or the deadline's error.
    Cancels: the source and the timers.
    """
    for name, limit in (("first", first), ("idle", idle), ("total", total)):
        if limit is not None and limit <= 0:
            raise ConfigurationError(f"timeout: {name} must be more than 0 seconds, not {limit}.")

    if first is None and idle is None:
        return flow if total is None else partial(OperatorFlow, partial(_Total, total, error))
    return partial(OperatorFlow, partial(_Timeout, first, idle, total, error))


class _Timeout(OperatorSink, Generic[T]):
    __slots__ = (
        "_error",
        "_first",
        "_idle",
        "_last",
        "_pace_timer",
        "_scope",
        "_seen",
        "_sink",
        "_total",
        "_total_timer",
        "_withheld",
    )

    def __init__(
        self,
        first: float | None,
        idle: float | None,
        total: float | None,
        error: Callable[[str, float], Exception],
        sink: Sink[T],
        scope: Scope,
    ) -> None:
        self._upstream = None
        # or ended
        self.disposed = False
        self._sink = sink
        self._scope = scope
        self._first = first
        self._idle = idle
        self._total = total
        self._error = error
        self._pace_timer: Deadline | None = None
        self._total_timer: Deadline | None = None
        self._seen = False
        self._last = 0.0
        self._withheld = 0.0
        if total is not None:
            self._total_timer = Deadline(scope, total, self._total_passed)
        self._note_time()
        if first is not None:
            self._pace_timer = Deadline(scope, first, self._pace_passed)

    def on_next(self, value: T, /) -> None:
        self._note_time()
        if not self._seen:
            self._seen = True
            if self._pace_timer is not None:
                self._pace_timer.cancel()
                self._pace_timer = None
            if self._idle is not None:
                self._pace_timer = Deadline(self._scope, self._idle, self._pace_passed)
        self._sink.on_next(value)

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._stop_timers()
        self._sink.on_error(error)

    def on_completed(self) -> None:
        self._upstream = None
        self._stop_timers()
        self._sink.on_completed()

    def dispose(self) -> None:
        self._stop_timers()
        super().dispose()

    def _note_time(self) -> None:
        self._last = self._scope.loop.time()
        demand = self._scope.demand
        if demand is not None:
            self._withheld = demand.withheld()

    def _stop_timers(self) -> None:
        self.disposed = True
        if self._pace_timer is not None:
            self._pace_timer.cancel()
            self._pace_timer = None
        if self._total_timer is not None:
            self._total_timer.cancel()
            self._total_timer = None

    def _pace_passed(self) -> None:
        if self.disposed:
            return
        limit = self._idle if self._seen else self._first
        assert limit is not None
        demand = self._scope.demand
        withheld = 0.0 if demand is None else demand.withheld() - self._withheld
        remaining = limit - (self._scope.loop.time() - self._last - withheld)
        if remaining <= 1e-9:
            self._expire("idle" if self._seen else "first", limit)
        elif demand is not None and not demand.ready:
            self._pace_timer = None
            # through the loop: a deadline must not pass inside of the consumer's pull
            demand.when_ready(lambda: self._scope.call_soon(self._resumed))
        else:
            self._pace_timer = Deadline(self._scope, remaining, self._pace_passed)

    def _resumed(self) -> None:
        # a value that came meanwhile has set the timer already
        if self._pace_timer is None and (self._idle if self._seen else self._first) is not None:
            self._pace_passed()

    def _total_passed(self) -> None:
        if not self.disposed and self._total is not None:
            self._expire("total", self._total)

    def _expire(self, which: str, limit: float) -> None:
        self.dispose()
        self._sink.on_error(_deadline_error(self._error, which, limit))


class _Total(OperatorSink, Generic[T]):
    """A total deadline alone: values pass without a call here."""

    __slots__ = ("_error", "_limit", "_sink", "_timer", "on_next")

    def __init__(self, limit: float, error: Callable[[str, float], Exception], sink: Sink[T], scope: Scope) -> None:
        self._upstream = None
        # or ended
        self.disposed = False
        self._sink = sink
        self._limit = limit
        self._error = error
        self._timer: Deadline | None = Deadline(scope, limit, self._passed)
        self.on_next = sink.on_next

    def on_error(self, error: Exception) -> None:
        self._stop_timer()
        self._sink.on_error(error)

    def on_completed(self) -> None:
        self._stop_timer()
        self._sink.on_completed()

    def dispose(self) -> None:
        super().dispose()
        self._stop_timer()

    def _stop_timer(self) -> None:
        self.disposed = True
        self._upstream = None
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _passed(self) -> None:
        self._timer = None
        if self.disposed:
            return
        self.dispose()
        self._sink.on_error(_deadline_error(self._error, "total", self._limit))


def _deadline_error(make: Callable[[str, float], Exception], which: str, limit: float) -> Exception:
    try:
        return make(which, limit)
    except Exception as failure:
        return failure
