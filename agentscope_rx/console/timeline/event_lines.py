"""Events as lines of text, one for each: `   0.700  Friday  reasoning_chunk  "I look."`."""

from __future__ import annotations

from agentscope_rx.console.wording import (
    arguments,
    background_line,
    citation_line,
    context_line,
    hub_line,
    one_line,
    plan_line,
    retrieval_line,
    seconds,
    shortened,
)
from agentscope_rx.events import (
    ActingChunkEvent,
    BackgroundEvent,
    ChunkEvent,
    CitationEvent,
    ContextEvent,
    ErrorEvent,
    Event,
    HubEvent,
    InputEvent,
    PlanEvent,
    PostActingEvent,
    PostCallEvent,
    PostReasoningEvent,
    PostSummaryEvent,
    PreActingEvent,
    PreCallEvent,
    PreReasoningEvent,
    RetrievalEvent,
    RetryEvent,
)
from agentscope_rx.messages import ContentBlock, Msg, TextBlock, ThinkingBlock, ToolUseBlock

MAX_TEXT = 200


def event_line(event: Event, began: float) -> str:
    """The event on one line: seconds after `began`, the agent, the kind, and what it says."""
    who = "  " * event.depth + one_line(event.agent, 40)
    return f"{event.timestamp - began:>10.3f}  {who:<16}  {event.type:<15}  {_detail(event)}".rstrip()


def _detail(event: Event) -> str:
    match event:
        case PreCallEvent():
            resumed = f"goes on from {_text(event.resumes.run_id)}: " if event.resumes is not None else ""
            return f"{_text(event.run_id)}: {resumed}{_said(event.input)}"
        case InputEvent():
            return _said(event.input)
        case PreReasoningEvent():
            return f"round {event.iteration + 1}, {_text(event.model_name)}"
        case ChunkEvent():
            return _block(event.snapshot if event.delta is None else event.delta)
        case PostReasoningEvent() | PostSummaryEvent():
            calls = ", ".join(call.name for call in event.message.tool_calls)
            usage = event.usage
            used = f"{usage.input_tokens:,} in, {usage.output_tokens:,} out: " if usage is not None else ""
            cut = "interrupted: " if event.interrupted else ""
            return f"{cut}{used}{_text(event.message.text)}{_text(f' -> {calls}') if calls else ''}"
        case PreActingEvent():
            return f"{_text(event.tool_use.name)}({shortened(arguments(event.tool_use), MAX_TEXT)})"
        case ActingChunkEvent():
            end = f" after {seconds(event.elapsed)}" if event.is_last and event.elapsed is not None else ""
            return f"{_text(event.tool_use.name)}{end}: {_text(event.text)}"
        case PostActingEvent():
            results = event.message.tool_results
            kind = f" {results[0].kind.value}" if results and results[0].kind is not None else ""
            return f"{_text(event.tool_use.name)}{kind}: {_text(results[0].text) if results else ''}"
        case PostCallEvent():
            return f"{event.message.generate_reason.value}: {_text(event.message.text)}"
        case RetryEvent():
            what = f"attempt {event.attempt} failed, the next in {seconds(event.delay)}"
            return f"{what}: {_text(event.error_type)}: {_text(event.error_text)}"
        case ErrorEvent():
            return f"{_text(event.error_type)}: {_text(event.error_text)}"
        case ContextEvent():
            return context_line(event)
        case BackgroundEvent():
            return background_line(event)
        case HubEvent():
            return hub_line(event)
        case RetrievalEvent():
            return retrieval_line(event)
        case CitationEvent():
            return citation_line(event)
        case PlanEvent():
            return plan_line(event)
        case _:
            return ""


def _said(messages: tuple[Msg, ...]) -> str:
    return _text(" ".join(message.text for message in messages))


def _block(block: ContentBlock | None) -> str:
    if isinstance(block, TextBlock):
        return f'"{_text(block.text)}"'
    if isinstance(block, ThinkingBlock):
        return f'thinking "{_text(block.thinking)}"'
    if isinstance(block, ToolUseBlock):
        return f"{_text(block.name)} {_text(block.raw or '')}"
    return "" if block is None else f"[{block.type}]"


def _text(text: str) -> str:
    return one_line(shortened(text, 2 * MAX_TEXT), MAX_TEXT)
