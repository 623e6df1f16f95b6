"""`GuardCore`: what the parts of a `GuardrailsHook` share: its settings, stops and findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from reactivex import operators as ops

from agentscope_rx.errors import GuardrailError
from agentscope_rx.events import EventSource
from agentscope_rx.guardrails.judging import Outcome
from agentscope_rx.guardrails.state import GuardState, LiveRun, Stop
from agentscope_rx.guardrails.verdict import Finding
from agentscope_rx.messages import HIDDEN, Msg, TextBlock
from agentscope_rx.parts import Part
from agentscope_rx.reactive import Flow, flow
from agentscope_rx.reactive.kernel.dropped import report_dropped

T = TypeVar("T")

GUARDRAILS = "guardrails"
"""The key of the findings in the metadata of messages and results."""

OnStop = Literal["reply", "error"]
Refused = Literal["notice", "hide", "keep"]
"""What memory has of an input that was stopped: a notice in its place; the input and the reply, which no request sends;
or the input."""


@dataclass(slots=True)
class GuardCore:
    """The settings of a hook, its state in each conversation, and its runs in progress."""

    part: Part[GuardState]
    on_stop: OnStop
    refused: Refused
    reply: str
    notice: str
    on_warning: Callable[[Finding], object] | None
    live: dict[str, LiveRun] = field(default_factory=dict[str, LiveRun])

    def run(self, source: EventSource) -> LiveRun:
        """The run in progress."""
        return self.live.setdefault(source.run_id, LiveRun())

    def stop_of(self, source: EventSource) -> Stop | None:
        """The stop that is in force in this run."""
        return self.part.get(source).stops.get(source.run_id)

    def error(self, source: EventSource, stop: Finding) -> GuardrailError:
        """The error for a stop."""
        error = GuardrailError(source.agent, stop.guardrail, stop.kind, stop.reason)
        error.__cause__ = stop.error
        return error

    def stop(self, source: EventSource, outcome: Outcome) -> Stop:
        """Let the run end with the reply; the `GuardrailError`, if a stop is to fail it."""
        found = outcome.stop
        assert found is not None
        if self.on_stop == "error":
            raise self.error(source, found)
        reply = outcome.reply
        if reply is None:
            reply = self.reply.replace("{reason}", found.reason).replace("{guardrail}", found.guardrail)
        stop = Stop(found.guardrail, found.kind, found.reason, reply)
        self.change(source, lambda state: replace(state, stops={**state.stops, source.run_id: stop}))
        return stop

    def change(self, source: EventSource, change: Callable[[GuardState], GuardState]) -> None:
        """Change the state in the conversation."""
        self.part.change(source, lambda state: (change(state), None))

    def report(self, findings: Sequence[Finding]) -> None:
        """Call `on_warning` with the warnings."""
        if self.on_warning is None:
            return
        for finding in findings:
            if finding.action == "warn":
                try:
                    self.on_warning(finding)
                except Exception as error:
                    report_dropped(error, f"on_warning of guardrail {finding.guardrail}")

    def refuse(self, message: Msg) -> Msg:
        """What memory has in the place of an input that was stopped; its results stay, because calls wait for them."""
        if self.refused == "keep":
            return message
        if self.refused == "hide" and not message.tool_results:
            return message.marked(HIDDEN)
        return message.replace(content=(*message.tool_results, TextBlock(self.notice)))


def settled(outcome: Outcome | Flow[Outcome], settle: Callable[[Outcome], T]) -> T | Flow[T]:
    """`settle(outcome)`: at once if it is there."""
    return settle(outcome) if isinstance(outcome, Outcome) else flow(outcome.pipe(ops.map(settle)))
