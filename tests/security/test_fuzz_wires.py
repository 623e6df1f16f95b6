"""All wires under damage: an answer is whole, or the error is one of ours. Nothing else escapes, nothing is kept that
cannot be written again."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import ModelError, ModelHTTPError, ProtocolError
from agentscope_rx.events.partial_json import partial_value
from agentscope_rx.messages import TextBlock, ToolUseBlock
from agentscope_rx.messages.frozen import MAX_DEPTH, deeper
from agentscope_rx.models.accumulate import parse_arguments
from agentscope_rx.models.transport.framing import EventLines
from agentscope_rx.models.transport.status import answered_error, http_error
from agentscope_rx.models.wire.json_codec import decode_json
from agentscope_rx.models.wire.json_size import WIRE_DEPTH
from tests.security.wires import SPICE, VALUES, WIRES, Wire, damaged, retyped

pytestmark = pytest.mark.fuzz

every_wire = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
seeds = st.integers(min_value=0, max_value=2**64)


@every_wire
def test_an_undamaged_answer_is_one(wire: Wire):
    found = wire.read(wire.body(wire.events), 7)
    assert found
    wire.check(found)


@every_wire
@given(seeds, st.integers(1, 50))
def test_damaged_bytes_give_an_answer_or_an_error_of_ours(wire: Wire, seed: int, pieces: int):
    wire.check(wire.read(damaged(wire.body(wire.events), random.Random(seed)), pieces))


@every_wire
@given(seeds, st.integers(1, 5))
def test_other_values_give_an_answer_or_an_error_of_ours(wire: Wire, seed: int, pieces: int):
    wire.check(wire.read(wire.body(retyped(wire.events, random.Random(seed))), pieces))


@every_wire
@given(seeds)
def test_an_answer_in_one_piece_is_one_or_an_error_of_ours(wire: Wire, seed: int):
    source = random.Random(seed)
    event = source.choice(wire.events)
    whole = source.choice([event, event.get("response", event), event.get("message", event), source.choice(VALUES)])
    (answer,) = retyped([whole], source) or [None]
    wire.check(wire.read_whole(decode_json(json.dumps(answer))))


@every_wire
@given(st.binary(max_size=300), st.integers(1, 300))
def test_noise_gives_an_error_of_ours(wire: Wire, noise: bytes, pieces: int):
    wire.check(wire.read(noise, pieces))


pieces = st.lists(st.sampled_from([*SPICE, b"data: ", b"event: x", b"id: 1", b": c", b"a", b"\r\n"]), max_size=20)


@given(pieces, st.lists(st.integers(0, 200), max_size=6))
def test_events_are_the_same_however_their_bytes_are_cut(parts: list[bytes], cuts: list[int]):
    body = b"".join(parts)
    at = sorted({0, len(body), *(cut % (len(body) + 1) for cut in cuts)})
    one, many = EventLines(), EventLines()
    whole = [*one.feed(body), *one.end()]
    in_pieces = [event for a, b in pairwise(at) for event in many.feed(body[a:b])] + list(many.end())
    assert [(event.event, event.data) for event in in_pieces] == [(event.event, event.data) for event in whole]


texts = st.lists(
    st.sampled_from(['{"a":', "[", "]", "}", '"', "\\", "\\u", "d800", ",", ":", "1", "NaN", "1e999", " ", "null", "é"])
    | st.text(max_size=3),
    max_size=30,
).map("".join)


@given(texts)
def test_arguments_are_read_or_what_is_wrong_is_told(text: str):
    value, problem = parse_arguments(text)
    call = ToolUseBlock("1", "t", value, text, problem)
    json.dumps(call.input, allow_nan=False, ensure_ascii=False).encode()
    assert not deeper(call.input, MAX_DEPTH)
    assert problem is None or not value


@given(texts)
def test_a_value_that_is_being_written_is_shown_or_is_none(text: str):
    for block in (ToolUseBlock("1", "t", raw=text), TextBlock(text), TextBlock(f"```json\n{text}")):
        value = partial_value(block)
        assert value is None or isinstance(value, dict)


@given(texts)
def test_a_piece_of_the_wire_is_json_or_an_error_of_ours(text: str):
    try:
        found = decode_json(text)
    except ProtocolError as error:
        str(error).encode()
    else:
        assert not deeper(found, WIRE_DEPTH)


@given(st.integers(400, 599), seeds, texts)
def test_an_error_of_a_server_is_one_of_ours(status: int, seed: int, text: str):
    source = random.Random(seed)
    body = {"error": {"message": "m", "code": "c", "details": [{"retryDelay": "1s"}]}, "request_id": "r"}
    for shown in (text, json.dumps(retyped(body, source)), json.dumps([retyped(body, source)])):
        error = http_error(status, shown, httpx.Headers({"retry-after": text.encode("utf-8", "replace")[:20]}))
        assert isinstance(error, ModelHTTPError)
        str(error)
    hurt = retyped(body, source)
    assert answered_error(hurt) is None or isinstance(answered_error(hurt), ModelError)
