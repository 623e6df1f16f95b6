"""Edits JSON schemas of arguments: hides a name, shows a default, adds fields.

    hidden({"a": ..., "b": ...}, ["a"])        without a, and without the $defs that only a used
    shown_default(schema, {"unit": "C"})       unit is optional, and "C" unless given
    extended(schema, more)                     both; a disagreement is a `ConfigurationError`

The given schemas are not changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import cast

from pydantic_core import PydanticSerializationError, to_jsonable_python

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.messages.frozen import thaw
from agentscope_rx.tools.schemas.check import resolve
from agentscope_rx.tools.schemas.function import untitled

Schema = dict[str, object]

_DEFINITIONS = ("$defs", "definitions")
_BY_NAME = ("properties", "patternProperties", "dependentSchemas", *_DEFINITIONS)
_VALUES = ("const", "enum", "default", "examples")


def properties_of(schema: Mapping[str, object]) -> Mapping[str, object]:
    """The properties of a schema; empty if it has none."""
    return cast("Mapping[str, object]", schema.get("properties") or {})


def required_of(schema: Mapping[str, object]) -> list[str]:
    """The names of the required properties."""
    return list(cast("Sequence[str]", schema.get("required") or ()))


def hidden(schema: Mapping[str, object], names: Collection[str]) -> Schema:
    """The schema without these properties, and without the definitions that nothing else refers to."""
    result = thaw(schema)
    removed: Schema = {}
    if "properties" in result:
        everything = cast("Schema", result["properties"])
        removed = {name: each for name, each in everything.items() if name in names}
        result["properties"] = {name: each for name, each in everything.items() if name not in names}
    _optional(result, names)
    _move(result, removed)
    return _without(result, _used(schema) - _used(result))


def shown_default(schema: Mapping[str, object], values: Mapping[str, object]) -> Schema:
    """The schema with these defaults; a value that JSON cannot write is not shown."""
    result = thaw(schema)
    properties = cast("Schema", result.get("properties") or {})
    for name, value in values.items():
        if isinstance(own := properties.get(name), dict):
            described = {key: each for key, each in cast("Schema", own).items() if key != "default"}
            try:
                properties[name] = {**described, "default": to_jsonable_python(value, inf_nan_mode="strings")}
            except (PydanticSerializationError, ValueError, TypeError):
                properties[name] = described
    _optional(result, values)
    return result


def extended(schema: Mapping[str, object], more: Mapping[str, object]) -> Schema:
    """The schema with the properties of another: none may be in both, and a definition in both must be the same."""
    result = thaw(schema)
    own, added = properties_of(schema), properties_of(more)
    clash = [name for name in added if name in own]
    if clash:
        raise ConfigurationError(f"{', '.join(map(repr, clash))} would occur twice: rename the added field")
    result["properties"] = {**thaw(own), **thaw(added)}
    required = required_of(schema) + required_of(more)
    if required:
        result["required"] = required
    definitions = cast("dict[str, Schema]", result.get("$defs") or {})
    for name, each in cast("Mapping[str, Schema]", more.get("$defs") or {}).items():
        if untitled(definitions.setdefault(name, thaw(each))) != untitled(each):
            raise ConfigurationError(f"two different types are called {name!r}: rename one of them")
    if definitions:
        result["$defs"] = definitions
    return result


def _optional(schema: Schema, names: Collection[str]) -> None:
    required = [name for name in required_of(schema) if name not in names]
    if required:
        schema["required"] = required
    else:
        schema.pop("required", None)


def _move(schema: Schema, removed: Schema) -> None:
    """Make a definition of each removed property that others refer to as `#/properties/x`."""
    targets = {f"#/properties/{name}": name for name in removed}
    used = {reference for reference in _references(schema) if reference in targets}
    if not used:
        return
    definitions = cast("Schema", schema.setdefault("$defs", {}))
    places: dict[str, str] = {}
    for reference in sorted(used):
        name = targets[reference]
        while name in definitions:
            name += "_"
        definitions[name] = removed[targets[reference]]
        places[reference] = f"#/$defs/{name}"
    for holder in _holders(schema):
        if holder["$ref"] in places:
            holder["$ref"] = places[cast("str", holder["$ref"])]


def _used(schema: Mapping[str, object]) -> set[tuple[str, str]]:
    """The definitions that the schema refers to, directly or through others."""
    seen: set[str] = set()
    walked: set[int] = set()
    outside = {key: each for key, each in schema.items() if key not in _DEFINITIONS}
    waiting = [cast("str", holder["$ref"]) for holder in _holders(outside, walked=walked)]
    while waiting:
        reference = waiting.pop()
        if reference not in seen:
            seen.add(reference)
            waiting += [cast("str", holder["$ref"]) for holder in _holders(resolve(schema, reference), walked=walked)]
    steps = [reference.split("/") for reference in seen]
    return {(step[1], step[2].replace("~1", "/").replace("~0", "~")) for step in steps if len(step) > 2}


def _without(schema: Schema, unused: Collection[tuple[str, str]]) -> Schema:
    for key in _DEFINITIONS:
        if key in schema:
            kept = {name: each for name, each in cast("Schema", schema[key]).items() if (key, name) not in unused}
            if kept:
                schema[key] = kept
            else:
                del schema[key]
    return schema


def _references(part: object) -> Iterator[str]:
    for holder in _holders(part):
        yield cast("str", holder["$ref"])


def _holders(part: object, names: bool = False, walked: set[int] | None = None) -> Iterator[Schema]:
    """The parts that are references. With `names` the keys are no keywords. Parts in `walked` are left out."""
    if isinstance(part, (dict, list)) and walked is not None:
        if id(cast("object", part)) in walked:
            return
        walked.add(id(cast("object", part)))
    if isinstance(part, dict):
        fields = cast("Schema", part)
        if not names and isinstance(fields.get("$ref"), str):
            yield fields
        for key, each in fields.items():
            if names or key not in _VALUES:
                yield from _holders(each, not names and key in _BY_NAME, walked)
    elif isinstance(part, list):
        for each in cast("list[object]", part):
            yield from _holders(each, walked=walked)
