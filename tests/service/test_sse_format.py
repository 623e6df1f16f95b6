"""An event goes over the wire as one server-sent event, whatever text it holds."""

from __future__ import annotations

import json
from typing import Any

import httpx
from httpx_sse import EventSource as Decoder
from hypothesis import example, given
from hypothesis import strategies as st

from agentscope_rx.agent.handle.event_log import LoggedEvent
from agentscope_rx.service.protocols.sse_format import HEARTBEAT, encode_frame, frame, retry_hint
from tests.agent.parts import types
from tests.events.values import events as any_events


def decoded(raw: bytes) -> list[Any]:
    response = httpx.Response(200, headers={"content-type": "text/event-stream; charset=utf-8"}, content=raw)
    return list(Decoder(response).iter_sse())


@given(st.lists(any_events, max_size=4))
def test_events_are_decoded_as_they_were_sent(events):
    received = decoded(b"".join(HEARTBEAT + frame(LoggedEvent.of(event)) for event in events))
    assert [each.event for each in received] == types(events)
    assert [each.data for each in received] == [event.to_json() for event in events]
    assert [each.id for each in received] == [str(event.seq) for event in events]


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
@example("a\r\nb\rc\n\nd:e\u2028f\x85g\x0bh\x1ci")
def test_data_of_many_lines_keeps_them(text: str):
    (received,) = decoded(encode_frame("kind", json.dumps(text)))
    assert (json.loads(received.data), received.id, received.event) == (text, "", "kind")
    raw = encode_frame("kind", text).decode()
    fields = [line.removeprefix("data: ") for line in raw.split("\n") if line.startswith("data:")]
    assert fields == text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def test_half_a_character_is_still_json():
    (received,) = decoded(encode_frame("kind", json.dumps("\ud83d", ensure_ascii=False)))
    assert json.loads(received.data) == "\ud83d"


def test_a_hint_and_a_heartbeat_are_no_events():
    (received,) = decoded(retry_hint(2.5) + HEARTBEAT + encode_frame("kind", "words") + HEARTBEAT * 3)
    assert (received.retry, received.event, received.data, received.id) == (2500, "kind", "words", "")
