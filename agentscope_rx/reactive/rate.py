"""`Semaphore`: at most n flows at once. `Rate`: at most n begin in a period. Both across all loops and threads.

    a   [======]|
    b   .......[==]|        n = 1: b waits in line, then begins
    c   ....x               disposed while it waits: out of the line at once
    d   ..........[=]|      first come, first served

A place is given back when all that it was taken for has ended: when a disposed task has run its `finally` blocks, and
when an abandoned blocking call returns. Only waiting flows wait for that.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from reactivex import abc

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.limiter import EPSILON, ByClock, Lease, Limiter, Tokens
from agentscope_rx.reactive.operators._admitted import admitted

T = TypeVar("T")


class SemaphoreStatistics(NamedTuple):
    """Counts of a semaphore: its places, those that are held, and the flows that wait for one."""

    limit: int
    held: int
    waiting: int


class Semaphore(Limiter):
    """Room for `limit` flows at once, of any loop and thread. A `shared` one is never reserved for a waiting flow."""

    __slots__ = ("_loop", "held", "limit")

    def __init__(self, limit: int, *, shared: bool = False) -> None:
        if type(limit) is not int or limit < 1:
            raise ConfigurationError(f"A semaphore's limit must be a whole number of at least 1, not {limit!r}.")
        super().__init__(shared=shared)
        self.limit: int = limit
        self.held: dict[Lease, None] = {}
        # the loop of all leases; None if there are none, or if they have been of several
        self._loop: AbstractEventLoop | None = None

    def around(self, source: abc.ObservableBase[T]) -> Flow[T]:
        """Begins the source when there is room, and gives the room back when the source has ended.

        Signals: those of the source.
        Cancels: the wait or the source; the room is given back when the source's clean-up has ended.
        """
        return admitted((self,), lambda queued: source)

    def statistics(self) -> SemaphoreStatistics:
        """The counts of this moment; from any thread."""
        return SemaphoreStatistics(self.limit, len(self.held), len(self.line))

    def after_fork(self) -> None:
        super().after_fork()
        self.held.clear()
        self._loop = None

    def full(self) -> bool:
        return len(self.held) >= self.limit

    def has_room(self, loop: AbstractEventLoop, tokens: Tokens | None = None) -> bool:
        return len(self.held) < self.limit

    def take(self, lease: Lease) -> None:
        if not self.held:
            self._loop = lease.loop
        elif self._loop is not lease.loop:
            self._loop = None
        self.held[lease] = None

    def give(self, lease: Lease) -> None:
        self.held.pop(lease, None)
        if not self.held:
            self._loop = None

    def held_elsewhere(self, loop: AbstractEventLoop) -> Sequence[Lease]:
        if self._loop is loop:
            return ()
        return [lease for lease in self.held if lease.loop is not loop] if self.full() else ()


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `limit` begun in any `per` seconds: a burst of `limit` may come at once, and then nothing for a while.

    For an even pace use `Rate(1, per=6)` and not `Rate(10, per=60)`.
    """

    limit: int
    per: float

    def __post_init__(self) -> None:
        if type(self.limit) is not int or self.limit < 1:
            raise ConfigurationError(f"Rate: limit must be a whole number of at least 1, not {self.limit!r}.")
        number = isinstance(self.per, (int, float)) and not isinstance(self.per, bool)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not number or not 0 < self.per < float("inf"):
            raise ConfigurationError(f"Rate: per must be more than 0 seconds, not {self.per!r}.")

    def limiter(self) -> Limiter:
        """A limiter that keeps this rate for all flows that use it."""
        return RateLimit(self.limit, self.per)


class RateLimit(Limiter):
    """Room for `limit` beginnings in any `per` seconds."""

    __slots__ = ("_begun", "limit", "per")
    by_clock = True

    def __init__(self, limit: int, per: float) -> None:
        super().__init__()
        self.limit: int = limit
        self.per: float = per
        self._begun: ByClock[deque[float]] = ByClock(lambda: deque(maxlen=limit))

    def wait(self, loop: AbstractEventLoop, tokens: Tokens | None = None) -> float:
        clock, begun = self._begun.of(loop)
        if len(begun) < self.limit:
            return 0.0
        left = begun[0] + self.per - clock()
        return left if left > EPSILON else 0.0

    def take(self, lease: Lease) -> None:
        clock, begun = self._begun.of(lease.loop)
        begun.append(clock())
