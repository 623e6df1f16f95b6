"""What lets flows begin: gates with room for some at a time, the line before them, and who is through.

    enter(request)   all its gates have room -> through, with a `Lease`; else it waits in the line of each
    lease.drop()     its room is given back, and who fits now is let through, the longest waiting first

A request goes through all its gates at one moment and holds none of them while it waits, so nothing is withheld from
those who could begin, and nobody waits for each other in a circle. Somebody behind may pass one whose other gates are
full, but not for ever: one that has been passed often keeps its own gates for itself.

All of it is for any thread and any loop, under one lock that is held for no longer than it takes to look.
"""

from __future__ import annotations

import heapq
import itertools
import time
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import ClassVar, Generic, TypeVar
from weakref import WeakKeyDictionary

from agentscope_rx.reactive.kernel.forking import call_after_fork, new_lock
from agentscope_rx.reactive.kernel.in_flight import Held
from agentscope_rx.reactive.kernel.scope import clock_of

S = TypeVar("S")

PASSED = 16
"""How often somebody behind may pass a request before the gates that are its own are kept for it."""
LOCK = new_lock()
LOOK_SECONDS = 1.0
"""How often one who waits for those of another loop looks whether that has been closed without a word to them."""
EXACT = 1e-9
_SYSTEM_CLOCK = time.monotonic
_number_of = attrgetter("number")
_numbers = itertools.count()


class Charge:
    """How much of a `Budget` a request takes: an estimate at first, see `Budget.correct`."""

    __slots__ = ("amount", "at")

    def __init__(self, amount: float) -> None:
        self.amount = amount
        self.at = 0.0


class Gate:
    """Room for some at a time. `shared`: by requests that have narrower gates besides, so it is kept for nobody."""

    __slots__ = ("__weakref__", "claim", "line", "shared")
    by_clock: ClassVar[bool] = False
    """Whether room comes with time, without a word to those in line."""

    def __init__(self, *, shared: bool = False) -> None:
        self.line: dict[Request, None] = {}
        self.claim: Request | None = None
        self.shared = shared
        call_after_fork(self)

    def after_fork(self) -> None:
        """Those in line, and those through, are flows of the parent."""
        self.line.clear()
        self.claim = None

    def full(self) -> bool:
        """Whether there is no room for anybody, whatever their clock."""
        return False

    def wait(self, loop: AbstractEventLoop, charge: Charge | None = None) -> float:
        """Seconds by this loop's clock until there may be room for this; 0 if time does not matter."""
        return 0.0

    def has_room(self, loop: AbstractEventLoop, charge: Charge | None = None) -> bool:
        """Whether a request of this loop would fit."""
        return not self.full() and self.wait(loop, charge) <= 0

    def take(self, lease: Lease) -> None:
        """Somebody is through."""

    def give(self, lease: Lease) -> None:
        """Somebody is done."""

    def left_behind(self, loop: AbstractEventLoop) -> Iterable[Lease]:
        """Those through whose loops, others than this one, have been closed without a word to them."""
        return ()

    def abroad(self, loop: AbstractEventLoop) -> bool:
        """Whether it is full, and some of those through are of other loops than this one."""
        return False


class Counted(Gate):
    """Room for `limit` at once."""

    __slots__ = ("held", "limit")

    def __init__(self, limit: int, *, shared: bool = False) -> None:
        super().__init__(shared=shared)
        self.limit = limit
        self.held: dict[Lease, None] = {}

    def after_fork(self) -> None:
        super().after_fork()
        self.held.clear()

    def full(self) -> bool:
        return len(self.held) >= self.limit

    def take(self, lease: Lease) -> None:
        self.held[lease] = None

    def give(self, lease: Lease) -> None:
        self.held.pop(lease, None)

    def left_behind(self, loop: AbstractEventLoop) -> Iterable[Lease]:
        if not self.full():
            return ()
        return [lease for lease in self.held if lease.loop is not loop and lease.stranded()]

    def abroad(self, loop: AbstractEventLoop) -> bool:
        return self.full() and any(lease.loop is not loop for lease in self.held)


class ByClock(Generic[S]):
    """A state for all loops on the system's clock together, and one for each loop that has a clock of its own."""

    __slots__ = ("_by_loop", "_make", "_shared")

    def __init__(self, make: Callable[[], S]) -> None:
        self._make = make
        self._shared = make()
        self._by_loop: WeakKeyDictionary[AbstractEventLoop, tuple[Callable[[], float], S]] = WeakKeyDictionary()

    def of(self, loop: AbstractEventLoop) -> tuple[Callable[[], float], S]:
        """The loop's clock, and the state by it."""
        found = self._by_loop.get(loop)
        if found is None:
            clock, system = clock_of(loop), _SYSTEM_CLOCK
            # a loop in C (uvloop) has a clock of its own that tells the same time
            same = clock is system or abs(clock() - system()) < 1.0
            found = self._by_loop[loop] = (system if same else clock, self._shared if same else self._make())
        return found

    @property
    def states(self) -> tuple[S, ...]:
        """All of them."""
        return (self._shared, *(state for _, state in self._by_loop.values()))


class Paced(Gate):
    """Room for `limit` beginnings in any `per` seconds."""

    __slots__ = ("_begun", "limit", "per")
    by_clock = True

    def __init__(self, limit: int, per: float) -> None:
        super().__init__()
        self.limit = limit
        self.per = per
        self._begun: ByClock[deque[float]] = ByClock(lambda: deque(maxlen=limit))

    def wait(self, loop: AbstractEventLoop, charge: Charge | None = None) -> float:
        clock, begun = self._begun.of(loop)
        if len(begun) < self.limit:
            return 0.0
        left = begun[0] + self.per - clock()
        return left if left > EXACT else 0.0

    def take(self, lease: Lease) -> None:
        clock, begun = self._begun.of(lease.loop)
        begun.append(clock())


class Request:
    """One who wants through. `granted` is set when it is let through; `wake` and `rewind` are told of it, elsewhere."""

    __slots__ = ("charge", "gates", "lease", "loop", "number", "passed", "rewind", "timed", "urgent", "wake")

    def __init__(
        self,
        gates: Sequence[Gate],
        loop: AbstractEventLoop,
        wake: Callable[[], object],
        rewind: Callable[[], object],
        urgent: bool = False,
        charge: Charge | None = None,
    ) -> None:
        self.gates = gates
        self.charge = charge
        self.loop = loop
        self.wake = wake
        self.rewind = rewind
        """Called, from any thread, when from now on it is time that matters: see `enter`."""
        self.urgent = urgent
        self.number = next(_numbers)
        self.passed = 0
        self.timed = False
        self.lease: Lease | None = None

    def enter(self) -> Lease | None:
        """Go through now, or stand in line."""
        self._clear()
        with LOCK:
            # the time of those in line may have come, and their timers not have rung yet (the first is asked, not all)
            told = serve([gate for gate in self.gates if gate.by_clock and gate.line and _fits(next(iter(gate.line)))])
            lease = self._through() if _fits(self) else None
            if lease is None:
                for gate in self.gates:
                    gate.line[self] = None
        tell(told)
        return lease

    def _clear(self) -> None:
        """Give back what nobody is left to give back."""
        with LOCK:
            abandoned = [lease for gate in self.gates for lease in gate.left_behind(self.loop)]
        for lease in abandoned:
            lease.drop()

    def leave(self) -> Lease | None:
        """Stand in line no more; gives the lease if it has been let through meanwhile, for the caller to drop."""
        with LOCK:
            lease, self.lease = self.lease, None
            if lease is not None:
                return lease
            freed = self._out()
            told = serve(freed)
        tell(told)
        return None

    def wind(self) -> float:
        """Seconds until it should `ring`, as time may let it through then; 0 if not: it is told if that changes."""
        with LOCK:
            if self.lease is not None:
                return 0.0
            delay = max(gate.wait(self.loop, self.charge) for gate in self.gates)
            self.timed = delay > 0
            if not self.timed and any(gate.abroad(self.loop) for gate in self.gates):
                return LOOK_SECONDS
            return delay

    def ring(self) -> None:
        """The time has come: let through who fits."""
        self._clear()
        with LOCK:
            self.timed = False
            told = serve([gate for gate in self.gates if not gate.full()])
        tell(told)

    # --- under the lock ---

    def _out(self) -> list[Gate]:
        freed: list[Gate] = []
        for gate in self.gates:
            gate.line.pop(self, None)
            if gate.claim is self:
                gate.claim = None
                freed.append(gate)
        return freed

    def _through(self) -> Lease:
        lease = Lease(self.gates, self.loop, self.charge)
        for gate in self.gates:
            gate.take(lease)
            head = next(iter(gate.line), None)
            if head is not None and head.number < self.number:
                head.passed += 1
                if head.passed >= PASSED:
                    for own in head.gates:
                        if not own.shared and own.claim is None:
                            own.claim = head
        return lease


class Lease:
    """Room in some gates, given back once: when the flow and all that it has begun on threads have let go of it."""

    __slots__ = ("_gates", "_users", "charge", "loop", "outer")

    def __init__(self, gates: Sequence[Gate], loop: AbstractEventLoop, charge: Charge | None = None) -> None:
        self._gates = gates
        self.charge = charge
        self._users = 1
        self.loop = loop
        self.outer: Held | None = None
        """That of the flow around this one, which what happens here keeps, too."""

    def hold(self) -> None:
        """A thread begins to use what the gates guard."""
        with LOCK:
            self._users += 1
        if self.outer is not None:
            self.outer.hold()

    def let_go(self) -> None:
        """A thread has done with it; called on any."""
        self.drop()
        if self.outer is not None:
            self.outer.let_go()

    def drop(self) -> None:
        """One has done with it; from any thread. After the last, who fits is let through."""
        with LOCK:
            self._users -= 1
            if self._users:
                return
            for gate in self._gates:
                gate.give(self)
            told = serve(self._gates)
        tell(told)

    def stranded(self) -> bool:
        """Whether nobody is left to drop it: its loop was closed, and no thread works for it."""
        return self._users == 1 and self.loop.is_closed()


def _fits(request: Request) -> bool:
    return all(
        gate.has_room(request.loop, request.charge) and (gate.claim is None or gate.claim is request or request.urgent)
        for gate in request.gates
    )


def serve(gates: Sequence[Gate]) -> list[Callable[[], object]]:
    """Let through who fits, the longest waiting first; gives whom to tell, once the lock is free."""
    told: list[Callable[[], object]] = []
    lines = [gate.line for gate in gates if gate.line]
    waiting: Iterable[Request] = ()
    if lines:
        waiting = tuple(lines[0]) if len(lines) == 1 else heapq.merge(*map(tuple, lines), key=_number_of)
    for request in waiting:
        if all(gate.full() for gate in gates):
            break
        if request.lease is not None or request not in request.gates[0].line:
            # stands in several of the lines
            continue
        if request.loop.is_closed():
            freed = request._out()
        elif _fits(request):
            freed = request._out()
            request.lease = request._through()
            told.append(request.wake)
        else:
            freed = []
            if not request.timed and any(gate.wait(request.loop, request.charge) > 0 for gate in request.gates):
                request.timed = True
                told.append(request.rewind)
        if freed:
            told += serve(freed)
    return told


def changed(gate: Gate) -> list[Callable[[], object]]:
    """Something has been learned that may bring the time of those in line nearer; gives whom to tell, as `serve`.

    The first of them wind their timers anew. That is enough: one that rings lets all others through who fit.
    """
    told = serve([gate])
    return told + [request.rewind for request in itertools.islice(gate.line, PASSED)]


def tell(told: Iterable[Callable[[], object]]) -> None:
    for call in told:
        call()
