"""A bounded buffer between a run that pushes and a consumer that pulls, with a declared policy for when it is full.

| policy        | when the buffer is full                                                                   |
|---------------|-------------------------------------------------------------------------------------------|
| `WAIT`        | demand is withheld: sources stop reading (TCP pushes back); nothing is lost                 |
| `DROP_OLDEST` | the oldest waiting item goes                                                                |
| `DROP_NEWEST` | the new item goes                                                                           |
| `FAIL`        | the run is disposed and the consumer gets `ChannelFullError`                                |

Under WAIT the bound holds but for what one source item expands to: demand is looked at before an item is read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

from reactivex import abc

from agentscope_rx.errors import ChannelFullError, ConfigurationError
from agentscope_rx.reactive.demand import Demand
from agentscope_rx.reactive.dropped import report_dropped
from agentscope_rx.reactive.scope import Scope
from agentscope_rx.reactive.subscription import Subscription, raisable

T = TypeVar("T")

DEFAULT_CAPACITY = 64


class Overflow(StrEnum):
    """What to do with an item that finds the buffer full."""

    WAIT = "wait"
    DROP_OLDEST = "drop_oldest"
    DROP_NEWEST = "drop_newest"
    FAIL = "fail"


class ChannelStatistics(NamedTuple):
    """A look at a channel: counts of items since it was opened, and what waits now."""

    waiting: int
    capacity: int
    received: int
    delivered: int
    dropped: int
    withheld: bool


class Channel(Generic[T]):
    """One subscription to a source, pulled by one consumer on the loop where it was opened."""

    __slots__ = (
        "_capacity",
        "_delivered",
        "_dropped",
        "_ended",
        "_error",
        "_items",
        "_overflow",
        "_received",
        "_subscription",
        "_waiter",
        "demand",
        "scope",
    )

    def __init__(self, capacity: int = DEFAULT_CAPACITY, overflow: Overflow = Overflow.WAIT) -> None:
        if capacity < 1:
            raise ConfigurationError(f"A channel's capacity must be at least 1, not {capacity}.")
        self._capacity = capacity
        self._overflow = Overflow(overflow)
        self._items: deque[T] = deque()
        self._ended = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._received = self._delivered = self._dropped = 0
        self.scope = Scope.here()
        self.demand = Demand(self.scope.loop)
        self.scope.demand = self.demand
        self._subscription: Subscription[T] | None = None

    def open(self, source: abc.ObservableBase[T]) -> None:
        """Subscribe; once."""
        self._subscription = Subscription(self.scope, self._next, self._fail, self._complete)
        self._subscription.start(source)

    async def pull(self) -> T:
        """The next item; `StopAsyncIteration` at the end, the source's error if it failed; loses none if cancelled."""
        if self._waiter is not None:
            raise RuntimeError("A flow's iterator was asked for a second item before it had given the first.")
        while not self._items:
            if self._ended:
                error, self._error = self._error, None
                if error is not None:
                    raise error
                raise StopAsyncIteration
            self._waiter = self.scope.loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        item = self._items.popleft()
        self._delivered += 1
        if not self.demand.ready and len(self._items) <= self._capacity // 2:
            self.demand.resume()
        return item

    def dispose(self) -> None:
        """Stop the source and drop what waits; idempotent, from any thread."""
        if self._subscription is not None:
            self._subscription.dispose()
        self._items.clear()
        self._ended = True
        if self._error is not None:
            error, self._error = self._error, None
            report_dropped(error, "a stream left before its error was read")
        if self.scope.is_here():
            self._let_go()
        else:
            self.scope.call_from_thread(self._let_go)

    def _let_go(self) -> None:
        # what outlives the run (a shielded write) must not wait for demand that will never come
        self.demand.resume()
        self._wake()

    def statistics(self) -> ChannelStatistics:
        """What has passed and what waits."""
        return ChannelStatistics(
            len(self._items), self._capacity, self._received, self._delivered, self._dropped, not self.demand.ready
        )

    def _next(self, item: T) -> None:
        self._received += 1
        if len(self._items) >= self._capacity and self._overflow is not Overflow.WAIT:
            self._dropped += 1
            if self._overflow is Overflow.DROP_NEWEST:
                return
            if self._overflow is Overflow.FAIL:
                if self._subscription is not None:
                    self._subscription.dispose()
                self._fail(ChannelFullError(self._capacity))
                return
            self._items.popleft()
        self._items.append(item)
        if self._overflow is Overflow.WAIT and len(self._items) >= self._capacity:
            self.demand.withhold()
        self._wake()

    def _fail(self, error: Exception) -> None:
        self._error = raisable(error)
        self._complete()

    def _complete(self) -> None:
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
