"""JSON schemas in the subset that Anthropic's structured output takes. Pure.

| in the schema                                      | on the wire                                           |
|----------------------------------------------------|-------------------------------------------------------|
| an object                                          | `additionalProperties: false`                         |
| `oneOf`                                            | `anyOf`                                               |
| `$ref`                                             | alone: its siblings are left out                      |
| bounds, lengths, patterns, defaults, other formats | in the description: the answer is checked here anyway |
| no type, free keys                                 | `ConfigurationError`: ask for it in tool mode         |
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.models.wire.request_body import json_schema_of

_FORMATS = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"),
)
_UNIONS = ("anyOf", "oneOf", "allOf")


def output_format(response_format: Mapping[str, object]) -> dict[str, object] | None:
    """The `output_config.format` for a `response_format`; None for plain text; `ConfigurationError` for others."""
    if response_format.get("type") == "text":
        return None
    schema = json_schema_of(response_format)
    if schema is None:
        raise ConfigurationError(
            "Anthropic takes a response_format of type json_schema with a schema, or text, not "
            f"{response_format.get('type')!r}. For JSON of any shape ask in the prompt."
        )
    return {"type": "json_schema", "schema": output_schema(schema)}


def output_schema(schema: Mapping[str, object]) -> dict[str, object]:
    """The schema in the subset; a value that fits the original fits it."""
    left = dict(schema)
    made: dict[str, object] = {}
    definitions = left.pop("$defs", None) or left.pop("definitions", None)
    if isinstance(definitions, Mapping):
        made["$defs"] = {name: output_schema(each) for name, each in _schemas(cast("object", definitions)).items()}
    if "$ref" in left:
        return made | {"$ref": left["$ref"]}
    kind = left.pop("type", None)
    union = next((name for name in _UNIONS if isinstance(left.get(name), (list, tuple))), None)
    for literal in ("enum", "const"):
        if literal in left:
            made[literal] = left.pop(literal)
            kind = None
    if union is not None:
        branches = cast("Sequence[Mapping[str, object]]", left.pop(union))
        made["allOf" if union == "allOf" else "anyOf"] = [output_schema(each) for each in branches]
    elif isinstance(kind, (list, tuple)):
        made["anyOf"] = [output_schema({**left, "type": each}) for each in cast("Sequence[str]", kind)]
        return made
    elif kind is not None:
        made["type"] = kind
    elif not {"enum", "const"} & set(made):
        raise ConfigurationError(
            f"This schema has no type: {json.dumps(schema, default=str)[:200]}. Anthropic's structured output needs "
            "one everywhere; add it, or ask in tool mode."
        )
    for name in ("description", "title"):
        if left.get(name) is not None:
            made[name] = left[name]
        left.pop(name, None)
    _contents(kind, left, made)
    if left:
        rest = "{" + ", ".join(f"{name}: {value}" for name, value in left.items()) + "}"
        made["description"] = "\n\n".join(filter(None, [cast("str", made.get("description", "")), rest]))
    return made


def _contents(kind: object, left: dict[str, object], made: dict[str, object]) -> None:
    """Move the keywords that belong to this type from `left` to `made`."""
    if kind == "object":
        properties = left.pop("properties", None)
        if left.pop("additionalProperties", None) not in (None, False) and not properties:
            raise ConfigurationError(
                "An object with free keys has no form in Anthropic's structured output; ask in tool mode."
            )
        made["properties"] = {name: output_schema(each) for name, each in _schemas(properties).items()}
        made["additionalProperties"] = False
        if "required" in left:
            made["required"] = left.pop("required")
    elif kind == "array":
        items = left.pop("items", None)
        if isinstance(items, Mapping):
            made["items"] = output_schema(cast("Mapping[str, object]", items))
        if left.get("minItems") in (0, 1):
            made["minItems"] = left.pop("minItems")
    elif kind == "string" and left.get("format") in _FORMATS:
        made["format"] = left.pop("format")


def _schemas(value: object) -> Mapping[str, Mapping[str, object]]:
    return cast("Mapping[str, Mapping[str, object]]", value) if isinstance(value, Mapping) else {}
