"""Raw values as output blocks."""

from __future__ import annotations

import datetime
import enum
import json
import pathlib
from dataclasses import dataclass

import pytest
from calling import result, use
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from agentscope_rx.messages import (
    AudioBlock,
    Base64Source,
    ImageBlock,
    Msg,
    MsgRole,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolResultKind,
    URLSource,
)
from agentscope_rx.tools.results.convert import output_of, result_of

IMAGE = ImageBlock(URLSource("https://example.org/cat.png"))
SOUND = AudioBlock(Base64Source("audio/wav", "UklGRg=="))


@dataclass
class Point:
    x: int
    label: str


class City(BaseModel):
    name: str
    founded: datetime.date


class Level(enum.Enum):
    HIGH = "high"
    NUMBERS = (1, 2)


class Strange:
    def __str__(self) -> str:
        return "strange indeed"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ('"quoted"', '"quoted"'),
        ("", ""),
        (None, "Done."),
        (True, "true"),
        (42, "42"),
        (1.5, "1.5"),
        (float("inf"), "Infinity"),
        ({"größe": [1, None, True]}, '{"größe":[1,null,true]}'),
        ((), "[]"),
        ([], "[]"),
        (["a", "b"], '["a","b"]'),
        ({1}, "[1]"),
        (frozenset({"a"}), '["a"]'),
        (Point(1, "ä"), '{"x":1,"label":"ä"}'),
        ([Point(1, "a")], '[{"x":1,"label":"a"}]'),
        (City(name="Köln", founded=datetime.date(38, 1, 1)), '{"name":"Köln","founded":"0038-01-01"}'),
        (datetime.date(2024, 2, 29), "2024-02-29"),
        (pathlib.PurePosixPath("/a/b"), "/a/b"),
        (Level.HIGH, "high"),
        (Level.NUMBERS, "[1,2]"),
        (Strange(), "strange indeed"),
        ({"it": Strange()}, '{"it":"strange indeed"}'),
        (["\ud800"], "['\\ud800']"),
    ],
)
def test_value_as_text(value: object, text: str):
    assert output_of(value) == (TextBlock(text),)


def test_what_holds_itself_is_shown_as_python_shows_it():
    loop: list[object] = []
    loop.append(loop)
    assert output_of(loop) == (TextBlock("[[...]]"),)


def test_blocks_and_lists_with_blocks_are_output():
    assert output_of(IMAGE) == (IMAGE,)
    assert output_of(["A cat:", IMAGE, SOUND, {"n": 1}]) == (TextBlock("A cat:"), IMAGE, SOUND, TextBlock('{"n":1}'))


def test_a_message_gives_its_text_and_media():
    message = Msg(name="a", role=MsgRole.ASSISTANT, content=(ThinkingBlock("hm"), TextBlock("hi"), IMAGE))
    assert output_of(message) == (TextBlock("hi"), IMAGE)


def test_a_result_passes_with_the_id_and_name_of_the_call():
    raw = ToolResultBlock("other", "other", (TextBlock("no"),), ToolResultKind.REJECTED, {"by": "user"})
    block = result_of(use("mine", "7"), raw)
    assert (block.id, block.name, block.text, block.kind) == ("7", "mine", "no", ToolResultKind.REJECTED)
    assert block.metadata == {"by": "user"}


@pytest.mark.parametrize("value", [b"PNG", bytearray(b"PNG"), memoryview(b"PNG")])
def test_bytes_are_refused_with_what_to_return_instead(value: object):
    def picture() -> object:
        return value

    block = result(picture)
    assert block.kind is ToolResultKind.FAILED
    assert "returned bytes" in block.text
    assert "ImageBlock(Base64Source.of(data, 'image/png'))" in block.text


def test_blocks_that_are_no_output_are_refused():
    def think() -> object:
        return ThinkingBlock("hm")

    assert result(think).text == "Error: A tool can return text, images, audio, video and files, not a ThinkingBlock."


json_containers = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
).filter(lambda value: isinstance(value, (list, dict)))


@given(json_containers)
def test_law_json_values_read_back_equal(value: object):
    (block,) = output_of(value)
    assert isinstance(block, TextBlock)
    assert json.loads(block.text) == value
