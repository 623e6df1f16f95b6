"""JSON schemas in the subset that OpenAI's strict mode takes. Pure.

| in the schema                                    | in strict mode                                        |
|--------------------------------------------------|-------------------------------------------------------|
| an object                                        | `additionalProperties: false`, every field required   |
| an optional field                                | required, but may be null: "not given"                |
| `oneOf`, `default`, `discriminator`              | `anyOf`, left out, left out                           |
| `$ref` with a description beside it              | `$ref` in an `anyOf`                                  |
| lengths, uniqueItems, unknown formats            | in the description: the answer is checked here anyway |
| free keys, anything goes, tuples, allOf, not, if | no strict form: the schema is sent unchanged          |
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

_DESCRIBED = frozenset(("minLength", "maxLength", "uniqueItems", "minProperties", "maxProperties"))
_DROPPED = frozenset(("default", "discriminator", "title", "examples", "$schema", "$id", "$comment"))
_KEPT = frozenset(
    (
        *("type", "enum", "const", "description", "pattern", "minimum", "maximum", "exclusiveMinimum"),
        *("exclusiveMaximum", "multipleOf", "minItems", "maxItems"),
    )
)
_FORMATS = frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"))


class _NotStrict(Exception):
    """The schema has no form in strict mode."""


def wire_response_format(response_format: Mapping[str, object]) -> Mapping[str, object]:
    """The `response_format` on the wire: where `strict` is None, strict if the schema can be made so."""
    shape = response_format.get("json_schema")
    if not isinstance(shape, Mapping):
        return response_format
    named = cast("Mapping[str, object]", shape)
    if "strict" not in named or named["strict"] is not None:
        return response_format
    schema = cast("Mapping[str, object]", named.get("schema", {}))
    strict = strict_schema(schema)
    sent = {"strict": strict is not None, "schema": schema if strict is None else strict}
    return {**response_format, "json_schema": {**named, **sent}}


def strict_schema(schema: Mapping[str, object]) -> dict[str, object] | None:
    """The schema in strict form; None if it has none. What fits it fits the original, nulls left out."""
    if schema.get("type") != "object":
        return None
    try:
        return _strict(schema)
    except _NotStrict:
        return None


def _strict(given: object) -> dict[str, object]:
    if not isinstance(given, Mapping) or not given:
        raise _NotStrict
    schema = cast("Mapping[str, object]", given)
    made: dict[str, object] = {}
    described: list[str] = []
    for key, value in schema.items():
        if key in ("$defs", "definitions"):
            parts = cast("Mapping[str, object]", value)
            made[key] = {name: _strict(each) for name, each in parts.items()}
        elif key in ("anyOf", "oneOf"):
            made["anyOf"] = [_strict(each) for each in cast("Sequence[object]", value)]
        elif key == "items":
            made[key] = _strict(value)
        elif key == "$ref" or key in _KEPT or (key == "format" and value in _FORMATS):
            made[key] = value
        elif key in _DESCRIBED or key == "format":
            described.append(f"{key}: {json.dumps(value)}")
        elif key not in _DROPPED and key not in ("properties", "required", "additionalProperties"):
            raise _NotStrict
    if not {"type", "$ref", "anyOf", "enum", "const"} & set(made):
        raise _NotStrict
    _fields(schema, made)
    if described:
        made["description"] = "; ".join(filter(None, [cast("str", made.get("description", "")), *described]))
    if "$ref" in made and len(made) > 1:
        made["anyOf"] = [{"$ref": made.pop("$ref")}]
    return made


def _fields(schema: Mapping[str, object], made: dict[str, object]) -> None:
    kind = schema.get("type")
    kinds = _as_sequence(kind) or (kind,)
    if "array" in kinds and "items" not in made:
        raise _NotStrict
    if "object" not in kinds:
        return
    properties = cast("Mapping[str, object]", schema.get("properties", {}))
    if not properties or schema.get("additionalProperties", False) is not False:
        raise _NotStrict
    required = cast("Sequence[str]", schema.get("required", ()))
    made["properties"] = {
        name: _strict(each) if name in required else _nullable(_strict(each)) for name, each in properties.items()
    }
    made["required"] = list(properties)
    made["additionalProperties"] = False


def _nullable(schema: dict[str, object]) -> dict[str, object]:
    null = {"type": "null"}
    branches = cast("list[object]", schema.get("anyOf", []))
    if null in branches or schema.get("type") == "null" or "null" in _as_sequence(schema.get("type")):
        return schema
    if branches:
        return {**schema, "anyOf": [*branches, null]}
    description = {"description": schema["description"]} if "description" in schema else {}
    return {"anyOf": [{key: value for key, value in schema.items() if key != "description"}, null], **description}


def _as_sequence(kind: object) -> Sequence[object]:
    return cast("Sequence[object]", kind) if isinstance(kind, (list, tuple)) else ()
