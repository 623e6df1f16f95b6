"""The readers of a `ReplayLog`: one that pulls, and one that pushes to a subscriber.

| reader        | for                     | slows the run                                                              |
|---------------|-------------------------|----------------------------------------------------------------------------|
| `LogReader`   | `async for`, a protocol | once it is the log's capacity behind                                       |
| `LogFollower` | a subscription          | while its subscriber withholds demand; never if that has endless demand    |

Each has a position of its own: the log keeps what a reader has yet to read, and no reader waits for another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Generic, Protocol, TypeVar

from agentscope_rx.reactive.kernel.demand import Demand
from agentscope_rx.reactive.kernel.observer import Sink
from agentscope_rx.reactive.kernel.one_shot_event import OneShotEvent
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")


class Reader(Protocol):
    """One reader, as its log sees it. `position` is the number of the value that it reads next."""

    position: int
    stalled: bool

    @property
    def queued(self) -> int:
        """The number of values that it has taken and its consumer has not."""
        ...

    def wake(self) -> None:
        """There are new values, or the end has come."""
        ...


class Log(Protocol[T_co]):
    """A log, as its readers see it."""

    first: int
    end: int
    scope: Scope
    ended: OneShotEvent

    @property
    def values(self) -> Sequence[T_co]: ...

    def leave(self, reader: Reader) -> None: ...

    def settle(self) -> None: ...

    def failure(self) -> Exception | None: ...


class LogReader(AsyncIterator[T], Generic[T]):
    """One reader's position in a log. For one consumer at a time; cancelling it loses no value.

    It does not raise the error at the end of the log if `reported()`: a value has reported it already.
    """

    __slots__ = ("_closed", "_log", "_reported", "_waiter", "position")

    stalled = False
    queued = 0

    def __init__(self, log: Log[T], position: int, reported: Callable[[], bool] | None = None) -> None:
        self._log = log
        self._closed = False
        self._reported = reported
        self._waiter: asyncio.Future[None] | None = None
        self.position: int = position

    @property
    def waiting(self) -> int:
        """The number of values that can be read without waiting."""
        return self._log.end - self.position

    async def wait(self) -> bool:
        """True when there is a value to read, False at the end; raises the error of a failed run."""
        if self._waiter is not None:
            raise RuntimeError("A reader is for one consumer: a second value was requested before the first had come.")
        while not self._closed:
            if self.waiting:
                return True
            if self._log.ended.fired:
                error = self._log.failure()
                if error is not None and not (self._reported is not None and self._reported()):
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


class LogFollower(Generic[T, R]):
    """Pushes the values of a log to a sink while the subscriber has demand, then the end of the log.

    It is the sink's disposable. Its work is on the loop of the log, which is the subscriber's, too. An exception that
    gets out of the sink ends this subscription only.
    """

    __slots__ = (
        "_convert",
        "_demand",
        "_forget",
        "_handle",
        "_log",
        "_pushing",
        "_scope",
        "_sink",
        "disposed",
        "position",
        "stalled",
    )

    def __init__(self, log: Log[T], position: int, convert: Callable[[T], R], sink: Sink[R], scope: Scope) -> None:
        self._log = log
        self._convert = convert
        self._sink = sink
        self._scope = scope
        self._demand: Demand | None = scope.demand
        self._forget: Callable[[], None] | None = None
        self._handle: asyncio.Handle | None = None
        # until `begin`, and while a value is handed over
        self._pushing = True
        self.position: int = position
        self.disposed = False
        self.stalled = False

    @property
    def queued(self) -> int:
        """The number of values in the buffer of the subscriber."""
        return 0 if self._demand is None else self._demand.depth

    def begin(self) -> None:
        """Push what the log has: now, or on the loop's next turn if `subscribe` has not returned (see `next_turn`)."""
        if self._scope.work.outermost().subscribing:
            self._handle = self._scope.call_soon(self._begin)
        else:
            self._begin()

    def _begin(self) -> None:
        self._handle = None
        self._pushing = False
        self.wake()
        self._log.settle()

    def wake(self) -> None:
        """Push the new values, unless that is under way."""
        if self._pushing or self.disposed:
            return
        log, demand = self._log, self._demand
        self._pushing = True
        try:
            while not self.disposed:
                behind = self.position < log.end
                if not behind and log.ended.fired:
                    self._end()
                elif demand is not None and not demand.ready:
                    self._stall(demand)
                    return
                elif not behind:
                    return
                else:
                    value = log.values[self.position - log.first]
                    self.position += 1
                    self._sink.on_next(self._convert(value))
        except BaseException as error:
            failure = error
            self.dispose()
            # not into the run: through the loop, as an exception of a callback of the loop's own
            self._scope.call_soon(lambda: _throw(failure))
        finally:
            self._pushing = False

    def _stall(self, demand: Demand) -> None:
        if not self.stalled:
            self.stalled: bool = True
            self._forget = demand.when_ready(self._resumed)
            self._log.settle()

    def _resumed(self) -> None:
        self._forget = None
        # through the loop: not inside of the consumer's pull, nor in its context
        self._handle = self._scope.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._handle = None
        self.stalled = False
        self.wake()
        self._log.settle()

    def _end(self) -> None:
        self.disposed: bool = True
        error = self._log.failure()
        self._log.leave(self)
        if error is None:
            self._sink.on_completed()
        else:
            self._sink.on_error(error)

    def dispose(self) -> None:
        """Stop pushing. If the run stops with its last reader, its clean-up counts in the subscriber's scope."""
        if self.disposed:
            return
        self.disposed = True
        if self._forget is not None:
            self._forget()
        if self._handle is not None:
            self._handle.cancel()
        self._forget = self._handle = None
        log, work = self._log, self._scope.work
        had_ended = log.ended.fired
        log.leave(self)
        if log.ended.fired and not had_ended:
            work.begin()
            log.scope.work.when_idle(work.end)


def _throw(error: BaseException) -> None:
    raise error
