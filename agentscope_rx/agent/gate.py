"""`Gate`: the running flag of one agent with one memory, across threads.

    free --acquire--> running --release--> free
                      running --leave----> closing --release--> free

A second run is refused while one is running, and waits (bounded) while one is closing: a disposed run still has to
repair memory.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from agentscope_rx.agent.run import Run
from agentscope_rx.errors import AgentBusyError
from agentscope_rx.reactive import Flow, Scope
from agentscope_rx.reactive.observer import Sink

WAIT_SECONDS = 60.0
"""How long a call waits for the clean-up of the run before it."""


class Gate:
    """Lets one run through at a time."""

    __slots__ = ("_closing", "_idle", "_lock", "_name", "_run", "_waiting")

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._run: Run | None = None
        self._closing = False
        self._waiting: deque[_Waiter] = deque()
        self._idle: list[Callable[[], None]] = []

    @property
    def run(self) -> Run | None:
        """The run that holds the gate, if any."""
        return self._run

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
                sink.on_error(AgentBusyError(self._name, holder.id))

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
                if not candidate.done:
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
            flag = _IdleFlag()
            sink.on_subscribe(flag)

            def tell() -> None:
                if not flag.disposed:
                    sink.on_next(None)
                if not flag.disposed:
                    sink.on_completed()

            with self._lock:
                busy = self._run is not None
                if busy:
                    self._idle.append(lambda: scope.call_from_thread(tell))
            if not busy:
                tell()

        return Flow(connect)

    def forget(self, waiter: _Waiter) -> None:
        """The waiter no longer waits."""
        with self._lock:
            if waiter in self._waiting:
                self._waiting.remove(waiter)


class _IdleFlag:
    __slots__ = ("disposed",)

    def __init__(self) -> None:
        self.disposed = False

    def dispose(self) -> None:
        self.disposed = True


class _Waiter:
    """A run at the gate. `done` once it has entered, given up or left."""

    __slots__ = ("_gate", "_left", "_sink", "_timer", "done", "run", "scope")

    def __init__(self, gate: Gate, run: Run, sink: Sink[Run], scope: Scope) -> None:
        self._gate = gate
        self._sink = sink
        self._timer = None
        self._left = False
        self.run = run
        self.scope = scope
        self.done = False

    def wait(self) -> None:
        self._timer = self.scope.call_later(WAIT_SECONDS, self._give_up)

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
