"""`Deadlines`: the deadlines of a run, behind one timer of the loop.

Nearly every deadline is dropped long before it passes, and the next one begins soon after: a model's attempt, a tool's,
the model's again. A timer of the loop for each costs more than what it guards. So a run has one timer, set for the
earliest deadline when that was added; a dropped deadline leaves it alone, and if it rings early, it is set again.

    attempt   |--------X                 deadline at 300, dropped at 8
    tool               |--X              deadline at 308, dropped at 11
    timer     |........................300: set again for what is left, or not at all

The timer is dropped when there is neither a deadline nor work under way, so none is left after a run.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from contextvars import Context
from typing import Protocol


def clock_of(loop: asyncio.AbstractEventLoop) -> Callable[[], float]:
    """The loop's clock; `time.monotonic`, which is cheaper to call, where the loop reads that."""
    return time.monotonic if type(loop).time is asyncio.BaseEventLoop.time else loop.time


class Waiting(Protocol):
    """A deadline, as the timer sees it."""

    when: float

    def ring(self) -> None: ...


class Deadlines:
    """The deadlines of one run; for its loop's thread."""

    __slots__ = ("_context", "_loop", "_timer", "clock", "rings", "waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop, context: Context) -> None:
        self._loop = loop
        # of the run, for the timer: nothing else runs in it, only in copies of it
        self._context = context
        self.clock: Callable[[], float] = clock_of(loop)
        self.waiting: dict[Waiting, None] = {}
        """In the order in which they were made."""
        self._timer: asyncio.TimerHandle | None = None
        self.rings: float = math.inf
        """The time of the timer; endless if there is none."""

    def arm(self, when: float) -> None:
        """Set the timer for the earliest deadline."""
        if self._timer is not None:
            self._timer.cancel()
        self.rings = when
        self._timer = self._loop.call_at(when, self._ring, context=self._context)

    def stop(self) -> None:
        """Drop the timer: the run has no work under way. Deadlines that are left keep it."""
        if self._timer is not None and not self.waiting:
            self._timer.cancel()
            self._timer = None
            self.rings = math.inf

    def _ring(self) -> None:
        now = max(self.clock(), self.rings)
        self._timer, self.rings = None, math.inf
        if not self.waiting:
            return
        first = min(self.waiting, key=_when)
        # (the loop calls within the resolution of its clock)
        if first.when > now:
            self.arm(first.when)
            return
        del self.waiting[first]
        if self.waiting:
            # one that is due, too, comes in the loop's next turn
            self.arm(min(self.waiting, key=_when).when)
        first.ring()


def _when(deadline: Waiting) -> float:
    return deadline.when
