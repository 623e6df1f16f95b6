"""Values against JSON schemas: keyword by keyword, and against pydantic's own schemas."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.tools.schemas.check import SchemaCheck

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
        ({"type": "integer"}, 3.0, True, "arguments: True is not of type 'integer'"),
        ({"type": ["string", "null"]}, None, 3, "3 is not of type 'string', 'null'"),
        ({"const": 1}, 1, True, "1 was expected"),
        ({"enum": ["a", None]}, None, "b", "'b' is not one of ['a', None]"),
        ({"minimum": 2}, 2, 1, "less than the minimum of 2"),
        ({"exclusiveMaximum": 2}, 1.9, 2, "greater than or equal to the maximum of 2"),
        ({"multipleOf": 0.5}, 1.5, 0.3, "not a multiple of 0.5"),
        ({"minLength": 2}, "ab", "a", "too short"),
        ({"maxLength": 2}, "ab", "abc", "too long"),
        ({"pattern": "^a+$"}, "aa", "b", "does not match"),
        ({"type": "array", "items": {"type": "integer"}}, [1], [1, "a"], "[1]: 'a' is not of type 'integer'"),
        ({"prefixItems": [{"type": "string"}], "items": False}, ["a"], ["a", 1], "Expected at most 1 item"),
        ({"uniqueItems": True}, [1, 2], [1, 1], "non-unique"),
        ({"contains": {"const": 1}, "maxContains": 1}, [1, 2], [2], "does not contain"),
        ({"minItems": 1}, [0], [], "should be non-empty"),
        ({"required": ["a"]}, {"a": 1}, {}, "a: is required and was not given"),
        ({"properties": {"a": {"type": "null"}}}, {"a": None}, {"a": 1}, "a: 1 is not of type 'null'"),
        ({"additionalProperties": {"type": "integer"}}, {"x": 1}, {"x": ""}, "x: '' is not of type 'integer'"),
        ({"properties": {"ab": {}}, "additionalProperties": False}, {"ab": 1}, {"abc": 1}, "did you mean 'ab'?"),
        ({"patternProperties": {"^x": {"type": "null"}}}, {"y": 1, "x": None}, {"x1": 1}, "x1: 1 is not of"),
        ({"propertyNames": {"maxLength": 1}}, {"a": 1}, {"ab": 1}, "too long"),
        ({"dependentRequired": {"a": ["b"]}}, {"b": 1}, {"a": 1}, "'b' is a dependency of 'a'"),
        ({"maxProperties": 1}, {"a": 1}, {"a": 1, "b": 2}, "too many properties"),
        ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, 2, 3, "greater than the maximum of 2"),
        ({"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 1}]}, "a", 0, "less than the minimum of 1"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "a", 1, "not valid under any"),
        ({"anyOf": [{"type": "null"}, {"type": "array", "items": {"minimum": 1}}]}, [], [0], "[0]: 0 is less"),
        ({"oneOf": [{"minimum": 1}, {"maximum": 3}]}, 0, 2, "valid under each of"),
        ({"not": {"type": "string"}}, 1, "a", "should not be valid under"),
        (MONEY, {"pay": "cash"}, {"pay": "card"}, "number: is required"),
        (TREE, {"in": {"in": {}}}, {"in": {"in": 3}}, "in.in: 3 is not of type 'object'"),
    ],
)  # fmt: skip
def test_keyword(schema: dict[str, object], fits: object, does_not: object, problem: str | None):
    check = SchemaCheck(schema)
    assert check.problems(fits) == []
    if problem is not None:
        found = check.problems(does_not)
        assert len(found) == 1
        assert problem in found[0].text


def test_a_string_has_nothing_to_do_with_the_keywords_of_arrays():
    assert SchemaCheck({"minItems": 3, "minimum": 4, "required": ["a"]}).problems("x") == []


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "objekt"}, "at type, 'objekt' is not one of array"),
        ({"$ref": "#"}, "refers to itself"),
        ({"type": "object", "properties": {"a": 3}}, "at properties.a, 3 is not of type"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}, "refers to '#/\\$defs/A', which is not in it"),
        ({"$ref": "https://example.com/schema.json"}, "refers to 'https://example.com"),
        ({"titel": "x"}, "none of its keywords"),
        ({"type": "string", "pattern": "("}, "is no JSON schema"),
    ],
)
def test_what_is_no_schema_is_refused(schema: dict[str, object], text: str):
    with pytest.raises(ConfigurationError, match=text):
        SchemaCheck(schema)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)


@given(JSON, JSON)
def test_const_is_equality(one: object, other: object):
    assert SchemaCheck({"const": one}).problems(one) == []
    assert bool(SchemaCheck({"const": one}).problems(other)) == bool(SchemaCheck({"enum": [one]}).problems(other))
