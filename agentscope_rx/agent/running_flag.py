"""`RunningFlag`: lets one run of a conversation through at a time, across threads.

    free --acquire--> running --release--> free
                      running --leave----> closing --release--> free

A second run is refused, waits in a queue, or replaces the first one (see `when_busy`). While a run is *closing* every
run waits, because the memory of a disposed run is being repaired; with `when_busy="error"` at most `WAIT_SECONDS`.

A queued call that is interrupted fails at once, and has remembered nothing: the memory belongs to another run. A call
with `when_busy="error"` waits only for a clean-up: interrupted there, it ends as soon as it begins, with a reply.

A run whose loop was closed under it is *lost*: it can neither end nor repair anything. The next run takes the flag from
it, and repairs memory in its place. In a forked child the runs of the parent are lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from agentscope_rx.agent.interruption import InterruptSource
from agentscope_rx.agent.run_state import RunState
from agentscope_rx.agent.when_busy import QUEUE_LIMIT, WhenBusy
from agentscope_rx.errors import AgentBusyError, AgentShuttingDownError, QueuedCallInterruptedError
from agentscope_rx.reactive import Flow, Scope
from agentscope_rx.reactive.kernel.forking import call_after_fork, shared_lock
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink
from agentscope_rx.reactive.kernel.runtime import LOST_LOOP_SECONDS

WAIT_SECONDS = 60.0
"""The seconds that a call waits for the clean-up of the run before it."""


class RunningFlag:
    """Held by one run at a time."""

    __slots__ = ("__weakref__", "_closing", "_idle", "_lock", "_lost", "_name", "_run", "_waiting")

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = shared_lock()
        self._run: RunState | None = None
        self._closing = False
        # replaced by tuples with one more or one less: most flags never have any
        self._waiting: tuple[_Waiter, ...] = ()
        self._idle: tuple[Callable[[], None], ...] = ()
        self._lost: tuple[RunState, ...] = ()
        call_after_fork(self)

    def after_fork(self) -> None:
        """A run of the parent continues there. In this copy it is lost: the next run closes its open calls."""
        if self._run is not None:
            self._lost = (*self._lost, self._run)
        self._run = None
        self._closing = False
        self._waiting = ()
        self._idle = ()

    @property
    def run(self) -> RunState | None:
        """The run that holds the flag, if any; not a lost one."""
        run = self._run
        return None if run is None or _is_lost(run) else run

    def is_held_by(self, run: RunState | None) -> bool:
        """True if this run holds the flag; for None, if no run does."""
        return self._run is run

    @property
    def interruptible(self) -> tuple[RunState, ...]:
        """The runs that can be interrupted: the one that is running, and those that wait to enter."""
        with self._lock:
            return tuple(self._interruptible())

    def _interruptible(self) -> list[RunState]:
        run = None if self._closing else self.run
        waiting = [waiter.run for waiter in self._waiting if not (waiter.done or _is_lost(waiter.run))]
        return waiting if run is None else [run, *waiting]

    def awaited_by(self, run: RunState) -> RunState | None:
        """The run that holds the flag while this one waits for it; None if it does not wait."""
        with self._lock:
            return self._run if any(waiter.run is run and not waiter.done for waiter in self._waiting) else None

    def take_lost(self) -> tuple[RunState, ...]:
        """The lost runs whose memory is not repaired yet; each is given once."""
        if not self._lost and (self._run is None or not _is_lost(self._run)):
            return ()
        with self._lock:
            self._drop_lost()
            lost, self._lost = self._lost, ()
        return lost

    def _drop_lost(self) -> None:
        if self._run is not None and _is_lost(self._run):
            self._lost = (*self._lost, self._run)
            self._run = None
            self._closing = False

    def acquire(self, run: RunState, when_busy: WhenBusy = "error", limit: int = QUEUE_LIMIT) -> Flow[RunState]:
        """The run, once it holds the flag. At most `limit` runs wait for it.

        Signals: the run; `AgentBusyError` at once if it is refused, or if the clean-up of a run takes too long;
        `QueuedCallInterruptedError` (at a shutdown `AgentShuttingDownError`) if it is interrupted in the queue.
        Cancels: the waiting.
        """

        return Flow(partial(self._enter, run, when_busy, limit))

    def _enter(self, run: RunState, when_busy: WhenBusy, limit: int, sink: Sink[RunState], scope: Scope) -> None:
        if isinstance(sink, OperatorSink) and not sink.disposed and self.take(run):
            sink.on_next(run)
            if not sink.disposed:
                sink.on_completed()
            return
        waiter = _Waiter(self, run, sink, scope, queued=when_busy != "error")
        sink.on_subscribe(waiter)
        if waiter.done:
            return
        refusal: Exception | None = None
        replaced: list[RunState] = []
        with self._lock:
            self._drop_lost()
            # those that wait for a run that was lost meanwhile come first
            next = self._promote() if self._waiting else None
            holder = self._run
            if holder is None:
                self._run = run
                self._closing = False
                waiter.done = True
            elif (refusal := self._refusal(holder, when_busy, limit)) is None:
                if when_busy == "replace":
                    replaced = self._interruptible()
                ahead = (holder, *(other.run for other in self._waiting))
                waiter.looks = any(other.scope.loop is not scope.loop for other in ahead)
                self._waiting = (*self._waiting, waiter)
        if next is not None:
            self._hand_over(next)
        if refusal is not None:
            waiter.refuse(refusal)
        elif holder is None:
            waiter.enter()
        else:
            waiter.wait()
        for other in replaced:
            other.interruption.request(None, InterruptSource.SYSTEM)

    def take(self, run: RunState) -> bool:
        """Give the run the flag if it is free, and nothing waits for it; `release` it, too."""
        with self._lock:
            if self._run is not None or self._waiting:
                return False
            self._run = run
            self._closing = False
            return True

    def _refusal(self, holder: RunState, when_busy: WhenBusy, limit: int) -> Exception | None:
        if when_busy == "error" and not self._closing:
            return AgentBusyError(self._name, holder.id)
        if when_busy == "queue" and len(self._waiting) >= limit:
            self._waiting = tuple(waiter for waiter in self._waiting if not (waiter.done or _is_lost(waiter.run)))
        if when_busy == "queue" and len(self._waiting) >= limit:
            full = f"{len(self._waiting)} calls wait for it already, which is the limit (queue_limit)"
            return AgentBusyError(self._name, holder.id, full)
        return None

    def _promote(self) -> _Waiter | None:
        """Give the flag, if it is free, to the first run that waits. Called with the lock."""
        while self._run is None and self._waiting:
            waiter, *others = self._waiting
            self._waiting = tuple(others)
            if not (waiter.done or waiter.is_leaving or _is_lost(waiter.run)):
                waiter.done = True
                self._run = waiter.run
                self._closing = False
                return waiter
        return None

    def _hand_over(self, waiter: _Waiter | None) -> None:
        """Let the run enter that was given the flag; if its loop was closed meanwhile, the one after it."""
        while waiter is not None and not waiter.scope.call_from_thread(waiter.enter):
            with self._lock:
                self._drop_lost()
                waiter = self._promote()

    def look(self) -> None:
        """If the run that holds the flag is lost, the first run that waits enters."""
        with self._lock:
            self._drop_lost()
            waiter = self._promote()
        self._hand_over(waiter)

    def leave(self, run: RunState) -> None:
        """The run was disposed: its clean-up begins."""
        with self._lock:
            if self._run is run:
                self._closing = True

    def release(self, run: RunState) -> None:
        """The run is over: the next one in the queue enters."""
        idle: tuple[Callable[[], None], ...] = ()
        with self._lock:
            if self._run is not run:
                return
            self._run = None
            self._closing = False
            waiter = self._promote() if self._waiting else None
            if waiter is None:
                idle, self._idle = self._idle, ()
        if waiter is not None:
            self._hand_over(waiter)
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
                    self._idle = (*self._idle, waiting.wake)
            if not busy:
                waiting.emit()

        return Flow(connect)

    def forget_idle(self, call: Callable[[], None]) -> None:
        """Stop waiting for the flag to be free."""
        with self._lock:
            self._idle = tuple(other for other in self._idle if other != call)

    def forget(self, waiter: _Waiter) -> bool:
        """Take the waiter out of the queue; False if it has entered or left already."""
        with self._lock:
            if waiter.done:
                return False
            waiter.done = True
            self._waiting = tuple(other for other in self._waiting if other is not waiter)
            return True


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
    """A run that waits to enter. `done` once it has entered, given up or left; `queued` unless it may be refused.

    `looks` is true if runs of other loops are ahead of it, which may be lost without a sign.
    """

    __slots__ = (
        "_entered",
        "_flag",
        "_left",
        "_sink",
        "_timer",
        "_unlisten",
        "done",
        "looks",
        "queued",
        "run",
        "scope",
    )

    def __init__(self, flag: RunningFlag, run: RunState, sink: Sink[RunState], scope: Scope, *, queued: bool) -> None:
        self._flag = flag
        self._sink = sink
        self._timer: asyncio.Handle | None = None
        self._unlisten: Callable[[], None] | None = None
        self._left = False
        self._entered = False
        self.run: RunState = run
        self.scope: Scope = scope
        self.queued: bool = queued
        self.looks: bool = False
        self.done: bool = False

    @property
    def is_leaving(self) -> bool:
        """True if it was interrupted in the queue, and is about to fail."""
        return self.queued and self.run.interruption.requested

    def wait(self) -> None:
        if not self.queued:
            self._timer = self.scope.call_later(WAIT_SECONDS, self._give_up)
            return
        self._unlisten = self.run.interruption.event.listen(self._interrupted)
        if self.looks and not self.done:
            self._timer = self.scope.call_later(LOST_LOOP_SECONDS, self._look)

    def refuse(self, error: Exception) -> None:
        """It does not enter: emit the error once the subscriber has its subscription (see `next_turn`)."""
        self.done = True
        self._stop()
        self.run.inbox.close()
        if self.scope.work.outermost().subscribing:
            self._timer = self.scope.call_soon(lambda: self._sink.on_error(error))
        else:
            self._sink.on_error(error)

    def enter(self) -> None:
        """The run holds the flag now."""
        if self._timer is not None or self._unlisten is not None:
            self._stop()
        if self._left:
            self._flag.release(self.run)
            return
        self._entered = True
        self._sink.on_next(self.run)
        if not self._left:
            self._sink.on_completed()

    def dispose(self) -> None:
        self._left = True
        self._stop()
        self._flag.forget(self)
        if not self._entered:
            self.run.inbox.close()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._unlisten is not None:
            self._unlisten()
            self._unlisten = None

    def _look(self) -> None:
        self._timer = self.scope.call_later(LOST_LOOP_SECONDS, self._look)
        self._flag.look()

    def _interrupted(self) -> None:
        # a run that has entered meanwhile ends by itself
        if self._flag.forget(self):
            interruption = self.run.interruption
            if interruption.is_shutdown:
                self.refuse(AgentShuttingDownError(self.run.name))
            else:
                self.refuse(QueuedCallInterruptedError(self.run.name, self.run.id, interruption.source))

    def _give_up(self) -> None:
        if self._flag.forget(self):
            waited = f"the clean-up of the run before took more than {WAIT_SECONDS:g} s"
            self.refuse(AgentBusyError(self.run.name, self.run.id, waited))
