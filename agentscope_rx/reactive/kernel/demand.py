"""Credit from a slow consumer to its sources: while demand is withheld, sources do not read on.

A consumer with a bounded buffer withholds demand when it is full and resumes it when there is room. Sources look at
`ready` before they pull the next item; first-chunk and idle clocks do not run while it is withheld. All of it happens
on one loop thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from weakref import WeakSet


class Demand:
    """Whether the consumer of a subscription wants more. Starts out ready."""

    __slots__ = ("__weakref__", "_depth", "_followers", "_loop", "_since", "_total", "_waiters", "_waived", "ready")

    def __init__(self, loop: asyncio.AbstractEventLoop, depth: Callable[[], int] | None = None) -> None:
        self._loop = loop
        self._depth = depth
        self.ready = True
        self._since = 0.0
        self._total = 0.0
        self._waiters: list[Callable[[], object]] = []
        self._waived = False
        # held by those whose demand they are
        self._followers: WeakSet[Demand] | None = None

    @property
    def depth(self) -> int:
        """How many items wait for the consumer."""
        return 0 if self._depth is None else self._depth()

    def follower(self) -> Demand:
        """A demand that goes as this one goes, until it is waived: for a part of what the consumer listens to."""
        follower = Demand(self._loop, self._depth)
        self._lead(follower)
        return follower

    def _lead(self, follower: Demand) -> None:
        if self._followers is None:
            self._followers = WeakSet()
        self._followers.add(follower)
        if not self.ready:
            follower.withhold()

    def waive(self) -> None:
        """Let sources read on for good: what comes has to come whether or not somebody is there to take it."""
        self._waived = True
        self.resume()

    def withhold(self) -> None:
        """Ask sources to stop reading."""
        if self.ready and not self._waived:
            self.ready = False
            self._since = self._loop.time()
            for follower in tuple(self._followers or ()):
                follower.withhold()

    def resume(self) -> None:
        """Let sources read on."""
        if not self.ready:
            self.ready = True
            self._total += self._loop.time() - self._since
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                waiter()
            for follower in tuple(self._followers or ()):
                follower.resume()

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


class BufferDemand(Demand):
    """Demand that is there while the consumer's is and the gate is open: for what is queued on the way to it."""

    __slots__ = ("_above", "is_shut")

    def __init__(self, loop: asyncio.AbstractEventLoop, above: Demand | None = None) -> None:
        super().__init__(loop, None if above is None else above._depth)
        self._above = True
        self.is_shut = False
        if above is not None:
            above._lead(self)

    def shut(self) -> None:
        """There is no room."""
        if not self.is_shut:
            self.is_shut = True
            super().withhold()

    def open(self) -> None:
        """There is room again."""
        self.is_shut = False
        if self._above:
            super().resume()

    def withhold(self) -> None:
        """The consumer wants no more for now."""
        self._above = False
        super().withhold()

    def resume(self) -> None:
        """The consumer wants more."""
        self._above = True
        if not self.is_shut:
            super().resume()
