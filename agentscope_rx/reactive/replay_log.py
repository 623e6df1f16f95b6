"""`ReplayLog`: keeps the last values of one run, for readers that come late, fall behind, leave and return.

    source    --a--b--c--d--e--|          subscribed to once, for all readers
    reader 0  --a--b--c--d--e--|          from the start
    reader 3            --d--e--|         from value 3: the values kept, then the new ones, without a gap

| when the log is full             | then                                                                            |
|----------------------------------|---------------------------------------------------------------------------------|
| a reader is `capacity` behind    | demand is withheld: sources stop reading; values that a reader needs are kept   |
| no reader is so far behind       | the oldest value is dropped, the run goes on                                    |

With `weigh` and `max_weight` a log is full, too, when its values weigh more than that. As with a channel, it may exceed
its capacity by the values that one source item expands to. A log belongs to one loop's thread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from reactivex import abc

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.reactive.kernel.demand import Demand
from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.reactive.kernel.one_shot_event import OneShotEvent
from agentscope_rx.reactive.kernel.runtime import SourceCancelledError
from agentscope_rx.reactive.kernel.scope import Scope
from agentscope_rx.reactive.kernel.subscription import Subscription, raisable

T = TypeVar("T")


class LogStatistics(NamedTuple):
    """Counts of a log's values since it was opened; `behind` is the number that the slowest reader has yet to read."""

    received: int
    dropped: int
    kept: int
    capacity: int
    readers: int
    behind: int
    withheld: bool


class ReplayLog(Generic[T]):
    """Keeps the last `capacity` values of a source, numbered from 0, and all that a reader has yet to read."""

    __slots__ = (
        "_capacity",
        "_error",
        "_error_read",
        "_max_weight",
        "_readers",
        "_subscription",
        "_values",
        "_weigh",
        "_weight",
        "demand",
        "dropped",
        "ended",
        "first",
        "scope",
    )

    def __init__(
        self, capacity: int, *, weigh: Callable[[T], int] | None = None, max_weight: int | None = None
    ) -> None:
        if capacity < 1:
            raise ConfigurationError(f"A log's capacity must be at least 1, not {capacity}.")
        self._capacity = capacity
        self._weigh = None if max_weight is None else weigh
        self._max_weight = max_weight or 0
        self._weight = 0
        self._values: deque[T] = deque()
        self._readers: list[LogReader[T]] = []
        self._error: Exception | None = None
        self._error_read = False
        self._subscription: Subscription[T] | None = None
        self.scope: Scope = Scope.here()
        self.demand: Demand = Demand(self.scope.loop)
        self.scope.demand = self.demand
        self.first: int = 0
        self.dropped: T | None = None
        """The latest value that was dropped."""
        self.ended: OneShotEvent = OneShotEvent()

    @property
    def end(self) -> int:
        """The number of the next value."""
        return self.first + len(self._values)

    @property
    def values(self) -> Sequence[T]:
        """The values kept; the first has the number `first`."""
        return self._values

    @property
    def readers(self) -> int:
        """The number of readers."""
        return len(self._readers)

    def open(self, source: abc.ObservableBase[T]) -> None:
        """Subscribe; once."""
        self._subscription = Subscription(self.scope, self._next, self._fail, self._complete, self._abort)
        self._subscription.start(source)

    def read(self, start: int = 0) -> LogReader[T]:
        """A reader from the value of this number on; `LookupError` if it was dropped or is beyond the next value."""
        if not self.first <= start <= self.end:
            raise LookupError(f"The log holds values {self.first} to {self.end - 1}, not {start}.")
        reader = LogReader(self, start)
        self._readers.append(reader)
        return reader

    def dispose(self, *last: T, error: Exception | None = None) -> None:
        """Stop the source; readers get the values kept, then `last`, then the error if one is given."""
        if self.ended.fired:
            return
        if self._subscription is not None:
            self._subscription.dispose()
        for value in last:
            self._next(value)
        if error is not None and self._readers:
            self._error = error
        self._complete()

    async def idle(self) -> None:
        """Return when no work of the run is under way."""
        await self.scope.work.idle()

    def statistics(self) -> LogStatistics:
        """Counts of the values received, dropped and kept."""
        return LogStatistics(
            received=self.end,
            dropped=self.first,
            kept=len(self._values),
            capacity=self._capacity,
            readers=len(self._readers),
            behind=self.end - self._slowest(),
            withheld=not self.demand.ready,
        )

    # --- between the source and the readers ---------------------------------------------------------------------

    def leave(self, reader: LogReader[T]) -> None:
        """Remove a reader."""
        if reader in self._readers:
            self._readers.remove(reader)
            self.settle()
            self._report_unread()

    def settle(self) -> None:
        """Drop the values that no reader needs, then withhold or resume demand."""
        slowest = self._slowest()
        while self.first < slowest and (len(self._values) > self._capacity or self._weight > self._max_weight):
            self.dropped = self._values.popleft()
            self.first += 1
            if self._weigh is not None:
                self._weight -= self._weigh(self.dropped)
        behind = self.end - slowest
        # values that were read have been dropped by now, if there is too much weight
        heavy = self._weight > self._max_weight
        if self.ended.fired or (behind <= self._capacity // 2 and not heavy):
            self.demand.resume()
        elif behind >= self._capacity or heavy:
            self.demand.withhold()

    def failure(self) -> Exception | None:
        """The error of the run, for a reader that raises it."""
        self._error_read = self._error is not None
        return self._error

    def _slowest(self) -> int:
        return min((reader.position for reader in self._readers), default=self.end)

    def _next(self, value: T) -> None:
        self._values.append(value)
        if self._weigh is not None:
            self._weight += self._weigh(value)
        self.settle()
        self._wake()

    def _fail(self, error: Exception) -> None:
        self._error = raisable(error)
        self._report_unread()
        self._complete()

    def _abort(self, error: BaseException) -> None:
        # a reader is not the caller that began the run: `sys.exit()` of the run must not end the reader's task
        failure = SourceCancelledError(f"The run was ended by {error!r}.")
        failure.__cause__ = error
        self._fail(failure)

    def _complete(self) -> None:
        self.ended.fire()
        self.settle()
        self._wake()

    def _wake(self) -> None:
        for reader in self._readers:
            reader.wake()

    def _report_unread(self) -> None:
        if self._error is not None and not self._error_read and not self._readers:
            self._error_read = True
            report_dropped(self._error, "a log without readers")


class LogReader(AsyncIterator[T], Generic[T]):
    """One reader's position in a log. For one consumer at a time; cancelling it loses no value."""

    __slots__ = ("_closed", "_log", "_waiter", "position")

    def __init__(self, log: ReplayLog[T], position: int) -> None:
        self._log = log
        self._closed = False
        self._waiter: asyncio.Future[None] | None = None
        self.position: int = position

    @property
    def waiting(self) -> int:
        """The number of values that can be read without waiting."""
        return self._log.end - self.position

    async def wait(self) -> bool:
        """True when there is a value to read, False at the end; raises the error of a failed run."""
        if self._waiter is not None:
            raise RuntimeError("A reader was asked for a second value before it had returned the first.")
        while not self._closed:
            if self.waiting:
                return True
            if self._log.ended.fired:
                error = self._log.failure()
                if error is not None:
                    raise error
                return False
            self._waiter = self._log.scope.loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return False

    def take(self) -> T:
        """The next value; `wait()` must have returned True."""
        value = self._log.values[self.position - self._log.first]
        self.position += 1
        self._log.settle()
        return value

    async def __anext__(self) -> T:
        if not await self.wait():
            raise StopAsyncIteration
        return self.take()

    def close(self) -> None:
        """Stop reading: the log keeps no more values for this reader. Idempotent."""
        self._closed = True
        self._log.leave(self)
        self.wake()

    def wake(self) -> None:
        """Let `wait()` look again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
