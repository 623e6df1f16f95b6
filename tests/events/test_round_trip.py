"""Every kind of event: one line of JSON and back, exactly; copies are equal; a value that cannot be changed."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentscope_rx import events as kinds
from agentscope_rx.errors import AgentScopeError, HookError, InvalidInputError, ModelTimeoutError
from agentscope_rx.events import Event, EventSource, event_from_dict, event_from_json
from agentscope_rx.events.base import _KINDS, stamp
from agentscope_rx.messages import Msg, TextBlock, ToolUseBlock
from tests.events.values import EVENTS, events

NESTED = Msg("a", ToolUseBlock("1", "t", {"a": None, "b": [None, {"c": None}]}), metadata={"gone": None})


def test_every_kind_is_tried():
    assert set(EVENTS) == set(_KINDS.values())
    assert {kind.__name__ for kind in EVENTS} == {
        name for name in kinds.__all__ if name.endswith("Event") and name not in ("Event", "ChunkEvent")
    }


@given(events)
@example(kinds.PostReasoningEvent(message=NESTED, goto_messages=()))
@example(kinds.PreActingEvent(tool_use=NESTED.tool_calls[0]))
@example(kinds.ReasoningChunkEvent(delta=NESTED.tool_calls[0]))
def test_an_event_is_read_as_it_was_written(event: Event):
    line = event.to_json()
    assert "\n" not in line
    assert event_from_json(line) == event
    assert event_from_json(line.encode()).to_json() == line
    assert event_from_dict(event.to_dict()) == event
    assert json.loads(line) == event.to_dict()
    assert type(event_from_json(line)) is type(event)


@given(events)
def test_an_event_serializes_its_origin_and_not_its_context(event: Event):
    said = event.to_dict()
    assert said["type"] == event.type
    assert (said["run_id"], said["agent"], tuple(said["path"])) == (event.run_id, event.agent, event.path)
    unsaid = {"source", "history", "messages", "options", "schema", "view", "count", "error"}
    # the error of a step of a compaction is a text
    assert unsaid & set(said) == ({"error"} if isinstance(event, kinds.ContextEvent) else set())
    told_of_input = (kinds.PreCallEvent, kinds.InputEvent, kinds.PreObserveEvent, kinds.PostObserveEvent)
    assert ("input" in said) == isinstance(event, told_of_input)


@given(events)
def test_an_events_context_is_not_in_its_equality_or_repr(event: Event):
    bare = {
        field.name: field.default
        for field in dataclasses.fields(event)
        if field.name in ("history", "messages", "options", "schema")
        or (field.name == "input" and isinstance(event, kinds.PostCallEvent))
    }
    assert event.replace(**bare) == event and repr(event.replace(**bare)) == repr(event)


@given(events)
def test_copies_are_equal(event: Event):
    for again in (pickle.loads(pickle.dumps(event)), copy.copy(event), event.replace()):
        assert again == event and hash(again) == hash(event)
    if isinstance(event, kinds.ChunkEvent):
        assert pickle.loads(pickle.dumps(event)).accumulated == event.accumulated
    assert copy.deepcopy(event) == event


@given(events)
def test_nothing_can_be_assigned(event: Event):
    for field in dataclasses.fields(event):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(event, field.name, None)


@given(events, st.integers(0, 9))
def test_a_stamp_is_put_once_and_copied_afterwards(event: Event, seq: int):
    fresh = event.replace(seq=-1)
    source = EventSource("run", "Friday", ("run",))
    stamped = stamp(fresh, source, seq, 1.5)
    assert (stamped.run_id, stamped.agent, stamped.path, stamped.seq, stamped.timestamp) == (
        "run", "Friday", ("run",), seq, 1.5,
    )  # fmt: skip
    assert stamped is fresh, "an event that was not emitted yet needs no copy"
    again = stamp(stamped, EventSource("other"), seq + 1, 2.5)
    assert again is not stamped and again.run_id == "other" and stamped.run_id == "run"


@pytest.mark.parametrize(
    "line",
    ["", "nonsense", "[]", "null", "3", "{}", '{"type": 3}', '{"type": "dance"}', '{"type": "event"}',
     '{"type": "post_call", "message": 3}', '{"type": "pre_call", "seq": "first"}',
     '{"type": "retry", "stage": "moon"}', '{"type": "pre_call", "path": 3}'],
)  # fmt: skip
def test_a_wrong_line_is_an_error_of_ours(line):
    with pytest.raises(InvalidInputError) as caught:
        event_from_json(line)
    assert "event" in str(caught.value) or "JSON" in str(caught.value)


def test_what_json_cannot_say_is_an_error_of_ours():
    event = kinds.PostCallEvent(message=Msg("a", "x", metadata={"live": object()}))
    with pytest.raises(InvalidInputError, match="post_call event cannot be written"):
        event.to_json()


def test_what_a_newer_version_adds_is_passed_over():
    assert event_from_json('{"type": "pre_call", "mood": "good"}') == kinds.PreCallEvent()


@pytest.mark.parametrize(
    "error", [ValueError("x"), HookError("m", hook="h", event="e"), ModelTimeoutError("idle", 3.0, model="m")]
)
def test_an_error_event_holds_the_error_and_serializes_its_text(error: Exception):
    event = kinds.ErrorEvent.of(error)
    assert (event.error, event.error_type, event.error_text) == (error, type(error).__name__, str(error))
    assert event_from_json(event.to_json()) == event
    assert event_from_json(event.to_json()).error is None
    again = pickle.loads(pickle.dumps(event)).error
    assert type(again) is type(error) and str(again) == str(error)
    if isinstance(error, AgentScopeError):
        assert vars(again) == vars(error)


def test_a_chunk_says_its_new_piece():
    assert kinds.ReasoningChunkEvent(delta=TextBlock("x")).text == "x"
    assert kinds.ReasoningChunkEvent(delta=TextBlock("x")).thinking == ""
    assert kinds.ReasoningChunkEvent(delta=TextBlock("x")).accumulated == TextBlock("x")
    assert kinds.ReasoningChunkEvent().accumulated is None
    assert kinds.ReasoningChunkEvent(snapshot=TextBlock("xy")).accumulated == TextBlock("xy")
