"""`Probe`: a subscriber that keeps what it receives and notes what a publisher must not do.

It is attached as a kernel operator is: a `Subscription` between it and the publisher would keep the publisher's faults
from it, such as a value after the end. With `bounded=True` there is one, as for a user's callbacks.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable

from reactivex import Observable, abc

from agentscope_rx.reactive import Demand, Scope, flow
from agentscope_rx.reactive.kernel.observer import OperatorSink, attach
from agentscope_rx.reactive.kernel.subscription import Subscription
from agentscope_rx.testing.kits.rules import require


class Probe:
    """One subscription. `act(probe)` is called inside of each `on_next`, `at_end(probe)` of a terminal signal."""

    def __init__(
        self,
        *,
        act: Callable[[Probe], object] | None = None,
        at_end: Callable[[Probe], object] | None = None,
        demand: Demand | None = None,
        bounded: bool = False,
    ) -> None:
        self.values: list[object] = []
        self.error: Exception | None = None
        self.completed: bool = False
        self.disposed: bool = False
        self.depths: list[int] = []
        self.demand = demand
        self._notes: list[str] = []
        self._act = act
        self._at_end = at_end
        self._thread = threading.get_ident()
        self._inside = False
        self._ended = asyncio.Event()
        self._scope = Scope.here(demand)
        self._subscription: Subscription[object] | _Direct = (
            Subscription(self._scope, self._next, self._error, self._completed, self._aborted)
            if bounded
            else _Direct(self._scope, self._next, self._error, self._completed, self._aborted)
        )

    def start(self, source: Observable[object]) -> Probe:
        """Subscribe."""
        self._subscription.start(flow(source))
        return self

    @property
    def over(self) -> bool:
        """True after a terminal signal."""
        return self.completed or self.error is not None

    def dispose(self) -> None:
        """Dispose the run; no signal may follow."""
        self._subscription.dispose()
        self.disposed = True
        if threading.get_ident() == self._thread:
            self._ended.set()

    async def end(self) -> Probe:
        """Return after the terminal signal or the disposal, when the run's work has ended."""
        await self._ended.wait()
        await self.idle()
        return self

    async def idle(self) -> None:
        """Return when no work of the run is under way."""
        await self._scope.work.idle()

    def verify(self) -> None:
        """Fail if a rule was broken while signals were received."""
        require(not self._notes, "; ".join(dict.fromkeys(self._notes)))

    @property
    def text(self) -> str:
        """What was received, for messages."""
        end = "completed" if self.completed else f"failed with {self.error!r}" if self.error else "not ended"
        return f"{len(self.values)} values, {end}"

    def _next(self, value: object) -> None:
        self._enter("on_next")
        self.values.append(value)
        self.depths.append(_depth())
        try:
            if self._act is not None:
                self._act(self)
        finally:
            self._inside = False

    def _error(self, error: Exception) -> None:
        self._enter("on_error")
        self.error = error
        self._end()

    def _completed(self) -> None:
        self._enter("on_completed")
        self.completed = True
        self._end()

    def _end(self) -> None:
        self._ended.set()
        try:
            if self._at_end is not None:
                self._at_end(self)
        finally:
            self._inside = False

    def _aborted(self, error: BaseException) -> None:
        self._notes.append(f"the run was aborted by {error!r}")
        self._ended.set()

    def _enter(self, signal: str) -> None:
        if self.over:
            self._notes.append(f"{signal} after the terminal signal")
        if self.disposed:
            self._notes.append(f"{signal} after dispose()")
        if self._inside:
            self._notes.append(f"{signal} inside of another signal")
        if threading.get_ident() != self._thread:
            self._notes.append(f"{signal} on another thread than the loop's")
        self._inside = True


def _depth() -> int:
    """The number of frames below this one."""
    depth, frame = 0, sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return depth


class _Direct(OperatorSink):
    """The sink of a probe, with nothing between it and the publisher."""

    __slots__ = ("__weakref__", "_completed", "_error", "_next", "_scope")

    def __init__(
        self,
        scope: Scope,
        on_next: Callable[[object], object],
        on_error: Callable[[Exception], object],
        on_completed: Callable[[], object],
        on_abort: Callable[[BaseException], object],
    ) -> None:
        super().__init__()
        self._scope = scope
        self._next = on_next
        self._error = on_error
        self._completed = on_completed
        scope.work.on_abort = on_abort

    def start(self, source: abc.ObservableBase[object]) -> None:
        """Attach to the source."""
        try:
            self._scope.context.copy().run(attach, source, self, self._scope)
        except Exception as error:
            # as `Subscription`: an operator failed to start
            self.on_error(error)

    def on_next(self, value: object, /) -> None:
        self._next(value)

    def on_error(self, error: Exception, /) -> None:
        # (the publisher's disposable is kept: a disposal after the end must do nothing)
        self._error(error)

    def on_completed(self) -> None:
        self._completed()
