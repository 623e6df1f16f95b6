"""`Connected`: the agents that share a recorder, to find the session that a run's conversation is saved in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from weakref import WeakSet

from agentscope_rx.reactive.kernel.forking import new_lock


class HasKey(Protocol):
    """A conversation."""

    @property
    def saved_as(self) -> str | None:
        """The key of its session, if it is bound to one."""
        ...


class RunOfKey(Protocol):
    """A run."""

    @property
    def id(self) -> str: ...
    @property
    def conversation(self) -> HasKey: ...


class HasRuns(Protocol):
    """An agent."""

    @property
    def runs(self) -> Sequence[RunOfKey]:
        """The runs in progress."""
        ...


class Connected:
    """Agents, as long as they live. Thread-safe."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._agents: WeakSet[HasRuns] = WeakSet()

    def add(self, agent: HasRuns) -> None:
        """Add an agent."""
        with self._lock:
            self._agents.add(agent)

    def session_key_of(self, run_id: str) -> str | None:
        """The key of the session of this run's conversation; None if it is in none, or not a run of these agents."""
        with self._lock:
            agents = tuple(self._agents)
        return next((run.conversation.saved_as for agent in agents for run in agent.runs if run.id == run_id), None)
