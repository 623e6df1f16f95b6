"""`Limiter`: lets flows begin while it has room, and queues the others.

    request.enter()    all its limiters have room: a `Lease`; else it waits in the line of each
    lease.release()    gives the room back, and lets waiting requests through, the longest waiting first

A request takes room in all its limiters at one moment and holds none while it waits. So requests never wait for each
other in a circle, and room is not kept from a request that could use it: a later request may pass one whose other
limiters are full. A request that was passed `MAX_PASSED` times gets its own limiters reserved.

Limiters: `Semaphore` and `RateLimit` (in `rate`), `TokenBudget` and `Cooldown` (in `budget`). All may be used from any
thread and any loop; they share one lock, which is held only for a look at the lines.

(aiolimiter and asyncio.Semaphore belong to one loop and cannot enter several limiters at one moment.)
"""

from __future__ import annotations

import heapq
import itertools
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import ClassVar, Generic, TypeVar
from weakref import WeakKeyDictionary

from agentscope_rx.reactive.kernel.deadlines import clock_of
from agentscope_rx.reactive.kernel.forking import call_after_fork, new_lock
from agentscope_rx.reactive.kernel.in_flight import Held
from agentscope_rx.reactive.kernel.runtime import LOST_LOOP_SECONDS

S = TypeVar("S")

MAX_PASSED = 16
"""How often later requests may pass a request before its own limiters are reserved for it."""
LOCK = new_lock()
EPSILON = 1e-9
_SYSTEM_CLOCK = time.monotonic
_number_of = attrgetter("number")
_numbers = itertools.count()


class Tokens:
    """How much of a `TokenBudget` a request takes: an estimate at first (see `TokenBudget.correct`)."""

    __slots__ = ("amount", "at")

    def __init__(self, amount: float) -> None:
        self.amount: float = amount
        self.at: float = 0.0


class Limiter:
    """Has room for some requests at a time.

    A `shared` limiter is never reserved for a waiting request: its users wait for other limiters, too.
    """

    __slots__ = ("__weakref__", "line", "reserved_for", "shared")
    by_clock: ClassVar[bool] = False
    """True if time alone makes room; only then `wait` is asked."""

    def __init__(self, *, shared: bool = False) -> None:
        self.line: dict[Request, None] = {}
        self.reserved_for: Request | None = None
        self.shared: bool = shared
        call_after_fork(self)

    def after_fork(self) -> None:
        """Drop the requests and leases, which are the parent's."""
        self.line.clear()
        self.reserved_for = None

    def full(self) -> bool:
        """True if there is no room on any loop."""
        return False

    def wait(self, loop: AbstractEventLoop, tokens: Tokens | None = None) -> float:
        """Seconds by this loop's clock until there may be room; 0 if time does not matter."""
        return 0.0

    def has_room(self, loop: AbstractEventLoop, tokens: Tokens | None = None) -> bool:
        """True if a request of this loop fits."""
        return not self.full() and self.wait(loop, tokens) <= 0

    def take(self, lease: Lease) -> None:
        """Count a lease."""

    def give(self, lease: Lease) -> None:
        """Count a lease off."""

    def held_elsewhere(self, loop: AbstractEventLoop) -> Sequence[Lease]:
        """The leases of other loops that keep a request of this loop waiting."""
        return ()


class ByClock(Generic[S]):
    """One state for all loops on the system's clock, and one for each loop that has a clock of its own."""

    __slots__ = ("_by_loop", "_make", "_shared")

    def __init__(self, make: Callable[[], S]) -> None:
        self._make = make
        self._shared = make()
        self._by_loop: WeakKeyDictionary[AbstractEventLoop, tuple[Callable[[], float], S]] = WeakKeyDictionary()

    def of(self, loop: AbstractEventLoop) -> tuple[Callable[[], float], S]:
        """The loop's clock, and the state by that clock."""
        found = self._by_loop.get(loop)
        if found is None:
            clock, system = clock_of(loop), _SYSTEM_CLOCK
            # a loop in C (uvloop) has a clock of its own that gives the same time
            same = clock is system or abs(clock() - system()) < 1.0
            found = self._by_loop[loop] = (system if same else clock, self._shared if same else self._make())
        return found

    @property
    def states(self) -> tuple[S, ...]:
        """All states."""
        return (self._shared, *(state for _, state in self._by_loop.values()))


class Request:
    """A flow that wants to begin. `wake` and `recheck` are called from any thread, after the lock was released."""

    __slots__ = ("lease", "limiters", "loop", "number", "passed", "recheck", "timed", "tokens", "urgent", "wake")

    def __init__(
        self,
        limiters: Sequence[Limiter],
        loop: AbstractEventLoop,
        wake: Callable[[], object],
        recheck: Callable[[], object],
        urgent: bool = False,
        tokens: Tokens | None = None,
    ) -> None:
        self.limiters: Sequence[Limiter] = limiters
        self.tokens: Tokens | None = tokens
        self.loop: AbstractEventLoop = loop
        self.wake: Callable[[], object] = wake
        """Called when the request has been let through: `leave()` returns the lease."""
        self.recheck: Callable[[], object] = recheck
        """Called when from now on the request waits for time to pass: `delay()` has changed."""
        self.urgent: bool = urgent
        self.number: int = next(_numbers)
        self.passed: int = 0
        self.timed = False
        self.lease: Lease | None = None

    def enter(self) -> Lease | None:
        """The lease if all limiters have room now; else the request waits in their lines."""
        due: list[Limiter] = []
        with LOCK:
            for limiter in self.limiters:
                # time may have made room for the first in line, whose timer has not fired yet
                if limiter.by_clock and limiter.line and _fits(next(iter(limiter.line))):
                    due.append(limiter)
            calls = serve(due) if due else []
            lease = self._through() if _fits(self) else None
            if lease is None:
                for limiter in self.limiters:
                    limiter.line[self] = None
        if calls:
            notify(calls)
        if lease is None and self._reclaim():
            with LOCK:
                lease, self.lease = self.lease, None
        return lease

    def leave(self) -> Lease | None:
        """Leave the lines; returns the lease if the request has been let through, for the caller to release."""
        with LOCK:
            lease, self.lease = self.lease, None
            if lease is not None:
                return lease
            calls = serve(self._out())
        notify(calls)
        return None

    def delay(self) -> float:
        """Seconds until `look()` is due; 0 if time does not matter, until `recheck` is called."""
        with LOCK:
            if self.lease is not None:
                return 0.0
            delay = 0.0
            for limiter in self.limiters:
                if limiter.by_clock:
                    delay = max(delay, limiter.wait(self.loop, self.tokens))
            self.timed = delay > 0
            if not self.timed and self._held_elsewhere():
                return LOST_LOOP_SECONDS
            return delay

    def look(self) -> None:
        """Let through the requests that fit by now."""
        self._reclaim()
        with LOCK:
            self.timed: bool = False
            calls = serve([limiter for limiter in self.limiters if not limiter.full()])
        notify(calls)

    def _reclaim(self) -> bool:
        """Release the leases of closed loops. True if there were any: that may have let this request through.

        A loop that was closed without its shutdown ends no run, so no flow is left there to release them. The only
        sign of it is `loop.is_closed()`, hence the poll. A waiting request of such a loop is dropped by `serve`.
        """
        with LOCK:
            held = self._held_elsewhere()
        stranded = [lease for lease in held if lease.is_stranded()] if held else ()
        for lease in stranded:
            lease.release()
        return bool(stranded)

    # --- under the lock ---

    def _held_elsewhere(self) -> Sequence[Lease]:
        found: Sequence[Lease] = ()
        for limiter in self.limiters:
            if held := limiter.held_elsewhere(self.loop):
                found = [*found, *held]
        return found

    def _out(self) -> list[Limiter]:
        """Remove the request from the lines; returns the limiters that were reserved for it."""
        freed: list[Limiter] = []
        for limiter in self.limiters:
            limiter.line.pop(self, None)
            if limiter.reserved_for is self:
                limiter.reserved_for = None
                freed.append(limiter)
        return freed

    def _through(self) -> Lease:
        lease = Lease(self.limiters, self.loop, self.tokens)
        for limiter in self.limiters:
            limiter.take(lease)
            head = next(iter(limiter.line), None)
            if head is not None and head.number < self.number:
                head.passed += 1
                if head.passed >= MAX_PASSED:
                    for own in head.limiters:
                        if not own.shared and own.reserved_for is None:
                            own.reserved_for = head
        return lease


class Lease:
    """Room in some limiters, given back once: when the flow and its calls on threads have released it."""

    __slots__ = ("_limiters", "_users", "loop", "outer", "tokens")

    def __init__(self, limiters: Sequence[Limiter], loop: AbstractEventLoop, tokens: Tokens | None = None) -> None:
        self._limiters = limiters
        self.tokens: Tokens | None = tokens
        self._users = 1
        self.loop: AbstractEventLoop = loop
        self.outer: Held | None = None
        """The lease of the flow around this one, which calls on threads hold, too."""

    def hold(self) -> None:
        """Add a user: a call on a thread."""
        with LOCK:
            self._users += 1
        if self.outer is not None:
            self.outer.hold()

    def let_go(self) -> None:
        """Remove the user that `hold` has added; from any thread."""
        self.release()
        if self.outer is not None:
            self.outer.let_go()

    def release(self) -> None:
        """Remove a user, from any thread. After the last the room is given back, and waiting requests are served."""
        with LOCK:
            self._users -= 1
            if self._users:
                return
            for limiter in self._limiters:
                limiter.give(self)
            calls = serve(self._limiters)
        if calls:
            notify(calls)

    def is_stranded(self) -> bool:
        """True if its loop was closed and no thread uses it."""
        return self._users == 1 and self.loop.is_closed()


def _fits(request: Request) -> bool:
    loop, tokens = request.loop, request.tokens
    # loops here and below, not generators: this is asked at each beginning and each end
    for limiter in request.limiters:
        if not limiter.has_room(loop, tokens):
            return False
        if not (limiter.reserved_for is None or limiter.reserved_for is request or request.urgent):
            return False
    return True


def _all_full(limiters: Sequence[Limiter]) -> bool:
    for limiter in limiters:  # noqa: SIM110
        if not limiter.full():
            return False
    return True


def _waits_for_time(request: Request) -> bool:
    for limiter in request.limiters:  # noqa: SIM110
        if limiter.by_clock and limiter.wait(request.loop, request.tokens) > 0:
            return True
    return False


def serve(limiters: Sequence[Limiter]) -> list[Callable[[], object]]:
    """Let waiting requests through that fit, the longest waiting first. Under the lock.

    Returns the functions to call, with `notify`, when the lock has been released.
    """
    lines: list[dict[Request, None]] = []
    for limiter in limiters:
        if limiter.line:
            lines.append(limiter.line)
    if not lines:
        return []
    calls: list[Callable[[], object]] = []
    waiting = tuple(lines[0]) if len(lines) == 1 else heapq.merge(*map(tuple, lines), key=_number_of)
    for request in waiting:
        if _all_full(limiters):
            break
        if request.lease is not None or request not in request.limiters[0].line:
            # it waits in several of the lines
            continue
        if request.loop.is_closed():
            freed = request._out()
        elif _fits(request):
            freed = request._out()
            request.lease = request._through()
            calls.append(request.wake)
        else:
            freed = []
            if not request.timed and _waits_for_time(request):
                request.timed = True
                calls.append(request.recheck)
        if freed:
            calls += serve(freed)
    return calls


def changed(limiter: Limiter) -> list[Callable[[], object]]:
    """The functions to call when a waiting request may go earlier than it knows, as `serve` returns them.

    Only the first in line set their timers anew: when one fires, it serves all others that fit.
    """
    calls = serve([limiter])
    return calls + [request.recheck for request in itertools.islice(limiter.line, MAX_PASSED)]


def notify(calls: Iterable[Callable[[], object]]) -> None:
    """Call the functions that `serve` has returned, without the lock."""
    for call in calls:
        call()
