"""`LiveRun`: one run with a log of its events, and the clients that follow it.

    add      nothing happens yet
    open     the run begins, at the first `follow`
    begun    its first event has come: it has an id
    ended    it completed, failed or was stopped; its log stays readable
    gone     its clean-up has ended, too

| `on_disconnect` | when the last client leaves                   | what the log keeps                             |
|-----------------|-----------------------------------------------|------------------------------------------------|
| `stop`          | the run is disposed                           | only the events that a client has yet to read  |
| `continue`      | the run goes on until it ends or is stopped   | the last `capacity` events, for later clients  |

Under both a slow client slows the run once it is `capacity` events or `max_bytes` behind, because the log is bounded by
both. See `ReplayLog`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from enum import StrEnum
from typing import Literal

from reactivex import Observable

from agentscope_rx.agent import Agent
from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.events import Event
from agentscope_rx.messages import Msg
from agentscope_rx.reactive import OneShotEvent, concat_map, empty, flow
from agentscope_rx.reactive.replay_log import LogReader, LogStatistics, ReplayLog
from agentscope_rx.service.failure import EventsGoneError, RunStoppedError
from agentscope_rx.service.runs.event_log import LoggedEvent, record_events

FOLLOWED_EVENTS = 64
"""How many events a client may be behind before the run waits for it."""
KEPT_EVENTS = 10_000
"""How many events are kept of a run that goes on without clients."""
MAX_LOG_BYTES = 16 * 1024 * 1024
"""The size of the events that the log of a run keeps, as JSON."""


class OnDisconnect(StrEnum):
    """Stop a run, or let it continue, when its last client leaves."""

    STOP = "stop"
    CONTINUE = "continue"


OnDisconnectChoice = OnDisconnect | Literal["stop", "continue"]


class LiveRun:
    """A run that clients follow, on one loop.

    `agent` is the agent to interrupt. `admit` is called when the run is about to begin; it refuses by raising.
    """

    __slots__ = (
        "_admit",
        "_capacity",
        "_events",
        "_first",
        "_last",
        "_log",
        "_max_bytes",
        "agent",
        "begun",
        "ended",
        "gone",
        "on_disconnect",
        "opened",
    )

    def __init__(
        self,
        events: Observable[Event],
        *,
        on_disconnect: OnDisconnectChoice = OnDisconnect.STOP,
        capacity: int | None = None,
        max_bytes: int = MAX_LOG_BYTES,
        agent: Agent | None = None,
        admit: Callable[[LiveRun], None] | None = None,
    ) -> None:
        if on_disconnect not in tuple(OnDisconnect):
            raise ConfigurationError(f"on_disconnect must be 'stop' or 'continue', not {on_disconnect!r}.")
        if capacity is not None and capacity < 1:
            raise ConfigurationError(f"A log's capacity must be at least 1, not {capacity}.")
        if type(max_bytes) is not int or max_bytes < 1:
            raise ConfigurationError(f"max_bytes must be a whole number of at least 1, not {max_bytes!r:.60}.")
        self.on_disconnect: OnDisconnect = OnDisconnect(on_disconnect)
        self.agent: Agent | None = agent
        self._capacity = capacity or (FOLLOWED_EVENTS if self.on_disconnect is OnDisconnect.STOP else KEPT_EVENTS)
        self._max_bytes = max_bytes
        self._events: Observable[Event] = flow(events).take_over()
        self._admit = admit
        self._log: ReplayLog[LoggedEvent] | None = None
        self._first: LoggedEvent | None = None
        self._last: LoggedEvent | None = None
        self.opened: OneShotEvent = OneShotEvent()
        self.begun: OneShotEvent = OneShotEvent()
        self.ended: OneShotEvent = OneShotEvent()
        self.gone: OneShotEvent = OneShotEvent()

    @property
    def id(self) -> str | None:
        """The id of the run, once its first event was emitted."""
        return self._first.event.run_id if self._first is not None else None

    def follow(self, after: int | None = None) -> LogReader[LoggedEvent]:
        """A reader of the events after number `after`, or of all; begins the run if it has not begun.

        `EventsGoneError` if the log has dropped one of them, `InvalidInputError` if the run has no event `after`. Pass
        the reader to `leave` in the end.
        """
        if self._log is None:
            if after is not None:
                raise InvalidInputError(f"The run has not begun: there is no event {after} to resume after.")
            return self._open()
        return self._log.read(self._index(self._log, after))

    async def leave(self, reader: LogReader[LoggedEvent]) -> None:
        """Close the reader. If that stops the run, its clean-up has ended when this returns."""
        reader.close()
        if self._log is not None and not self._log.readers and self.on_disconnect is OnDisconnect.STOP:
            await self.stop("Its last client left.")

    async def stop(self, reason: str = "A stop was requested.") -> None:
        """End the run with an `error` event for its clients, and wait for its clean-up."""
        self.dispose(reason)
        await self.idle()

    def dispose(self, reason: str) -> None:
        """Like `stop`, without waiting: the clean-up has begun when this returns."""
        if self._log is None or self.ended.fired:
            return
        error = RunStoppedError(f"The run was stopped. {reason}")
        if self._last is None or self._first is None:
            self._log.dispose(error=error)
        else:
            # the last event may be a sub-agent's; the error is the outermost run's
            self._log.dispose(LoggedEvent.of_error(error, self._first.event.source, self._last.seq + 1))

    async def idle(self) -> None:
        """Return when the run has not begun, or has ended and was cleaned up."""
        if self._log is not None:
            await self._log.idle()

    def interrupt(self, msg: Msg | str | None = None) -> bool:
        """Interrupt the agent, so that the run ends with a normal reply; False if it has ended, or without `agent`."""
        if self.agent is None or not self.begun.fired or self.ended.fired:
            return False
        # the agent may have runs in other conversations
        return self.agent.interrupt(msg, run_id=self.id)

    def ended_at(self, after: int | None) -> bool:
        """True if the run has ended and `after` is the number of its last event: nothing follows it."""
        return self.ended.fired and after is not None and after == self._last_seq()

    def statistics(self) -> LogStatistics:
        """The numbers of emitted and kept events, and how far the slowest client is behind."""
        if self._log is None:
            return LogStatistics(0, 0, 0, self._capacity, 0, 0, False)
        return self._log.statistics()

    # --- internals ----------------------------------------------------------------------------------------------

    def _open(self) -> LogReader[LoggedEvent]:
        if self._admit is not None:
            self._admit(self)
        self.opened.fire()
        # not in __init__: a response may be sent from another thread than the one that made it
        log: ReplayLog[LoggedEvent] = ReplayLog(self._capacity, weigh=_json_size, max_weight=self._max_bytes)
        self._log = log
        log.ended.listen(self._ended)
        # before `open`, which may emit the first signals at once
        reader = log.read()
        events, self._events = self._events, empty()
        log.open(record_events(events).pipe(concat_map(self._note)))
        return reader

    def _note(self, logged: LoggedEvent) -> LoggedEvent:
        self._last = logged
        if self._first is None:
            self._first = logged
            self.begun.fire()
        return logged

    def _ended(self) -> None:
        self.ended.fire()
        if self._log is not None:
            self._log.scope.work.when_idle(self.gone.fire)

    def _last_seq(self) -> int | None:
        # not self._last: the log may end with an error of the service
        values = self._log.values if self._log is not None else ()
        return values[-1].seq if values else None

    def _index(self, log: ReplayLog[LoggedEvent], after: int | None) -> int:
        if log.dropped is not None and (after is None or after < log.dropped.seq):
            raise EventsGoneError(self.id or "", after, log.values[0].seq if log.values else None)
        if after is None:
            return log.first
        last = self._last_seq()
        if after > (last if last is not None else -1):
            raise InvalidInputError(f"Run {self.id} has no event {after}; its last one is {last}.")
        return log.first + bisect_right(log.values, after, key=lambda logged: logged.seq)


def _json_size(logged: LoggedEvent) -> int:
    return len(logged.json)
