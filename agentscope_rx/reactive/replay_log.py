"""`ReplayLog`: keeps the last values of one run, for readers that come late, fall behind, leave and return.

    source    --a--b--c--d--e--|          subscribed to once, for all readers
    reader 0  --a--b--c--d--e--|          from the start
    reader 3            --d--e--|         from value 3: the values kept, then the new ones, without a gap

| when the log is full             | then                                                                            |
|----------------------------------|---------------------------------------------------------------------------------|
| a reader is `capacity` behind    | demand is withheld: sources stop reading; values that a reader needs are kept   |
| no reader is so far behind       | the oldest value is dropped, the run goes on                                    |

A reader that pulls is bound by the capacity, a subscription by its own demand (see `log_readers`). `pause` withholds
demand, too. With `size_of` and `max_bytes` a log is also full when its values are larger than that. As with a channel,
it may exceed its bounds by the values that one source item expands to; `overshoot` counts by how many at most.

An error is kept for readers to come. If none has had it when the log is freed, it is reported as dropped. A log belongs
to one loop's thread.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Generic, NamedTuple, TypeVar

from reactivex import abc

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.reactive.channel import Overshoot
from agentscope_rx.reactive.kernel.demand import Demand
from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.reactive.kernel.one_shot_event import OneShotEvent
from agentscope_rx.reactive.kernel.runtime import SourceCancelledError
from agentscope_rx.reactive.kernel.scope import Scope
from agentscope_rx.reactive.kernel.subscription import Subscription, raisable
from agentscope_rx.reactive.log_readers import LogFollower, LogReader, Reader

T = TypeVar("T")


class LogStatistics(NamedTuple):
    """Counts of a log's values since it was opened; `behind` is the number that the slowest reader has yet to read.

    `bytes` are those of the values kept, at most `max_bytes` (None: not counted), and `overshoot` is by how much these
    bounds were exceeded at most; as in `ChannelStatistics`.
    """

    received: int
    dropped: int
    kept: int
    capacity: int
    readers: int
    behind: int
    withheld: bool
    bytes: int = 0
    max_bytes: int | None = None
    overshoot: Overshoot = Overshoot()


class ReplayLog(Generic[T]):
    """Keeps the last `capacity` values of a source, numbered from 0, and all that a reader has yet to read."""

    __slots__ = (
        "_bytes",
        "_capacity",
        "_counts",
        "_error",
        "_error_read",
        "_handed",
        "_limit",
        "_line",
        "_live",
        "_max_bytes",
        "_overshoot",
        "_paused",
        "_readers",
        "_size_of",
        "_slowest",
        "_subscription",
        "_traceback",
        "demand",
        "dropped",
        "end",
        "ended",
        "first",
        "on_readers",
        "pushed",
        "scope",
        "stalled",
        "values",
        "waiting",
        "where",
    )

    def __init__(
        self,
        capacity: int,
        *,
        size_of: Callable[[T], int] | None = None,
        max_bytes: int | None = None,
        pushed: Callable[[T], object] | None = None,
        where: str = "a run",
    ) -> None:
        """Subscriptions get `pushed(value)`, made once for all; without it the value."""
        # first, as `__del__` reads them
        self.where: str = where
        """What the log is of, for a report of an error that no reader has had."""
        self._error: Exception | None = None
        self._error_read = False
        if capacity < 1:
            raise ConfigurationError(f"A log's capacity must be at least 1, not {capacity}.")
        self._capacity = capacity
        self._size_of = None if max_bytes is None else size_of
        self._max_bytes = max_bytes
        self._limit = math.inf if max_bytes is None else max_bytes
        self._bytes = 0
        self._overshoot = Overshoot()
        # replaced, not changed: it is iterated while readers come and leave, and on other threads
        self._readers: tuple[Reader, ...] = ()
        # those that have once caught up, live or stalled, with what takes their values; and a copy to be iterated
        self._live: dict[LogFollower[T], Callable[[object], object]] = {}
        self._line: tuple[tuple[LogFollower[T], Callable[[object], object]], ...] | None = ()
        # how many readers that are not live have each position, and the smallest of these
        self._counts: dict[int, int] = {}
        self._slowest = 0
        # the live ones have all values before this one
        self._handed = 0
        self._paused = False
        self._traceback: TracebackType | None = None
        self._subscription: Subscription[T] | None = None
        self.scope: Scope = Scope.here()
        self.demand: Demand = Demand(self.scope.loop)
        self.scope.demand = self.demand
        self.values: deque[T] = deque()
        """The values kept; the first has the number `first`, the next one to come `end`."""
        self.first: int = 0
        self.end: int = 0
        self.dropped: T | None = None
        """The latest value that was dropped."""
        self.waiting: list[asyncio.Future[None]] = []
        """Set at the next value, or at the end."""
        self.stalled: int = 0
        """The number of followers that take no values."""
        self.pushed: Callable[[T], object] | None = pushed
        """Makes of a value what subscriptions get."""
        self.ended: OneShotEvent = OneShotEvent()
        self.on_readers: Callable[[int], object] | None = None
        """Called with the number of readers when one has come or left."""

    @property
    def readers(self) -> int:
        """The number of readers."""
        return len(self._readers)

    def open(self, source: abc.ObservableBase[T]) -> None:
        """Subscribe, once; to nothing if the log has been disposed of before."""
        if self.ended.fired:
            return
        self._subscription = Subscription(self.scope, self._next, self._fail, self._complete, self._abort)
        self._subscription.start(source)

    def add(self, value: T) -> None:
        """Add a value without a source; nothing after the end."""
        if not self.ended.fired:
            self._next(value)

    @property
    def paused(self) -> bool:
        """True between `pause` and `resume`."""
        return self._paused

    def read(self, start: int = 0, reported: Callable[[], bool] | None = None) -> LogReader[T]:
        """A reader from the value of this number on; `LookupError` if it was dropped or is beyond the next value.

        It does not raise the error at the end if `reported()`.
        """
        reader = LogReader(self, start, reported)
        self.join(reader)
        return reader

    def join(self, reader: Reader) -> None:
        """Add a reader; `LookupError` if the value at its position was dropped or is beyond the next one."""
        if not self.first <= reader.position <= self.end:
            raise LookupError(f"The log holds values {self.first} to {self.end - 1}, not {reader.position}.")
        self._readers = (*self._readers, reader)
        self.count(reader.position)
        if self.on_readers is not None:
            self.on_readers(len(self._readers))

    def pause(self) -> None:
        """Withhold demand until `resume`. Idempotent."""
        self._paused = True
        self.settle()

    def resume(self) -> None:
        """End the pause: demand depends on the readers again. Idempotent."""
        self._paused = False
        self.settle()

    def dispose(self, *last: T, error: Exception | None = None) -> None:
        """Stop the source; readers get the values kept, then `last`, then the error if one is given."""
        if self.ended.fired:
            return
        if self._subscription is not None:
            self._subscription.dispose()
        # known to the caller: no news if it is not read
        self._error, self._error_read = error, True
        for value in last:
            self._next(value)
        self._complete()

    def fail(self, error: Exception) -> None:
        """End with this error, for a source that will signal no more: its loop was closed."""
        if not self.ended.fired:
            self._error, self._error_read = error, True
            self._complete()

    async def idle(self) -> None:
        """Return when no work of the run is under way."""
        await self.scope.work.idle()

    def statistics(self) -> LogStatistics:
        """Counts of the values received, dropped and kept."""
        return LogStatistics(
            received=self.end,
            dropped=self.first,
            kept=len(self.values),
            capacity=self._capacity,
            readers=len(self._readers),
            behind=self.end - self._needed(),
            withheld=not self.demand.ready,
            bytes=self._bytes,
            max_bytes=self._max_bytes,
            overshoot=self._overshoot,
        )

    def behind(self) -> tuple[int, ...]:
        """The number of values that each reader's consumer has yet to read; from any thread."""
        return tuple(self.end - reader.position + reader.queued for reader in self._readers)

    # --- between the source and the readers ---------------------------------------------------------------------

    def leave(self, reader: Reader) -> None:
        """Remove a reader, which is not live."""
        if reader in self._readers:
            at = self._readers.index(reader)
            self._readers = self._readers[:at] + self._readers[at + 1 :]
            if self._live.pop(reader, None) is not None:  # pyright: ignore[reportArgumentType, reportCallIssue]
                self._line = None
            self._discount(reader.position)
            self.settle()
            if self.on_readers is not None:
                self.on_readers(len(self._readers))

    def count(self, position: int) -> None:
        """A reader that is not live is at this position."""
        if not self._counts or position < self._slowest:
            self._slowest = position
        self._counts[position] = self._counts.get(position, 0) + 1

    def moved(self, position: int) -> None:
        """A reader has read the value of this number; it is not live."""
        counts = self._counts
        counts[position + 1] = counts.get(position + 1, 0) + 1
        left = counts[position] - 1
        if left:
            counts[position] = left
            return
        del counts[position]
        if position == self._slowest:
            # nobody is before the one that has moved
            self._slowest = position + 1
            if not self.demand.ready or len(self.values) > self._capacity or self._bytes > self._limit:
                self.settle()

    def caught_up(self, follower: LogFollower[T]) -> None:
        """A follower has all values: hand it the new ones."""
        self._discount(follower.position)
        if follower not in self._live:
            self._live[follower] = follower.push
            self._line = None

    def settle(self) -> None:
        """Drop the values that no reader needs, then withhold or resume demand."""
        needed = self._needed()
        if len(self.values) > self._capacity or self._bytes > self._limit:
            self._drop(needed)
        # values that were read have been dropped by now, if they are too large
        held_up = self._bytes > self._limit or self._paused or self.stalled > 0
        behind = self.end - needed
        if self.ended.fired or not (held_up or behind > self._capacity // 2):
            if not self.demand.ready:
                self.demand.resume()
        elif held_up or behind >= self._capacity:
            self.demand.withhold()

    def _discount(self, position: int) -> None:
        self._counts[position] -= 1
        if not self._counts[position]:
            del self._counts[position]
            if position == self._slowest and self._counts:
                self._slowest = min(self._counts)

    def _needed(self) -> int:
        """The number of the first value that a reader has yet to read."""
        return min(self._slowest, self._handed) if self._counts else self._handed

    def _drop(self, needed: int) -> None:
        while self.first < needed and (len(self.values) > self._capacity or self._bytes > self._limit):
            self.dropped = self.values.popleft()
            self.first += 1
            if self._size_of is not None:
                self._bytes -= self._size_of(self.dropped)
        # counted now: what could be dropped at once has exceeded no bound
        items = len(self.values) - self._capacity
        size = 0 if self._max_bytes is None else self._bytes - self._max_bytes
        if items > self._overshoot.items or size > self._overshoot.bytes:
            self._overshoot = Overshoot(max(self._overshoot.items, items), max(self._overshoot.bytes, size))

    def failure(self) -> Exception | None:
        """The error of the run, for a reader that raises it."""
        if self._error is None:
            return None
        self._error_read = True
        # each reader that raises it adds its frames, with all that they refer to
        return self._error.with_traceback(self._traceback)

    def _next(self, value: T) -> None:
        self.values.append(value)
        number = self.end
        self.end = number + 1
        if self._size_of is not None:
            self._bytes += self._size_of(value)
        if self.waiting:
            self._wake()
        if number > self._handed:
            # a callback has added it: its turn comes when all have the one before
            return
        while True:
            after = number + 1
            line = self._line
            if line is None:
                line = self._line = tuple(self._live.items())
            if line:
                item: object = value if self.pushed is None else self.pushed(value)
                for follower, push in line:
                    # else it has left, is stalled, or has caught up meanwhile with more than this
                    if follower.due == number:
                        follower.due = after
                        try:
                            push(item)
                        except BaseException as error:
                            follower.fail(error)
            self._handed = after
            # last: subscriptions have read the value by now
            if len(self.values) >= self._capacity or not self.demand.ready or self._bytes > self._limit:
                self.settle()
            number = self._handed
            if number == self.end:
                break
            value = self.values[number - self.first]
        if self.ended.fired:
            self._end_readers()

    def _wake(self) -> None:
        waiting, self.waiting = self.waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        self._error = raisable(error)
        self._complete()

    def _abort(self, error: BaseException) -> None:
        # a reader is not the caller that began the run: `sys.exit()` of the run must not end the reader's task
        failure = SourceCancelledError(f"The run was ended by {error!r}.")
        failure.__cause__ = error
        self._fail(failure)

    def _complete(self) -> None:
        self._traceback = None if self._error is None else self._error.__traceback__
        self.ended.fire()
        self.settle()
        # else a callback has ended the log: `_next` goes on when all have its value
        if self._handed == self.end:
            self._end_readers()

    def _end_readers(self) -> None:
        self._wake()
        for reader in self._readers:
            reader.wake()

    def __del__(self) -> None:
        if self._error is not None and not self._error_read:
            report_dropped(self._error, f"the log of {self.where}, which had no reader at its end")
