"""`GracefulShutdown`: refuse new runs, let those in progress finish, then cut them off so that they can be resumed.

    RUNNING --begin()--> SHUTTING_DOWN --all have ended--> TERMINATED
                         | no new runs: AgentShuttingDownError
                         | at `timeout`: runs are interrupted (source SYSTEM); calls not begun stay pending,
                         |   the conversation is saved where it is bound, the call fails with AgentShuttingDownError
                         | at `timeout` + `grace`: it no longer waits for runs that have not ended

    shutdown = GracefulShutdown(timeout=20)
    agent = ReActAgent(..., shutdown=shutdown)
    shutdown.on_signals()                        # SIGTERM and SIGINT begin it
    ...
    await shutdown.terminated()

In another process: `bind` or `load` the conversation, and `call()`: pending calls run, or the model is asked again.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from enum import StrEnum
from typing import Literal, Protocol, cast
from weakref import WeakSet

from agentscope_rx.agent.interruption import Cut, InterruptSource
from agentscope_rx.agent.run_state import RunState
from agentscope_rx.errors import ConfigurationError, DeadlineError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.reactive import Flow, Scope, concat, defer, from_callable, just, shield, then, timeout
from agentscope_rx.reactive.kernel.forking import call_after_fork, new_lock
from agentscope_rx.reactive.kernel.observer import Sink


class ShutdownState(StrEnum):
    """The progress of a shutdown: `RUNNING`, `SHUTTING_DOWN`, `TERMINATED`; see `GracefulShutdown`."""

    RUNNING = "running"
    SHUTTING_DOWN = "shutting_down"
    TERMINATED = "terminated"


@dataclass(frozen=True, slots=True)
class ShutdownReport:
    """The ids of the runs that were in progress.

    `finished` ended by themselves, `cut_off` were interrupted, `stuck` had not ended `grace` seconds later. `undrained`
    names the parts, such as recorders of a long-term memory, that were not done `grace` seconds after the last run.
    """

    finished: tuple[str, ...] = ()
    cut_off: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()
    undrained: tuple[str, ...] = ()


class Stoppable(Protocol):
    """An agent, as a shutdown sees it."""

    @property
    def entered(self) -> tuple[RunState, ...]:
        """The runs that can be interrupted."""
        ...

    def idle(self) -> Flow[None]:
        """One None when no run is in progress or being cleaned up."""
        ...


class Drainable(Protocol):
    """A part that finishes work after the runs, such as a hook that records them in the background."""

    def drained(self) -> Flow[None]:
        """One None when the work of the runs that have ended is done."""
        ...


class GracefulShutdown:
    """Refuses new runs, lets those in progress finish, then cuts them off so that another process can resume them.

        RUNNING --begin()--> SHUTTING_DOWN --all have ended--> TERMINATED
                             | new calls: AgentShuttingDownError
                             | after `timeout` seconds: runs are cut off
                             | after `grace` more: runs that have not ended are `stuck`

    Runs in progress have `timeout` seconds to finish (None: no limit). A run that is cut off closes the model's
    response and interrupts its tools; a tool that is not interruptible has the `grace`. Calls that have not begun stay
    pending. The conversation is saved if it is bound, and the call fails with `AgentShuttingDownError`, without
    PostCall. `partial="keep"` remembers the received part of an answer, "discard" does not.

    To resume, `bind` or `load` the session and call the agent without input, or with the same input: pending calls run,
    or the model is asked again. One object serves any number of agents (`shutdown=` or `add`), which it references
    weakly. It ends runs, not the process.
    """

    def __init__(
        self,
        *,
        timeout: float | None = 30.0,
        grace: float = 10.0,
        partial: Literal["keep", "discard"] = "keep",
    ) -> None:
        for name, seconds in (("timeout", timeout), ("grace", grace)):
            given = cast("object", seconds)
            if given is not None and (isinstance(given, bool) or not isinstance(given, (int, float))):
                raise ConfigurationError(f"{name} must be a number of seconds, not {given!r:.60}.")
        if timeout is not None and not timeout > 0:
            raise ConfigurationError(f"timeout must be more than 0 seconds, or None for no limit, not {timeout!r}.")
        if not (isinstance(cast("object", grace), (int, float)) and grace >= 0):
            raise ConfigurationError(f"grace must be >= 0 seconds, not {grace!r}.")
        if partial not in ("keep", "discard"):
            raise ConfigurationError(f"partial must be 'keep' or 'discard', not {partial!r}.")
        self.timeout = timeout
        self.grace = grace
        self.partial = partial
        self.report: ShutdownReport | None = None
        self._lock = new_lock()
        self._agents: WeakSet[Stoppable] = WeakSet()
        self._drains: WeakSet[Drainable] = WeakSet()
        self._begun = False
        self._waiting: list[_Waiting] = []
        call_after_fork(self)

    def after_fork(self) -> None:
        """Forget the parent's runs. A shutdown that has begun is over in the child, and refuses new runs there."""
        self._waiting = []
        if self._begun and self.report is None:
            self.report = ShutdownReport((), (), ())

    def __repr__(self) -> str:
        return f"<GracefulShutdown {self.state.value}, timeout {self.timeout}, {len(self._agents)} agents>"

    def add(self, agent: Stoppable) -> None:
        """Add an agent; `ReActAgent(shutdown=...)` does so."""
        with self._lock:
            self._agents.add(agent)

    def drain(self, part: Drainable) -> None:
        """Also wait for this part, at most `grace` seconds after the last run; agents add their recorders."""
        with self._lock:
            self._drains.add(part)

    @property
    def state(self) -> ShutdownState:
        """The progress of the shutdown."""
        if self.report is not None:
            return ShutdownState.TERMINATED
        return ShutdownState.SHUTTING_DOWN if self._begun else ShutdownState.RUNNING

    @property
    def refuses(self) -> bool:
        """True if agents refuse new calls."""
        return self._begun

    def begin(self) -> Flow[ShutdownReport]:
        """Shut down. The first subscription begins it; further ones only wait for the end.

        Signals: the report when all runs have ended, or `timeout` and `grace` are over.
        Cancels: the waiting; the shutdown continues.
        """

        def first_or_not() -> Flow[ShutdownReport]:
            with self._lock:
                first, self._begun = not self._begun, True
            return shield(from_callable(self._drive)) if first else self.terminated()

        return defer(first_or_not)

    def terminated(self) -> Flow[ShutdownReport]:
        """The report, once the shutdown is over; this does not begin it.

        Signals: one report.
        Cancels: the waiting.
        """

        def connect(sink: Sink[ShutdownReport], scope: Scope) -> None:
            waiting = _Waiting(self, sink, scope)
            sink.on_subscribe(waiting)
            if waiting.disposed:
                return
            with self._lock:
                report = self.report
                if report is None:
                    self._waiting.append(waiting)
            if report is not None:
                waiting.emit(report)

        return Flow(connect)

    def on_signals(self, *signals: signal.Signals) -> Callable[[], None]:
        """Begin the shutdown at SIGTERM or SIGINT, or the given signals; returns a function that undoes this.

        A second signal has the effect it had before.

        On the thread of a running loop it uses `loop.add_signal_handler`, else `signal.signal`, which only the main
        thread may call.
        """
        chosen = signals or (signal.SIGTERM, signal.SIGINT)
        undo: list[Callable[[], object]] = []

        def restore() -> None:
            while undo:
                undo.pop()()

        def start() -> None:
            restore()
            self.begin().subscribe()

        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        for each in chosen:
            before = signal.getsignal(each)
            if loop is not None:
                loop.add_signal_handler(each, start)
                undo.append(lambda each=each, loop=loop: loop.remove_signal_handler(each))
            else:
                signal.signal(each, lambda number, frame: start())
            # None: the handler was not set from Python
            undo.append(lambda each=each, before=before: signal.signal(each, before or signal.SIG_DFL))
        undo.reverse()
        return restore

    def forget(self, waiting: _Waiting) -> None:
        """Stop waiting for the end."""
        with self._lock:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    # --- the course of it -----------------------------------------------------------------------------------------

    async def _drive(self) -> ShutdownReport:
        runs = {run.id: run for run in self._runs()}
        undrained: tuple[str, ...] = ()
        try:
            if not await self._ended_within(self.timeout):
                runs |= {run.id: run for run in self._runs()}
                for run in self._runs():
                    run.interruption.request(None, InterruptSource.SYSTEM, Cut.SHUTDOWN)
                await self._ended_within(self.grace)
            undrained = await self._drained_within(self.grace)
        finally:
            # also if this task is cancelled: no subscriber waits for ever
            report = self._make_report(runs, undrained)
        return report

    async def _drained_within(self, seconds: float) -> tuple[str, ...]:
        """The parts whose work was not done within these seconds, all together."""
        with self._lock:
            parts = tuple(self._drains)
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        late: list[str] = []
        for part in parts:
            # (they work at the same time, so each has the whole of it)
            left = max(until - loop.time(), 1e-3)
            try:
                await part.drained().pipe(timeout(total=left))
            except DeadlineError:
                late.append(repr(part))
        return tuple(late)

    def _runs(self) -> list[RunState]:
        """The runs in progress, and those that wait to enter."""
        with self._lock:
            agents = tuple(self._agents)
        return [run for agent in agents for run in agent.entered]

    async def _ended_within(self, seconds: float | None) -> bool:
        """True once all runs have ended; False if they have not within these seconds."""

        def idle() -> Flow[None]:
            with self._lock:
                agents = tuple(self._agents)
            return concat(*(agent.idle() for agent in agents)).pipe(then(lambda: just(None)))

        try:
            # runs that waited to enter may have entered meanwhile
            while self._runs():
                await (idle() if seconds is None else idle().pipe(timeout(total=seconds)))
        except DeadlineError:
            return not self._runs()
        return True

    def _make_report(self, runs: dict[str, RunState], undrained: tuple[str, ...]) -> ShutdownReport:
        stuck = [run.id for run in self._runs()]
        cut_off = [run.id for run in runs.values() if run.interruption.is_shutdown and run.id not in stuck]
        finished = [run.id for run in runs.values() if run.id not in stuck and run.id not in cut_off]
        report = ShutdownReport(tuple(finished), tuple(cut_off), tuple(stuck), undrained)
        with self._lock:
            if self.report is not None:
                # of a forked child: this is the parent's task, which the collector closes here
                return self.report
            self.report = report
            waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.wake(report)
        return report


class _Waiting:
    """A subscriber that waits for the end."""

    __slots__ = ("_scope", "_shutdown", "_sink", "disposed")

    def __init__(self, shutdown: GracefulShutdown, sink: Sink[ShutdownReport], scope: Scope) -> None:
        self._shutdown = shutdown
        self._sink = sink
        self._scope = scope
        self.disposed = False

    def wake(self, report: ShutdownReport) -> None:
        self._scope.call_from_thread(self.emit, report)

    def emit(self, report: ShutdownReport) -> None:
        if not self.disposed:
            self._sink.on_next(report)
        if not self.disposed:
            self._sink.on_completed()

    def dispose(self) -> None:
        self.disposed: bool = True
        self._shutdown.forget(self)
