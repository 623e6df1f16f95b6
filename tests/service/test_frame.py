"""An event goes over the wire whole, whatever it says, and whatever fails, the last one says so."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from httpx_sse import EventSource as Decoder
from hypothesis import example, given
from hypothesis import strategies as st
from reactivex import operators as ops

from agentscope_rx.errors import InvalidInputError, ModelConnectionError
from agentscope_rx.events import ErrorEvent, PostCallEvent, event_from_json
from agentscope_rx.messages import Msg
from agentscope_rx.reactive import Flow, concat, just, never, throw
from agentscope_rx.service.protocols.sse_format import HEARTBEAT, Frame, encoded, frames, last_frame, retry_hint
from agentscope_rx.testing import ScriptedModel, run_virtual
from tests.agent.parts import agent, events_of, types
from tests.events.values import events as any_events


def decoded(raw: bytes) -> list[Any]:
    response = httpx.Response(200, headers={"content-type": "text/event-stream; charset=utf-8"}, content=raw)
    return list(Decoder(response).iter_sse())


def seen(source: Flow[Frame]) -> list[Frame]:
    async def main() -> list[Frame]:
        return [frame async for frame in source]

    return run_virtual(main())


@given(st.lists(any_events, max_size=4))
def test_events_come_out_as_they_went_in(events):
    heard = decoded(b"".join(HEARTBEAT + Frame.of(event).data for event in events))
    assert [each.event for each in heard] == types(events)
    assert [each.data for each in heard] == [event.to_json() for event in events]


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
@example("a\r\nb\rc\n\nd:e\u2028f\x85g\x0bh\x1ci")
def test_data_of_many_lines_keeps_them(text: str):
    (heard,) = decoded(encoded("kind", json.dumps(text), id=3))
    assert (json.loads(heard.data), heard.id, heard.event) == (text, "3", "kind")
    raw = encoded("kind", text).decode()
    fields = [line.removeprefix("data: ") for line in raw.split("\n") if line.startswith("data:")]
    assert fields == text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def test_half_a_character_is_still_json():
    (heard,) = decoded(encoded("kind", json.dumps("\ud83d", ensure_ascii=False)))
    assert json.loads(heard.data) == "\ud83d"


def test_a_hint_and_a_heartbeat_are_no_events():
    (heard,) = decoded(retry_hint(2.5) + HEARTBEAT + encoded("kind", "words", id=1) + HEARTBEAT * 3)
    assert (heard.retry, heard.event, heard.data, heard.id) == (2500, "kind", "words", "1")


def test_a_run_in_frames():
    friday = agent(ScriptedModel(["It is ", "sunny."]))
    run = asyncio.run(events_of(friday, "Weather?"))
    again = seen(frames(just(*run)))
    assert [frame.seq for frame in again] == list(range(len(run))) and again[0].source.run_id == run[0].run_id
    assert [event_from_json(each.data) for each in decoded(b"".join(frame.data for frame in again))][-1] == run[-1]


def test_a_failed_run_ends_with_its_own_error_event():
    friday = agent(ScriptedModel(ModelConnectionError("broken pipe")))
    kinds = [frame.type for frame in seen(frames(friday.stream("hi")))]
    assert kinds[-1] == "error" and kinds.count("error") == 1


def test_what_fails_behind_the_run_becomes_an_error_event():
    friday = agent(ScriptedModel("fine"))

    def refuse(event):
        if isinstance(event, PostCallEvent):
            raise ZeroDivisionError("mine")
        return event

    last = seen(frames(friday.stream("hi").pipe(ops.map(refuse))))[-1]
    event = event_from_json(decoded(last.data)[0].data)
    assert isinstance(event, ErrorEvent) and (event.error_type, event.error_text) == ("ZeroDivisionError", "mine")
    assert event.agent == "Friday" and event.run_id == last.source.run_id and event.seq == last.seq > 0


def test_an_event_that_has_no_json_ends_the_stream_and_stops_the_run():
    friday = agent(ScriptedModel("fine"))
    stopped: list[bool] = []

    def spoil(event):
        return event.replace(message=Msg("a", "b", metadata={"x": object()})) if event.type == "post_call" else event

    shown = friday.stream("hi").pipe(ops.map(spoil), ops.concat(never()), ops.finally_action(lambda: stopped.append(1)))
    last = seen(frames(shown))[-1]
    assert last.type == "error" and b"cannot be written as JSON" in last.data and stopped == [1]


def test_a_failure_without_any_event_stays_an_error():
    with pytest.raises(InvalidInputError):
        seen(frames(throw(InvalidInputError("nothing was started"))))


def test_a_word_of_the_service_follows_the_last_event():
    friday = agent(ScriptedModel("fine"))
    first = seen(frames(concat(friday.stream("hi"))))[0]
    frame = last_frame(ValueError("over"), first)
    assert (frame.seq, frame.type, frame.source) == (1, "error", first.source)
