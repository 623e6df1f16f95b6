"""A bounded buffer between a run that pushes and a consumer that pulls, with a policy for when it is full.

| policy        | when the buffer is full                                                                   |
|---------------|-------------------------------------------------------------------------------------------|
| `WAIT`        | demand is withheld: sources stop reading (TCP pushes back); nothing is lost                 |
| `COALESCE`    | as WAIT; but an item that can be merged with the last one in the buffer needs no place      |
| `DROP_OLDEST` | the oldest item is dropped                                                                  |
| `DROP_NEWEST` | the new item is dropped                                                                     |
| `FAIL`        | the run is disposed and the consumer gets `ChannelFullError`                                |

A buffer is full when `capacity` items wait, or, with `max_bytes`, when a new item would exceed that many bytes. An item
that is larger than `max_bytes` passes an empty buffer, so that it never blocks the run.

Under WAIT the buffer may exceed its bounds by the values that one source item expands to: demand is looked at before
an item is read. Under COALESCE reading goes on at `capacity` items, as the next item may be mergeable, and stops at the
first that is not, or at `max_bytes`. `ChannelStatistics.overshoot` is the most by which the bounds were exceeded.

    pushed      --a1-a2-a3-X-b1-b2--       coalesce(a1, a2) = a1a2, coalesce(a3, X) = None
    pulled      --a1-----------a2a3-X-b1b2--
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

from reactivex import abc

from agentscope_rx.errors import ChannelFullError, ConfigurationError, RunStoppedError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.reactive.byte_counts import ByteCounts
from agentscope_rx.reactive.kernel.demand import Demand
from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.reactive.kernel.runtime import SourceCancelledError
from agentscope_rx.reactive.kernel.scope import Scope
from agentscope_rx.reactive.kernel.subscription import Subscription, raisable

T = TypeVar("T")

DEFAULT_CAPACITY = 64


class Overflow(StrEnum):
    """The policy for an item that comes when the buffer is full.

    `WAIT`, `COALESCE`, `DROP_OLDEST`, `DROP_NEWEST` or `FAIL`: `Flow.buffered` has the table of their effects.
    """

    WAIT = "wait"
    COALESCE = "coalesce"
    DROP_OLDEST = "drop_oldest"
    DROP_NEWEST = "drop_newest"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Buffering(Generic[T]):
    """The bounds of a buffer and its policy; see `Flow.buffered`.

    `coalesce(last, item)` returns one item with the content of both, or None. `size_of(item)` is the size of an item in
    bytes, for `max_bytes`.
    """

    capacity: int = DEFAULT_CAPACITY
    overflow: Overflow = Overflow.WAIT
    coalesce: Callable[[T, T], T | None] | None = None
    max_bytes: int | None = None
    size_of: Callable[[T], int] | None = None

    def __post_init__(self) -> None:
        if self.capacity < 1:
            raise ConfigurationError(f"A channel's capacity must be at least 1, not {self.capacity}.")
        self._check_bytes()
        if self.overflow not in tuple(Overflow):
            raise ConfigurationError(
                f"{self.overflow!r} is not an overflow policy. The policies are {', '.join(Overflow)}."
            )
        object.__setattr__(self, "overflow", Overflow(self.overflow))
        if (self.overflow is Overflow.COALESCE) != (self.coalesce is not None):
            raise ConfigurationError("Overflow.COALESCE needs a function `coalesce`, and `coalesce` needs this policy.")

    def _check_bytes(self) -> None:
        if self.max_bytes is not None and (type(self.max_bytes) is not int or self.max_bytes < 1):
            raise ConfigurationError(f"max_bytes must be a whole number of at least 1, not {self.max_bytes!r:.60}.")
        if (self.max_bytes is None) != (self.size_of is None):
            raise ConfigurationError(
                "max_bytes needs a function size_of(item) -> bytes, and size_of needs max_bytes. For events use "
                "size_of=agentscope_rx.events.event_size."
            )

    @property
    def withholds_at(self) -> int | None:
        """The number of items at which demand is withheld; None if it never is."""
        if self.overflow is Overflow.WAIT:
            return self.capacity
        return self.capacity + 1 if self.overflow is Overflow.COALESCE else None

    @property
    def resumes_at(self) -> int:
        """The number of items at which demand is resumed; under COALESCE the last one may still grow."""
        return max(self.capacity // 2, int(self.overflow is Overflow.COALESCE))


class Overshoot(NamedTuple):
    """The most items and bytes by which a buffer has exceeded its bounds at once."""

    items: int = 0
    bytes: int = 0


class ChannelStatistics(NamedTuple):
    """Counts of a channel's items since it was opened.

    `received` = `waiting` + `delivered` + `dropped` + `merged`. The same holds for bytes, which a channel with
    `max_bytes` counts; `bytes_merged` are those that merging saved. Items that wait when the consumer leaves count as
    dropped. `withheld` is true while the sources have to wait.
    """

    waiting: int
    capacity: int
    received: int
    delivered: int
    dropped: int
    merged: int
    withheld: bool
    overshoot: Overshoot = Overshoot()
    bytes: int = 0
    """The bytes that wait."""
    max_bytes: int | None = None
    bytes_received: int = 0
    bytes_delivered: int = 0
    bytes_dropped: int = 0
    bytes_merged: int = 0


class Channel(Generic[T]):
    """One subscription to a source, pulled by one consumer on its loop."""

    __slots__ = (
        "_buffering",
        "_bytes",
        "_capacity",
        "_dropped",
        "_ended",
        "_error",
        "_merged",
        "_most",
        "_received",
        "_subscription",
        "_withholds_at",
        "demand",
        "items",
        "plain",
        "resumes_at",
        "scope",
        "waiter",
    )

    def __init__(self, buffering: Buffering[T] | None = None) -> None:
        self._buffering = buffering = buffering or Buffering()
        self._capacity = buffering.capacity
        self._withholds_at = buffering.withholds_at
        self.resumes_at: int = buffering.resumes_at
        """The number of items with which demand, if withheld, is resumed."""
        self.items: deque[T] = deque()
        """What waits for the consumer."""
        self.plain: bool = buffering.max_bytes is None
        """True if no bytes are to be counted when an item is taken."""
        self._ended = False
        self._error: BaseException | None = None
        self.waiter: asyncio.Future[None] | None = None
        """Set while the consumer waits for an item."""
        self._received = self._dropped = self._merged = self._most = 0
        self._bytes: ByteCounts[T] | None = None
        if buffering.max_bytes is not None and buffering.size_of is not None:
            self._bytes = ByteCounts(buffering.max_bytes, buffering.size_of)
        self.scope: Scope = Scope.here()
        self.demand: Demand = Demand(self.scope.loop, self.items.__len__)
        self.scope.demand = self.demand
        self._subscription: Subscription[T] | None = None

    def open(self, source: abc.ObservableBase[T]) -> None:
        """Subscribe; once."""
        on_next = self._next if self._buffering.coalesce is None else self._next_or_merge
        if self._bytes is not None:
            on_next = self._next_sized
        self._subscription = Subscription(self.scope, on_next, self._fail, self._complete, self._abort)
        self._subscription.begin(source)

    async def pull(self) -> T:
        """The next item; `StopAsyncIteration` at the end, or the source's error. Cancelling it loses no item."""
        if self.waiter is not None:
            raise RuntimeError("A flow's iterator was asked for a second item before it had returned the first.")
        while not self.items:
            if self._ended:
                error, self._error = self._error, None
                if error is not None:
                    raise error
                raise StopAsyncIteration
            self.waiter = self.scope.loop.create_future()
            try:
                await self.waiter
            finally:
                self.waiter = None
        item = self.items.popleft()
        counts = self._bytes
        if counts is not None:
            counts.deliver()
        if (
            not self.demand.ready
            and len(self.items) <= self.resumes_at
            and (counts is None or counts.waiting <= counts.max_bytes // 2)
        ):
            self.demand.resume()
        return item

    def dispose(self) -> None:
        """Stop the source and drop the items; idempotent, from any thread."""
        if self._subscription is not None:
            self._subscription.dispose()
        self._ended = True
        if self._error is not None:
            error, self._error = self._error, None
            # a reader that leaves has no use for the news that the run was stopped, or its loop shut down
            if not isinstance(error, (SourceCancelledError, RunStoppedError)):
                report_dropped(error, "a stream left before its error was read")
        if self.scope.is_here():
            self._release()
        else:
            self.scope.call_from_thread(self._release)

    def _release(self) -> None:
        self._dropped += len(self.items)
        self.items.clear()
        if self._bytes is not None:
            self._bytes.drop_all()
        # a source that outlives the run (a shielded write) must not wait for demand that will never come
        self.demand.resume()
        self._wake()

    def statistics(self) -> ChannelStatistics:
        """Counts of the items that have passed, and of those that wait."""
        counts = self._bytes
        over = max(0, self._most - self._capacity)
        statistics = ChannelStatistics(
            waiting=len(self.items),
            capacity=self._capacity,
            received=self._received,
            delivered=self._received - self._dropped - self._merged - len(self.items),
            dropped=self._dropped,
            merged=self._merged,
            withheld=not self.demand.ready,
            overshoot=Overshoot(over, 0 if counts is None else max(0, counts.most - counts.max_bytes)),
        )
        if counts is None:
            return statistics
        return statistics._replace(
            bytes=counts.waiting,
            max_bytes=counts.max_bytes,
            bytes_received=counts.received,
            bytes_delivered=counts.delivered,
            bytes_dropped=counts.dropped,
            bytes_merged=counts.merged,
        )

    def _next(self, item: T) -> None:
        self._received += 1
        items = self.items
        if self._withholds_at is None and len(items) >= self._capacity and not self._made_room():
            return
        items.append(item)
        if self._withholds_at is not None and len(items) >= self._withholds_at:
            self._most = max(self._most, len(items))
            self.demand.withhold()
        waiter = self.waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _next_or_merge(self, item: T) -> None:
        try:
            merged = self._merged_with_last(item)
        except Exception as error:
            self._stop(error)
            return
        if merged is None:
            self._next(item)
        else:
            self._replace_last(merged)

    def _next_sized(self, item: T) -> None:
        counts = self._bytes
        assert counts is not None
        try:
            size = counts.size(item)
            merged = self._merged_with_last(item)
            merged_size = 0 if merged is None else counts.size(merged)
        except Exception as error:
            self._stop(error)
            return
        if merged is not None:
            self._replace_last(merged)
            counts.merge(size, merged_size)
        elif self._withholds_at is not None or self._made_room(size):
            counts.add(size)
            self._next(item)
        else:
            self._received += 1
        if self._withholds_at is not None and counts.full:
            self.demand.withhold()

    def _merged_with_last(self, item: T) -> T | None:
        coalesce = self._buffering.coalesce
        return None if coalesce is None or not self.items else coalesce(self.items[-1], item)

    def _replace_last(self, merged: T) -> None:
        # a consumer that waits was woken by the item that this one joins
        self.items[-1] = merged
        self._received += 1
        self._merged += 1

    def _made_room(self, size: int = 0) -> bool:
        """Apply the policy until the new item has a place; False if it is dropped."""
        counts = self._bytes
        while len(self.items) >= self._capacity or not (counts is None or counts.fits(size)):
            self._dropped += 1
            if self._buffering.overflow is Overflow.DROP_OLDEST:
                self.items.popleft()
                if counts is not None:
                    counts.drop()
                continue
            if counts is not None:
                counts.refuse(size)
            if self._buffering.overflow is Overflow.FAIL:
                self._stop(ChannelFullError(self._capacity, None if counts is None else counts.max_bytes))
            return False
        return True

    def _stop(self, error: Exception) -> None:
        if self._subscription is not None:
            self._subscription.dispose()
        self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._error = raisable(error)
        self._complete()

    def _abort(self, error: BaseException) -> None:
        self._error = error
        self._complete()

    def _complete(self) -> None:
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)
