"""`Scope`: a subscriber's loop, context variables and demand, and the count of its work under way.

A `Scope` *is* a reactivex scheduler, so it travels upstream through stock operators in the `scheduler` argument of
`subscribe`. Actions that stock operators schedule on it without delay run on the current thread's trampoline (`just(x)`
stays synchronous); only delays go to the loop, by the loop's clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from reactivex import abc, typing
from reactivex.disposable import Disposable
from reactivex.scheduler import CurrentThreadScheduler
from reactivex.scheduler.periodicscheduler import PeriodicScheduler

from agentscope_rx.reactive.kernel.demand import Demand
from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.reactive.kernel.in_flight import InFlight
from agentscope_rx.reactive.kernel.runtime import is_library_loop, library_loop, running_loop

TState = TypeVar("TState")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# one object for all threads: it finds the trampoline of the thread that calls it
_TRAMPOLINE = CurrentThreadScheduler.singleton()


class Scope(PeriodicScheduler):
    """The surroundings of one subscription: its loop, context variables, demand, and the count of work under way.

    `child()` shares all of it; its work also counts as its parent's. All methods but `call_from_thread` and those of
    the scheduler are for the loop's own thread.
    """

    __slots__ = ("context", "demand", "loop", "work")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        context: Context,
        demand: Demand | None = None,
        parent: InFlight | None = None,
    ) -> None:
        self.loop: asyncio.AbstractEventLoop = loop
        self.context: Context = context
        self.demand: Demand | None = demand
        self.work: InFlight = InFlight(parent)

    @classmethod
    def here(cls, demand: Demand | None = None) -> Scope:
        """A scope on this thread's running loop, or on the library's; captures the context variables."""
        return cls(running_loop() or library_loop(), copy_context(), demand)

    def child(self) -> Scope:
        """A scope with the same surroundings and a count of its own."""
        return Scope(self.loop, self.context, self.demand, self.work)

    def own_demand(self) -> Scope:
        """A scope with a demand that can be waived alone; this one if it has no demand."""
        if self.demand is None:
            return self
        return Scope(self.loop, self.context, self.demand.follower(), self.work)

    def is_here(self) -> bool:
        """True on the thread that runs the loop."""
        return running_loop() is self.loop

    def spawn(
        self, coroutine: Coroutine[object, None, None], ended: Callable[[asyncio.Task[None]], object] | None = None
    ) -> asyncio.Task[None]:
        """Run a source's coroutine as a task in a fresh copy of the subscriber's context; counted until it ends.

        `ended(task)`, if given, is called at the task's end and must call `self.ended(task)`.
        """
        task = self.loop.create_task(coroutine, context=self.context.copy())
        self.work.begin()
        task.add_done_callback(self.ended if ended is None else ended)
        return task

    def ended(self, task: asyncio.Task[None]) -> None:
        """Tell the scope that a task has ended, so that its work is no longer counted."""
        if not task.cancelled():
            error = task.exception()
            if error is not None:
                report_dropped(error, "a source")
        self.guarded(self.work.end)

    def abort(self, error: BaseException) -> None:
        """End the run for an exception that is not an `Exception` (`SystemExit`, `KeyboardInterrupt`, ...).

        asyncio would stop the loop, and with the library's loop all other runs. So the run is disposed of, and after
        its clean-up the subscriber receives the exception itself. Without a subscriber it goes to `on_dropped` on the
        library's loop, and leaves any other loop.
        """
        on_abort = self.work.outermost().on_abort
        if on_abort is not None:
            on_abort(error)
        elif is_library_loop(self.loop):
            report_dropped(error, "a run that nothing is subscribed to")
        else:
            raise error

    def guarded(self, call: Callable[..., object], *args: object) -> None:
        """Call this from a callback of the loop: a `BaseException` ends the run, not the loop."""
        try:
            call(*args)
        except Exception:
            raise
        except BaseException as error:
            self.abort(error)

    def call_later(self, delay: float, call: Callable[[], object]) -> asyncio.TimerHandle:
        """Call after `delay` seconds of the loop's clock, in a fresh copy of the context."""
        return self.loop.call_later(delay, self.guarded, call, context=self.context.copy())

    def call_soon(self, call: Callable[[], object]) -> asyncio.Handle:
        """Call in the loop's next turn, in a fresh copy of this scope's context, not in the caller's."""
        return self.loop.call_soon(self.guarded, call, context=self.context.copy())

    def call_from_thread(self, call: Callable[..., object], *args: object) -> bool:
        """Call on the loop's thread, in a fresh copy of the context; False, without a call, if the loop is closed."""
        try:
            self.loop.call_soon_threadsafe(self.guarded, call, *args, context=self.context.copy())
        except RuntimeError:
            if not self.loop.is_closed():
                raise
            return False
        return True

    # --- the scheduler that stock operators see -------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """The loop's clock as a date; differences are exact, also in virtual time."""
        return _EPOCH + timedelta(seconds=self.loop.time())

    def schedule(self, action: abc.ScheduledAction[TState], state: TState | None = None) -> abc.DisposableBase:
        """Run now, on this thread's trampoline."""
        return _TRAMPOLINE.schedule(action, state)

    def schedule_relative(
        self, duetime: typing.RelativeTime, action: abc.ScheduledAction[TState], state: TState | None = None
    ) -> abc.DisposableBase:
        """Run after `duetime` by the loop's clock, on the loop's thread."""
        seconds = max(0.0, self.to_seconds(duetime))
        handles: list[asyncio.TimerHandle | abc.DisposableBase] = []
        cancelled: list[bool] = []

        def act() -> None:
            handles.clear()
            if not cancelled:
                handles.append(self.invoke_action(action, state))

        def start() -> None:
            if not cancelled:
                handles.append(self.call_later(seconds, act))

        def stop() -> None:
            for handle in handles:
                if isinstance(handle, asyncio.TimerHandle):
                    handle.cancel()
                else:
                    handle.dispose()

        def dispose() -> None:
            cancelled.append(True)
            if self.is_here():
                stop()
            else:
                self.call_from_thread(stop)

        if self.is_here():
            start()
        else:
            self.call_from_thread(start)
        return Disposable(dispose)

    def schedule_absolute(
        self, duetime: typing.AbsoluteTime, action: abc.ScheduledAction[TState], state: TState | None = None
    ) -> abc.DisposableBase:
        """Run when `now` reaches `duetime`."""
        return self.schedule_relative(self.to_datetime(duetime) - self.now, action, state)
