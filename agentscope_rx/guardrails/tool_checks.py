"""`ToolChecks`: checks of tool calls and of their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from reactivex import Observable

from agentscope_rx.events import Event, EventSource, PostActingEvent, PreActingEvent
from agentscope_rx.guardrails.check_request import CheckRequest, changed_call, request_of_call, result_with_text
from agentscope_rx.guardrails.core import GUARDRAILS, GuardCore, settled
from agentscope_rx.guardrails.judging import Outcome, judge, judge_now
from agentscope_rx.guardrails.port import Guardrail
from agentscope_rx.guardrails.verdict import Finding
from agentscope_rx.hooks import ToolRequest
from agentscope_rx.messages import TextBlock, ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.reactive import Flow, concat_map, empty, flow
from agentscope_rx.tools import ToolChunk, ToolEvent


class ToolChecks:
    """The checks of calls and results."""

    def __init__(self, core: GuardCore, calls: Sequence[Guardrail], results: Sequence[Guardrail]) -> None:
        self._core = core
        self._calls = calls
        self._results = results

    def refusal(self, call: ToolUseBlock, source: EventSource) -> str | None:
        """Why the call must not run, by the checks that take no time; later by all."""
        run = self._core.run(source)
        if self._core.stop_of(source) is not None:
            return "The run is stopped by a guardrail: no more calls are run."
        if not self._calls:
            return None
        judged = run.calls.get(call.id)
        if judged is not None and judged[0] == call:
            return judged[1]
        outcome, takes_time = judge_now(self._calls, request_of_call(call, source))
        if outcome.stop is not None:
            return self._stop_call(source, outcome, outcome.stop)
        if judged is not None and takes_time:
            return "The call was changed after a guardrail had judged it, so it was not run."
        return None

    def _stop_call(self, source: EventSource, outcome: Outcome, found: Finding) -> str:
        if self._core.on_stop == "error" or outcome.reply is not None:
            self._core.stop(source, outcome)
        return f"A guardrail has stopped this call: {found.reason}"

    def before_call(self, event: PreActingEvent) -> Event | Flow[Event]:
        """Judge the call by all checks."""
        source, call = event.source, event.tool_use
        calls = self._core.run(source).calls

        def settle(outcome: Outcome) -> Event:
            self._core.report(outcome.findings)
            if outcome.stop is not None:
                calls[call.id] = (call, self._stop_call(source, outcome, outcome.stop))
                return event
            changed = call if outcome.content is None else changed_call(call, outcome.content)
            calls[call.id] = (changed, None)
            return event if changed is call else event.replace(tool_use=changed)

        return settled(judge(self._calls, request_of_call(call, source)), settle)

    def around(self, source: Observable[ToolEvent], request: ToolRequest) -> Observable[ToolEvent]:
        """The result as the checks leave it; progress, which no check has judged, is not shown."""
        part = ToolResultBlock(request.call.id, request.call.name)
        asked = CheckRequest(kind="tool_result", text="", result=part)
        if not any(check.judges(asked) for check in self._results):
            return source

        def judged(item: ToolEvent) -> ToolEvent | Flow[ToolEvent]:
            if isinstance(item, ToolChunk):
                return empty()
            if not isinstance(item, ToolResultBlock):
                return item
            return cast("Flow[ToolEvent]", self.result(request.source, request.call, item))

        return flow(source).pipe(concat_map(judged))

    def result(
        self, source: EventSource, call: ToolUseBlock | None, result: ToolResultBlock
    ) -> ToolResultBlock | Flow[ToolResultBlock]:
        """The result as the checks leave it."""
        if result.kind is not None and result.kind.waits:
            return result

        def settle(outcome: Outcome) -> ToolResultBlock:
            self._core.report(outcome.findings)
            if outcome.stop is not None:
                return self._stop_result(source, outcome, outcome.stop, result)
            if not outcome.findings:
                return result
            changed = result if outcome.content is None else result_with_text(result, str(outcome.content))
            return _with_findings(changed, outcome.findings)

        request = CheckRequest(kind="tool_result", text=result.text, call=call, result=result, source=source)
        return settled(judge(self._results, request), settle)

    def _stop_result(
        self, source: EventSource, outcome: Outcome, found: Finding, result: ToolResultBlock
    ) -> ToolResultBlock:
        if self._core.on_stop == "error":
            # an error here would be the result of the call
            self._core.run(source).error = self._core.error(source, found)
        elif outcome.reply is not None:
            self._core.stop(source, outcome)
        text = f"Error: A guardrail has removed this result: {found.reason}"
        stopped = ToolResultBlock(result.id, result.name, (TextBlock(text),), ToolResultKind.REJECTED)
        return _with_findings(stopped, outcome.findings)

    def after_call(self, event: PostActingEvent) -> None:
        """Forget the call; fail the run if its result was stopped and stops are errors."""
        run = self._core.run(event.source)
        run.calls.pop(event.tool_use.id, None)
        if run.error is not None:
            raise run.error


def _with_findings(result: ToolResultBlock, findings: Sequence[Finding]) -> ToolResultBlock:
    found = [finding.to_dict() for finding in findings]
    return result.replace(metadata={**result.metadata, GUARDRAILS: found})
