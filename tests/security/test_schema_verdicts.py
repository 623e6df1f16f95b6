"""The verdict on a value is jsonschema's own; any schema and any value have one in time. By random schemas."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator, SchemaError

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.tools.schemas.check import SchemaCheck
from tests.security.test_schemas import quick

Json = dict[str, Any]
Part = Json | bool

NAMES = st.sampled_from(["a", "b", "ab", "c1"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 4) | st.sampled_from([0.5, 1.0, 2.0]) | st.text("ab1", max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)
SMALL = st.integers(0, 3)
TYPES = st.sampled_from(["array", "boolean", "integer", "null", "number", "object", "string"])
PATTERNS = st.sampled_from(["a", "^a+$", "^[ab]{2}$", "b|1", "^(a|b)*1?$", "[^a]"])


def typed(kind: str) -> Json:
    return {"type": kind}


def parts(draft7: bool) -> st.SearchStrategy[Json]:
    """Schemas with a few keywords, nested."""
    leaf: st.SearchStrategy[Part] = st.booleans() | st.builds(typed, TYPES)
    inner: st.SearchStrategy[Any] = st.deferred(lambda: leaf | leaf | some)
    many = st.lists(inner, min_size=1, max_size=3)
    names = st.lists(NAMES, max_size=2, unique=True)
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
        "enum": st.lists(VALUES, max_size=4),
        "const": VALUES,
        "multipleOf": st.sampled_from([1, 2, 0.5, 0.1]),
        "pattern": PATTERNS,
        "uniqueItems": st.booleans(),
        "items": inner | many if draft7 else inner,
        "properties": st.dictionaries(NAMES, inner, max_size=3),
        "patternProperties": st.dictionaries(PATTERNS, inner, max_size=2),
        "required": names,
        "$ref": st.just("#/$defs/one"),
        **dict.fromkeys(("minimum", "exclusiveMaximum"), st.integers(-2, 3)),
        **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties"), SMALL),
        **dict.fromkeys(("contains", "additionalProperties", "propertyNames", "not", "if", "then", "else"), inner),
        **dict.fromkeys(("allOf", "anyOf", "oneOf"), many),
    }
    if draft7:
        keywords |= {"additionalItems": inner, "dependencies": st.dictionaries(NAMES, inner | names, max_size=2)}
    else:
        keywords |= {
            "prefixItems": many,
            "minContains": SMALL,
            "dependentRequired": st.dictionaries(NAMES, names, max_size=2),
            "dependentSchemas": st.dictionaries(NAMES, inner, max_size=2),
            "unevaluatedProperties": inner,
            "unevaluatedItems": st.booleans(),
        }
    several = st.lists(st.sampled_from(sorted(keywords)), min_size=1, max_size=4, unique=True)
    some = several.flatmap(lambda names: st.fixed_dictionaries({name: keywords[name] for name in names}))
    return some


DEFINITIONS = st.builds(typed, TYPES) | st.just({"properties": {"a": {"$ref": "#/$defs/one"}}})
DIALECTS = {Draft7Validator: "http://json-schema.org/draft-07/schema#", Draft202012Validator: None}


@pytest.mark.parametrize("validator", DIALECTS)
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_value_fits_if_and_only_if_jsonschema_says_so(validator: type[Any], data: st.DataObject):
    root = data.draw(SEVENTH if validator is Draft7Validator else LATEST)
    schema = {"minProperties": 0, **root, "$defs": {"one": data.draw(DEFINITIONS)}}
    if uri := DIALECTS[validator]:
        schema["$schema"] = uri
    check, plain = SchemaCheck(schema), validator(schema)
    for value in data.draw(st.lists(VALUES, min_size=1, max_size=4)):
        assert (check.problems(value) == []) == plain.is_valid(value)


SEVENTH, LATEST = parts(draft7=True), parts(draft7=False)
KEYWORDS = st.sampled_from(
    "type enum minimum multipleOf minLength pattern uniqueItems items properties required allOf not title prefixItems "  # noqa: SIM905
    "dependentRequired patternProperties additionalProperties deprecated exclusiveMinimum".split()
)
ANYTHING = VALUES | TYPES | st.sampled_from([{"a": {"type": "string"}}, [{"type": "string"}], ["a", "b"]])


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(KEYWORDS, ANYTHING, min_size=1, max_size=3))
def test_what_jsonschema_takes_for_no_schema_is_refused(schema: Json):
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError:
        with pytest.raises(ConfigurationError):
            SchemaCheck(schema)
    else:
        SchemaCheck({"type": "object", **schema})


def under(key: str, part: Any) -> Json:
    return {key: part}


def hostile(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    several = st.lists(inner, min_size=1, max_size=3)
    ones = st.sampled_from(["items", "not", "additionalProperties", "contains", "unevaluatedItems", "if"])
    return (
        st.builds(under, st.sampled_from(["allOf", "anyOf", "oneOf"]), several)
        | st.builds(under, ones, inner)
        | st.builds(under, st.just("properties"), st.fixed_dictionaries({"a": inner, "b": inner}))
    )


REFERENCES = st.sampled_from([{"$ref": f"#/$defs/d{n}"} for n in range(4)])
HOSTILE: st.SearchStrategy[Json] = st.recursive(
    REFERENCES | st.sampled_from([{"type": "string"}, {"pattern": "^(a+)+$"}]), hostile, max_leaves=8
)
WIDE: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(["a" * 60 + "!", 1, None]),
    lambda inner: st.lists(inner, max_size=20) | st.fixed_dictionaries({"a": inner, "b": inner}),
    max_leaves=20,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(HOSTILE, min_size=4, max_size=4), HOSTILE, WIDE)
def test_any_schema_and_any_value_are_answered_in_time(definitions: list[Json], root: Json, value: object):
    named = {f"d{n}": each for n, each in enumerate(definitions)}
    schema: Json = {"type": ["object", "array", "string"], "allOf": [root], "$defs": named}
    try:
        check = quick(lambda: SchemaCheck(schema))
    except ConfigurationError:
        return
    quick(lambda: check.problems(value))
