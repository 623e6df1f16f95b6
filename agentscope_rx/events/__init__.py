"""The events of a run, and `fold`, which computes the outcome of a run from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentscope_rx.events._coalesce import coalesce_chunks
from agentscope_rx.events._fold import Folded, RunFold, fold
from agentscope_rx.events._size import event_size
from agentscope_rx.events.background_event import BackgroundEvent, JobState
from agentscope_rx.events.base import Event, EventSource, event_from_dict, event_from_json
from agentscope_rx.events.chunk_event import ChunkEvent
from agentscope_rx.events.event_stream import EventStream
from agentscope_rx.events.hub_event import HubEvent
from agentscope_rx.events.kinds import (
    ActingChunkEvent,
    ContextEvent,
    ErrorEvent,
    InputEvent,
    MemoryEvent,
    OutputChunkEvent,
    PlanEvent,
    PostActingEvent,
    PostCallEvent,
    PostObserveEvent,
    PostReasoningEvent,
    PostSummaryEvent,
    PreActingEvent,
    PreCallEvent,
    PreObserveEvent,
    PreReasoningEvent,
    PreSummaryEvent,
    ReasoningChunkEvent,
    ResumedRun,
    RetryEvent,
    SummaryChunkEvent,
)
from agentscope_rx.events.knowledge_event import CitationEvent, RetrievalEvent
from agentscope_rx.events.options import StreamOptions
from agentscope_rx.events.versions import EVENTS_VERSION
from agentscope_rx.lazy import import_lazily

if TYPE_CHECKING:
    from agentscope_rx.events._record import record, replay
    from agentscope_rx.events.schema import events_schema

# few programs keep events or describe them
_LAZY = {
    "events_schema": "agentscope_rx.events.schema",
    "record": "agentscope_rx.events._record",
    "replay": "agentscope_rx.events._record",
}

__all__ = [
    "EVENTS_VERSION",
    "ActingChunkEvent",
    "BackgroundEvent",
    "ChunkEvent",
    "CitationEvent",
    "ContextEvent",
    "ErrorEvent",
    "Event",
    "EventSource",
    "EventStream",
    "Folded",
    "HubEvent",
    "InputEvent",
    "JobState",
    "MemoryEvent",
    "OutputChunkEvent",
    "PlanEvent",
    "PostActingEvent",
    "PostCallEvent",
    "PostObserveEvent",
    "PostReasoningEvent",
    "PostSummaryEvent",
    "PreActingEvent",
    "PreCallEvent",
    "PreObserveEvent",
    "PreReasoningEvent",
    "PreSummaryEvent",
    "ReasoningChunkEvent",
    "ResumedRun",
    "RetrievalEvent",
    "RetryEvent",
    "RunFold",
    "StreamOptions",
    "SummaryChunkEvent",
    "coalesce_chunks",
    "event_from_dict",
    "event_from_json",
    "event_size",
    "events_schema",
    "fold",
    "record",
    "replay",
]


def __getattr__(name: str) -> object:
    return import_lazily(__name__, _LAZY, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
