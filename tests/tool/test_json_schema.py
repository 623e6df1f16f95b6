"""Values against JSON schemas: keyword by keyword, and against pydantic's own schemas."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.tool.json_schema import check_schema, schema_problems

TREE = {"$ref": "#/$defs/T", "$defs": {"T": {"type": "object", "properties": {"in": {"$ref": "#/$defs/T"}}}}}
MONEY = {
    "type": "object",
    "properties": {"pay": {"enum": ["card", "cash"]}, "number": {"type": "string"}},
    "if": {"properties": {"pay": {"const": "card"}}},
    "then": {"required": ["number"]},
}


@pytest.mark.parametrize(
    ("schema", "fits", "does_not", "problem"),
    [
        ({"type": "integer"}, 3.0, True, "arguments: must be of type integer; given true"),
        ({"type": ["string", "null"]}, None, 3, "must be of type string or null"),
        ({"const": 1}, 1, True, "must be 1"),
        ({"enum": ["a", None]}, None, "b", 'must be one of "a", null'),
        ({"minimum": 2}, 2, 1, "must be at least 2"),
        ({"exclusiveMaximum": 2}, 1.9, 2, "must be less than 2"),
        ({"multipleOf": 0.1}, 0.3, 0.25, "must be a multiple of 0.1"),
        ({"minLength": 2}, "ab", "a", "at least 2 characters"),
        ({"maxLength": 2}, "ab", "abc", "at most 2 characters"),
        ({"pattern": "^a+$"}, "aa", "b", "must match the pattern"),
        ({"type": "array", "items": {"type": "integer"}}, [1], [1, "a"], '[1]: must be of type integer; given "a"'),
        ({"prefixItems": [{"type": "string"}], "items": False}, ["a"], ["a", 1], "[1]: is not allowed"),
        ({"uniqueItems": True}, [1, 2], [1, 1], "the same item twice"),
        ({"contains": {"const": 1}, "maxContains": 1}, [1, 2], [2], "holds 0 items"),
        ({"minItems": 1}, [0], [], "at least 1 items"),
        ({"required": ["a"]}, {"a": 1}, {}, "a: is required and was not given"),
        ({"properties": {"a": {"type": "null"}}}, {"a": None}, {"a": 1}, "a: must be of type null"),
        ({"additionalProperties": {"type": "integer"}}, {"x": 1}, {"x": ""}, "x: must be of type integer"),
        ({"properties": {"ab": {}}, "additionalProperties": False}, {"ab": 1}, {"abc": 1}, "did you mean 'ab'?"),
        ({"patternProperties": {"^x": {"type": "null"}}}, {"y": 1, "x": None}, {"x1": 1}, "x1: must be of type null"),
        ({"propertyNames": {"maxLength": 1}}, {"a": 1}, {"ab": 1}, "at most 1 characters"),
        ({"dependentRequired": {"a": ["b"]}}, {"b": 1}, {"a": 1}, "b: is required"),
        ({"maxProperties": 1}, {"a": 1}, {"a": 1, "b": 2}, "at most 1 fields"),
        ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, 2, 3, "at most 2"),
        ({"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 1}]}, "a", 0, "must be at least 1"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "a", 1, "fits none of the 2 allowed forms"),
        ({"anyOf": [{"type": "null"}, {"type": "array", "items": {"minimum": 1}}]}, [], [0], "[0]: must be at least"),
        ({"oneOf": [{"minimum": 1}, {"maximum": 3}]}, 0, 2, "fits 2 of the allowed forms"),
        ({"not": {"type": "string"}}, 1, "a", "of a form that is not allowed"),
        (MONEY, {"pay": "cash"}, {"pay": "card"}, "number: is required"),
        (TREE, {"in": {"in": {}}}, {"in": {"in": 3}}, "in.in: must be of type object"),
        ({"$ref": "#"}, 3, None, None),
    ],
)  # fmt: skip
def test_keyword(schema: dict[str, object], fits: object, does_not: object, problem: str | None):
    check_schema(schema)
    assert schema_problems(schema, fits) == []
    if problem is not None:
        found = schema_problems(schema, does_not)
        assert len(found) == 1
        assert problem in found[0].text


def test_a_string_has_nothing_to_do_with_the_keywords_of_arrays():
    assert schema_problems({"minItems": 3, "minimum": 4, "required": ["a"]}, "x") == []
    assert schema_problems(True, 3) == []
    assert [problem.text for problem in schema_problems(False, 3)] == ["arguments: is not allowed; given 3"]


@pytest.mark.parametrize("keyword", ["$dynamicRef", "unevaluatedProperties", "dependentSchemas"])
def test_what_is_not_checked_is_refused(keyword: str):
    with pytest.raises(ConfigurationError, match="not supported"):
        check_schema({"type": "object", "properties": {"a": {keyword: "#x"}}})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)


@given(JSON, JSON)
def test_const_is_equality(one: object, other: object):
    assert schema_problems({"const": one}, one) == []
    assert bool(schema_problems({"const": one}, other)) == bool(schema_problems({"enum": [one]}, other))
