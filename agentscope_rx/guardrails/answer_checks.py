"""`AnswerChecks`: around a model call: checks of its output, checks beside it, and the reply of a stop in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from reactivex import Observable

from agentscope_rx.events import EventSource, PostReasoningEvent, PostSummaryEvent
from agentscope_rx.guardrails.check_request import CheckRequest
from agentscope_rx.guardrails.core import GUARDRAILS, GuardCore
from agentscope_rx.guardrails.judging import Outcome, judge
from agentscope_rx.guardrails.output_check import StoppedError, checked_output
from agentscope_rx.guardrails.port import Guardrail
from agentscope_rx.guardrails.state import GuardState, Stop
from agentscope_rx.guardrails.verdict import Finding
from agentscope_rx.guardrails.windows import WindowOptions
from agentscope_rx.hooks import ModelRequest
from agentscope_rx.messages import HIDDEN, Msg, TextBlock
from agentscope_rx.models.response import ChatResponse, FinishReason, RetryNotice
from agentscope_rx.reactive import Flow, catch, concat, concat_map, defer, empty, flow, from_iterable, just, throw

HELD_RESPONSES = 64
"""The number of increments of an answer that wait for a check beside the model before the model is read no further."""


class AnswerChecks:
    """The checks of answers, and those of the input that run beside the model."""

    def __init__(
        self, core: GuardCore, output: Sequence[Guardrail], beside: Sequence[Guardrail], windows: WindowOptions
    ) -> None:
        self._core = core
        self._output = output
        self._beside = beside
        self._names = f" {','.join(check.name for check in beside)}"
        self._windows = windows

    def entry(self, message: Msg) -> str:
        """The message, as it is noted until these checks have judged it: other hooks may have checks of their own."""
        return message.id + self._names

    def ids_in(self, entries: Sequence[str]) -> Sequence[str]:
        """The ids of the messages that these checks have noted."""
        return [each.removesuffix(self._names) for each in entries if each.endswith(self._names)]

    def around(self, source: Observable[ChatResponse], request: ModelRequest) -> Flow[ChatResponse]:
        """The answer as the checks leave it.

        Signals: responses; a `GuardrailError`; the error of the model.
        Cancels: the model call and the checks in progress.
        """
        return defer(lambda: self._answer(flow(source), request))

    def _answer(self, source: Flow[ChatResponse], request: ModelRequest) -> Flow[ChatResponse]:
        where = request.source
        stop = self._core.stop_of(where)
        if stop is not None:
            return self._replied(where, stop)
        unjudged = self._core.part.get(where).unjudged
        waiting = [m for m in request.messages if self.entry(m) in unjudged] if unjudged and self._beside else []
        if not self._output and not waiting:
            return source
        answer = source
        if self._output:
            options = replace(self._windows, response_tool=request.response_tool)
            answer = checked_output(answer, self._output, options, where, partial(self._found, where))
        gate = _Gate(not waiting)
        if waiting:
            answer = self._held(answer, waiting, where, gate)
        return answer.pipe(catch(partial(self._stopped, where, gate)))

    def _found(self, source: EventSource, findings: Sequence[Finding]) -> None:
        self._core.report(findings)
        self._core.run(source).findings += findings

    def _held(
        self, answer: Flow[ChatResponse], waiting: Sequence[Msg], source: EventSource, gate: _Gate
    ) -> Flow[ChatResponse]:
        """The answer, held back until the input is judged; the checks and the model begin together."""

        def judged(message: Msg) -> Flow[object]:
            request = CheckRequest(kind="input", text=message.text, message=message, source=source)
            return _flow(judge(self._beside, request)).pipe(concat_map(partial(settle, message)))

        def settle(message: Msg, outcome: Outcome) -> Flow[object]:
            self._core.report(outcome.findings)
            stopped = outcome.stop is not None

            def change(state: GuardState) -> GuardState:
                left = tuple(each for each in state.unjudged if each != self.entry(message))
                return replace(state, unjudged=left, refused=(*state.refused, message.id) if stopped else state.refused)

            self._core.change(source, change)
            return throw(StoppedError(outcome, shown=False)) if stopped else empty()

        def opened() -> Flow[object]:
            gate.open = True
            return empty()

        verdicts = concat(from_iterable(waiting).pipe(concat_map(judged)), defer(opened))
        items: Flow[object] = concat(just(gate), cast("Flow[object]", answer))
        held = items.pipe(concat_map(lambda item: verdicts if item is gate else item, prefetch=HELD_RESPONSES))
        return cast("Flow[ChatResponse]", held)

    def _stopped(self, source: EventSource, gate: _Gate, error: Exception) -> Flow[ChatResponse]:
        """The reply in the place of an answer that was stopped."""
        if not isinstance(error, StoppedError):
            return throw(error)
        found = error.outcome.stop
        assert found is not None
        stop = self._core.stop(source, error.outcome)
        reply = self._replied(source, stop)
        if not (error.shown and gate.open):
            return reply
        void = RetryNotice(1, 0.0, self._core.error(source, found), discarded=True)
        return concat(just(ChatResponse(retry=void)), reply)

    def _replied(self, source: EventSource, stop: Stop) -> Flow[ChatResponse]:
        self._core.run(source).answered = True
        return just(ChatResponse((TextBlock(stop.reply),), finish_reason=FinishReason.STOP))

    def noted(self, event: PostReasoningEvent | PostSummaryEvent) -> tuple[Msg, bool] | None:
        """The message with the findings, and True if it is the reply of a stop; None without any."""
        run = self._core.run(event.source)
        findings, run.findings = [finding.to_dict() for finding in run.findings], []
        stop = self._core.stop_of(event.source)
        stopped = run.answered and stop is not None
        message = event.message
        if stopped and stop is not None:
            run.answered = False
            findings.append({"guardrail": stop.guardrail, "kind": stop.kind, "action": "stop", "reason": stop.reason})
            left = event.run_id
            self._core.change(
                event.source,
                lambda state: replace(state, stops={run: each for run, each in state.stops.items() if run != left}),
            )
            if stop.kind == "input" and self._core.refused == "hide":
                message = message.marked(HIDDEN)
        if not findings:
            return None
        return message.replace(metadata={**message.metadata, GUARDRAILS: findings}), stopped


class _Gate:
    """True if what comes out of a model call is shown at once."""

    __slots__ = ("open",)

    def __init__(self, is_open: bool) -> None:
        self.open = is_open


def _flow(outcome: Outcome | Flow[Outcome]) -> Flow[Outcome]:
    return just(outcome) if isinstance(outcome, Outcome) else outcome
