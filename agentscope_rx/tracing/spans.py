"""`Spans`: the records of runs as OpenTelemetry spans, by the GenAI semantic conventions.

    invoke_agent Friday            INTERNAL    a run
      reasoning                    INTERNAL    a stage
        chat gpt-5-mini            CLIENT      an attempt of a model call
      acting
        execute_tool weather       INTERNAL    a tool call
          invoke_agent Expert                  a sub-agent's run
    invoke_workflow Review         INTERNAL    a run of a Pipeline

| how a part ends                  | status | attributes                                             |
|----------------------------------|--------|--------------------------------------------------------|
| well; interrupted; calls pending | unset  | `agentscope.generate_reason`; of calls `...tool.result` |
| disposed of, at any moment       | unset  | `agentscope.cancelled`                                 |
| by an error                      | error  | `error.type`; the exception once, where it began       |

The parent of a span is the current span of the context in which the part was subscribed to. The span is set in the
context of the part; nothing is attached to, or detached from, a context that other code runs in.
"""

from __future__ import annotations

import atexit
import traceback
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextvars import Context
from typing import TYPE_CHECKING, cast
from weakref import WeakSet, ref

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import Span, SpanContext, Status, StatusCode

from agentscope_rx.events import Event, PreCallEvent
from agentscope_rx.messages.redaction import redact_secrets
from agentscope_rx.models.accumulate import ResponseAccumulator
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.reactive import Outcome
from agentscope_rx.reactive.kernel.forking import call_after_fork, new_lock
from agentscope_rx.tracing import attributes
from agentscope_rx.tracing import conventions as names
from agentscope_rx.tracing.content import Content, finished
from agentscope_rx.tracing.recording import Recorder
from agentscope_rx.tracing.records import ModelRecord, Record, RunRecord, ToolRecord

if TYPE_CHECKING:
    from agentscope_rx.tracing.attributes import Attributes

Clock = Callable[[], int]
"""The time in nanoseconds since the epoch."""

MAX_WAITING = 10_000
"""How many conversations with pending calls are remembered, so that the run that goes on has a link."""


class Spans(Recorder):
    """A recorder that makes a span of each record. `clock` is that of the spans; None is the SDK's own."""

    def __init__(self, tracer: trace.Tracer, *, content: Content | None = None, clock: Clock | None = None) -> None:
        self._tracer = tracer
        self._content = content
        self._clock = clock
        self.responses: bool = content is not None and content.messages
        self._lock = new_lock()
        self._waiting: OrderedDict[str, SpanContext] = OrderedDict()
        self._open: WeakSet[Record] = WeakSet()
        call_after_fork(self)
        _end_at_exit(self)

    def after_fork(self) -> None:
        """Forget the open spans, which are the parent's."""
        for record in list(self._open):
            record.span = None
        self._open.clear()

    # --- the beginning --------------------------------------------------------------------------------------------

    def begin(self, record: Record, context: Context) -> None:
        parent = context.run(otel_context.get_current)
        name, kind, given = attributes.at_begin(record)
        now = None if self._clock is None else self._clock()
        span = self._tracer.start_span(name, parent, kind, given, start_time=now)
        record.span = span
        context.run(otel_context.attach, trace.set_span_in_context(span, parent))
        if span.is_recording():
            self._open.add(record)
            if self._content is not None:
                span.set_attributes(self._asked(self._content, record))

    def _asked(self, content: Content, record: Record) -> Mapping[str, str]:
        if isinstance(record, ModelRecord):
            record.answer = ResponseAccumulator() if self.responses else None
            return content.of_request(record.request.messages, record.request.tools)
        if isinstance(record, ToolRecord):
            return content.of_call(record.request.call)
        if isinstance(record, RunRecord):
            return content.of_messages("gen_ai.input.messages", record.request.input)
        return {}

    # --- on the way -----------------------------------------------------------------------------------------------

    def response(self, record: ModelRecord, response: ChatResponse) -> None:
        if isinstance(record.answer, ResponseAccumulator):
            record.answer.feed(response)

    def event(self, record: RunRecord, event: Event) -> None:
        span = _span_of(record)
        if span is None:
            return
        if isinstance(event, PreCallEvent):
            self._entered(record, event, span)
            return
        name, given = attributes.of_event(event)
        span.add_event(name, given, None if self._clock is None else self._clock())

    def _entered(self, record: RunRecord, event: PreCallEvent, span: Span) -> None:
        """The conversation is known, and the calls that it waits for."""
        span.set_attributes(attributes.when_entered(record))
        with self._lock:
            waited = self._waiting.pop(record.conversation_id, None)
        if waited is not None and event.pending:
            span.add_link(waited, {"agentscope.link": "resumes"})

    # --- the end --------------------------------------------------------------------------------------------------

    def end(self, record: Record) -> None:
        self._open.discard(record)
        span = _span_of(record)
        if span is None:
            return
        if isinstance(record, RunRecord) and record.pending:
            self._wait(record.conversation_id, span.get_span_context())
        if span.is_recording():
            self._tell(record, span)
        span.end(None if self._clock is None else self._clock())

    def _wait(self, conversation: str, span: SpanContext) -> None:
        with self._lock:
            self._waiting[conversation] = span
            self._waiting.move_to_end(conversation)
            if len(self._waiting) > MAX_WAITING:
                self._waiting.popitem(last=False)

    def _tell(self, record: Record, span: Span) -> None:
        span.set_attributes(attributes.at_end(record))
        if self._content is not None:
            span.set_attributes(self._answered(self._content, record))
        error = record.error
        if error is None:
            failed = attributes.failed_kind(record)
            if failed is not None:
                span.set_status(Status(StatusCode.ERROR, failed))
            return
        message = redact_secrets(str(error))
        span.set_status(Status(StatusCode.ERROR, message))
        parent = record.parent
        if record.recorded is not error:
            record_exception(span, error, message, None if self._clock is None else self._clock())
        if parent is not None:
            parent.recorded = error

    def _answered(self, content: Content, record: Record) -> Mapping[str, str]:
        if isinstance(record, ModelRecord) and isinstance(record.answer, ResponseAccumulator):
            blocks = record.answer.blocks(complete=record.outcome is Outcome.COMPLETED)
            whole = record.outcome is Outcome.COMPLETED
            reason = record.finish_reason or ("stop" if whole else None)
            return content.of_answer(blocks, finished(reason)) if blocks else {}
        if isinstance(record, ToolRecord) and record.result is not None:
            return content.of_result(record.result)
        if isinstance(record, RunRecord) and record.reply is not None:
            return content.of_answer(record.reply.content, finished("stop"))
        return {}

    def end_all(self) -> None:
        """End the spans that are open: the process ends."""
        for record in list(self._open):
            span = _span_of(record)
            self._open.discard(record)
            if span is not None:
                span.set_attribute(names.CANCELLED, True)
                span.end(None if self._clock is None else self._clock())
                record.span = None


def record_exception(span: Span, error: Exception, message: str, at: int | None) -> None:
    """The exception as an event of the span, by the conventions, without secrets in its texts."""
    given: Attributes = {
        names.EXCEPTION_TYPE: names.class_name(error),
        names.EXCEPTION_MESSAGE: message,
        names.EXCEPTION_STACKTRACE: redact_secrets("".join(traceback.format_exception(error))),
    }
    span.add_event(names.EXCEPTION, given, at)


def _span_of(record: Record) -> Span | None:
    return cast("Span | None", record.span)


def _end_at_exit(spans: Spans) -> None:
    """End the open spans before a provider that was made earlier is shut down; `spans` may be freed before."""
    spans_ref = ref(spans)

    def end() -> None:
        if (found := spans_ref()) is not None:
            found.end_all()

    atexit.register(end)
