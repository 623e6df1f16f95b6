"""The keywords of JSON schema: those of each dialect, the values that they take, the subschemas that they hold.

`jsonschema` checks a schema by the meta-schema, which takes 300 ms for 1,500 properties. This checks each value once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, cast

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.frozen_values import dataclass

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

Place = tuple[int | str, ...]

TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")

_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
_ONES = (
    *("additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not"),
    *("propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
)
IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
"""Keywords whose parts apply to the same value."""

_TEXTS = (
    *("$ref", "$dynamicRef", "$recursiveRef", "$id", "id", "$schema", "$anchor", "$dynamicAnchor", "$comment", "title"),
    *("description", "pattern", "format", "contentEncoding", "contentMediaType"),
)
_COUNTS = (
    *("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties", "minContains", "maxContains"),
)
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_FLAGS = ("uniqueItems", "deprecated", "readOnly", "writeOnly", "$recursiveAnchor")


@dataclass(frozen=True, slots=True)
class Misfit:
    """The fault of a keyword's value, and its place in it."""

    text: str
    place: Place = ()


@dataclass(frozen=True, slots=True)
class Dialect:
    """A version of JSON schema: jsonschema's validator of it, and the keywords that it has."""

    validator: type[Validator]
    known: frozenset[str]
    evaluated: frozenset[str]
    """The keywords that constrain a value."""
    draft4: bool
    list_of_items: bool
    """True if `items` may be a list."""


def dialect_of(schema: Mapping[str, object]) -> Dialect:
    """The dialect that `$schema` names, else draft 2020-12."""
    named = schema.get("$schema")
    return _dialect(named if isinstance(named, str) else "")


@cache
def _by_name() -> dict[str, Dialect]:
    # imported on first use: it costs as much as a third of the library
    import jsonschema

    found: dict[str, Dialect] = {}
    for validator in (
        jsonschema.Draft4Validator,
        jsonschema.Draft6Validator,
        jsonschema.Draft7Validator,
        jsonschema.Draft201909Validator,
        jsonschema.Draft202012Validator,
    ):
        meta = cast("Mapping[str, object]", validator.META_SCHEMA)
        found[str(meta.get("$id") or meta.get("id")).rstrip("#")] = Dialect(
            cast("type[Validator]", validator),
            frozenset(_declared(meta)) | set(validator.VALIDATORS),
            frozenset(validator.VALIDATORS),
            validator is jsonschema.Draft4Validator,
            validator is not jsonschema.Draft202012Validator,
        )
    return found


def _dialect(named: str) -> Dialect:
    known = _by_name()
    name = named.rstrip("#")
    if "json-schema.org/draft-03/" in name:
        raise ConfigurationError("The schema is of draft 3: write it in draft 4 or later.")
    return known.get(name) or known.get(name.replace("https://", "http://", 1)) or [*known.values()][-1]


def _declared(meta: Mapping[str, object]) -> Iterator[str]:
    """The keywords that a meta-schema describes, in itself or in its vocabularies."""
    from jsonschema_specifications import REGISTRY  # pyright: ignore[reportMissingTypeStubs]

    yield from cast("Mapping[str, object]", meta.get("properties") or {})
    for each in cast("Sequence[Mapping[str, str]]", meta.get("allOf") or ()):
        base = str(meta["$id"]).rpartition("/")[0]
        yield from _declared(cast("Mapping[str, object]", REGISTRY.contents(f"{base}/{each['$ref']}")))


def parts_of(dialect: Dialect, keyword: str, value: object) -> Iterator[tuple[Place, object]]:
    """The schemas in the keyword's value, and their places in it."""
    if keyword == "items" and isinstance(value, list):
        yield from (((index,), each) for index, each in enumerate(cast("list[object]", value)))
    elif keyword in _ONES:
        yield (), value
    elif keyword in _LISTS:
        yield from (((index,), each) for index, each in enumerate(cast("list[object]", value)))
    elif keyword in _MAPS:
        for name, each in cast("Mapping[str, object]", value).items():
            if keyword != "dependencies" or not isinstance(each, list):
                yield (name,), each


def misfit(dialect: Dialect, keyword: str, value: object) -> Misfit | None:
    """The fault of a keyword's value, apart from the schemas in it; None if there is none."""
    if keyword == "items" and isinstance(value, list):
        return None if dialect.list_of_items and value else _not(cast("object", value), "object", "boolean")
    if dialect.draft4 and keyword in ("exclusiveMinimum", "exclusiveMaximum"):
        return None if isinstance(value, bool) else _not(value, "boolean")
    check = _CHECKS.get(keyword)
    return None if check is None else check(value)


def _not(value: object, *kinds: str) -> Misfit:
    return Misfit(f"{value!r} is not of type {', '.join(map(repr, kinds))}")


def _text(value: object) -> Misfit | None:
    return None if isinstance(value, str) else _not(value, "string")


def _flag(value: object) -> Misfit | None:
    return None if isinstance(value, bool) else _not(value, "boolean")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _number(value: object) -> Misfit | None:
    return None if _is_number(value) else _not(value, "number")


def _multiple(value: object) -> Misfit | None:
    if not _is_number(value):
        return _not(value, "number")
    return None if cast("float", value) > 0 else Misfit(f"{value!r} is less than or equal to the minimum of 0")


def _count(value: object) -> Misfit | None:
    if not _is_number(value) or (isinstance(value, float) and not value.is_integer()):
        return _not(value, "integer")
    return None if cast("float", value) >= 0 else Misfit(f"{value!r} is less than the minimum of 0")


def _list(value: object) -> Misfit | None:
    return None if isinstance(value, list) else _not(value, "array")


def _list_of_schemas(value: object) -> Misfit | None:
    if not isinstance(value, list):
        return _not(value, "array")
    return None if value else Misfit("[] should be non-empty")


def _map(value: object) -> Misfit | None:
    return None if isinstance(value, dict) else _not(value, "object")


def _names(value: object) -> Misfit | None:
    if not isinstance(value, list):
        return _not(value, "array")
    names = cast("list[object]", value)
    for index, each in enumerate(names):
        if not isinstance(each, str):
            return Misfit(f"{each!r} is not of type 'string'", (index,))
    return None if len(set(names)) == len(names) else Misfit(f"{value!r} has non-unique elements")


def _names_by_name(value: object) -> Misfit | None:
    if not isinstance(value, dict):
        return _not(value, "object")
    for name, each in cast("dict[str, object]", value).items():
        if (wrong := _names(each)) is not None:
            return Misfit(wrong.text, (name, *wrong.place))
    return None


def _dependencies(value: object) -> Misfit | None:
    if not isinstance(value, dict):
        return _not(value, "object")
    fields = cast("dict[str, object]", value)
    return _names_by_name({name: cast("object", each) for name, each in fields.items() if isinstance(each, list)})


def _type(value: object) -> Misfit | None:
    kinds = cast("list[object]", value) if isinstance(value, list) and value else [cast("object", value)]
    for each in kinds:
        if each not in TYPES:
            return Misfit(f"{each!r} is not one of {', '.join(TYPES)}")
    return None if len(kinds) == len(set(kinds)) else Misfit(f"{value!r} has non-unique elements")


_CHECKS: dict[str, Callable[[object], Misfit | None]] = {
    **dict.fromkeys(_TEXTS, _text),
    **dict.fromkeys(_COUNTS, _count),
    **dict.fromkeys(_NUMBERS, _number),
    **dict.fromkeys(_FLAGS, _flag),
    **dict.fromkeys(_LISTS, _list_of_schemas),
    **dict.fromkeys(_MAPS, _map),
    "multipleOf": _multiple,
    "enum": _list,
    "examples": _list,
    "required": _names,
    "dependentRequired": _names_by_name,
    "dependencies": _dependencies,
    "type": _type,
}
