"""`RunStart`: the checked arguments of a call. Each subscription begins a run with them.

agent.stream(...)  ->  Flow  --subscribe-->  new_run |> run_events |> probes |> out
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar, cast

from agentscope_rx.agent.handle.run_handle import STARTED
from agentscope_rx.agent.input import ParsedInput
from agentscope_rx.agent.lifecycle import run_events
from agentscope_rx.agent.limits import UsageLimits
from agentscope_rx.agent.ports import AgentCore
from agentscope_rx.agent.run import Run
from agentscope_rx.agent.run_probes import probed_run
from agentscope_rx.agent.structured_output.request import OutputRequest
from agentscope_rx.agent.when_busy import WhenBusy
from agentscope_rx.context import RuntimeContext
from agentscope_rx.events import Event
from agentscope_rx.memory import Memory
from agentscope_rx.models.probing import IN_USE
from agentscope_rx.reactive import Flow, Scope, next_turn, throw
from agentscope_rx.reactive.kernel.observer import Sink, attach
from agentscope_rx.reactive.unbegun import Unbegun

T = TypeVar("T")


class EventSink(Sink[Event], Protocol):
    """A sink that the subscriber's sink knows already; it may be disposed before the run begins."""

    @property
    def disposed(self) -> bool: ...


Out = Callable[[Sink[T], Run], EventSink]
"""Makes the sink of the run's events, for the sink of the subscriber."""


class RunStart(Generic[T]):
    """The arguments of one call, for any number of subscriptions; `connect` is what a flow calls for each."""

    __slots__ = ("_agent", "_context", "_given", "_limits", "_memory", "_out", "_request", "_when_busy", "unbegun")

    def __init__(
        self,
        agent: AgentCore,
        given: ParsedInput,
        out: Out[T],
        memory: Memory,
        context: RuntimeContext | None,
        limits: UsageLimits | None,
        request: OutputRequest | None,
        when_busy: WhenBusy,
    ) -> None:
        self._agent = agent
        self._given = given
        self._out = out
        self._memory = memory
        self._context = context
        self._limits = limits
        self._request = request
        self._when_busy: WhenBusy = when_busy
        self.unbegun: Unbegun | None = None
        """Warns if nothing subscribes."""

    def connect(self, sink: Sink[T], scope: Scope) -> None:
        """Begin a run, and attach its events."""
        if self.unbegun is not None:
            self.unbegun.begun = True
        agent = self._agent
        try:
            run = self._begin(scope.own_demand())
            if run.conversation.on_run is not None:
                run.conversation.on_run(run)
                _drained_with_parents(run)
        except Exception as error:
            failed: Flow[T] = throw(error)
            attach(next_turn(failed), sink, scope)
            return
        events = run_events(agent, run, self._given)
        if run.hooks.probes is not None or IN_USE.ever:
            events = probed_run(agent, run, self._given, events)
        out = self._out(sink, run)
        if not out.disposed:
            attach(events, out, run.scope)

    def _begin(self, scope: Scope) -> Run:
        run = self._agent.new_run(self._memory, scope, self._context, self._limits)
        run.when_busy = self._when_busy
        if self._request is not None:
            run.request = self._request
            self._agent.ask(run, self._request)
        if (start := STARTED.get()) is not None:
            start.take(self._agent, run)
        return run


def _drained_with_parents(run: Run) -> None:
    """Let the shutdowns of the agents above wait for its background work: they know only that of their own runs."""
    jobs, above = run.conversation.jobs, run.parent
    while jobs is not None and above is not None:
        parent = cast("Run", above)
        shutdown = cast("AgentCore", parent.agent).shutdown
        if shutdown is not None:
            shutdown.drain(jobs)
        above = parent.parent
