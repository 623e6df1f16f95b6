"""JSON in a text: found where it is the only one, else a problem that the model can mend."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.agent.structured_output.extract import NoJsonError, extract_object

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(), VALUES, min_size=1, max_size=4)
PROSE = st.text(st.characters(blacklist_characters='{}`["', blacklist_categories=("Cs",)))


@given(OBJECTS, PROSE, PROSE, st.booleans())
def test_one_object_is_found(value: dict[str, object], before: str, after: str, indented: bool):
    text = json.dumps(value, indent=2 if indented else None)
    assert extract_object(text) == value
    assert extract_object(f"{before}{text}{after}") == value
    assert extract_object(f"{before}\n```json\n{text}\n```\n{after}") == value
    assert extract_object(f"{before}\n```\n{text}\n```") == value


@given(OBJECTS, OBJECTS)
def test_two_different_objects_are_one_too_many(one: dict[str, object], other: dict[str, object]):
    text = f"First {json.dumps(one)}, then {json.dumps(other)}"
    if one == other:
        assert extract_object(text) == one
    else:
        with pytest.raises(NoJsonError, match="several different JSON objects"):
            extract_object(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('Use {braces} like so: {"a": 1}', {"a": 1}),
        ('The example {"a": 0} is not it:\n```json\n{"a": 1}\n```', {"a": 1}),
        ('```json\n{"a": "```"}\n```', {"a": "```"}),
        ('```json\n{"a": 1}', {"a": 1}),
        ('```python\nprint()\n```\n{"a": 1}', {"a": 1}),
        ('{"a": "}{"}', {"a": "}{"}),
    ],
)
def test_where_it_is(text: str, found: dict[str, object]):
    assert extract_object(text) == found


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "holds no JSON object"),
        ("It is sunny.", "holds no JSON object"),
        ("null", "holds no JSON object"),
        ("[1, 2]", "a JSON object was expected, not list"),
        ('{"a": 1', "not valid JSON"),
        ("{'a': {\"b\": 1}}", "not valid JSON"),
        ('{"a": {"b": 1}, ', "not valid JSON"),
        ('So: {"a": NaN}', "not valid JSON"),
        ('```json\n{"a": 1}\n```\nor\n```json\n{"a": 2}\n```', "several different JSON objects"),
    ],
)
def test_nothing_is_guessed(text: str, problem: str):
    """A part of a broken object is not taken for the object."""
    with pytest.raises(NoJsonError, match=problem):
        extract_object(text)


def test_long_texts_cost_no_more_than_their_length():
    for text in ("{" * 20_000, "{1}" * 20_000, '{"a' * 20_000, "{" * 10_000 + "}" * 10_000, "```\n{\n" * 5_000):
        with pytest.raises(NoJsonError):
            extract_object(text)
