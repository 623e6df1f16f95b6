"""Laws of all values: what is written is what is read; copies are equal; nothing inside can be changed."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import ContentBlock, Msg, TextBlock, ToolUseBlock
from agentscope_rx.messages.frozen import EMPTY, FrozenDict, FrozenList, encodable, freeze, thaw
from agentscope_rx.messages.msg import read_message
from agentscope_rx.messages.sources import reading
from tests.messages.values import blocks, json_values, messages, messages_with_files, objects

BLOCK = TypeAdapter[ContentBlock](ContentBlock)


@given(messages)
@example(Msg("a", ToolUseBlock("1", "t", {"a": None, "b": [None, {"c": None}], "": 10**30}), "assistant"))
def test_a_message_is_read_as_it_was_written(message: Msg):
    text = message.to_json()
    assert Msg.from_json(text) == message
    assert Msg.from_json(text.encode()) == message
    assert Msg.from_json(text).to_json() == text
    assert json.loads(text)["id"] == message.id, "one JSON object, readable by anybody"


@given(messages_with_files)
def test_local_files_come_back_as_far_as_they_may(message: Msg):
    text = message.to_json()
    with pytest.raises(InvalidInputError, match="file_root"):
        Msg.from_json(text)
    rooted = Msg.from_json(text, file_root="/")
    assert rooted.to_json() == text and Msg.from_json(rooted.to_json(), file_root="/") == rooted
    locked = read_message(json.loads(text), reading(None, lock=True))
    assert locked.to_json() == text and read_message(json.loads(locked.to_json()), reading(None, lock=True)) == locked
    for found in (message, rooted, locked):
        again = (pickle.loads(pickle.dumps(found)), copy.deepcopy(found))
        assert all(each == found and each.content[0].source.locked == (found is locked) for each in again)


@given(blocks)
def test_a_block_is_read_as_it_was_written(block: ContentBlock):
    assert BLOCK.validate_json(BLOCK.dump_json(block)) == block
    assert type(BLOCK.validate_python(json.loads(BLOCK.dump_json(block)))) is type(block)


@given(messages)
def test_copies_are_equal_and_hash_alike(message: Msg):
    for again in (pickle.loads(pickle.dumps(message)), copy.deepcopy(message), copy.copy(message), message.replace()):
        assert again == message
        assert hash(again) == hash(message)
        assert type(again.metadata) is FrozenDict


@given(objects)
def test_frozen_dicts_are_equal_to_and_encoded_as_what_went_in(value: dict[str, object]):
    frozen = freeze(value)
    assert frozen == value
    assert json.dumps(frozen) == json.dumps(value)
    assert freeze(frozen) is frozen
    assert thaw(frozen) == value and type(thaw(frozen)) is dict
    assert pickle.loads(pickle.dumps(frozen)) == value


@given(json_values)
def test_nothing_inside_can_be_changed(value: object):
    frozen = freeze({"value": value, "list": [value]})

    def walk(item: object) -> None:
        if isinstance(item, dict):
            assert type(item) is FrozenDict
            with pytest.raises(TypeError):
                item["new"] = 1
            for inner in item.values():
                walk(inner)
        elif isinstance(item, list):
            assert type(item) is FrozenList
            with pytest.raises(TypeError):
                item.append(1)
            for inner in item:
                walk(inner)

    walk(frozen)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.__setitem__("a", 1),
        lambda d: d.__delitem__("a"),
        lambda d: d.update(a=1),
        lambda d: d.setdefault("b", 1),
        lambda d: d.pop("a"),
        lambda d: d.popitem(),
        lambda d: d.clear(),
        lambda d: d.__ior__({"b": 1}),
        lambda d: d["l"].append(1),
        lambda d: d["l"].extend([1]),
        lambda d: d["l"].insert(0, 1),
        lambda d: d["l"].pop(),
        lambda d: d["l"].remove(1),
        lambda d: d["l"].reverse(),
        lambda d: d["l"].sort(),
        lambda d: d["l"].clear(),
        lambda d: d["l"].__setitem__(0, 2),
        lambda d: d["l"].__delitem__(0),
        lambda d: d["l"].__iadd__([1]),
        lambda d: d["l"].__imul__(2),
    ],
)
def test_every_way_to_change_is_refused(change):
    frozen = freeze({"a": 0, "l": [1]})
    with pytest.raises(TypeError, match="frozen value"):
        change(frozen)
    assert frozen == {"a": 0, "l": [1]}


def test_what_the_caller_changes_later_does_not_show():
    arguments = {"a": {"b": [1]}}
    block = ToolUseBlock("1", "t", arguments)
    arguments["a"]["b"].append(2)
    assert block.input == {"a": {"b": [1]}}
    thawed = thaw(block.input)
    thawed["a"]["b"].append(3)
    assert block.input == {"a": {"b": [1]}}


def test_a_tuple_is_kept_as_the_list_that_json_makes_of_it():
    assert freeze({"a": (1, (2,))}) == {"a": [1, [2]]}
    assert freeze(None) is EMPTY and freeze({}) is EMPTY
    with pytest.raises(InvalidInputError, match="dict"):
        freeze([1])


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_text_can_always_be_encoded(text: str):
    clean = encodable(text)
    clean.encode()
    assert encodable(clean) == clean
    if not any("\ud800" <= letter <= "\udfff" for letter in text):
        assert clean == text
    assert Msg.from_json(Msg.user(text).to_json()).text == TextBlock(text).text == clean
    call = ToolUseBlock("1", "t", {text: [text]}, raw=text)
    json.dumps([call.input, call.raw], ensure_ascii=False).encode()


def test_two_halves_of_a_character_are_joined():
    assert encodable("\ud83d\ude00 \udcff") == "\U0001f600 \ufffd"
