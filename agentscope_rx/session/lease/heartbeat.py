"""`Heartbeat`: a beat every ttl / 3 seconds of the loop's clock, until it is stopped or too late.

    ----b--------b----X--X--b--------b----X--X--X  lost
        ttl/3             |                     ttl after the last beat that came through
                          a failed beat is repeated soon

A beat that does not end counts as failed after ttl / 3, or when the time is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from reactivex import abc

from agentscope_rx.errors import DeadlineError, LeaseLostError
from agentscope_rx.reactive import Flow, Scope, timeout
from agentscope_rx.reactive.kernel.observer import OperatorSink, attach
from agentscope_rx.reactive.limiter import EPSILON

_PER_TTL: Final = 3
"""Beats in the time after which a silent holder counts as dead."""
_REPEATS_PER_TTL: Final = 12


class Heartbeat(OperatorSink):
    """Subscribes to `beat()` again and again; calls `lost(error)` once if the lease cannot be kept."""

    __slots__ = ("_beat", "_begun", "_last", "_lost", "_scope", "_timer", "_ttl")

    def __init__(
        self, scope: Scope, beat: Callable[[], Flow[None]], ttl: float, lost: Callable[[Exception, float], None]
    ) -> None:
        self._upstream = None
        self.disposed = False
        # beats go on while the run cleans up, whatever its consumer does
        self._scope = scope.child()
        self._scope.demand = None
        self._beat = beat
        self._ttl = ttl
        self._lost = lost
        self._last = self._begun = scope.loop.time()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that it runs on."""
        return self._scope.loop

    def begin(self, last: float) -> None:
        """Begin; the last sign of life was given at this time of the loop's clock."""
        self._last = last
        self._next(last + self._ttl / _PER_TTL)

    def stop(self) -> None:
        """Stop; a beat whose write has begun ends by itself."""
        self.dispose()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _next(self, at: float) -> None:
        if not self.disposed:
            self._timer = self._scope.call_later(max(0.0, at - self._scope.loop.time()), self._attempt)

    def _attempt(self) -> None:
        self._timer = None
        if self.disposed:
            return
        self._begun = self._scope.loop.time()
        left = self._last + self._ttl - self._begun
        # a process that stood still for longer finds out if another has come meanwhile
        limit = min(self._ttl / _PER_TTL, left) if left > 0 else self._ttl / _PER_TTL
        beat: abc.ObservableBase[None] = self._beat().pipe(timeout(total=limit, error=_silent))
        attach(beat, self, self._scope)

    def on_next(self, value: object) -> None: ...

    def on_completed(self) -> None:
        self._upstream = None
        self._last = self._begun
        self._next(self._begun + self._ttl / _PER_TTL)

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        if self.disposed:
            return
        now = self._scope.loop.time()
        if isinstance(error, LeaseLostError) or now >= self._last + self._ttl - EPSILON:
            self._give_up(error)
            return
        soon = now + self._ttl / _REPEATS_PER_TTL
        if soon < self._last + self._ttl:
            self._next(soon)
        else:
            self._timer = self._scope.call_later(self._last + self._ttl - now, lambda: self._give_up(error))

    def _give_up(self, error: Exception) -> None:
        self.stop()
        self._lost(error, self._scope.loop.time() - self._last)


def _silent(which: str, limit: float) -> Exception:
    return DeadlineError(which, limit, "The store")
