"""Credit from a slow consumer to its sources: while demand is withheld, sources do not read on.

A consumer with a bounded buffer withholds demand when it is full and resumes it when there is room. Sources look at
`ready` before they pull the next item; first-chunk and idle clocks do not run while it is withheld. All of it happens
on one loop thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Demand:
    """Whether the consumer of a subscription wants more. Starts out ready."""

    __slots__ = ("_loop", "_since", "_total", "_waiters", "ready")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.ready = True
        self._since = 0.0
        self._total = 0.0
        self._waiters: list[Callable[[], object]] = []

    def withhold(self) -> None:
        """Ask sources to stop reading."""
        if self.ready:
            self.ready = False
            self._since = self._loop.time()

    def resume(self) -> None:
        """Let sources read on."""
        if not self.ready:
            self.ready = True
            self._total += self._loop.time() - self._since
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                waiter()

    def withheld(self) -> float:
        """Seconds, up to now, during which demand was withheld."""
        return self._total if self.ready else self._total + self._loop.time() - self._since

    def when_ready(self, waiter: Callable[[], object]) -> Callable[[], None]:
        """Call `waiter` once demand is there, at once if it is; returns a function that takes the wish back."""
        if self.ready:
            waiter()
        else:
            self._waiters.append(waiter)

        def forget() -> None:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

        return forget

    async def wait(self) -> None:
        """Return once demand is there."""
        while not self.ready:
            woken: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(lambda woken=woken: woken.done() or woken.set_result(None))
            await woken
