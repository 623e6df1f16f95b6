"""`Permits`: at most n flows at once, and `Rate`: at most n begun in a time, on any loops and threads together.

    a   [======]|
    b   .......[==]|        n = 1: b waits in line, then begins
    c   ....x               disposed while it waits: out of the line at once
    d   ..........[=]|      first come, first served

A permit is given back when what it was for has really ended: when a disposed task has run its `finally` blocks, and
when a blocking call that was left behind returns. Nobody but those in line waits for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from reactivex import abc

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.in_flight import InFlight
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, attach
from agentscope_rx.reactive.kernel.one_shot_event import OneShotEvent
from agentscope_rx.reactive.kernel.operator import Producer
from agentscope_rx.reactive.kernel.scope import Scope
from agentscope_rx.reactive.limiter import Charge, Counted, Gate, Lease, Paced, Request

T = TypeVar("T")


class PermitStatistics(NamedTuple):
    """How many permits there are, how many are held, and how many flows wait for one."""

    limit: int
    held: int
    waiting: int


class Permits(Counted):
    """`limit` permits, for flows of any loop and thread. `shared` ones are kept for nobody: see `gate`."""

    __slots__ = ()

    def __init__(self, limit: int, *, shared: bool = False) -> None:
        if type(limit) is not int or limit < 1:
            raise ConfigurationError(f"The number of permits must be a whole number of at least 1, not {limit!r}.")
        super().__init__(limit, shared=shared)

    def around(self, source: abc.ObservableBase[T]) -> Flow[T]:
        """Begins the source when there is a permit for it, and gives the permit back when it has ended.

        Signals: the source's.
        Cancels: the wait or the source; the permit is given back when the source's clean-up has run.
        """
        return admitted((self,), lambda queued: source)

    def statistics(self) -> PermitStatistics:
        """The numbers of this moment; from any thread."""
        return PermitStatistics(self.limit, len(self.held), len(self.line))


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `limit` begun in any `per` seconds: a burst of `limit` may come at once, and then nothing for a while.

    For an even pace say `Rate(1, per=6)` and not `Rate(10, per=60)`.
    """

    limit: int
    per: float

    def __post_init__(self) -> None:
        if type(self.limit) is not int or self.limit < 1:
            raise ConfigurationError(f"Rate: limit must be a whole number of at least 1, not {self.limit!r}.")
        number = isinstance(self.per, (int, float)) and not isinstance(self.per, bool)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not number or not 0 < self.per < float("inf"):
            raise ConfigurationError(f"Rate: per must be more than 0 seconds, not {self.per!r}.")

    def gate(self) -> Gate:
        """Where this rate is kept, by all who go through it."""
        return Paced(self.limit, self.per)


def admitted(
    gates: Sequence[Gate],
    use: Callable[[float], abc.ObservableBase[T]],
    *,
    stop: Sequence[OneShotEvent] = (),
    urgent: bool = False,
    charge: Charge | None = None,
    waiting: Callable[[], T] | None = None,
) -> Flow[T]:
    """Emits what `use(seconds waited)` emits, which begins when all gates have room; at once if they have it now.

    `urgent`: nothing is kept from it for those who wait longer; for one who holds what they wait for. `charge` is what
    it takes of a `Budget` among the gates. If it has to wait, `waiting()` is emitted first.

    Signals: those of `use`. Completion alone if one of the `stop` signals fires before it has begun.
    Cancels: the wait or the flow; the gates' room is given back when all that the flow has begun has ended.
    """

    return Producer(partial(_Admission, gates, stop, urgent, charge, waiting), use)


class _Admission(OperatorSink, Generic[T]):
    __slots__ = (
        "_asked",
        "_forget",
        "_lease",
        "_request",
        "_scope",
        "_sink",
        "_stop",
        "_timer",
        "_use",
        "_waiting",
        "_work",
        "on_next",
    )

    def __init__(
        self,
        gates: Sequence[Gate],
        stop: Sequence[OneShotEvent],
        urgent: bool,
        charge: Charge | None,
        waiting: Callable[[], T] | None,
        sink: Sink[T],
        scope: Scope,
    ) -> None:
        self._upstream = None
        # or ended
        self.disposed = False
        self._sink = sink
        self.on_next = sink.on_next
        self._scope = scope
        self._use: Callable[[float], abc.ObservableBase[T]]
        self._stop = stop
        self._forget: list[Callable[[], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._asked = scope.loop.time()
        self._lease: Lease | None = None
        self._work: InFlight | None = None
        self._request: Request | None = Request(gates, scope.loop, self._woken, self._rewound, urgent, charge)
        self._waiting = waiting

    def start(self, use: Callable[[float], abc.ObservableBase[T]]) -> None:
        """Begin, or wait."""
        self._use = use
        if any(signal.fired for signal in self._stop):
            self._stopped()
            return
        assert self._request is not None
        lease = self._request.enter()
        if lease is not None:
            self._begin(lease)
            return
        self._forget = [signal.listen(self._stopped) for signal in self._stop]
        if self._waiting is not None:
            self.on_next(self._waiting())
        self._wind()

    # --- the gates' side: any thread ---

    def _woken(self) -> None:
        if self._scope.loop.is_closed():
            # nobody will hear of it
            self._give_back()
        else:
            self._scope.call_from_thread(self._let_through)

    def _rewound(self) -> None:
        self._scope.call_from_thread(self._rewind)

    def _give_back(self) -> None:
        request, self._request = self._request, None
        lease = None if request is None else request.leave()
        if lease is not None:
            lease.drop()

    # --- the loop's side ---

    def _wind(self) -> None:
        if self._request is None or self._timer is not None:
            return
        delay = self._request.wind()
        if delay > 0:
            self._timer = self._scope.call_later(delay, self._ring)

    def _rewind(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._wind()

    def _ring(self) -> None:
        self._timer = None
        if self._request is not None:
            self._request.ring()
            self._wind()

    def _let_through(self) -> None:
        lease = None if self._request is None else self._request.leave()
        if lease is not None:
            self._begin(lease)

    def _begin(self, lease: Lease) -> None:
        self._wait_no_more()
        self._request = None
        self._lease = lease
        inner = self._scope.child()
        work = self._work = inner.work
        lease.outer, work.lease = work.lease, lease
        try:
            source = self._use(self._scope.loop.time() - self._asked)
        except Exception as error:
            self.on_error(error)
            return
        attach(source, self, inner)

    def _stopped(self) -> None:
        if self._request is not None:
            self.dispose()
            self._sink.on_completed()

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._end()
        self._sink.on_error(error)

    def on_completed(self) -> None:
        self._upstream = None
        self._end()
        self._sink.on_completed()

    def dispose(self) -> None:
        super().dispose()
        self._end()

    def _end(self) -> None:
        self.disposed = True
        self._wait_no_more()
        self._give_back()
        lease, self._lease = self._lease, None
        if lease is not None and self._work is not None:
            self._work.when_idle(lease.drop)

    def _wait_no_more(self) -> None:
        for forget in self._forget:
            forget()
        self._forget = []
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
