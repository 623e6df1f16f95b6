"""`RunHandle`: one run that begins by itself, with a log of its events, and any number of subscribers."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable
from contextvars import ContextVar
from enum import StrEnum
from operator import attrgetter
from typing import TypeVar

from reactivex import Observable

from agentscope_rx.agent.handle.event_log import EventRecorder, LoggedEvent
from agentscope_rx.agent.inbox import Inbox, When
from agentscope_rx.agent.input import CallInput
from agentscope_rx.agent.interruption import InterruptSource, check_interrupt
from agentscope_rx.agent.ports import AgentCore
from agentscope_rx.agent.run import Run
from agentscope_rx.agent.run_state import RunStats
from agentscope_rx.errors import ConfigurationError, EventsGoneError, InvalidInputError, RunEndedError, RunStoppedError
from agentscope_rx.events import Event, EventStream
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import Msg
from agentscope_rx.reactive import (
    Flow,
    OneShotEvent,
    Scope,
    SourceCancelledError,
    empty,
    flow,
    from_callable,
    just,
    next_turn,
    on_loop,
    then,
    throw,
)
from agentscope_rx.reactive.kernel.observer import Sink, attach
from agentscope_rx.reactive.kernel.runtime import Runtime, runtime
from agentscope_rx.reactive.log_readers import LogFollower, LogReader
from agentscope_rx.reactive.replay_log import LogStatistics, ReplayLog

T = TypeVar("T")

KEPT_EVENTS = 10_000
"""How many events are kept of a run."""
MAX_LOG_BYTES = 16 * 1024 * 1024
"""The size of the events that are kept of a run."""


class HandleState(StrEnum):
    """The state of a shared run.

    `WAITING`: not begun; `RUNNING`: in progress; `PAUSED`; `CLEANING`: being cleaned up; `ENDED`: over.
    """

    WAITING = "waiting"
    RUNNING = "running"
    PAUSED = "paused"
    CLEANING = "cleaning"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class HandleStats:
    """A run and its log at one moment.

    `run` is None until the run exists, and for events of no agent; after the clean-up it stays as it was then. `behind`
    is the number of events that each subscriber has yet to take.
    """

    state: HandleState
    run: RunStats | None
    log: LogStatistics
    behind: tuple[int, ...]


class Start:
    """The start of a run by a handle: the run gets its id from it, and the handle its run."""

    __slots__ = ("_id", "agent", "inbox", "over", "run")

    def __init__(self, agent: AgentCore | None, id: str | None, loop: asyncio.AbstractEventLoop) -> None:
        self.agent: AgentCore | None = agent
        self._id = id
        self.run: Run | None = None
        self.inbox: Inbox | None = None
        """The run's, which takes input before the run exists; None until then for a handle without an id."""
        if id is not None:
            self.inbox = Inbox("" if agent is None else agent.name, id, loop)
        self.over: bool = False
        """True once the events have ended: a call that begins in this context now is another one."""

    def take(self, agent: AgentCore, run: Run) -> None:
        """A run of `agent` begins in this context. A run of the same agent within it is not the handle's.

        A further attempt, which an overridden `stream` may make, is one of the same conversation.
        """
        before = self.run
        again = before is not None and before.calls.ended and before.conversation is run.conversation
        if agent is self.agent and not self.over and (before is None or again):
            if before is None and self._id is not None:
                run.take_id(self._id)
            if before is None and self.inbox is not None:
                run.inbox = self.inbox
            elif self.inbox is not None:
                # what the attempt before has not taken
                run.inbox.items += self.inbox.items
            self.run = run
            self.inbox = run.inbox


STARTED: ContextVar[Start | None] = ContextVar("agentscope_rx_started", default=None)
"""The start that the run in this context belongs to; set in the context of a handle's subscription only."""


def check_log(capacity: int, max_bytes: int, linger: float | None) -> None:
    """`ConfigurationError` unless a run can have such a log."""
    for name, bound in (("capacity", capacity), ("max_bytes", max_bytes)):
        if type(bound) is not int or bound < 1:
            raise ConfigurationError(f"{name} must be a whole number of at least 1, not {bound!r:.60}.")
    if linger is not None and (type(linger) not in (int, float) or not linger >= 0):
        raise ConfigurationError(f"linger must be at least 0 seconds, or None to keep the run, not {linger!r:.60}.")


class RunHandle:
    """A run for any number of subscribers. `agent.start(...)` returns one.

        start      --waiting--running----------------paused---running---|cleaning|ended
        events()     ------------a--b--c--d--e------------------f--g----|  from the start
        events(3)                            d--e---------------f--g----|  kept events, then live ones
        result()                                                        r|

    | `linger`       | the run stops                                                                         |
    |----------------|---------------------------------------------------------------------------------------|
    | None (default) | at its end only; its loop owns it, so the handle may be dropped                       |
    | 0              | when its last subscriber leaves                                                       |
    | n seconds      | n seconds after the last one has left, unless another one comes                       |

    Subscribers are those of `events` and `result`. Before the first one has come, the time does not run.

    The handle keeps up to `capacity` events (10,000) of about `max_bytes` (16 MiB), then drops the oldest. It never
    drops an event that a reader, for which the run waits, has yet to read. Later subscribers get the error of the run,
    too; an error that no subscriber had goes to `on_dropped` when the handle is freed. An exception in a callback ends
    that subscription only. All methods but `read` may be called from any thread.
    """

    __slots__ = ("__weakref__", "_final", "_id", "_linger", "_log", "_recorder", "_source", "_start", "_timer", "gone")

    def __init__(
        self,
        events: Observable[Event],
        *,
        agent: AgentCore | None = None,
        id: str | None = None,
        linger: float | None = None,
        capacity: int = KEPT_EVENTS,
        max_bytes: int = MAX_LOG_BYTES,
        record: Callable[[Event], LoggedEvent] = LoggedEvent,
    ) -> None:
        """For services: a handle for any events, on the running loop or the library's, which begins with `begin`.

        `agent` is the agent of the run, if any. `record` makes the entries of the log.
        """
        source = flow(events).take_over()
        check_log(capacity, max_bytes, linger)
        self._source: Flow[Event] | None = source
        self._id = id
        self._linger = linger
        self._recorder = EventRecorder(record)
        self._final: RunStats | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._log: ReplayLog[LoggedEvent] = ReplayLog(
            capacity, size_of=attrgetter("size"), max_bytes=max_bytes, pushed=attrgetter("event")
        )
        self._start = Start(agent, id, self._log.scope.loop)
        self._log.scope.context.run(STARTED.set, self._start)
        self.gone: OneShotEvent = OneShotEvent()
        """For services: fires, on the run's loop, when the run has ended and is cleaned up; see `idle`."""

    def __repr__(self) -> str:
        return f"<RunHandle {self.id}, {self.state}>"

    @property
    def id(self) -> str:
        """The id of the run. For plain events it is that of the first event, and '' before it."""
        if self._id is None and self._recorder.first is not None:
            return self._recorder.first.event.run_id
        return self._id or ""

    @property
    def state(self) -> HandleState:
        """The state of the run."""
        if self.gone.fired:
            return HandleState.ENDED
        if self._log.ended.fired:
            return HandleState.CLEANING
        if self._log.paused:
            return HandleState.PAUSED
        return HandleState.RUNNING if self._recorder.begun.fired else HandleState.WAITING

    def belongs_to(self, agent: AgentCore) -> None:
        """For pools: name the agent of the run, before the run begins."""
        self._start.agent = agent

    @property
    def begun(self) -> OneShotEvent:
        """For services: fires, on the run's loop, at the first event; see `state`."""
        return self._recorder.begun

    @property
    def ended(self) -> OneShotEvent:
        """For services: fires, on the run's loop, at the end, before subscribers get it; see `result` and `state`."""
        return self._log.ended

    @property
    def linger(self) -> float | None:
        """The seconds after which the run stops without subscribers; None is never."""
        return self._linger

    @property
    def _run(self) -> Run | None:
        return self._start.run

    # --- subscribers ----------------------------------------------------------------------------------------------

    def events(self, from_seq: int = 0) -> EventStream:
        """The kept events from this number on, then the live ones, without a gap. Subscribe as often as you like.

        `async for` and `buffered` slow the run as their policy says; a plain `subscribe` never does. On another loop
        than the run's up to 64 more events are under way, and a blocked loop slows the run, too. If the run's loop
        shuts down, a subscription on another loop that is behind ends with `SourceCancelledError`.

        Signals: the events; completion; the error of the run, after an `ErrorEvent` unless it is the first signal or
        that of a loop's shutdown. Signals come after `subscribe` has returned. `EventsGoneError` if the log has dropped
        one of the events, `InvalidInputError` for a number beyond the next one.
        Cancels: this subscription; and the run, if it is the last one and `linger` is 0.
        """
        if type(from_seq) is not int or from_seq < 0:
            raise InvalidInputError(f"from_seq must be the number of an event, at least 0, not {from_seq!r:.60}.")
        return EventStream(lambda sink, scope: self._connect(lambda: self._index(from_seq), sink, scope))

    def result(self) -> Flow[Msg]:
        """The reply, once the run has ended. Subscribe as often as you like, also later.

        In a tool or hook of the run it deadlocks.

        Signals: the reply; the error of the run, `RunStoppedError` if it was stopped.
        Cancels: the waiting, which counts as a subscriber.
        """

        def reply() -> Flow[Msg]:
            message = self._recorder.reply
            return empty() if message is None else just(message)

        ended: Flow[Event] = Flow(lambda sink, scope: self._connect(lambda: self._log.end, sink, scope))
        return ended.pipe(then(reply))

    def idle(self) -> Flow[None]:
        """Wait until the run has ended and is cleaned up. It counts as no subscriber. In a tool or hook it deadlocks.

        Signals: one None.
        Cancels: the waiting.
        """

        loop = self._log.scope.loop
        return just(None) if self.gone.fired or loop.is_closed() else on_loop(from_callable(self.gone.wait), loop)

    def read(self, from_seq: int = 0) -> LogReader[LoggedEvent]:
        """For services: a reader of the log from this number on, on the run's loop. Close it in the end.

        It slows the run once it is `capacity` events or `max_bytes` behind. It raises the errors of `events`, but not
        an error of the run that an `error` event reports.
        """
        if not self._log.scope.is_here():
            raise ConfigurationError("A run is read on its own loop; subscribe to events() from elsewhere.")
        return self._log.read(self._index(from_seq), lambda: self._recorder.error_emitted)

    # --- control --------------------------------------------------------------------------------------------------

    def interrupt(self, msg: Msg | str | None = None, source: InterruptSource = InterruptSource.USER) -> bool:
        """Ask the run to end normally, also while it is paused; see `Agent.interrupt`.

        False if it has ended, or is not an agent's.
        """
        message = check_interrupt(msg, source)
        if self._log.ended.fired:
            return False
        if self._start.run is None and (self._start.agent is None or self._log.scope.is_here()):
            return False

        def request() -> None:
            if self._start.run is not None:
                self._start.run.interruption.request(message, InterruptSource(source))

        # behind the start, if that is under way on the run's loop
        return self._on_loop(request)

    def enqueue(self, msgs: CallInput, when: When = "next_round") -> None:
        """Give messages to the run, from its start to its end, also while it is paused; see `Agent.enqueue`.

        `RunEndedError` if it takes no more input, or is not an agent's.
        """
        inbox = self._start.inbox
        if inbox is None or self._log.ended.fired:
            agent = self._start.agent
            raise RunEndedError("" if agent is None else agent.name, self.id or None)
        inbox.put(msgs, when)

    @property
    def unread(self) -> tuple[Msg, ...]:
        """The enqueued messages that the run has not remembered, in order; after its end the ones left over."""
        return () if self._start.inbox is None else self._start.inbox.unread

    def dispose(self, reason: str | None = None) -> None:
        """Stop the run, as the disposal of a stream does. Subscribers get an `ErrorEvent`, then `RunStoppedError`.

        Without any event so far they get the error only. Idempotent; `idle()` waits for the clean-up.
        """
        self._on_loop(lambda: self._stop("A stop was requested." if reason is None else reason))

    def pause(self) -> None:
        """Pause the run: it reads model and tool streams no further; tools under way finish. Idempotent.

        First-chunk and idle deadlines stand still; total deadlines go on. You can interrupt and stop a paused run.
        """
        self._on_loop(self._log.pause)

    def resume(self) -> None:
        """End the pause, however often `pause` was called."""
        self._on_loop(self._log.resume)

    def stats(self) -> HandleStats:
        """A snapshot of the run, its log and its subscribers."""
        run = self._start.run
        now = self._final if run is None else run.stats()
        return HandleStats(self.state, now, self._log.statistics(), self._log.behind())

    def begin(self) -> RunHandle:
        """For services: subscribe to the events, once: the run begins on the loop's next turn, subscriber or not.

        `Agent.start` and `ConversationPool.start` have done so.
        """
        source, self._source = self._source, None
        if source is not None:
            self._on_loop(lambda: self._begin(source))
        return self

    def ended_at(self, seq: int) -> bool:
        """For services: true if the run has ended with the event of this number."""
        return self._log.ended.fired and bool(self._log.values) and self._log.values[-1].seq == seq

    # --- internals ------------------------------------------------------------------------------------------------

    def _begin(self, source: Flow[Event]) -> None:
        # the loop owns the run: the handle may be dropped
        keeper = runtime()
        keeper.keep(self)
        self._log.on_readers = None if self._linger is None else self._readers_changed
        self._log.ended.listen(self._ended)
        self.gone.listen(lambda: self._gone(keeper))
        self._log.open(self._recorder.recorded(source))

    def _ended(self) -> None:
        self._log.where = self._name()
        self._start.over = True
        run = self._start.run
        if run is not None and self._recorder.reply is None:
            # the options leave its event out. Else the reply is that of the events, which a subclass may change
            self._recorder.reply = run.reply
        self._log.on_readers = None
        self._drop_timer()
        self._log.scope.work.when_idle(self.gone.fire)

    def _name(self) -> str:
        """The run and its agent, for a report; known once the run has ended."""
        first, agent = self._recorder.first, self._start.agent
        name = agent.name if agent is not None else "" if first is None else first.event.agent
        return f"run {self.id or 'without events'}" + (f" of agent {name!r}" if name else "")

    def _gone(self, keeper: Runtime) -> None:
        keeper.release(self)
        run, self._start.run = self._start.run, None
        if run is not None:
            # the handle may be kept for long: without the run's memory and context
            self._final = run.stats()

    def _stop(self, reason: str) -> None:
        error = RunStoppedError(f"The run was stopped. {reason}")
        if not self._log.ended.fired:
            self._log.dispose(*self._recorder.closing(error), error=error)
        if self._source is not None:
            # it never begins: there is nothing to clean up
            self._source = None
            self.gone.fire()

    def _readers_changed(self, readers: int) -> None:
        self._drop_timer()
        if readers or self._linger is None:
            return
        if self._linger == 0:
            self._stop("Its last subscriber left.")
        else:
            reason = f"Its last subscriber left {self._linger:g} s ago."
            self._timer = self._log.scope.call_later(self._linger, lambda: self._stop(reason))

    def _drop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _on_loop(self, call: Callable[[], object]) -> bool:
        """Call on the run's loop: now, or soon; False if that is closed."""
        scope = self._log.scope
        if not scope.is_here():
            return scope.call_from_thread(call)
        call()
        return True

    def _connect(self, start: Callable[[], int], sink: Sink[Event], scope: Scope) -> None:
        log = self._log
        if log.scope.loop.is_closed():
            # the log is all that is left of it; it changes no more
            log.fail(SourceCancelledError("The event loop of the run was closed before the run had ended."))
            self._follow(start, sink, scope)
        else:
            here: Flow[Event] = Flow(lambda sink, scope: self._follow(start, sink, scope))
            attach(on_loop(here, log.scope.loop), sink, scope)

    def _follow(self, start: Callable[[], int], sink: Sink[Event], scope: Scope) -> None:
        try:
            position = start()
        except Exception as error:
            failed: Flow[Event] = next_turn(throw(error))
            attach(failed, sink, scope)
            return
        follower = LogFollower(self._log, position, sink, scope)
        sink.on_subscribe(follower)
        if not follower.disposed:
            self._log.join(follower)
            follower.begin()

    def _index(self, from_seq: int) -> int:
        """The place in the log of the first event with this number or a later one."""
        log, dropped = self._log, self._log.dropped
        if dropped is not None and from_seq <= dropped.seq:
            raise EventsGoneError(
                self.id, from_seq - 1 if from_seq else None, log.values[0].seq if log.values else None
            )
        last = log.values[-1].seq if log.values else -1 if dropped is None else dropped.seq
        if from_seq > last + 1:
            so_far = f"its last one is {last}" if last >= 0 else "it has none yet"
            raise InvalidInputError(
                f"Run {self.id} has no event {from_seq - 1}; {so_far}. Begin at event {last + 1} at most."
            )
        return log.first + bisect_left(log.values, from_seq, key=attrgetter("seq"))
