"""Text of models that is read as JSON: arguments, answers, parts of them. Linear time, and a limit on what is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentscope_rx.agent.structured_output.extract import NoJsonError, extract_object
from agentscope_rx.errors import InvalidInputError
from agentscope_rx.events.partial_json import partial_value
from agentscope_rx.messages import TextBlock, ToolUseBlock
from agentscope_rx.models.accumulate import parse_arguments
from agentscope_rx.models.local.prompt import arguments
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.tools.schemas.edit import hidden
from tests.security.test_schemas import quick

SIZE = 200_000


@pytest.mark.parametrize(
    "text",
    [
        "{" + '"\\"' * (SIZE // 3),
        "{" + '\\"' * (SIZE // 2) + "\\",
        "```" + " " * SIZE,
        "```" + "a" * SIZE,
        "```json\n" + "\n   " * (SIZE // 4),
        "``` " * (SIZE // 4),
        "{} " * (SIZE // 3),
        "{" * SIZE,
        "\n" * SIZE,
    ],
)
def test_no_answer_freezes_the_search_for_its_object(text: str):
    def search() -> None:
        with pytest.raises(NoJsonError):
            extract_object(text)

    quick(search)


@pytest.mark.parametrize("text", [" " * SIZE, "\n" * SIZE, "```" + "\t" * SIZE, "{" * SIZE, '{"a": "' + "\\" * SIZE])
def test_no_answer_freezes_the_reading_of_what_has_come(text: str):
    quick(lambda: partial_value(TextBlock(text)))


def test_a_fence_before_the_object_is_left_out():
    assert partial_value(TextBlock('\n```json\n{"a": 1, "b": "tw')) == {"a": 1, "b": "tw"}


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (json.dumps({"a": [1] * 30_000}), "more than 20,000 values"),
        (json.dumps({"a": {str(n): [] for n in range(15_000)}, "b": [0] * 9_000}), "more than 20,000 values"),
        ('{"a":' * 100_000, "not valid JSON"),
        ("[" * 100_000 + "]" * 100_000, "not valid JSON"),
        ('{"a":' * 200 + "1" + "}" * 200, "nested more than 100 levels"),
        ('{"a": ' + "9" * 5_000 + "}", "not valid JSON"),
        ('{"a": 1e999}', "too large a number"),
        ('{"a": NaN}', "NaN is not a JSON value"),
    ],
)
def test_arguments_without_measure_are_no_arguments(raw: str, says: str):
    arguments, problem = quick(lambda: parse_arguments(raw))
    assert arguments == {}
    assert says in str(problem)


@pytest.mark.parametrize("text", ["a,b,{[" * 300_000, "x" * 5_000_000])
def test_a_long_text_is_one_value(text: str):
    assert parse_arguments(json.dumps({"text": text})) == ({"text": text}, None)


def test_what_is_nested_without_end_is_a_typed_error():
    deep: Any = {}
    for _ in range(5_000):
        deep = {"a": [deep]}
    with pytest.raises(InvalidInputError, match="nested more than 100 levels"):
        ToolUseBlock("1", "t", deep)


def test_references_expand_only_so_far_for_a_local_model():
    names = [f"p{n}" for n in range(60)]
    parts: dict[str, Any] = {
        f"d{n}": {"type": "object", "properties": {name: {"$ref": f"#/$defs/d{n + 1}"} for name in names}}
        for n in range(5)
    }
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {**parts, "d5": {}}}
    made = quick(lambda: arguments(ToolSchema("t", "", schema), ["it"]))
    assert (made["properties"], made["$defs"]) == (schema["properties"], schema["$defs"])


def test_references_into_one_another_are_followed_once():
    inner: dict[str, Any] = {"type": "object"}
    for level in range(50):
        inner = {"properties": {"a": inner, **{f"r{n}": {"$ref": "#" + "/properties/a" * level} for n in range(19)}}}
    schema = {"type": "object", "properties": {"a": inner, "gone": {}}}
    assert "gone" not in str(quick(lambda: hidden(schema, ["gone"])))
