"""Back-pressure: while a slow consumer withholds demand, its sources do not read on.

A consumer with a bounded buffer withholds demand when the buffer is full and resumes it when there is room. Sources
look at `ready` before they pull the next item; first-chunk and idle clocks stand still while it is withheld. A demand
belongs to one loop's thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from weakref import ref


class Demand:
    """The demand of one consumer: sources read while it is ready, and stop while it is withheld. Ready at first."""

    __slots__ = ("__weakref__", "_depth", "_followers", "_loop", "_since", "_total", "_waiters", "_waived", "ready")

    def __init__(self, loop: asyncio.AbstractEventLoop, depth: Callable[[], int] | None = None) -> None:
        self._loop = loop
        self._depth = depth
        self.ready = True
        self._since = 0.0
        self._total = 0.0
        self._waiters: list[Callable[[], object]] = []
        self._waived = False
        # each is held by its own subscription
        self._followers: dict[ref[Demand], None] | None = None

    @property
    def depth(self) -> int:
        """The number of items that wait for the consumer."""
        return 0 if self._depth is None else self._depth()

    def follower(self) -> Demand:
        """A demand for a part of the consumer's sources. It follows this one until it is waived."""
        follower = Demand(self._loop, self._depth)
        self._add_follower(follower)
        return follower

    def _add_follower(self, follower: Demand) -> None:
        if self._followers is None:
            self._followers = {}
        # one that is freed is taken out, without a call in Python
        self._followers[ref(follower, self._followers.pop)] = None
        if not self.ready:
            follower.withhold()

    def waive(self) -> None:
        """Let sources read on for good, for events that must come even if the consumer does not read."""
        self._waived = True
        self.resume()

    def withhold(self) -> None:
        """Ask sources to stop reading."""
        if self.ready and not self._waived:
            self.ready = False
            self._since = self._loop.time()
            for follower in self._each_follower():
                follower.withhold()

    def resume(self) -> None:
        """Let sources read on."""
        if not self.ready:
            self.ready: bool = True
            self._total += self._loop.time() - self._since
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                waiter()
            for follower in self._each_follower():
                follower.resume()

    def _each_follower(self) -> list[Demand]:
        return [each for known in tuple(self._followers or ()) if (each := known()) is not None]

    def withheld(self) -> float:
        """Seconds, up to now, during which demand was withheld."""
        return self._total if self.ready else self._total + self._loop.time() - self._since

    def when_ready(self, waiter: Callable[[], object]) -> Callable[[], None]:
        """Call `waiter` when demand is ready, at once if it is; returns a function that cancels that."""
        if self.ready:
            waiter()
        else:
            self._waiters.append(waiter)

        def forget() -> None:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

        return forget

    async def wait(self) -> None:
        """Return when demand is ready."""
        while not self.ready:
            woken: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(lambda woken=woken: woken.done() or woken.set_result(None))
            await woken


class BufferDemand(Demand):
    """Demand that is ready while the consumer's demand is and a buffer on the way to it has room."""

    __slots__ = ("_consumer_ready", "is_shut")

    def __init__(self, loop: asyncio.AbstractEventLoop, consumer: Demand | None = None) -> None:
        super().__init__(loop, None if consumer is None else consumer._depth)
        self._consumer_ready = True
        self.is_shut = False
        if consumer is not None:
            consumer._add_follower(self)

    def shut(self) -> None:
        """Note that the buffer is full."""
        if not self.is_shut:
            self.is_shut = True
            super().withhold()

    def open(self) -> None:
        """Note that the buffer has room again."""
        self.is_shut: bool = False
        if self._consumer_ready:
            super().resume()

    def withhold(self) -> None:
        """Follow the consumer's demand, which is withheld."""
        self._consumer_ready = False
        super().withhold()

    def resume(self) -> None:
        """Follow the consumer's demand, which is ready again."""
        self._consumer_ready = True
        if not self.is_shut:
            super().resume()
