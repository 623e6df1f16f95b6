"""`LiveRun`: a shared run as a service has it: it begins at its first client.

    add      nothing happens yet
    open     the run begins, at the first `follow`; a `RunHandle` has begun already
    begun    its first event has come: it has an id
    ended    it completed, failed or was stopped; its log stays readable
    gone     its clean-up has ended, too

| `on_disconnect` | when the last client leaves                   | what the log keeps                             |
|-----------------|-----------------------------------------------|------------------------------------------------|
| `stop`          | the run is disposed                           | only the events that a client has yet to read  |
| `continue`      | the run goes on until it ends or is stopped   | the last `capacity` events, for later clients  |
| n seconds       | the run is disposed after so many seconds, unless a client has come | as `continue`            |

Under each a slow client slows the run once it is `capacity` events or `max_bytes` behind, because the log is bounded by
both. The log, the clients' places in it and the run's lifetime are those of a `RunHandle`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, StrEnum
from typing import Literal

from reactivex import Observable

from agentscope_rx.agent import Agent
from agentscope_rx.agent.handle.event_log import LoggedEvent
from agentscope_rx.agent.handle.run_handle import KEPT_EVENTS, MAX_LOG_BYTES, RunHandle, check_log
from agentscope_rx.agent.inbox import When
from agentscope_rx.agent.input import CallInput
from agentscope_rx.errors import ConfigurationError, InvalidInputError, RunEndedError
from agentscope_rx.events import Event
from agentscope_rx.messages import Msg
from agentscope_rx.reactive import OneShotEvent, empty, flow
from agentscope_rx.reactive.log_readers import LogReader
from agentscope_rx.reactive.replay_log import LogStatistics

FOLLOWED_EVENTS = 64
"""How many events a client may be behind before the run waits for it."""


class OnDisconnect(StrEnum):
    """The effect on a run when its last client leaves: `STOP` ends it, `CONTINUE` lets it go on."""

    STOP = "stop"
    CONTINUE = "continue"


class Default(Enum):
    """An `on_disconnect` that was not given: "stop", or the lifetime of a run that has begun."""

    STOP = "stop"


OnDisconnectChoice = OnDisconnect | Literal["stop", "continue"] | float
"""What happens when the last client leaves; a number is the seconds in which another one may come."""


class LiveRun:
    """A run that clients follow. `Runs.add` makes one; it belongs to one loop.

    `agent` is the agent to interrupt. `admit` is called when the run is about to begin, and refuses it by raising.
    `record` makes the entries of the log: `LoggedEvent.of` writes the JSON that all clients share, `LoggedEvent` keeps
    the event itself, for an encoder of another protocol.
    `on_disconnect` is "stop" unless given. With a `RunHandle` give `admit` only: it has the rest.
    """

    __slots__ = (
        "_admit",
        "_capacity",
        "_events",
        "_handle",
        "_linger",
        "_max_bytes",
        "_record",
        "agent",
        "begun",
        "ended",
        "gone",
        "opened",
    )

    def __init__(
        self,
        events: Observable[Event] | RunHandle,
        *,
        on_disconnect: OnDisconnectChoice | Default = Default.STOP,
        capacity: int | None = None,
        max_bytes: int | None = None,
        agent: Agent | None = None,
        admit: Callable[[LiveRun], None] | None = None,
        record: Callable[[Event], LoggedEvent] = LoggedEvent.of,
    ) -> None:
        if isinstance(events, RunHandle):
            choice = None if on_disconnect is Default.STOP else repr(on_disconnect)
            _check_own({"on_disconnect": choice, "capacity": capacity, "max_bytes": max_bytes, "agent": agent})
            self._linger = events.linger
            self._capacity, self._max_bytes = KEPT_EVENTS, MAX_LOG_BYTES
        else:
            self._linger, self._capacity, self._max_bytes = bounds_of(on_disconnect, capacity, max_bytes)
        self.agent: Agent | None = agent
        self._admit = admit
        self._record = record
        self._handle: RunHandle | None = None
        self.opened: OneShotEvent = OneShotEvent()
        self.begun: OneShotEvent = OneShotEvent()
        self.ended: OneShotEvent = OneShotEvent()
        self.gone: OneShotEvent = OneShotEvent()
        if isinstance(events, RunHandle):
            self._events: Observable[Event] = empty()
            self._attend(events)
        else:
            self._events = flow(events).take_over()

    @property
    def id(self) -> str | None:
        """The id of the run, once its first event was emitted."""
        return self._handle.id if self._handle is not None and self.begun.fired else None

    @property
    def handle(self) -> RunHandle | None:
        """The run itself, once it was opened."""
        return self._handle

    @property
    def on_disconnect(self) -> OnDisconnect | float:
        """The effect on the run when its last client leaves."""
        if self._linger is None:
            return OnDisconnect.CONTINUE
        return self._linger or OnDisconnect.STOP

    def follow(self, after: int | None = None) -> LogReader[LoggedEvent]:
        """A reader of the events after number `after`, or of all; begins the run if it has not begun.

        `EventsGoneError` if the log has dropped one of them, `InvalidInputError` if the run has no event `after`. Pass
        the reader to `leave` in the end.
        """
        if self._handle is not None:
            return self._handle.read(0 if after is None else after + 1)
        if after is not None:
            raise InvalidInputError(f"The run has not begun: there is no event {after} to resume after.")
        if self._admit is not None:
            self._admit(self)
        # not in __init__: a response may be sent from another thread than the one that made it
        handle = RunHandle(
            self._events,
            agent=self.agent,
            linger=self._linger,
            capacity=self._capacity,
            max_bytes=self._max_bytes,
            record=self._record,
        )
        self._events = empty()
        self._attend(handle)
        # before it begins, as it may emit its first events at once
        reader = handle.read()
        handle.begin()
        return reader

    async def leave(self, reader: LogReader[LoggedEvent]) -> None:
        """Close the reader. If that stops the run, its clean-up has ended when this returns."""
        reader.close()
        if self._linger == 0 and self.ended.fired:
            await self.idle()

    async def stop(self, reason: str = "A stop was requested.") -> None:
        """End the run with an `error` event for its clients, and wait for its clean-up."""
        self.dispose(reason)
        await self.idle()

    def dispose(self, reason: str) -> None:
        """Like `stop`, without waiting: the clean-up has begun when this returns."""
        if self._handle is not None:
            self._handle.dispose(reason)

    async def idle(self) -> None:
        """Return when the run has not begun, or has ended and was cleaned up."""
        if self._handle is not None:
            await self._handle.idle()

    def interrupt(self, msg: Msg | str | None = None) -> bool:
        """Interrupt the agent, so that the run ends with a normal reply; False if it has ended, or without `agent`."""
        return self._handle is not None and self._handle.interrupt(msg)

    def enqueue(self, msgs: CallInput, when: When = "next_round") -> None:
        """Give messages to the run (see `Agent.enqueue`); `RunEndedError` if it has ended, or without `agent`."""
        if self._handle is None:
            raise RunEndedError("" if self.agent is None else self.agent.name, None)
        self._handle.enqueue(msgs, when)

    def ended_at(self, after: int | None) -> bool:
        """True if the run has ended with the event of number `after`: a client that has it has all."""
        return self._handle is not None and after is not None and self._handle.ended_at(after)

    def statistics(self) -> LogStatistics:
        """The numbers of emitted and kept events, and how many events the slowest client is behind."""
        if self._handle is None:
            return LogStatistics(0, 0, 0, self._capacity, 0, 0, False)
        return self._handle.stats().log

    def _attend(self, handle: RunHandle) -> None:
        self._handle = handle
        self.opened.fire()
        handle.begun.listen(self.begun.fire)
        handle.ended.listen(self.ended.fire)
        handle.gone.listen(self.gone.fire)


def bounds_of(
    on_disconnect: OnDisconnectChoice | Default, capacity: int | None, max_bytes: int | None
) -> tuple[float | None, int, int]:
    """The linger, the capacity and the bytes of a run's log; `ConfigurationError` unless a run can have these."""
    linger = 0 if on_disconnect is Default.STOP else _linger(on_disconnect)
    if capacity is None:
        capacity = FOLLOWED_EVENTS if linger == 0 else KEPT_EVENTS
    if max_bytes is None:
        max_bytes = MAX_LOG_BYTES
    check_log(capacity, max_bytes, linger)
    return linger, capacity, max_bytes


def _check_own(given: dict[str, object]) -> None:
    for name, value in given.items():
        if value is not None:
            raise ConfigurationError(
                f"{name} cannot be set for a run that has begun. Give agent.start() what it needs: linger (0 is "
                "'stop', None 'continue'), capacity, max_bytes."
            )


def _linger(on_disconnect: object) -> float | None:
    if on_disconnect == OnDisconnect.STOP:
        return 0
    if on_disconnect == OnDisconnect.CONTINUE:
        return None
    if isinstance(on_disconnect, (int, float)) and not isinstance(on_disconnect, bool) and on_disconnect >= 0:
        return on_disconnect
    raise ConfigurationError(
        f"on_disconnect must be 'stop' or 'continue', or a number of seconds of at least 0, not {on_disconnect!r:.60}."
    )
