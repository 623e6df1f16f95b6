"""`RunningFlag`: lets one run of a conversation through at a time, across threads.

    free --acquire--> running --release--> free
                      running --leave----> closing --release--> free

A second run is refused while one is running, and waits (bounded) while one is closing: the memory of a disposed run is
being repaired. A run whose loop was closed under it is *lost*: it can neither end nor repair anything. The next
run takes the flag from it, and repairs memory in its place. In a forked child the runs of the parent are lost.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from agentscope_rx.agent.run_state import RunState
from agentscope_rx.errors import AgentBusyError
from agentscope_rx.reactive import Flow, Scope
from agentscope_rx.reactive.kernel.forking import call_after_fork, new_lock
from agentscope_rx.reactive.kernel.observer import Sink

WAIT_SECONDS = 60.0
"""The seconds that a call waits for the clean-up of the run before it."""


class RunningFlag:
    """Held by one run at a time."""

    __slots__ = ("__weakref__", "_closing", "_idle", "_lock", "_lost", "_name", "_run", "_waiting")

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = new_lock()
        self._run: RunState | None = None
        self._closing = False
        self._waiting: deque[_Waiter] = deque()
        self._idle: list[Callable[[], None]] = []
        self._lost: list[RunState] = []
        call_after_fork(self)

    def after_fork(self) -> None:
        """A run of the parent continues there. In this copy it is lost: the next run closes its open calls."""
        if self._run is not None:
            self._lost.append(self._run)
        self._run = None
        self._closing = False
        self._waiting.clear()
        self._idle = []

    @property
    def run(self) -> RunState | None:
        """The run that holds the flag, if any; not a lost one."""
        run = self._run
        return None if run is None or _is_lost(run) else run

    @property
    def interruptible(self) -> tuple[RunState, ...]:
        """The runs that can be interrupted: the one that is running, and those that wait to enter."""
        with self._lock:
            run = None if self._closing else self.run
            waiting = [waiter.run for waiter in self._waiting if not waiter.done]
        return tuple(waiting) if run is None else (run, *waiting)

    def take_lost(self) -> tuple[RunState, ...]:
        """The lost runs whose memory is not repaired yet; each is given once."""
        with self._lock:
            self._drop_lost()
            lost, self._lost = self._lost, []
        return tuple(lost)

    def _drop_lost(self) -> None:
        if self._run is not None and _is_lost(self._run):
            self._lost.append(self._run)
            self._run = None
            self._closing = False

    def acquire(self, run: RunState) -> Flow[RunState]:
        """The run, once it holds the flag.

        Signals: the run; `AgentBusyError` at once if another is running, or if the clean-up of one takes too long.
        Cancels: the waiting.
        """

        def connect(sink: Sink[RunState], scope: Scope) -> None:
            waiter = _Waiter(self, run, sink, scope)
            sink.on_subscribe(waiter)
            if waiter.done:
                return
            with self._lock:
                self._drop_lost()
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

    def leave(self, run: RunState) -> None:
        """The run was disposed: its clean-up begins."""
        with self._lock:
            if self._run is run:
                self._closing = True

    def release(self, run: RunState) -> None:
        """The run is over: the next one in the queue enters."""
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
        """Waits until no run holds the flag.

        Signals: one None.
        Cancels: the waiting.
        """

        def connect(sink: Sink[None], scope: Scope) -> None:
            waiting = _Idle(self, sink, scope)
            sink.on_subscribe(waiting)
            if waiting.disposed:
                return
            with self._lock:
                busy = self.run is not None
                if busy:
                    self._idle.append(waiting.wake)
            if not busy:
                waiting.emit()

        return Flow(connect)

    def forget_idle(self, call: Callable[[], None]) -> None:
        """Stop waiting for the flag to be free."""
        with self._lock:
            if call in self._idle:
                self._idle.remove(call)

    def forget(self, waiter: _Waiter) -> None:
        """Take the waiter out of the queue."""
        with self._lock:
            if waiter in self._waiting:
                self._waiting.remove(waiter)


def _is_lost(run: RunState) -> bool:
    return run.scope.loop.is_closed()


class _Idle:
    """A subscriber that waits for the flag to be free."""

    __slots__ = ("_flag", "_scope", "_sink", "disposed")

    def __init__(self, flag: RunningFlag, sink: Sink[None], scope: Scope) -> None:
        self._flag = flag
        self._sink = sink
        self._scope = scope
        self.disposed = False

    def wake(self) -> None:
        """Emit on the subscriber's loop; from any thread."""
        self._scope.call_from_thread(self.emit)

    def emit(self) -> None:
        if not self.disposed:
            self._sink.on_next(None)
        if not self.disposed:
            self._sink.on_completed()

    def dispose(self) -> None:
        self.disposed = True
        self._flag.forget_idle(self.wake)


class _Waiter:
    """A run that waits to enter. `done` once it has entered, given up or left."""

    __slots__ = ("_flag", "_left", "_sink", "_timer", "done", "run", "scope")

    def __init__(self, flag: RunningFlag, run: RunState, sink: Sink[RunState], scope: Scope) -> None:
        self._flag = flag
        self._sink = sink
        self._timer: asyncio.Handle | None = None
        self._left = False
        self.run: RunState = run
        self.scope: Scope = scope
        self.done = False

    def wait(self) -> None:
        self._timer = self.scope.call_later(WAIT_SECONDS, self._give_up)

    def refuse(self, error: Exception) -> None:
        """Another run holds the flag: emit the error once the subscriber has its subscription (see `next_turn`)."""
        self.done = True
        if self.scope.work.outermost().subscribing:
            self._timer = self.scope.call_soon(lambda: self._sink.on_error(error))
        else:
            self._sink.on_error(error)

    def enter(self) -> None:
        """The run holds the flag now."""
        if self._timer is not None:
            self._timer.cancel()
        if self._left:
            self._flag.release(self.run)
            return
        self._sink.on_next(self.run)
        if not self._left:
            self._sink.on_completed()

    def dispose(self) -> None:
        self._left = True
        if self._timer is not None:
            self._timer.cancel()
        self._flag.forget(self)

    def _give_up(self) -> None:
        if not self.done:
            self.done: bool = True
            self._flag.forget(self)
            self._sink.on_error(
                AgentBusyError(
                    self.run.name, self.run.id, f"the clean-up of the run before took more than {WAIT_SECONDS:g} s"
                )
            )
