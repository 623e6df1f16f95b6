"""The deadline of a run: an error, or a summary in the time before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from reactivex import Observable

from agentscope_rx.agent.interruption import Cut, InterruptSource
from agentscope_rx.agent.limits import UsageLimits
from agentscope_rx.agent.run import Run
from agentscope_rx.errors import RunDeadlineError
from agentscope_rx.events import Event
from agentscope_rx.reactive import Flow, defer, timeout

T = TypeVar("T")


def in_time(run: Run, events: Flow[Event]) -> Flow[Event]:
    """The events, ended at the deadline of the run, if it has one.

    Signals: the events'; `RunDeadlineError`.
    Cancels: the events' source, and the timers.
    """
    limits = run.limits
    if limits is None or limits.deadline is None:
        return events
    return _with_deadline(run, limits, limits.deadline, events)


def _with_deadline(run: Run, limits: UsageLimits, deadline: float, events: Flow[Event]) -> Flow[Event]:
    """The events, ended at the deadline. If a summary follows, the work in progress is interrupted before.

    The deadline counts from the beginning of the call, including the time that it has waited for the running flag.
    """

    def begin() -> Flow[Event]:
        left = deadline - (run.scope.loop.time() - run.started)
        if left <= 0:
            raise RunDeadlineError(run.name, deadline)

        def interrupt() -> None:
            run.interruption.request(None, InterruptSource.SYSTEM, Cut.DEADLINE)

        if limits.on_limit == "summary":
            run.timers = (*run.timers, run.scope.call_later(max(0.0, left - limits.summary_reserve), interrupt))
        return events.pipe(until(run, deadline, left))

    return defer(begin)


def until(run: Run, deadline: float, left: float) -> Callable[[Observable[T]], Flow[T]]:
    """The operator that ends a flow after `left` seconds, by the error of this deadline."""
    return timeout(total=left, error=lambda which, limit: RunDeadlineError(run.name, deadline))
