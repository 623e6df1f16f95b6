"""`RecordingTracer`: a tracer that keeps a record of each part of a run, and tells recorders of it.

    probe.begin -> record -> each recorder.begin(record)      may set context variables for the part: a current span
    items       ->           recorder.event, recorder.first_chunk
    probe.end   ->           recorder.end(record), in reverse order

`Spans` and `Metrics` are recorders. A recorder that fails is reported and does not stop the others, nor the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextvars import Context, ContextVar
from typing import TypeVar, cast

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import (
    BackgroundEvent,
    CitationEvent,
    ContextEvent,
    Event,
    HubEvent,
    PlanEvent,
    PostCallEvent,
    PreCallEvent,
    RetrievalEvent,
    RetryEvent,
)
from agentscope_rx.hooks.base import Tracer
from agentscope_rx.hooks.wrapping.requests import CallRequest, StageRequest, ToolRequest
from agentscope_rx.messages import ToolResultBlock
from agentscope_rx.models.probing import AttemptRequest
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.reactive import Outcome, Probe, Scope, SourceCancelledError
from agentscope_rx.reactive.kernel.deadlines import clock_of
from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.tools.calls.signals import ToolBegun, ToolEvent, ToolRetry
from agentscope_rx.tools.options import check_flag
from agentscope_rx.tracing.records import ModelRecord, Record, RunRecord, StageRecord, ToolRecord

R = TypeVar("R", bound=Record)

NOTED: tuple[type[Event], ...] = (
    PreCallEvent,
    RetryEvent,
    ContextEvent,
    PlanEvent,
    BackgroundEvent,
    HubEvent,
    RetrievalEvent,
    CitationEvent,
)
"""The events of a run that recorders are told of."""

_RECORD: ContextVar[Record | None] = ContextVar("agentscope_rx_record", default=None)


def current_record() -> Record | None:
    """The record of the innermost part of a run that calls this; None outside, or without a `RecordingTracer`."""
    return _RECORD.get()


class Recorder:
    """Gets the records of the parts of runs. Subclass it, and define the methods that you need.

        class SlowModels(Recorder):
            def end(self, record: Record) -> None:
                if isinstance(record, ModelRecord) and record.seconds > 10:
                    print(record.request.model_name, record.usage)

        ReActAgent(..., tracer=RecordingTracer([SlowModels()]))

    The methods are called on the run's loop. An error of a recorder is reported, and changes nothing in the run.
    """

    def begin(self, record: Record, context: Context) -> None:
        """A part begins. It will run in `context`, a fresh copy: set variables by `context.run(variable.set, ...)`."""

    def event(self, record: RunRecord, event: Event) -> None:
        """The run has emitted an event that concerns traces, such as a retry or background work."""

    def response(self, record: ModelRecord, response: ChatResponse) -> None:
        """A chunk of an answer with content has come; only for recorders that set `responses`."""

    responses: bool = False
    """True for a recorder that wants the content of answers, chunk by chunk."""

    def first_chunk(self, record: ModelRecord) -> None:
        """The first content of an answer has come."""

    def end(self, record: Record) -> None:
        """The part has ended, and its record is complete. On any thread, if garbage collection ended it."""


class RecordingTracer(Tracer):
    """A tracer that makes a record of each part of a run, for `recorders`; `stages=False`: none of stages."""

    alone = True

    def __init__(self, recorders: Sequence[Recorder], *, stages: bool = True) -> None:
        check_flag("stages", stages)
        given = cast("object", recorders)
        if not isinstance(given, Iterable):
            raise ConfigurationError(f"recorders is a list, as in RecordingTracer([Metrics()]), not {given!r:.60}.")
        self._recorders = tuple(recorders)
        for each in self._recorders:
            if not isinstance(each, Recorder):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigurationError(f"A recorder is a Recorder, not {each!r:.60}.")
        self._stages = stages

    def probe_call(self, request: CallRequest) -> Probe[object]:
        return _RunProbe(self, request)

    def probe_stage(self, request: StageRequest) -> Probe[object] | None:
        return _StageProbe(self, request) if self._stages else None

    def probe_tool(self, request: ToolRequest) -> Probe[ToolEvent]:
        return _ToolProbe(self, request)

    def probe_attempt(self, request: AttemptRequest) -> Probe[ChatResponse]:
        return _ModelProbe(self, request)

    @property
    def recorders(self) -> tuple[Recorder, ...]:
        """The recorders, in the order in which they get a beginning."""
        return self._recorders

    def place(self, context: Context, request: object) -> tuple[Record | None, Record | None]:
        """The innermost record of this context, and the parent of a new one: this tracer's own, if there is one.

        Another tracer of the same agent has a record for the same part, which is no parent: each counts its own.
        """
        around = context.get(_RECORD)
        if around is None or around.tracer is self:
            return around, around
        found = around
        while found is not None and found.tracer is not self:
            found = found.around
        if found is None:
            found = around
            while found is not None and getattr(found, "request", None) is request:
                found = found.around
        return around, found

    def begin(self, record: Record, context: Context) -> Context:
        """Report a beginning to the recorders; returns the context for the part, a copy of the given one."""
        within = context.copy()
        within.run(_RECORD.set, record)
        record.context = within
        for recorder in self._recorders:
            try:
                recorder.begin(record, within)
            except Exception as error:
                report_dropped(error, f"{type(recorder).__name__} at the beginning of a {type(record).__name__}")
        return within

    def end(self, record: Record, outcome: Outcome, error: Exception | None) -> None:
        """Complete the record, and report it to the recorders."""
        record.ended = record.clock()
        if isinstance(error, SourceCancelledError):
            # a loop that shuts down: nothing has failed
            outcome, error = Outcome.DISPOSED, None
        record.outcome = outcome
        record.error = error
        for recorder in reversed(self._recorders):
            try:
                recorder.end(record)
            except Exception as failure:
                report_dropped(failure, f"{type(recorder).__name__} at the end of a {type(record).__name__}")
        # an error holds the frames that hold the objects of the run
        record.error = record.recorded = record.context = None


class _RunProbe(Probe[object]):
    __slots__ = ("_record", "_request", "_tracer")
    kinds = frozenset((PostCallEvent, *NOTED))

    def __init__(self, tracer: RecordingTracer, request: CallRequest) -> None:
        self._tracer = tracer
        self._request = request
        self._record: RunRecord

    def begin(self, scope: Scope) -> Context:
        clock = clock_of(scope.loop)
        around, parent = self._tracer.place(scope.context, self._request)
        self._record = RunRecord(
            parent=parent, around=around, tracer=self._tracer, clock=clock, started=clock(), request=self._request
        )
        return self._tracer.begin(self._record, scope.context)

    def item(self, value: object) -> None:
        if isinstance(value, PostCallEvent):
            self._record.reply, self._record.usage = value.message, value.usage
        else:
            self._noted(cast("Event", value))

    def _noted(self, event: Event) -> None:
        record = self._record
        if type(event) is PreCallEvent:
            record.began = record.clock()
            record.resumes = None if event.resumes is None else event.resumes.run_id
        for recorder in self._tracer.recorders:
            recorder.event(record, event)

    def end(self, outcome: Outcome, error: Exception | None) -> None:
        self._tracer.end(self._record, outcome, error)


class _StageProbe(Probe[object]):
    __slots__ = ("_record", "_request", "_tracer")

    def __init__(self, tracer: RecordingTracer, request: StageRequest) -> None:
        self._tracer = tracer
        self._request = request
        self._record: StageRecord

    def begin(self, scope: Scope) -> Context:
        clock = clock_of(scope.loop)
        around, parent = self._tracer.place(scope.context, self._request)
        self._record = StageRecord(
            parent=parent, around=around, tracer=self._tracer, clock=clock, started=clock(), request=self._request
        )
        return self._tracer.begin(self._record, scope.context)

    def end(self, outcome: Outcome, error: Exception | None) -> None:
        self._tracer.end(self._record, outcome, error)


class _ToolProbe(Probe[ToolEvent]):
    __slots__ = ("_record", "_request", "_tracer")

    def __init__(self, tracer: RecordingTracer, request: ToolRequest) -> None:
        self._tracer = tracer
        self._request = request
        self._record: ToolRecord

    def begin(self, scope: Scope) -> Context:
        clock = clock_of(scope.loop)
        around, parent = self._tracer.place(scope.context, self._request)
        self._record = ToolRecord(
            parent=parent, around=around, tracer=self._tracer, clock=clock, started=clock(), request=self._request
        )
        run = self._record.run
        if run is not None:
            run.tool_calls += 1
        return self._tracer.begin(self._record, scope.context)

    def item(self, value: ToolEvent) -> None:
        kind = type(value)
        if kind is ToolResultBlock:
            self._record.result = cast("ToolResultBlock", value)
        elif kind is ToolBegun:
            self._record.queued = cast("ToolBegun", value).queued
        elif kind is ToolRetry:
            # (its error is not kept: it holds the frames that hold the objects of the run)
            self._record.attempts += 1

    def end(self, outcome: Outcome, error: Exception | None) -> None:
        self._tracer.end(self._record, outcome, error)


class _ModelProbe(Probe[ChatResponse]):
    __slots__ = ("_listening", "_record", "_request", "_tracer")

    def __init__(self, tracer: RecordingTracer, request: AttemptRequest) -> None:
        self._tracer = tracer
        self._request = request
        self._record: ModelRecord
        self._listening = [each for each in tracer.recorders if each.responses]

    def begin(self, scope: Scope) -> Context:
        clock = clock_of(scope.loop)
        around, parent = self._tracer.place(scope.context, self._request)
        record = ModelRecord(
            parent=parent, around=around, tracer=self._tracer, clock=clock, started=clock(), request=self._request
        )
        self._record = record
        if isinstance(parent, StageRecord):
            parent.attempts += 1
            record.number = parent.attempts
        run = record.run
        if run is not None:
            run.model_attempts += 1
            run.model = run.model or self._request
        return self._tracer.begin(record, scope.context)

    def item(self, value: ChatResponse) -> None:
        record = self._record
        record.chunks += 1
        if value.content:
            if record.first_chunk is None:
                self._first()
            for recorder in self._listening:
                recorder.response(record, value)
        # (each comes once or a few times in an answer)
        if value.usage is not None:
            record.usage = value.usage
        if value.finish_reason is not None:
            record.finish_reason = value.finish_reason
        if value.id is not None:
            record.response_id = value.id

    def _first(self) -> None:
        record = self._record
        record.first_chunk = record.clock()
        for recorder in self._tracer.recorders:
            recorder.first_chunk(record)

    def end(self, outcome: Outcome, error: Exception | None) -> None:
        self._tracer.end(self._record, outcome, error)
