"""The log of a shared run estimates the size of an event, and writes its JSON when it is asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import Base64Source, ImageBlock, Msg, TextBlock, ThinkingBlock, ToolUseBlock
from agentscope_rx.agent.handle.event_log import EVENT_SIZE, LoggedEvent, estimated_size
from agentscope_rx.events import Event, PostReasoningEvent, PreReasoningEvent, ReasoningChunkEvent, event_from_json
from tests.events.values import events as any_events


@given(any_events)
def test_every_event_has_a_size_and_json_on_demand(event: Event) -> None:
    logged = LoggedEvent(event)
    assert logged.event is event and logged.size == estimated_size(event) >= EVENT_SIZE
    assert logged.json is logged.json and event_from_json(logged.json) == event_from_json(event.to_json())
    assert LoggedEvent.of(event).size == len(logged.json)


@given(st.integers(0, 5000))
def test_the_size_grows_with_the_content(length: int) -> None:
    text = "x" * length
    call = ToolUseBlock("1", "write", {"path": "a", "lines": [text]})
    picture = ImageBlock(Base64Source("image/png", "x" + text))
    events = [
        ReasoningChunkEvent(delta=TextBlock(text)),
        ReasoningChunkEvent(delta=ThinkingBlock(text)),
        ReasoningChunkEvent(delta=ToolUseBlock("1", "write", {}, text)),
        *(PostReasoningEvent(message=Msg.assistant([block])) for block in (TextBlock("x" + text), call, picture)),
        PostReasoningEvent(message=Msg.assistant("").replace(metadata={"notes": text})),
    ]
    for event in events:
        assert length <= estimated_size(event) - EVENT_SIZE <= length + 1000


def test_the_history_around_an_event_is_not_counted() -> None:
    history = (Msg.user("x" * 10_000),)
    assert estimated_size(PreReasoningEvent(history=history, messages=history)) < 1000
