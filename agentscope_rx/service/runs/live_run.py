"""`LiveRun`: one run with a log of its events, and the clients that follow it.

    add      nothing happens yet
    open     the run begins, at the first `follow`
    begun    its first event has come: it has an id
    ended    it completed, failed or was stopped; its log stays readable
    gone     nothing of it is under way any more

| `on_disconnect` | when the last client leaves     | what is kept of the log                                 |
|-----------------|---------------------------------|---------------------------------------------------------|
| `stop`          | the run is disposed             | nothing but what a client has yet to read               |
| `continue`      | the run goes on, its owner's    | the last `capacity` events, to be taken up again        |

Under both a client that reads slowly slows the run, once it is `capacity` events or `max_bytes` behind; what is kept is
bounded by both. See `ReplayLog`.
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
from agentscope_rx.reactive import OneShotEvent, concat_map, flow
from agentscope_rx.reactive.replay_log import LogReader, LogStatistics, ReplayLog
from agentscope_rx.service.failure import EventsGoneError, RunStoppedError
from agentscope_rx.service.protocols.sse_format import Frame, frames, last_frame

FOLLOWED = 64
"""How many events a client may be behind before the run waits for it."""
KEPT = 10_000
"""How many events are kept of a run that goes on without clients."""
MAX_LOG_BYTES = 16 * 1024 * 1024
"""How large the events may be that are kept of one run, as they go over the wire."""


class OnDisconnect(StrEnum):
    """What becomes of a run when its last client leaves."""

    STOP = "stop"
    CONTINUE = "continue"


OnDisconnectChoice = OnDisconnect | Literal["stop", "continue"]


class LiveRun:
    """A run that clients follow; for one loop. `agent` is who can be interrupted, if that is known; `admit` is asked
    whenever it is about to begin, and may refuse by what it raises."""

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
        self.on_disconnect = OnDisconnect(on_disconnect)
        self.agent = agent
        self._capacity = capacity or (FOLLOWED if self.on_disconnect is OnDisconnect.STOP else KEPT)
        self._max_bytes = max_bytes
        self._events = flow(events).take_over()
        self._admit = admit
        self._log: ReplayLog[Frame] | None = None
        self._first: Frame | None = None
        self._last: Frame | None = None
        self.opened = OneShotEvent()
        self.begun = OneShotEvent()
        self.ended = OneShotEvent()
        self.gone = OneShotEvent()

    @property
    def id(self) -> str | None:
        """The run's own id, once its first event has come."""
        return self._first.source.run_id if self._first is not None else None

    def follow(self, after: int | None = None) -> LogReader[Frame]:
        """Its events from the one after number `after` on, or from the first; begins the run if it has not begun.

        `EventsGoneError` if the log no longer holds one of them, `InvalidInputError` if there was no such event. Hand
        what you get to `leave` in the end.
        """
        if self._log is None:
            if after is not None:
                raise InvalidInputError(f"The run has not begun: there is no event {after} to go on from.")
            return self._open()
        return self._log.read(self._index(self._log, after))

    async def leave(self, reader: LogReader[Frame]) -> None:
        """The client reads no more. A run that stops then has been cleaned up when this returns."""
        reader.close()
        if self._log is not None and not self._log.readers and self.on_disconnect is OnDisconnect.STOP:
            await self.stop("Its last client left.")

    async def stop(self, reason: str = "It was asked to stop.") -> None:
        """End the run, with an `error` event for those who follow it, and wait for its clean-up."""
        self.dispose(reason)
        await self.idle()

    def dispose(self, reason: str) -> None:
        """`stop` without waiting: the clean-up has begun when this returns."""
        if self._log is None or self.ended.fired:
            return
        error = RunStoppedError(f"The run was stopped. {reason}")
        if self._last is None or self._first is None:
            self._log.dispose(error=error)
        else:
            # (the last one may be a sub-agent's)
            self._log.dispose(last_frame(error, self._last._replace(source=self._first.source)))

    async def idle(self) -> None:
        """Return when nothing of the run is under way: it has not begun, or it has ended and was cleaned up."""
        if self._log is not None:
            await self._log.idle()

    def interrupt(self, msg: Msg | str | None = None) -> bool:
        """Ask the run to end with a normal reply; False if it is over, or if no agent is known."""
        if self.agent is None or not self.begun.fired or self.ended.fired:
            return False
        # (an agent may be running in other conversations, too)
        return self.agent.interrupt(msg, run_id=self.id)

    def told(self, after: int | None) -> bool:
        """Whether the run is over and number `after` was its last event: there is nothing left to say."""
        return self.ended.fired and after is not None and after == self._log_end()

    def statistics(self) -> LogStatistics:
        """What the run has said, what is kept, and how far the slowest client is behind."""
        if self._log is None:
            return LogStatistics(0, 0, 0, self._capacity, 0, 0, False)
        return self._log.statistics()

    # --- within -------------------------------------------------------------------------------------------------

    def _open(self) -> LogReader[Frame]:
        if self._admit is not None:
            self._admit(self)
        self.opened.fire()
        # not before: a response may be made on another thread than it is sent from
        log: ReplayLog[Frame] = ReplayLog(self._capacity, weigh=_size, max_weight=self._max_bytes)
        self._log = log
        log.ended.listen(self._ended)
        # read from before the first signal, which may come while the log is being opened
        reader = log.read()
        log.open(frames(self._events).pipe(concat_map(self._note)))
        return reader

    def _note(self, frame: Frame) -> Frame:
        self._last = frame
        if self._first is None:
            self._first = frame
        self.begun.fire()
        return frame

    def _ended(self) -> None:
        self.ended.fire()
        if self._log is not None:
            self._log.scope.work.when_idle(self.gone.fire)

    def _log_end(self) -> int | None:
        # the log's own last frame may be one that only the service said
        values = self._log.values if self._log is not None else ()
        return values[-1].seq if values else None

    def _index(self, log: ReplayLog[Frame], after: int | None) -> int:
        if log.dropped is not None and (after is None or after < log.dropped.seq):
            raise EventsGoneError(self.id or "", after, log.values[0].seq if log.values else None)
        if after is None:
            return log.first
        last = self._log_end()
        if after > (last if last is not None else -1):
            raise InvalidInputError(f"Run {self.id} has said no event {after}; its last one is {last}.")
        return log.first + bisect_right(log.values, after, key=lambda frame: frame.seq)


def _size(frame: Frame) -> int:
    return len(frame.data)
