"""`HubLog`: the events of a hub in the order in which they have happened, for readers that come late or fall behind.

    places taken           0 joined   1 said   2 said   3 left
    known in this order    0          2        1        3
    in the log             0 joined            1 said, 2 said   3 left

A place is taken when something happens; its event is known when all have heard. The log is a `ReplayLog` on the loop of
its first use; events come from any thread.
"""

from __future__ import annotations

import time
from dataclasses import replace

from agentscope_rx.events import HubEvent
from agentscope_rx.reactive import Flow, Scope, SourceCancelledError, catch, from_callable, just, on_loop
from agentscope_rx.reactive.kernel.forking import new_lock
from agentscope_rx.reactive.kernel.observer import BooleanDisposable, Sink, attach
from agentscope_rx.reactive.log_readers import LogFollower
from agentscope_rx.reactive.replay_log import ReplayLog


class HubLog:
    """Keeps the last `capacity` events of a hub, and those that a reader has yet to read."""

    __slots__ = ("_closing", "_draining", "_known", "_lock", "_log", "_next", "_sink", "_taken")

    def __init__(self, name: str, capacity: int) -> None:
        self._lock = new_lock()
        self._known: dict[int, HubEvent] = {}
        self._taken = 0
        self._next = 0
        self._closing = False
        self._draining = False
        self._sink: Sink[HubEvent] | None = None
        self._log: ReplayLog[HubEvent] = ReplayLog(capacity, where=f"hub {name!r}")
        self._log.open(Flow(self._connect))

    @property
    def closed(self) -> bool:
        """True once no more places are taken."""
        return self._closing

    def take(self) -> int:
        """A place for an event that is not known yet."""
        with self._lock:
            self._taken += 1
            return self._taken - 1

    def put(self, place: int, event: HubEvent) -> None:
        """The event of this place. From any thread."""
        with self._lock:
            self._known[place] = replace(event, seq=place, timestamp=time.time())
        self._wake()

    def seal(self) -> None:
        """Take no more places: the log ends when all events are known. It signals nothing itself."""
        with self._lock:
            self._closing: bool = True

    def close(self) -> None:
        """`seal`, and end now if all events are known."""
        self.seal()
        self._wake()

    def events(self) -> Flow[HubEvent]:
        """The events that are kept, then the live ones.

        Signals: the events in order of their places; completion after `close`.
        Cancels: this subscription.
        """
        return Flow(self._read)

    def room(self) -> Flow[None] | None:
        """None; or, if a reader that pulls is too far behind, the wait for it.

        Signals: one None.
        Cancels: the waiting.
        """
        demand, loop = self._log.demand, self._log.scope.loop
        if demand.ready or loop.is_closed():
            return None
        # a loop that is closed has no readers
        return on_loop(from_callable(demand.wait), loop).pipe(catch(lambda error: just(None)))

    # --- on the loop of the log -----------------------------------------------------------------------------------

    def _connect(self, sink: Sink[HubEvent], scope: Scope) -> None:
        sink.on_subscribe(BooleanDisposable())
        self._sink = sink
        self._drain()

    def _wake(self) -> None:
        if self._log.scope.is_here():
            self._drain()
        else:
            self._log.scope.call_from_thread(self._drain)

    def _drain(self) -> None:
        if self._draining or self._sink is None:
            return
        self._draining = True
        try:
            while (event := self._pop()) is not None:
                self._sink.on_next(event)
        finally:
            self._draining = False
        with self._lock:
            over = self._closing and self._next == self._taken
        if over:
            sink, self._sink = self._sink, None
            sink.on_completed()

    def _pop(self) -> HubEvent | None:
        with self._lock:
            event = self._known.pop(self._next, None)
            self._next += event is not None
        return event

    def _read(self, sink: Sink[HubEvent], scope: Scope) -> None:
        log = self._log
        if log.scope.loop.is_closed():
            # it changes no more
            log.fail(SourceCancelledError("The event loop of the hub's log was closed before the hub was left."))
            self._follow(sink, scope)
        else:
            attach(on_loop(Flow(self._follow), log.scope.loop), sink, scope)

    def _follow(self, sink: Sink[HubEvent], scope: Scope) -> None:
        follower = LogFollower(self._log, self._log.first, sink, scope)
        sink.on_subscribe(follower)
        if not follower.disposed:
            self._log.join(follower)
            follower.begin()
