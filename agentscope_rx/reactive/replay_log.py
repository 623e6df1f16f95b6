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
from agentscope_rx.reactive.log_readers import LogReader, Reader

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
        "_error",
        "_error_read",
        "_max_bytes",
        "_overshoot",
        "_paused",
        "_readers",
        "_size_of",
        "_subscription",
        "_traceback",
        "demand",
        "dropped",
        "end",
        "ended",
        "first",
        "on_readers",
        "scope",
        "values",
        "where",
    )

    def __init__(
        self,
        capacity: int,
        *,
        size_of: Callable[[T], int] | None = None,
        max_bytes: int | None = None,
        where: str = "a run",
    ) -> None:
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
        self._bytes = 0
        self._overshoot = Overshoot()
        # replaced, not changed: it is iterated while readers come and leave, and on other threads
        self._readers: tuple[Reader, ...] = ()
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
            behind=self.end - self._slowest(),
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
        """Remove a reader."""
        if reader in self._readers:
            self._readers = tuple(each for each in self._readers if each is not reader)
            self.settle()
            if self.on_readers is not None:
                self.on_readers(len(self._readers))

    def settle(self) -> None:
        """Drop the values that no reader needs, then withhold or resume demand."""
        slowest = end = self.end
        stalled = self._paused
        for reader in self._readers:
            slowest = min(slowest, reader.position)
            stalled = stalled or reader.stalled
        most = self._max_bytes
        if len(self.values) > self._capacity or (most is not None and self._bytes > most):
            self._drop(slowest)
        behind = end - slowest
        # values that were read have been dropped by now, if they are too large
        large = most is not None and self._bytes > most
        if self.ended.fired or not (stalled or large or behind > self._capacity // 2):
            if not self.demand.ready:
                self.demand.resume()
        elif stalled or large or behind >= self._capacity:
            self.demand.withhold()

    def _drop(self, slowest: int) -> None:
        most = self._max_bytes
        while self.first < slowest and (len(self.values) > self._capacity or (most is not None and self._bytes > most)):
            self.dropped = self.values.popleft()
            self.first += 1
            if self._size_of is not None:
                self._bytes -= self._size_of(self.dropped)
        # counted now: what could be dropped at once has exceeded no bound
        items, size = len(self.values) - self._capacity, 0 if most is None else self._bytes - most
        if items > self._overshoot.items or size > self._overshoot.bytes:
            self._overshoot = Overshoot(max(self._overshoot.items, items), max(self._overshoot.bytes, size))

    def failure(self) -> Exception | None:
        """The error of the run, for a reader that raises it."""
        if self._error is None:
            return None
        self._error_read = True
        # each reader that raises it adds its frames, with all that they refer to
        return self._error.with_traceback(self._traceback)

    def _slowest(self) -> int:
        return min((reader.position for reader in self._readers), default=self.end)

    def _next(self, value: T) -> None:
        self.values.append(value)
        self.end += 1
        large = False
        if self._size_of is not None and self._max_bytes is not None:
            self._bytes += self._size_of(value)
            large = self._bytes > self._max_bytes
        for reader in self._readers:
            reader.wake()
        # last: subscriptions have read the value by now. (One that stalls settles by itself.)
        if large or len(self.values) >= self._capacity or not self.demand.ready:
            self.settle()

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
        for reader in self._readers:
            reader.wake()

    def __del__(self) -> None:
        if self._error is not None and not self._error_read:
            report_dropped(self._error, f"the log of {self.where}, which had no reader at its end")
