"""`GracefulShutdown`: refuse new runs, let those in progress finish, then cut them off so that they can be resumed.

    RUNNING --begin()--> SHUTTING_DOWN --all have ended--> TERMINATED
                         | no new runs: AgentShuttingDownError
                         | at `timeout`: runs are interrupted (source SYSTEM); what has not begun stays pending,
                         |   the conversation is saved where it is bound, the call fails with AgentShuttingDownError
                         | at `timeout` + `grace`: it no longer waits for what does not end

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
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, cast
from weakref import WeakSet

from agentscope_rx.agent.run import Cut, InterruptSource, Run
from agentscope_rx.errors import ConfigurationError, DeadlineError
from agentscope_rx.reactive import Flow, Scope, concat, defer, from_callable, just, shield, then, timeout
from agentscope_rx.reactive.kernel.forking import call_after_fork, new_lock
from agentscope_rx.reactive.kernel.observer import Sink

if TYPE_CHECKING:
    from agentscope_rx.agent.agent import Agent


class ShutdownState(StrEnum):
    """How far it is."""

    RUNNING = "running"
    SHUTTING_DOWN = "shutting_down"
    TERMINATED = "terminated"


@dataclass(frozen=True, slots=True)
class ShutdownReport:
    """What became of the runs that were in progress, by id. `stuck` had not ended `grace` seconds after the cut."""

    finished: tuple[str, ...] = ()
    cut_off: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()


class GracefulShutdown:
    """The shutdown of the agents that it is given to; each process, or test, may have as many as it likes.

    `timeout`: how many seconds runs in progress have to finish; None is for ever. `grace`: how many more, after they
    have been cut off. `partial`: whether what a model has said of an answer that is cut off is remembered ("keep") or
    not ("discard").
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
            raise ConfigurationError(f"timeout must be more than 0 seconds, or None to wait for ever, not {timeout!r}.")
        if not (isinstance(cast("object", grace), (int, float)) and grace >= 0):
            raise ConfigurationError(f"grace must be >= 0 seconds, not {grace!r}.")
        if partial not in ("keep", "discard"):
            raise ConfigurationError(f"partial must be 'keep' or 'discard', not {partial!r}.")
        self.timeout = timeout
        self.grace = grace
        self.partial = partial
        self.report: ShutdownReport | None = None
        self._lock = new_lock()
        self._agents: WeakSet[Agent] = WeakSet()
        self._begun = False
        self._waiting: list[_Waiting] = []
        call_after_fork(self)

    def after_fork(self) -> None:
        """The runs that are to end are the parent's. One that has begun is over here: it goes on to refuse new runs."""
        self._waiting = []
        if self._begun and self.report is None:
            self.report = ShutdownReport((), (), ())

    def __repr__(self) -> str:
        return f"<GracefulShutdown {self.state.value}, timeout {self.timeout}, {len(self._agents)} agents>"

    def add(self, agent: Agent) -> None:
        """Shut this agent down, too; `ReActAgent(shutdown=...)` does it."""
        with self._lock:
            self._agents.add(agent)

    @property
    def state(self) -> ShutdownState:
        """How far it is."""
        if self.report is not None:
            return ShutdownState.TERMINATED
        return ShutdownState.SHUTTING_DOWN if self._begun else ShutdownState.RUNNING

    @property
    def refuses(self) -> bool:
        """Whether agents take no new calls."""
        return self._begun

    def begin(self) -> Flow[ShutdownReport]:
        """Shut down. The first subscription begins it, any other only waits for the end.

        Signals: the report when all runs have ended, or `timeout` and `grace` are over.
        Cancels: the waiting; the shutdown goes on.
        """

        def first_or_not() -> Flow[ShutdownReport]:
            with self._lock:
                first, self._begun = not self._begun, True
            return shield(from_callable(self._drive)) if first else self.terminated()

        return defer(first_or_not)

    def terminated(self) -> Flow[ShutdownReport]:
        """The report, when the shutdown that somebody begins is over.

        Signals: one report.
        Cancels: the waiting.
        """

        def connect(sink: Sink[ShutdownReport], scope: Scope) -> None:
            waiting = _Waiting(self, sink, scope)
            sink.on_subscribe(waiting)
            if waiting.left:
                return
            with self._lock:
                report = self.report
                if report is None:
                    self._waiting.append(waiting)
            if report is not None:
                waiting.tell(report)

        return Flow(connect)

    def on_signals(self, *signals: signal.Signals) -> Callable[[], None]:
        """Begin at SIGTERM and SIGINT (or those given); the second one does what it did before. Gives a way to undo it.

        On the thread of a running loop through `loop.add_signal_handler`, else through `signal.signal`, which only
        the main thread may do.
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
            # (None: it was not set from Python)
            undo.append(lambda each=each, before=before: signal.signal(each, before or signal.SIG_DFL))
        undo.reverse()
        return restore

    def forget(self, waiting: _Waiting) -> None:
        """Somebody no longer waits for the end."""
        with self._lock:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    # --- how it goes ----------------------------------------------------------------------------------------------

    async def _drive(self) -> ShutdownReport:
        runs = {run.id: run for run in self._runs()}
        try:
            if not await self._ended_within(self.timeout):
                runs |= {run.id: run for run in self._runs()}
                for run in self._runs():
                    run.request_interrupt(None, InterruptSource.SYSTEM, Cut.SHUTDOWN)
                await self._ended_within(self.grace)
        finally:
            # (a cancelled shutdown is one, too: nobody is to wait for it for ever)
            report = self._reported(runs)
        return report

    def _runs(self) -> list[Run]:
        """The runs in progress, and those that wait to enter."""
        with self._lock:
            agents = tuple(self._agents)
        return [run for agent in agents for run in agent.entered]

    async def _ended_within(self, seconds: float | None) -> bool:
        """Whether all runs have ended; waits so long for it."""

        def idle() -> Flow[None]:
            with self._lock:
                agents = tuple(self._agents)
            return concat(*(agent.idle() for agent in agents)).pipe(then(lambda: just(None)))

        try:
            # whoever waited to enter may have done so meanwhile
            while self._runs():
                await (idle() if seconds is None else idle().pipe(timeout(total=seconds)))
        except DeadlineError:
            return not self._runs()
        return True

    def _reported(self, runs: dict[str, Run]) -> ShutdownReport:
        stuck = [run.id for run in self._runs()]
        cut_off = [run.id for run in runs.values() if run.shut_down and run.id not in stuck]
        finished = [run.id for run in runs.values() if run.id not in stuck and run.id not in cut_off]
        report = ShutdownReport(tuple(finished), tuple(cut_off), tuple(stuck))
        with self._lock:
            self.report = report
            waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.hop(report)
        return report


class _Waiting:
    """Somebody who waits for the end."""

    __slots__ = ("_scope", "_shutdown", "_sink", "left")

    def __init__(self, shutdown: GracefulShutdown, sink: Sink[ShutdownReport], scope: Scope) -> None:
        self._shutdown = shutdown
        self._sink = sink
        self._scope = scope
        self.left = False

    def hop(self, report: ShutdownReport) -> None:
        self._scope.call_from_thread(self.tell, report)

    def tell(self, report: ShutdownReport) -> None:
        if not self.left:
            self._sink.on_next(report)
        if not self.left:
            self._sink.on_completed()

    def dispose(self) -> None:
        self.left = True
        self._shutdown.forget(self)
