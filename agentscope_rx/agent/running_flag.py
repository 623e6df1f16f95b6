"""`RunningFlag`: the running flag of one agent with one memory, across threads.

    free --acquire--> running --release--> free
                      running --leave----> closing --release--> free

A second run is refused while one is running, and waits (bounded) while one is closing: a disposed run still has to
repair memory. A run whose loop has been closed under it is *lost*: it can neither end nor repair anything, so the next
run takes the gate from it, and repairs memory in its place. In a forked child the runs of the parent are lost.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from agentscope_rx.agent.run import Run
from agentscope_rx.errors import AgentBusyError
from agentscope_rx.reactive import Flow, Scope
from agentscope_rx.reactive.kernel.forking import call_after_fork, new_lock
from agentscope_rx.reactive.kernel.observer import Sink

WAIT_SECONDS = 60.0
"""How long a call waits for the clean-up of the run before it."""


class RunningFlag:
    """Lets one run through at a time."""

    __slots__ = ("__weakref__", "_closing", "_idle", "_lock", "_lost", "_name", "_run", "_waiting")

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = new_lock()
        self._run: Run | None = None
        self._closing = False
        self._waiting: deque[_Waiter] = deque()
        self._idle: list[Callable[[], None]] = []
        self._lost: list[Run] = []
        call_after_fork(self)

    def after_fork(self) -> None:
        """A run of the parent goes on there; what it has left open in this copy of its memory, the next run closes."""
        if self._run is not None:
            self._lost.append(self._run)
        self._run = None
        self._closing = False
        self._waiting.clear()
        self._idle = []

    @property
    def run(self) -> Run | None:
        """The run that holds the gate, if any; not a lost one."""
        run = self._run
        return None if run is None or _is_lost(run) else run

    @property
    def interruptible(self) -> tuple[Run, ...]:
        """The runs that are to end by a reply yet: the one that is running, and those that wait to enter."""
        with self._lock:
            run = None if self._closing else self.run
            waiting = [waiter.run for waiter in self._waiting if not waiter.done]
        return tuple(waiting) if run is None else (run, *waiting)

    def take_lost(self) -> tuple[Run, ...]:
        """The lost runs whose memory is to be repaired yet; each is given away once."""
        with self._lock:
            self._free_of_lost()
            lost, self._lost = self._lost, []
        return tuple(lost)

    def _free_of_lost(self) -> None:
        if self._run is not None and _is_lost(self._run):
            self._lost.append(self._run)
            self._run = None
            self._closing = False

    def acquire(self, run: Run) -> Flow[Run]:
        """The run, once it holds the gate.

        Signals: the run; `AgentBusyError` at once if another is running, or when the closing of one takes too long.
        Cancels: the waiting.
        """

        def connect(sink: Sink[Run], scope: Scope) -> None:
            waiter = _Waiter(self, run, sink, scope)
            sink.on_subscribe(waiter)
            if waiter.done:
                return
            with self._lock:
                self._free_of_lost()
                free = self._run is None
                waits = not free and self._closing
                if free:
                    self._run = run
                    self._closing = False
                    waiter.done = True
                elif waits:
                    self._waiting.append(waiter)
                holder = self._run
            if free:
                waiter.enter()
            elif waits:
                waiter.wait()
            else:
                assert holder is not None
                waiter.refuse(AgentBusyError(self._name, holder.id))

        return Flow(connect)

    def leave(self, run: Run) -> None:
        """The run was disposed; its clean-up begins."""
        with self._lock:
            if self._run is run:
                self._closing = True

    def release(self, run: Run) -> None:
        """The run is over; the next in the queue enters."""
        waiter: _Waiter | None = None
        idle: list[Callable[[], None]] = []
        with self._lock:
            if self._run is not run:
                return
            self._run = None
            self._closing = False
            while self._waiting and waiter is None:
                candidate = self._waiting.popleft()
                if not (candidate.done or _is_lost(candidate.run)):
                    candidate.done = True
                    waiter = candidate
                    self._run = candidate.run
            if waiter is None:
                idle, self._idle = self._idle, []
        if waiter is not None:
            waiter.scope.call_from_thread(waiter.enter)
        for call in idle:
            call()

    def idle(self) -> Flow[None]:
        """One None, when no run holds the gate: at once if none does."""

        def connect(sink: Sink[None], scope: Scope) -> None:
            waiting = _Idle(self, sink, scope)
            sink.on_subscribe(waiting)
            if waiting.disposed:
                return
            with self._lock:
                busy = self.run is not None
                if busy:
                    self._idle.append(waiting.hop)
            if not busy:
                waiting.tell()

        return Flow(connect)

    def forget_idle(self, call: Callable[[], None]) -> None:
        """Somebody no longer waits for the gate to be free."""
        with self._lock:
            if call in self._idle:
                self._idle.remove(call)

    def forget(self, waiter: _Waiter) -> None:
        """The waiter no longer waits."""
        with self._lock:
            if waiter in self._waiting:
                self._waiting.remove(waiter)


def _is_lost(run: Run) -> bool:
    return run.scope.loop.is_closed()


class _Idle:
    """Somebody who waits for the gate to be free."""

    __slots__ = ("_gate", "_scope", "_sink", "disposed")

    def __init__(self, gate: RunningFlag, sink: Sink[None], scope: Scope) -> None:
        self._gate = gate
        self._sink = sink
        self._scope = scope
        self.disposed = False

    def hop(self) -> None:
        self._scope.call_from_thread(self.tell)

    def tell(self) -> None:
        if not self.disposed:
            self._sink.on_next(None)
        if not self.disposed:
            self._sink.on_completed()

    def dispose(self) -> None:
        self.disposed = True
        self._gate.forget_idle(self.hop)


class _Waiter:
    """A run at the gate. `done` once it has entered, given up or left."""

    __slots__ = ("_gate", "_left", "_sink", "_timer", "done", "run", "scope")

    def __init__(self, gate: RunningFlag, run: Run, sink: Sink[Run], scope: Scope) -> None:
        self._gate = gate
        self._sink = sink
        self._timer: asyncio.Handle | None = None
        self._left = False
        self.run = run
        self.scope = scope
        self.done = False

    def wait(self) -> None:
        self._timer = self.scope.call_later(WAIT_SECONDS, self._give_up)

    def refuse(self, error: Exception) -> None:
        """The gate is another run's: said when the subscriber holds its subscription (see `next_turn`)."""
        self.done = True
        if self.scope.work.outermost().subscribing:
            self._timer = self.scope.call_soon(lambda: self._sink.on_error(error))
        else:
            self._sink.on_error(error)

    def enter(self) -> None:
        """The gate is this run's now."""
        if self._timer is not None:
            self._timer.cancel()
        if self._left:
            self._gate.release(self.run)
            return
        self._sink.on_next(self.run)
        if not self._left:
            self._sink.on_completed()

    def dispose(self) -> None:
        self._left = True
        if self._timer is not None:
            self._timer.cancel()
        self._gate.forget(self)

    def _give_up(self) -> None:
        if not self.done:
            self.done = True
            self._gate.forget(self)
            self._sink.on_error(
                AgentBusyError(
                    self.run.name, self.run.id, f"the clean-up of the run before took more than {WAIT_SECONDS:g} s"
                )
            )
