"""`event_size`: the content of an event counts, byte for byte; what it shares with the run does not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import Base64Source, ImageBlock, Msg, TextBlock, ToolResultBlock, ToolUseBlock
from agentscope_rx.events import (
    ActingChunkEvent,
    ErrorEvent,
    Event,
    EventSource,
    PostCallEvent,
    PreActingEvent,
    PreCallEvent,
    ReasoningChunkEvent,
    event_size,
)
from agentscope_rx.messages import ChatUsage
from tests.events.values import events


def leaves(value: Any) -> int:
    """The bytes of all texts in a JSON value, without keys."""
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, dict):
        return sum(map(leaves, value.values()))
    return sum(map(leaves, value)) if isinstance(value, list) else 0


@given(events)
def test_no_text_of_an_event_is_left_out(event: Event) -> None:
    named = {"run_id", "agent", "path", "type"}
    content = [value for name, value in event.to_dict().items() if name not in named]
    assert event_size(event) >= 256 + sum(map(leaves, content))


@pytest.mark.parametrize("text", ["", "sunny", "sonnig: schön", "\N{SUN WITH FACE}" * 1000, "x" * 10**6])
def test_each_byte_of_a_text_counts_once(text: str) -> None:
    size = len(text.encode())
    for empty, full in (
        (ReasoningChunkEvent(delta=TextBlock("")), ReasoningChunkEvent(delta=TextBlock(text))),
        (PreActingEvent(tool_use=call("")), PreActingEvent(tool_use=call(text))),
        (ActingChunkEvent(chunk=result("")), ActingChunkEvent(chunk=result(text))),
        (PostCallEvent(message=reply("")), PostCallEvent(message=reply(text))),
        (ErrorEvent(error_text=""), ErrorEvent(error_text=text)),
    ):
        assert event_size(full) - event_size(empty) == size


def call(text: str) -> ToolUseBlock:
    return ToolUseBlock("1", "look", {"deep": [{"text": text}]})


def result(text: str) -> ToolResultBlock:
    return ToolResultBlock("1", "look", (TextBlock(text),))


def reply(text: str) -> Msg:
    return Msg("Friday", text, id="m", timestamp="t")


def test_media_counts_and_shared_history_does_not() -> None:
    image = Msg.user(ImageBlock(Base64Source("image/png", "QUJD" * 100_000)))
    assert event_size(PreCallEvent(input=(image,))) > 400_000
    shared = PreCallEvent(history=(image,), source=EventSource("run" * 1000, "Friday"))
    assert event_size(shared) == event_size(PreCallEvent())
    error = ErrorEvent.of(ValueError("no"))
    assert event_size(error) == event_size(error.replace(error=None))


@given(st.recursive(st.text(max_size=5), lambda inner: st.lists(inner)))
def test_arguments_of_any_shape_count(value: Any) -> None:
    plain = event_size(PreActingEvent(tool_use=ToolUseBlock("1", "look", {"value": ""})))
    event = PreActingEvent(tool_use=ToolUseBlock("1", "look", {"value": value}))
    assert event_size(event) - plain >= leaves(value)
    keyed = PreActingEvent(tool_use=ToolUseBlock("1", "look", {"value": {"key" * 9: value}}))
    assert event_size(keyed) >= event_size(event) + 27


def test_arguments_may_be_nested_deep() -> None:
    value: Any = "x" * 1000
    for _ in range(98):
        value = [value]
    assert event_size(PreActingEvent(tool_use=ToolUseBlock("1", "look", {"value": value}))) > 1000


@given(st.text(), st.text(st.characters(codec="ascii")))
def test_the_short_way_for_text_gives_the_same(text: str, message_id: str) -> None:
    chunk = ReasoningChunkEvent(delta=TextBlock(text), message_id=message_id)
    with_usage = chunk.replace(usage=ChatUsage())
    assert event_size(with_usage) - event_size(chunk.replace(delta=None, usage=ChatUsage())) == event_size(
        chunk
    ) - event_size(chunk.replace(delta=None))
