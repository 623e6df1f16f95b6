"""The events of a run, and `fold`, which computes the outcome of a run from them."""

from agentscope_rx.events._coalesce import coalesce_chunks
from agentscope_rx.events._fold import Folded, RunFold, fold
from agentscope_rx.events._record import record, replay
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
from agentscope_rx.events.schema import events_schema
from agentscope_rx.events.versions import EVENTS_VERSION

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
