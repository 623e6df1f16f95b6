"""What a run says: its events, in order, and what they fold to."""

from agentscope_rx.event.coalesce import coalesce_chunks
from agentscope_rx.event.event import Event, EventSource, event_from_dict, event_from_json
from agentscope_rx.event.fold import Folded, fold
from agentscope_rx.event.kinds import (
    ActingChunkEvent,
    ChunkEvent,
    ErrorEvent,
    MemoryEvent,
    OutputChunkEvent,
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
    RetryEvent,
    SummaryChunkEvent,
)
from agentscope_rx.event.options import StreamOptions
from agentscope_rx.event.stream import EventStream

__all__ = [
    "ActingChunkEvent",
    "ChunkEvent",
    "ErrorEvent",
    "Event",
    "EventSource",
    "EventStream",
    "Folded",
    "MemoryEvent",
    "OutputChunkEvent",
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
    "RetryEvent",
    "StreamOptions",
    "SummaryChunkEvent",
    "coalesce_chunks",
    "event_from_dict",
    "event_from_json",
    "fold",
]
