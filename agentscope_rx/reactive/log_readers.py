"""The readers of a `ReplayLog`: one that pulls, and one that pushes to a subscriber.

| reader        | for                     | slows the run                                                              |
|---------------|-------------------------|----------------------------------------------------------------------------|
| `LogReader`   | `async for`, a protocol | once it is the log's capacity behind                                       |
| `LogFollower` | a subscription          | while its subscriber withholds demand; never if that has endless demand    |

Each has a position of its own: the log keeps what a reader has yet to read, and no reader waits for another one.

The log counts its readers by position, so that it knows the slowest one without asking them all. It leaves out the
followers that have all values, which are *live*: it hands them each new value itself, in one loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Generic, Protocol, TypeVar, cast

from agentscope_rx.reactive.kernel.demand import Demand
from agentscope_rx.reactive.kernel.observer import Sink
from agentscope_rx.reactive.kernel.one_shot_event import OneShotEvent
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")
T_log = TypeVar("T_log")
R = TypeVar("R")


class Reader(Protocol):
    """One reader, as its log sees it. `position` is the number of the value that it reads next."""

    @property
    def position(self) -> int: ...

    @property
    def queued(self) -> int:
        """The number of values that it has taken and its consumer has not."""
        ...

    def wake(self) -> None:
        """The end has come."""
        ...


class Log(Protocol[T_log]):
    """A log, as its readers see it."""

    first: int
    end: int
    scope: Scope
    ended: OneShotEvent
    waiting: list[asyncio.Future[None]]
    stalled: int
    pushed: Callable[[T_log], object] | None

    @property
    def values(self) -> Sequence[T_log]: ...

    def leave(self, reader: Reader) -> None: ...

    def settle(self) -> None: ...

    def count(self, position: int) -> None: ...

    def moved(self, position: int) -> None: ...

    def caught_up(self, follower: LogFollower[T_log]) -> None: ...

    def failure(self) -> Exception | None: ...


class LogReader(AsyncIterator[T], Generic[T]):
    """One reader's position in a log. For one consumer at a time; cancelling it loses no value.

    It does not raise the error at the end of the log if `reported()`: a value has reported it already.
    """

    __slots__ = ("_closed", "_log", "_reported", "_waiter", "position")

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
        log = self._log
        while not self._closed:
            if self.position < log.end:
                return True
            if log.ended.fired:
                error = log.failure()
                if error is not None and not (self._reported is not None and self._reported()):
                    raise error
                return False
            self._waiter = waiter = log.scope.loop.create_future()
            log.waiting.append(waiter)
            try:
                await waiter
            finally:
                self._waiter = None
                # (one that the log has set is not in there, and to look would be to ask all readers)
                if (self._closed or not waiter.done() or waiter.cancelled()) and waiter in log.waiting:
                    log.waiting.remove(waiter)
        return False

    def take(self) -> T:
        """The next value; `wait()` must have returned True."""
        log, position = self._log, self.position
        value = log.values[position - log.first]
        self.position = position + 1
        if not self._closed:
            log.moved(position)
        return value

    async def __anext__(self) -> T:
        # without a coroutine for what is there already
        if (self._closed or self._waiter is not None or self.position >= self._log.end) and not await self.wait():
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


class LogFollower(Generic[T]):
    """Pushes the values of a log to a sink while the subscriber has demand, then the end of the log.

    It is the sink's disposable. Its work is on the loop of the log, which is the subscriber's, too. An exception that
    gets out of the sink ends this subscription only.

    | state       | its values come from                    | until                                              |
    |-------------|-----------------------------------------|----------------------------------------------------|
    | catching up | `wake`, from its position to the end    | it has all, and is live; or demand is withheld     |
    | live        | the log, as they come                   | demand is withheld                                 |
    | stalled     | nowhere                                 | demand is ready again, and it catches up           |
    """

    __slots__ = (
        "_demand",
        "_forget",
        "_handle",
        "_log",
        "_position",
        "_pushing",
        "_scope",
        "_sink",
        "_stalled",
        "disposed",
        "due",
        "push",
    )

    def __init__(self, log: Log[T], position: int, sink: Sink[R], scope: Scope) -> None:
        self._log = log
        self._position = position
        self._sink = cast("Sink[object]", sink)
        self._scope = scope
        self._demand: Demand | None = scope.demand
        self._forget: Callable[[], None] | None = None
        self._handle: asyncio.Handle | None = None
        # until `begin`, and while it catches up
        self._pushing = True
        self._stalled = False
        self.disposed: bool = False
        self.due: int = -1
        """While it is live, the number of the value that the log hands it next; else -1."""
        self.push: Callable[[object], object] = self._sink.on_next if self._demand is None else self._push
        """For the log: takes the value that is due, of which `due` tells already that it was handed over."""

    @property
    def position(self) -> int:
        """The number of the value that it pushes next."""
        return self._position if self.due < 0 else self.due

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
        """Catch up, unless that is under way; at the end of the log, end."""
        if self._pushing or self.disposed:
            return
        log, demand = self._log, self._demand
        self._pushing = True
        try:
            while not self.disposed:
                position = self.position
                behind = position < log.end
                if not behind and log.ended.fired:
                    self._end()
                elif demand is not None and not demand.ready:
                    self._stall(demand)
                    return
                elif not behind:
                    if self.due < 0:
                        self.due = position
                        log.caught_up(self)
                    return
                else:
                    value = log.values[position - log.first]
                    self._position = position + 1
                    log.moved(position)
                    self._sink.on_next(value if log.pushed is None else log.pushed(value))
        except BaseException as error:
            self.fail(error)
        finally:
            self._pushing = False

    def fail(self, error: BaseException) -> None:
        """End, as this got out of the sink."""
        self.dispose()
        # not into the run: through the loop, as an exception of a callback of the loop's own
        self._scope.call_soon(lambda: _throw(error))

    def _push(self, item: object) -> None:
        """Push a value to a subscriber that may withhold demand before it or with it."""
        demand = self._demand
        assert demand is not None
        if not demand.ready:
            self.due -= 1
            self._stall(demand)
            return
        self._sink.on_next(item)
        if not (demand.ready or self.disposed):
            self._stall(demand)

    def _stall(self, demand: Demand) -> None:
        if not self._stalled:
            self._rest()
            self._stalled = True
            self._log.stalled += 1
            self._forget = demand.when_ready(self._resumed)
            self._log.settle()

    def _rest(self) -> None:
        """Be live no longer: the log counts the position again."""
        if self.due >= 0:
            self._position, self.due = self.due, -1
            self._log.count(self._position)

    def _unstall(self) -> None:
        if self._stalled:
            self._stalled = False
            self._log.stalled -= 1

    def _resumed(self) -> None:
        self._forget = None
        # through the loop: not inside of the consumer's pull, nor in its context
        self._handle = self._scope.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._handle = None
        self._unstall()
        self.wake()
        self._log.settle()

    def _end(self) -> None:
        self.disposed = True
        error = self._log.failure()
        self._leave()
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
        self._leave()
        if log.ended.fired and not had_ended:
            work.begin()
            log.scope.work.when_idle(work.end)

    def _leave(self) -> None:
        self._rest()
        self._unstall()
        self._log.leave(self)


def _throw(error: BaseException) -> None:
    raise error
