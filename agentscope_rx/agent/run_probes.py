"""The probes of tracers around a run, which lives in the context that they choose.

probes.call( the scope with their context -> the run;  the flag, the stages, the release )
"""

from __future__ import annotations

from agentscope_rx.agent.input import ParsedInput
from agentscope_rx.agent.ports import AgentCore
from agentscope_rx.agent.run import Run
from agentscope_rx.events import Event
from agentscope_rx.hooks import CallRequest
from agentscope_rx.hooks.wrapping.probes import inherited_probes
from agentscope_rx.reactive import Flow, Scope
from agentscope_rx.reactive.kernel.observer import Sink, attach


def probed_run(agent: AgentCore, run: Run, given: ParsedInput, events: Flow[Event]) -> Flow[Event]:
    """The events of a run that has not begun, seen by the agent's probes, or else by those of the run around it.

    Signals: those of the events.
    Cancels: the run.
    """

    probes = run.hooks.probes
    if probes is None:
        probes = inherited_probes(run.scope.context)
        if probes is None:
            return events
        run.hooks = run.hooks.seen_by(probes)

    def enter(sink: Sink[Event], scope: Scope) -> None:
        run.enter(scope)
        attach(events, sink, scope)

    request = CallRequest(
        source=run.source,
        input=given.messages,
        answers=given.answers,
        conversation=run.conversation,
        is_workflow=agent.is_workflow,
    )
    return probes.call(Flow(enter), request)
