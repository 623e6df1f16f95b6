"""The lease of a bound conversation around a run: acquired before it begins, released with its last save.

    the running flag -> acquire the lease -> load what another process has saved -> the run -> save + release
                                                                                              release, if that failed

A run that loses its lease ends with `LeaseLostError`: its memory is repaired and nothing more is saved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from agentscope_rx.agent.persistence import refresh
from agentscope_rx.agent.ports import AgentCore
from agentscope_rx.agent.repair import report_errors
from agentscope_rx.agent.run import Run
from agentscope_rx.agent.state_persistence import StatePersistence
from agentscope_rx.errors import (
    AgentShuttingDownError,
    ConfigurationError,
    QueuedCallInterruptedError,
    RunDeadlineError,
)
from agentscope_rx.events import Event
from agentscope_rx.reactive import Flow, concat, concat_map, defer, empty, take_until, then, throw, timeout
from agentscope_rx.session import LeasePolicy, SessionLease, WhenHeld

T = TypeVar("T")

_WHOLE = StatePersistence()


def check_lease(
    lease: LeasePolicy | WhenHeld | None, name: str, parts: StatePersistence, *, check_running: bool
) -> LeasePolicy | None:
    """The policy of a lease, None without one; `ConfigurationError` if the agent cannot keep it."""
    if lease is None:
        return None
    if not check_running:
        raise ConfigurationError(
            f"Agent {name!r} has check_running=False: its calls overlap, and a lease is for one run at a time. Leave "
            "out one of the two."
        )
    if not (parts.memory and parts.pending):
        raise ConfigurationError(
            f"Agent {name!r} saves only a part of a conversation: another process that takes the lease would continue "
            "without the rest. Make it without state_persistence."
        )
    return LeasePolicy.of(lease)


def lease_of(run: Run) -> SessionLease | None:
    """The lease of the run's conversation, None if it is not bound with one."""
    binding = run.conversation.binding
    return None if binding is None else binding.lease


def bound(agent: AgentCore, run: Run) -> Flow[Event]:
    """Bind the agent's own conversation to the agent's session, if that is still to be done.

    Signals: completion; the errors of `load`.
    Cancels: as `load`.
    """

    def done(loaded: bool) -> Flow[Event]:
        if loaded:
            agent.restored(run)
        return empty()

    return agent.bound(run.memory).pipe(concat_map(done))


def with_lease(agent: AgentCore, run: Run, following: Callable[[], Flow[T]]) -> Flow[T]:
    """`following()`, once the run has the lease, if its conversation is bound with one; signals as `leased`."""
    place = agent.place
    if place is None and run.conversation.binding is None:
        return following()

    def begin() -> Flow[T]:
        lease = lease_of(run)
        return following() if lease is None else leased(agent, run, lease, following)

    if place is None or place.lease is None or run.conversation.binding is not None:
        return begin()
    # the lease is that of the conversation: it is known now, and loaded again if another process saves it meanwhile
    return _in_time(run, bound(agent, run)).pipe(then(begin))


def leased(agent: AgentCore, run: Run, lease: SessionLease, following: Callable[[], Flow[T]]) -> Flow[T]:
    """`following()`, once the run has the lease and the conversation is as it is stored.

    Signals: those of `following`; `ConversationLeasedError`, `RunDeadlineError`, or that of a run which is interrupted
    while it waits: `QueuedCallInterruptedError`, at a shutdown `AgentShuttingDownError`; as `persistence.refresh`.
    Cancels: the wait; the part in progress.
    """
    conversation, interruption = run.conversation, run.interruption
    binding = conversation.binding
    if binding is None:
        return following()
    queued = lease.policy.when_held == "queue"

    def acquired() -> Flow[T]:
        if queued and interruption.requested and not lease.held:
            if interruption.is_shutdown:
                return throw(AgentShuttingDownError(run.name))
            return throw(QueuedCallInterruptedError(run.name, run.id, interruption.source))
        return refresh(conversation, run.name, run.memory, _WHOLE, binding).pipe(concat_map(refreshed))

    def refreshed(loaded: bool) -> Flow[T]:
        if loaded:
            # the run was made for the conversation as it was
            agent.restored(run)
        return following()

    acquiring: Flow[int] = lease.acquire(run.scope)
    if queued:
        acquiring = acquiring.pipe(take_until(interruption.event))
    return _in_time(run, acquiring).pipe(then(acquired))


def _in_time(run: Run, acquiring: Flow[T]) -> Flow[T]:
    deadline = None if run.limits is None else run.limits.deadline
    if deadline is None:
        return acquiring
    left = deadline - (run.scope.loop.time() - run.started)
    if left <= 0:
        return throw(RunDeadlineError(run.name, deadline))
    return acquiring.pipe(timeout(total=left, error=lambda which, limit: RunDeadlineError(run.name, deadline)))


def guarded(run: Run, events: Flow[T]) -> Flow[T]:
    """The events, ended by `LeaseLostError` when the run loses its lease. Cancels: the events."""
    lease = lease_of(run)
    return events if lease is None else lease.guard(events)


def closing(run: Run) -> None:
    """The next save is the last one of the run: it releases the lease."""
    lease = lease_of(run)
    if lease is not None:
        lease.close_with_next_save()


def given_up(run: Run, free: Callable[[], None]) -> Flow[object] | None:
    """Call `free` once the lease is released: now, returning None, unless the run still holds it.

    Signals: completion; no error.
    Cancels: the release; `free` is called.
    """
    lease = lease_of(run)
    if lease is None:
        free()
        return None

    def freed() -> Flow[Event]:
        lease.leave()
        free()
        return empty()

    if not lease.held:
        freed()
        return None

    def released() -> Flow[Event]:
        return empty()

    releasing = defer(lease.release).pipe(then(released))
    return concat(report_errors(releasing, f"releasing the lease of agent {run.name}"), defer(freed))
