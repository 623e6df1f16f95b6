"""`admitted`: begin a flow when all its limiters have room.

use        .....--a--b|         waits for room, then begins
result     w------a--b|         w: waiting()
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from reactivex import abc

from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.in_flight import InFlight
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, attach
from agentscope_rx.reactive.kernel.one_shot_event import OneShotEvent
from agentscope_rx.reactive.kernel.operator import Producer
from agentscope_rx.reactive.kernel.scope import Scope
from agentscope_rx.reactive.limiter import Lease, Limiter, Request, Tokens

T = TypeVar("T")


def admitted(
    limiters: Sequence[Limiter],
    use: Callable[[float], abc.ObservableBase[T]],
    *,
    stop: Sequence[OneShotEvent] = (),
    urgent: bool = False,
    tokens: Tokens | None = None,
    waiting: Callable[[], T] | None = None,
    begun: Callable[[float], T] | None = None,
) -> Flow[T]:
    """Waits until all limiters have room, then emits the values of `use(seconds waited)`.

    - `tokens`: the number of tokens that it takes, if one of the limiters counts tokens.
    - `waiting()` is emitted first if there is no room yet, and `begun(seconds waited)` when there is.
    - An `urgent` flow may use room that is reserved for another one.

    Signals: those of `use`. Completion alone if one of the `stop` events fires before it has begun.
    Cancels: the wait or the flow; the room is given back when all work that the flow has begun has ended.
    """
    return Producer(partial(_Admission, limiters, stop, urgent, tokens, waiting, begun), use)


class _Admission(OperatorSink, Generic[T]):
    __slots__ = (
        "_asked_at",
        "_begun",
        "_forget",
        "_lease",
        "_request",
        "_scope",
        "_sink",
        "_stop",
        "_timer",
        "_use",
        "_waiting",
        "_work",
        "on_next",
    )

    def __init__(
        self,
        limiters: Sequence[Limiter],
        stop: Sequence[OneShotEvent],
        urgent: bool,
        tokens: Tokens | None,
        waiting: Callable[[], T] | None,
        begun: Callable[[float], T] | None,
        sink: Sink[T],
        scope: Scope,
    ) -> None:
        self._upstream = None
        # or ended
        self.disposed = False
        self._sink = sink
        self.on_next = sink.on_next
        self._scope = scope
        self._use: Callable[[float], abc.ObservableBase[T]]
        self._stop = stop
        self._forget: list[Callable[[], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._asked_at = 0.0
        self._lease: Lease | None = None
        self._work: InFlight | None = None
        self._request: Request | None = Request(limiters, scope.loop, self._woken, self._delay_changed, urgent, tokens)
        self._waiting = waiting
        self._begun = begun

    def start(self, use: Callable[[float], abc.ObservableBase[T]]) -> None:
        """Begin, or wait."""
        self._use = use
        for signal in self._stop:
            if signal.fired:
                self._stopped()
                return
        assert self._request is not None
        lease = self._request.enter()
        if lease is not None:
            self._begin(lease, 0.0)
            return
        self._asked_at = self._scope.loop.time()
        for signal in self._stop:
            self._forget.append(signal.listen(self._stopped))
        if self._waiting is not None:
            self.on_next(self._waiting())
        self._set_timer()

    # --- called by limiters, on any thread ---

    def _woken(self) -> None:
        if asyncio._get_running_loop() is self._scope.loop:
            # nothing wakes the loop up, which is awake
            self._scope.call_soon(self._let_through)
        elif not self._scope.call_from_thread(self._let_through):
            # the loop was closed meanwhile
            self._give_back()

    def _delay_changed(self) -> None:
        self._scope.call_from_thread(self._reset_timer)

    def _give_back(self) -> None:
        request, self._request = self._request, None
        lease = None if request is None else request.leave()
        if lease is not None:
            lease.release()

    # --- on the loop's thread ---

    def _set_timer(self) -> None:
        if self._request is None or self._timer is not None:
            return
        delay = self._request.delay()
        if delay > 0:
            self._timer = self._scope.call_later(delay, self._look)

    def _reset_timer(self) -> None:
        self._cancel_timer()
        self._set_timer()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._request is not None:
            self._request.look()
            self._set_timer()

    def _let_through(self) -> None:
        lease = None if self._request is None else self._request.leave()
        if lease is not None:
            self._stop_waiting()
            self._begin(lease, self._scope.loop.time() - self._asked_at)

    def _begin(self, lease: Lease, waited: float) -> None:
        self._request = None
        self._lease = lease
        scope = self._scope
        inner = Scope(scope.loop, scope.context, scope.demand, scope.work)
        work = self._work = inner.work
        lease.outer, work.lease = work.lease, lease
        if self._begun is not None:
            self.on_next(self._begun(waited))
            if self.disposed:
                return
        try:
            source = self._use(waited)
        except Exception as error:
            self.on_error(error)
            return
        attach(source, self, inner)

    def _stopped(self) -> None:
        if self._request is not None:
            self.dispose()
            self._sink.on_completed()

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._end()
        self._sink.on_error(error)

    def on_completed(self) -> None:
        self._upstream = None
        self._end()
        self._sink.on_completed()

    def dispose(self) -> None:
        super().dispose()
        self._end()

    def _end(self) -> None:
        self.disposed = True
        if self._request is not None:
            self._stop_waiting()
            self._give_back()
        lease, self._lease = self._lease, None
        if lease is not None and self._work is not None:
            self._work.when_idle(lease.release)

    def _stop_waiting(self) -> None:
        for forget in self._forget:
            forget()
        self._forget = []
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
