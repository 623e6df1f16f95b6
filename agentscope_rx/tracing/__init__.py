"""Tracing: runs as OpenTelemetry spans and metrics (extra `otel`), and ids of runs in records of `logging`.

    instrument()                                       # every agent of the process
    ReActAgent(..., tracer=OpenTelemetryHook())        # one agent
    ReActAgent(..., tracer=UNTRACED)                   # never
    propagate_context()                                # one trace over several processes
    add_run_to_logs()                                  # the run, the agent and the call in each log record

Without OpenTelemetry's packages the names that need them raise a `MissingExtraError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentscope_rx.errors import MissingExtraError
from agentscope_rx.hooks.process_wide import UNTRACED
from agentscope_rx.lazy import import_lazily, leave_out_missing
from agentscope_rx.messages.redaction import redact_secrets
from agentscope_rx.tracing.content import Content
from agentscope_rx.tracing.conventions import SCHEMA_URL, SEMCONV_VERSION
from agentscope_rx.tracing.propagation import propagate_context, stop_propagating
from agentscope_rx.tracing.recording import Recorder, RecordingTracer, current_record
from agentscope_rx.tracing.records import ModelRecord, Record, RunRecord, StageRecord, ToolRecord
from agentscope_rx.tracing.run_logs import RunLogFilter, RunLogs, add_run_to_logs

if TYPE_CHECKING:
    from agentscope_rx.tracing.instrumentation import instrument, uninstrument
    from agentscope_rx.tracing.metrics import Metrics
    from agentscope_rx.tracing.open_telemetry_hook import OpenTelemetryHook
    from agentscope_rx.tracing.spans import Spans

# they need the extra `otel`
_LAZY = {
    "Metrics": "agentscope_rx.tracing.metrics",
    "OpenTelemetryHook": "agentscope_rx.tracing.open_telemetry_hook",
    "Spans": "agentscope_rx.tracing.spans",
    "instrument": "agentscope_rx.tracing.instrumentation",
    "uninstrument": "agentscope_rx.tracing.instrumentation",
}

__all__ = [
    "SCHEMA_URL",
    "SEMCONV_VERSION",
    "UNTRACED",
    "Content",
    "Metrics",
    "ModelRecord",
    "OpenTelemetryHook",
    "Record",
    "Recorder",
    "RecordingTracer",
    "RunLogFilter",
    "RunLogs",
    "RunRecord",
    "Spans",
    "StageRecord",
    "ToolRecord",
    "add_run_to_logs",
    "current_record",
    "instrument",
    "propagate_context",
    "redact_secrets",
    "stop_propagating",
    "uninstrument",
]

leave_out_missing(__all__, dict.fromkeys(_LAZY, "opentelemetry"))


def __getattr__(name: str) -> object:
    try:
        return import_lazily(__name__, _LAZY, name)
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("opentelemetry"):
            raise
        raise MissingExtraError("opentelemetry", "otel") from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
