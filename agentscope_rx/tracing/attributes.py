"""The attributes of the spans of a record: at its beginning, with what a sampler decides by, and at its end. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from opentelemetry.trace import SpanKind

from agentscope_rx.events import (
    BackgroundEvent,
    CitationEvent,
    ContextEvent,
    Event,
    HubEvent,
    RetrievalEvent,
    RetryEvent,
)
from agentscope_rx.messages import ChatUsage, Citation, ToolResultKind
from agentscope_rx.models.options import GenerateOptions
from agentscope_rx.reactive import Outcome
from agentscope_rx.tracing import conventions as names
from agentscope_rx.tracing.content import finished
from agentscope_rx.tracing.records import ModelRecord, Record, RunRecord, StageRecord, ToolRecord

MOST_NAMES: Final = 32
"""How many of those who heard a message a span event names."""

Value = str | bool | int | float | Sequence[str]
Attributes = dict[str, Value]

_NO_ERRORS = (
    None,
    ToolResultKind.INTERRUPTED,
    ToolResultKind.REJECTED,
    ToolResultKind.SUSPENDED,
    ToolResultKind.APPROVAL_REQUIRED,
    ToolResultKind.IN_DOUBT,
)
_OPTIONS = (
    ("temperature", names.TEMPERATURE),
    ("top_p", names.TOP_P),
    ("top_k", names.TOP_K),
    ("frequency_penalty", names.FREQUENCY_PENALTY),
    ("presence_penalty", names.PRESENCE_PENALTY),
    ("seed", names.SEED),
    ("stream", names.STREAM),
)


# --- the beginning ------------------------------------------------------------------------------------------------


def at_begin(record: Record) -> tuple[str, SpanKind, Mapping[str, Value]]:
    """The name, the kind and the first attributes of the record's span."""
    if isinstance(record, ModelRecord):
        return _of_model(record)
    if isinstance(record, ToolRecord):
        return f"{names.EXECUTE_TOOL} {names.shown(record.request.call.name)}", SpanKind.INTERNAL, _of_tool(record)
    if isinstance(record, RunRecord):
        return _of_run(record)
    if isinstance(record, StageRecord):
        stage = record.request.stage
        # (consumers may leave out spans that have no attribute of the GenAI conventions, and so break the tree)
        given = {names.AGENT_NAME: names.shown(record.request.agent), names.RUN_ID: record.request.run_id}
        given[names.SPAN_KIND] = names.CHAIN
        return stage, SpanKind.INTERNAL, {**given, names.STAGE: stage, names.ITERATION: record.request.iteration}
    raise TypeError(f"There is no span of a {type(record).__name__}.")


def _of_run(record: RunRecord) -> tuple[str, SpanKind, Attributes]:
    operation = names.INVOKE_WORKFLOW if record.request.is_workflow else names.INVOKE_AGENT
    given = _within(record, operation)
    if record.request.is_workflow:
        given[names.SPAN_KIND] = names.CHAIN
    return f"{operation} {names.shown(record.agent)}", SpanKind.INTERNAL, given


def _within(record: Record, operation: str) -> Attributes:
    """The operation, and the run that it belongs to."""
    given: Attributes = {names.OPERATION: operation}
    run = record if isinstance(record, RunRecord) else record.run
    if run is not None:
        part = record
        while part is not run and part.parent is not None and not isinstance(part, StageRecord):
            part = part.parent
        # in a run of `Handoffs` the agent of a stage is the active member
        given[names.AGENT_NAME] = names.shown(part.request.agent if isinstance(part, StageRecord) else run.agent)
        given[names.RUN_ID] = run.run_id
        if run.began is not None:
            given[names.CONVERSATION] = run.conversation_id
    return given


def _of_model(record: ModelRecord) -> tuple[str, SpanKind, Attributes]:
    request = record.request
    given = _within(record, names.CHAT)
    given[names.PROVIDER] = names.provider_name(request.provider)
    given[names.REQUEST_MODEL] = request.model_name
    given[names.ATTEMPT] = record.number
    if request.address is not None:
        given[names.SERVER_ADDRESS], given[names.SERVER_PORT] = request.address
    _add_options(given, request.options)
    kind = SpanKind.INTERNAL if request.provider == "local" else SpanKind.CLIENT
    return f"{names.CHAT} {request.model_name}", kind, given


def _add_options(given: Attributes, options: GenerateOptions) -> None:
    for option, name in _OPTIONS:
        value: float | None = getattr(options, option)
        if value is not None:
            given[name] = value
    limit = options.max_completion_tokens or options.max_tokens
    if limit is not None:
        given[names.MAX_TOKENS] = limit
    if options.stop:
        given[names.STOP] = tuple(options.stop)
    if options.response_format is not None:
        given[names.OUTPUT_TYPE] = "json"


def _of_tool(record: ToolRecord) -> Attributes:
    call, schema = record.request.call, record.request.schema
    given = _within(record, names.EXECUTE_TOOL)
    given[names.TOOL_NAME] = names.shown(call.name)
    given[names.TOOL_CALL_ID] = names.shown(call.id)
    given[names.TOOL_TYPE] = "function"
    if schema is not None and schema.description:
        given[names.TOOL_DESCRIPTION] = names.shown(schema.description)
    return given


# --- on the way ---------------------------------------------------------------------------------------------------


def when_entered(record: RunRecord) -> Attributes:
    """What is known of a run when its turn has come."""
    given: Attributes = {names.CONVERSATION: record.conversation_id}
    if record.began is not None and record.began > record.started:
        given[names.QUEUED] = record.began - record.started
    if record.resumes is not None:
        given[names.RESUMES] = record.resumes
    return given


def of_event(event: Event) -> tuple[str, Attributes]:
    """The name and the attributes of the span event for an event of the run."""
    given: Attributes = {}
    if isinstance(event, RetryEvent):
        given = {"stage": event.stage, "attempt": event.attempt, "delay": event.delay, "discarded": event.discarded}
        given |= {names.ERROR_TYPE: event.error_type}
        if event.model_name:
            given["model"] = event.model_name
        if event.tool_use_id is not None:
            given[names.TOOL_CALL_ID] = event.tool_use_id
    elif isinstance(event, ContextEvent):
        given = {"step": event.step, "cause": event.cause}
        given |= {"tokens_before": event.tokens_before, "tokens_after": event.tokens_after}
    elif isinstance(event, BackgroundEvent):
        given = {"job": event.job, "state": event.state, names.TOOL_CALL_ID: event.tool_use.id}
    elif isinstance(event, HubEvent):
        given = {"hub": names.shown(event.hub), "change": event.change, "member": names.shown(event.member)}
        given |= {
            "heard_by": tuple(map(names.shown, event.heard_by[:MOST_NAMES])),
            "heard_by.count": len(event.heard_by),
        }
    elif isinstance(event, RetrievalEvent):
        given = _of_retrieval(event)
    elif isinstance(event, CitationEvent):
        given = {"documents": _documents(event.citations), "cited": len(event.citations)}
        given |= {"unknown": len(event.unknown)}
    return f"agentscope.{event.type}", given


def _of_retrieval(event: RetrievalEvent) -> Attributes:
    given: Attributes = {"passages": len(event.passages), "elapsed": event.elapsed}
    given |= {"bases": tuple(map(names.shown, event.bases[:MOST_NAMES])), "documents": _documents(event.passages)}
    if event.call_id:
        given[names.TOOL_CALL_ID] = event.call_id
    if event.usage is not None:
        given |= {names.INPUT_TOKENS: event.usage.input_tokens, names.OUTPUT_TOKENS: event.usage.output_tokens}
    if event.error_text:
        given["failed"] = True
    return given


def _documents(citations: Sequence[Citation]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names.shown(each.document) for each in citations))[:MOST_NAMES]


# --- the end ------------------------------------------------------------------------------------------------------


def at_end(record: Record) -> Attributes:
    """What is known of the record at its end."""
    given: Attributes = {}
    if isinstance(record, ModelRecord):
        _add_answer(given, record)
    elif isinstance(record, ToolRecord):
        if record.queued > 0:
            given[names.QUEUED] = record.queued
        if record.attempts > 1:
            given[names.ATTEMPT] = record.attempts
        if record.kind is not None:
            given[names.RESULT] = record.kind.value
    elif isinstance(record, RunRecord):
        _add_reply(given, record)
    if record.error is not None:
        given[names.ERROR_TYPE] = names.error_type(record.error)
    elif (failed := failed_kind(record)) is not None:
        given[names.ERROR_TYPE] = failed
    if record.outcome is Outcome.DISPOSED:
        given[names.CANCELLED] = True
    return given


def failed_kind(record: Record) -> str | None:
    """The kind of a tool's result that is an error; None for all else."""
    if isinstance(record, ToolRecord) and record.kind is not None and record.kind not in _NO_ERRORS:
        return record.kind.value
    return None


def _add_answer(given: Attributes, record: ModelRecord) -> None:
    _add_usage(given, record.usage)
    if record.finish_reason is not None:
        given[names.FINISH_REASONS] = (finished(record.finish_reason),)
    if record.response_id:
        given[names.RESPONSE_ID] = record.response_id
    if (first := record.time_to_first_chunk) is not None:
        given[names.FIRST_CHUNK] = first


def _add_reply(given: Attributes, record: RunRecord) -> None:
    _add_usage(given, record.usage)
    given[names.ATTEMPTS] = record.model_attempts
    given[names.TOOL_CALLS] = record.tool_calls
    if record.reason is not None:
        given[names.REASON] = record.reason.value
    if record.pending:
        given[names.PENDING] = record.pending
    if record.model is not None:
        given[names.PROVIDER] = names.provider_name(record.model.provider)
        given[names.REQUEST_MODEL] = record.model.model_name


def _add_usage(given: Attributes, usage: ChatUsage | None) -> None:
    if usage is None:
        return
    given[names.INPUT_TOKENS] = usage.input_tokens
    given[names.OUTPUT_TOKENS] = usage.output_tokens
    if usage.cached_tokens:
        given[names.CACHED_TOKENS] = usage.cached_tokens
    if usage.reasoning_tokens:
        given[names.REASONING_TOKENS] = usage.reasoning_tokens
