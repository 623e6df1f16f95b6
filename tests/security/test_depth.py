"""Values nested too deep, or that contain themselves: a typed error where they come in, an answer to who sent them."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import sys
from collections import UserDict, namedtuple
from collections.abc import Callable
from dataclasses import make_dataclass, replace
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import (
    Approve,
    InvalidInputError,
    JsonSession,
    Msg,
    ReActAgent,
    TextBlock,
    ThinkingBlock,
    Toolkit,
    ToolResultBlock,
    ToolSuspend,
    ToolUseBlock,
    tool,
)
from agentscope_rx.errors import ProtocolError, SessionError
from agentscope_rx.events import PreActingEvent
from agentscope_rx.events.base import event_from_dict, event_from_json
from agentscope_rx.messages import ToolResultKind
from agentscope_rx.messages.frozen import MAX_DEPTH, deeper, freeze, thaw
from agentscope_rx.models import ToolUseDelta
from agentscope_rx.models.accumulate import ResponseAccumulator
from agentscope_rx.models.gemini.parser import ContentParser
from agentscope_rx.models.ollama.parser import OllamaParser
from agentscope_rx.models.openai.reasoning import Reasoning
from agentscope_rx.models.openai.tool_call_deltas import ToolCallDeltas
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.models.wire.json_codec import decode_json
from agentscope_rx.models.wire.json_size import load_json
from agentscope_rx.session.entry import EntryKind, StoredEntry, decode
from agentscope_rx.session.manifest import MANIFEST, Manifest
from agentscope_rx.testing import ScriptedModel
from tests.models import wired
from tests.tools.calling import result

FAR = 100_000


def nested(levels: int, wrap: str = "list") -> object:
    """A value with so many levels of lists or dicts."""
    value: object = 1
    for _ in range(levels):
        value = [value] if wrap == "list" else {"a": value}
    return value


def nested_json(levels: int) -> str:
    return "[" * levels + "]" * levels


def own() -> list[object]:
    """A list that contains itself, twice: to copy it never ends, in breadth or in depth."""
    value: list[object] = []
    value += [value, value]
    return value


Point = namedtuple("Point", "x y")

DEEP = {
    "lists": lambda: nested(FAR),
    "dicts": lambda: nested(FAR, "dict"),
    "one too many": lambda: nested(MAX_DEPTH + 1),
    "mappings": lambda: MappingProxyType({"a": nested(MAX_DEPTH)}),
    "other dicts": lambda: UserDict(a=nested(MAX_DEPTH)),
    "named tuples": lambda: Point(nested(MAX_DEPTH), 1),
    "frozen before": lambda: {"a": freeze({"a": nested(MAX_DEPTH - 1)})},
    "frozen twice": lambda: freeze({"a": freeze({"a": nested(MAX_DEPTH)})["a"]}),
    "itself": own,
}
TAKERS: dict[str, Callable[[dict[str, object]], object]] = {
    "ToolUseBlock.input": lambda value: ToolUseBlock("1", "t", value),
    "ToolUseBlock.metadata": lambda value: ToolUseBlock("1", "t", metadata=value),
    "ToolResultBlock.metadata": lambda value: ToolResultBlock("1", "t", metadata=value),
    "ThinkingBlock.metadata": lambda value: ThinkingBlock("", metadata=value),
    "Msg.metadata": lambda value: Msg("a", "", metadata=value),
    "Approve.input": lambda value: Approve("1", value),
}


@pytest.mark.parametrize("deep", DEEP.values(), ids=DEEP)
@pytest.mark.parametrize("field", TAKERS)
def test_what_is_nested_too_deep_is_refused_by_name(field: str, deep: Callable[[], object]):
    with pytest.raises(InvalidInputError, match=rf"{field} .* more than {MAX_DEPTH} levels"):
        TAKERS[field]({"x": deep()})


def at_depth(frames: int, call: Callable[[], object]) -> object:
    """What a call gives with so many frames of the stack taken already."""
    return call() if frames == 0 else at_depth(frames - 1, call)


@pytest.mark.parametrize("wrap", ["list", "dict"])
def test_all_works_at_the_limit_on_a_half_full_stack(wrap: str):
    def all_of_it() -> None:
        value = {"x": nested(MAX_DEPTH, wrap)}
        message = Msg("a", [ToolUseBlock("1", "t", value), ToolResultBlock("1", "t", "", metadata=value)])
        message = message.replace(metadata=value)
        event = PreActingEvent(tool_use=message.tool_calls[0])
        assert Msg.from_json(message.to_json()) == message
        assert Msg.from_dict(message.to_dict()) == message
        assert event_from_json(event.to_json()) == event
        assert event_from_dict(event.to_dict()) == event
        assert copy.deepcopy(message) == message
        assert hash(copy.copy(message)) == hash(message)
        assert thaw(message.metadata) == value
        assert "1" in repr(message)
        assert json.loads(json.dumps(message.metadata)) == value

    at_depth(sys.getrecursionlimit() // 2, all_of_it)


def test_a_pickle_is_read_at_the_limit():
    message = Msg("a", ToolUseBlock("1", "t", {"x": nested(MAX_DEPTH)}))
    assert pickle.loads(pickle.dumps(message)) == message


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 250, 900, FAR])
def test_json_nested_too_deep_is_refused(levels: int):
    call = f'{{"type":"tool_use","id":"1","name":"t","input":{{"a":{nested_json(levels)}}}}}'
    for text in (nested_json(levels), f'{{"name":"a","content":[{call}]}}'):
        with pytest.raises(InvalidInputError):
            Msg.from_json(text)
    for text in (nested_json(levels), f'{{"type":"pre_acting","tool_use":{call}}}'):
        with pytest.raises(InvalidInputError):
            event_from_json(text)


@pytest.mark.parametrize("field", ["name", "content", "role", "metadata", "usage", "id"])
@pytest.mark.parametrize("deep", [lambda: nested(FAR), own], ids=["deep", "itself"])
def test_plain_values_nested_too_deep_are_refused(field: str, deep: Callable[[], object]):
    value = deep() if field != "metadata" else {"x": deep()}
    with pytest.raises(InvalidInputError):
        Msg.from_dict({"name": "a", "content": [], field: value})
    with pytest.raises(InvalidInputError):
        event_from_dict({"type": "post_reasoning", "message": {"name": "a", "content": [], field: value}})
    if field in ("name", "content", "role"):
        with pytest.raises(InvalidInputError):
            Msg(**{"name": "a", "content": "", field: value})


def test_a_kind_of_event_nested_too_deep_is_refused():
    with pytest.raises(InvalidInputError, match="not a type of event"):
        event_from_dict({"type": nested(FAR)})


class Tree:
    """An object that no JSON encoder knows."""


def test_an_object_without_json_is_refused_on_the_way_out():
    deep: object = 1
    holder = make_dataclass("Holder", ["inner"])
    for _ in range(400):
        deep = holder(deep)
    for value in (Tree(), deep):
        message = Msg("a", "", metadata={"x": value})
        event = PreActingEvent(tool_use=ToolUseBlock("1", "t", {"x": value}))
        for write in (message.to_json, message.to_dict, event.to_json, event.to_dict):
            with pytest.raises(InvalidInputError, match="cannot be written as JSON"):
                write()


# --- what a model sends ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [MAX_DEPTH, FAR])
def test_arguments_nested_too_deep_are_an_error_result(levels: int):
    @tool
    def echo(value: list[object]) -> str:
        """Say it."""
        return "said"

    deep = f'{{"value": {nested_json(levels)}}}'
    model = ScriptedModel([ToolUseDelta(0, "1", "echo", deep)], "I see.")
    agent = ReActAgent("a", model, toolkit=Toolkit([echo]))
    assert agent.call("go").run().text == "I see."
    (answer,) = model.requests[1].messages[-1].tool_results
    assert answer.kind is ToolResultKind.INVALID_ARGUMENTS
    assert "Call the tool again" in answer.text


@pytest.mark.parametrize("levels", [190, 500, FAR])
def test_arguments_given_as_an_object_are_cut_too(levels: int):
    deep = nested_json(levels)
    call = {"functionCall": {"name": "f", "args": {"a": "HERE"}}}
    gemini = {"candidates": [{"content": {"role": "model", "parts": [call]}, "finishReason": "STOP"}]}
    call = {"function": {"name": "f", "arguments": {"a": "HERE"}}}
    ollama = {"message": {"role": "assistant", "content": "", "tool_calls": [call]}, "done": True}
    for make, answer in ((ContentParser, gemini), (OllamaParser, ollama)):
        text = json.dumps(answer).replace('"HERE"', deep)
        (call,) = wired.blocks(wired.streamed(make, [text]))
        assert isinstance(call, ToolUseBlock)
        assert not call.input
        assert str(MAX_DEPTH) in str(call.input_error)
        (call,) = wired.blocks(wired.whole(make, load_json(text)))
        assert str(MAX_DEPTH) in str(call.input_error)


json_texts = st.recursive(
    st.none() | st.text('[]{}"\\a', max_size=5) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('[]{}"\\a', max_size=3), inner, max_size=3),
    max_leaves=15,
).map(json.dumps)


@given(json_texts, st.integers(201, 900))
def test_what_stands_beside_a_too_deep_part_is_read(text: str, levels: int):
    found = decode_json(f'{{"before": {text}, "deep": {nested_json(levels)}, "after": {text}}}')
    assert isinstance(found, dict)
    assert found["before"] == found["after"] == json.loads(text)
    assert not deeper(found, 200)


def test_a_string_that_is_not_closed_is_looked_at_once():
    with pytest.raises(ProtocolError):
        decode_json("[" * 1000 + '"' + '\\"' * 500_000)


def test_metadata_of_an_answer_is_bounded():
    with pytest.raises(ProtocolError, match="levels"):
        list(
            ToolCallDeltas().feed(
                {"tool_calls": [{"id": "1", "function": {"name": "f"}, "extra_content": {"a": nested(150)}}]}
            )
        )
    reasoning = Reasoning()
    list(reasoning.feed({"reasoning_details": [{"type": "x", "a": nested(150)}]}))
    with pytest.raises(ProtocolError, match="levels"):
        list(reasoning.close())


def test_gathered_arguments_at_the_limit_are_a_message():
    gather = ResponseAccumulator()
    gather.feed(ChatResponse((ToolUseDelta(0, "1", "f", f'{{"a": {nested_json(MAX_DEPTH - 1)}}}'),)))
    message = Msg.assistant(gather.blocks())
    assert message.tool_calls[0].input_error is None
    assert Msg.from_json(message.to_json()) == message


# --- what a tool gives -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [lambda: nested(FAR), lambda: nested(300), lambda: nested(150, "dict")])
def test_a_result_nested_too_deep_is_an_error_result(value: Callable[[], object]):
    @tool
    def deep() -> object:
        """Give something deep."""
        return value()

    found = result(deep)
    assert found.kind is ToolResultKind.FAILED
    assert f"more than {MAX_DEPTH} levels" in found.text


def test_a_result_of_images_nested_too_deep_is_an_error():
    @tool
    def deep() -> object:
        """Give something deep."""
        value: object = [TextBlock("x")]
        for _ in range(FAR):
            value = [TextBlock("x"), value]
        return value

    found = result(deep)
    assert found.kind is ToolResultKind.FAILED
    assert f"more than {MAX_DEPTH} levels" in found.text


def test_metadata_nested_too_deep_is_an_error_result():
    @tool
    def deep() -> object:
        """Give something deep."""
        return ToolResultBlock("1", "t", "", metadata={"x": nested(150)})

    @tool
    def waits() -> object:
        """Wait for an answer."""
        raise ToolSuspend("wait", x=nested(150))

    for each in (deep, waits):
        found = result(each)
        assert found.kind is ToolResultKind.FAILED
        assert "levels" in found.text


# --- what was saved --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [nested_json(FAR).encode(), nested_json(500).encode(), b"{", b"\xff", b""],
    ids=["far", "500", "cut", "no text", "nothing"],
)
def test_a_foreign_line_in_a_session_is_a_typed_error(line: bytes):
    for kind in EntryKind:
        with pytest.raises(SessionError, match="'state'"):
            decode("k", {"state": StoredEntry(kind, (line,))})
    with pytest.raises(SessionError, match="2 values"):
        decode("k", {"state": StoredEntry(EntryKind.VALUE, (b"1", b"2"))})


@pytest.mark.parametrize("levels", [150, 500, FAR])
def test_a_saved_message_nested_too_deep_is_a_typed_error(tmp_path: Path, levels: int):
    session = JsonSession(tmp_path)
    message = Msg("a", ToolUseBlock("1", "t", {"x": "HERE"}))
    session.save_all("k", {}, {"memory": [message.to_dict()]}).run()
    # an attacker who can write to the folder can write a digest, too
    (file,) = (tmp_path / "k").glob("memory*")
    data = file.read_bytes().replace(b'"HERE"', nested_json(levels).encode())
    file.write_bytes(data)
    path = tmp_path / "k" / MANIFEST
    manifest = Manifest.from_bytes(path.read_bytes())
    stored = {
        name: replace(entry, size=len(data), sha256=hashlib.sha256(data).hexdigest())
        for name, entry in manifest.entries.items()
    }
    path.write_bytes(manifest.changed(stored).to_bytes())
    agent = ReActAgent("a", ScriptedModel("hi"))
    with pytest.raises(SessionError):
        agent.load(session, "k").run()
    assert agent.memory.get().run() == ()


def test_a_manifest_nested_too_deep_is_a_typed_error(tmp_path: Path):
    session = JsonSession(tmp_path)
    session.save("k", "state", 1).run()
    path = tmp_path / "k" / MANIFEST
    for text in (nested_json(FAR), f'{{"format": 1, "sha256": "", "session": {{"a": {nested_json(990)}}}}}'):
        path.write_text(text)
        with pytest.raises(SessionError):
            session.load("k", "state").run()
