"""Schemas in the form of OpenAI's strict mode, or as they are."""

from __future__ import annotations

import pytest

from agentscope_rx.models.openai.strict import strict_schema, wire_response_format

OPEN = [
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"type": "object", "properties": {"a": {}}},
    {"type": "object", "properties": {"a": {"type": "array", "prefixItems": [{"type": "string"}]}}},
    {"type": "object", "properties": {"a": {"type": "array"}}},
    {"type": "object", "properties": {"a": {"allOf": [{"type": "string"}]}}},
    {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}},
    {"type": "object", "properties": {"a": True}},
    {"type": "array", "items": {"type": "string"}},
]


def test_every_field_is_required_and_optional_ones_nullable():
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "minLength": 1, "description": "Its name"},
            "unit": {"enum": ["C", "F"], "type": "string", "default": "C"},
            "when": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}], "default": None},
            "day": {"$ref": "#/$defs/Day", "description": "Which"},
            "kind": {"type": ["string", "null"]},
        },
        "required": ["city", "day"],
        "$defs": {"Day": {"type": "object", "title": "Day", "properties": {"n": {"type": "integer"}}}},
    }
    assert strict_schema(schema) == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Its name; minLength: 1"},
            "unit": {"anyOf": [{"enum": ["C", "F"], "type": "string"}, {"type": "null"}]},
            "when": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
            "day": {"anyOf": [{"$ref": "#/$defs/Day"}], "description": "Which"},
            "kind": {"type": ["string", "null"]},
        },
        "required": ["city", "unit", "when", "day", "kind"],
        "additionalProperties": False,
        "$defs": {
            "Day": {
                "type": "object",
                "properties": {"n": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
                "required": ["n"],
                "additionalProperties": False,
            }
        },
    }


@pytest.mark.parametrize("schema", OPEN)
def test_what_strict_mode_has_no_form_for_goes_as_it_is(schema: dict[str, object]):
    assert strict_schema(schema) is None
    asked = {"type": "json_schema", "json_schema": {"name": "x", "strict": None, "schema": schema}}
    assert wire_response_format(asked)["json_schema"] == {"name": "x", "strict": False, "schema": schema}


def test_only_an_open_question_is_decided():
    """What a user asks for goes to the wire as it is."""
    for asked in (
        {"type": "json_object"},
        {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
        {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": {"type": "object"}}},
    ):
        assert wire_response_format(asked) == asked


def test_a_recursive_union():
    schema = {
        "type": "object",
        "properties": {"response": {"oneOf": [{"$ref": "#/$defs/N"}, {"type": "integer"}], "discriminator": {}}},
        "required": ["response"],
        "$defs": {"N": {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}, "required": []}},
    }
    assert strict_schema(schema) == {
        "type": "object",
        "properties": {"response": {"anyOf": [{"$ref": "#/$defs/N"}, {"type": "integer"}]}},
        "required": ["response"],
        "additionalProperties": False,
        "$defs": {
            "N": {
                "type": "object",
                "properties": {"next": {"anyOf": [{"$ref": "#/$defs/N"}, {"type": "null"}]}},
                "required": ["next"],
                "additionalProperties": False,
            }
        },
    }
