"""Arguments keep the model's own JSON text, and formatters send it back as long as it says what `input` says."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import Msg
from agentscope_rx.messages import ToolResultBlock, ToolUseBlock
from agentscope_rx.models.accumulate import ResponseAccumulator
from agentscope_rx.models.openai.formatter import format_messages
from agentscope_rx.models.response import ChatResponse, ToolUseDelta
from agentscope_rx.models.wire.json_codec import arguments_text, encode_json

JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3))


def gathered(*pieces: str) -> ToolUseBlock:
    gather = ResponseAccumulator()
    for index, piece in enumerate(pieces):
        gather.feed(ChatResponse((ToolUseDelta(0, "a" if not index else None, "f" if not index else None, piece),)))
    (block,) = gather.blocks()
    assert isinstance(block, ToolUseBlock)
    return block


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=3), st.sampled_from([None, 2]), st.booleans())
def test_law_what_came_is_what_is_sent_back(arguments: dict[str, object], indent: int | None, ascii: bool):
    text = json.dumps(arguments, indent=indent, ensure_ascii=ascii)
    call = gathered(text[:5], text[5:])
    assert arguments_text(call) == text
    assert call == ToolUseBlock("a", "f", arguments), "the text is no part of what a call is"


def test_it_is_sent_on_the_wire_and_kept_in_json():
    call = gathered('{"city": ', '"Paris", "n": 1.0}')
    message = Msg.assistant([call])
    kept = Msg.from_dict(json.loads(json.dumps(message.to_dict())))
    wire = format_messages([kept, Msg.tool(ToolResultBlock.of(call, "x"), "F")])
    assert wire[0]["tool_calls"][0]["function"]["arguments"] == '{"city": "Paris", "n": 1.0}'  # pyright: ignore


@pytest.mark.parametrize("input", [{"a": True}, {"a": 1.0}, {"a": 2}, {}])
def test_changed_arguments_are_sent_as_they_are(input: dict[str, object]):
    call = gathered('{"a": 1}')
    assert arguments_text(call.with_input(input)) == encode_json(input)
    assert arguments_text(replace(call, input=input)) == encode_json(input)
    assert arguments_text(replace(call, raw_input="{no json")) == '{"a":1}'


def test_what_the_engine_would_write_the_same_is_not_kept_twice():
    assert gathered('{"a":1}').raw_input is None
    assert gathered('{"a": 1}').raw_input == '{"a": 1}'
    broken = gathered('{"a": ')
    assert (broken.raw_input, broken.raw) == (None, '{"a": ')


def test_replace():
    call = gathered('{"a": 1}')
    assert call.replace(id="b").raw_input == '{"a": 1}'
    changed = gathered('{"a"').replace(input={"a": 2})
    assert (changed.raw, changed.input_error, changed.input) == (None, None, {"a": 2})
    result = ToolResultBlock.of(call, "x").replace(output="y", metadata={"n": 1})
    assert (result.text, result.metadata, result.id) == ("y", {"n": 1}, "a")
