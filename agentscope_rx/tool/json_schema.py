"""What a JSON value has against a JSON schema (draft 2020-12, and 7's `definitions`): one line a problem.

| keywords                                                   |                                                      |
|------------------------------------------------------------|------------------------------------------------------|
| type, enum, const, numbers', strings', arrays', objects'    | checked                                             |
| allOf, anyOf, oneOf, not, if/then/else, $ref within         | checked                                             |
| title, description, default, examples, format, ...          | said to the model, not checked                      |
| $ref elsewhere, $dynamicRef, unevaluated..., dependentSchemas | `ConfigurationError` of `check_schema`            |
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import cast

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.tool.arguments import given_text, missing, unknown

Schema = Mapping[str, object] | bool
Place = tuple[int | str, ...]

_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_UNSUPPORTED = ("$dynamicRef", "$recursiveRef", "unevaluatedProperties", "unevaluatedItems", "dependentSchemas")
_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else")
_KEYWORDS = """
type enum const $ref properties required additionalProperties patternProperties items prefixItems anyOf allOf oneOf not
if minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern minItems maxItems contains
uniqueItems propertyNames minProperties maxProperties dependentRequired description title format
"""
_KNOWN = frozenset(_KEYWORDS.split())


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where, in words, and what was given there."""

    place: Place
    text: str
    given: object


def schema_problems(schema: Schema, value: object) -> list[Problem]:
    """What is wrong with the value, in the order of the schema; an empty list if it fits."""
    return list(_Check(schema).problems(schema, value, (), frozenset()))


def check_schema(schema: Mapping[str, object]) -> None:
    """`ConfigurationError` if this is no JSON schema, or one that could not be checked to the letter."""
    if not _KNOWN & set(schema):
        raise ConfigurationError(f"{dict(schema)!r:.80} is no JSON schema: it has none of its keywords (type, ...).")
    _check_part(schema, schema, "the schema")


def _check_part(schema: object, root: Mapping[str, object], where: str) -> None:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        raise ConfigurationError(f"{where} must be a JSON schema, not {schema!r:.60}.")
    part = cast("Mapping[str, object]", schema)
    for keyword in _UNSUPPORTED:
        if keyword in part:
            raise ConfigurationError(f"{where} uses {keyword!r}, which is not supported.")
    kinds = part.get("type", [])
    for kind in cast("Sequence[object]", kinds) if isinstance(kinds, (list, tuple)) else [kinds]:
        if kind not in _TYPES:
            raise ConfigurationError(f"{where} has the type {kind!r}; JSON schema knows {', '.join(_TYPES)}.")
    reference = part.get("$ref")
    if reference is not None and resolve(root, str(reference)) is None:
        raise ConfigurationError(f"{where} refers to {reference!r}, which is not in the schema.")
    for pattern in (part.get("pattern"), *cast("Mapping[str, object]", part.get("patternProperties", {}))):
        _check_pattern(pattern, where)
    for keyword in _MAPS:
        for name, each in cast("Mapping[str, object]", part.get(keyword, {})).items():
            _check_part(each, root, f"{name!r} in {where}")
    for keyword in _LISTS:
        for each in cast("Sequence[object]", part.get(keyword, ())):
            _check_part(each, root, f"{keyword} in {where}")
    for keyword in _SINGLE:
        if keyword in part:
            _check_part(part[keyword], root, f"{keyword} in {where}")


def _check_pattern(pattern: object, where: str) -> None:
    if pattern is None:
        return
    try:
        re.compile(str(pattern))
    except re.error as error:
        raise ConfigurationError(f"{where} has the pattern {pattern!r}, which cannot be read: {error}") from error


def resolve(root: Schema, reference: str) -> Schema | None:
    """What `#/a/b` points to within the root; None if it is not there, or elsewhere."""
    if not reference.startswith("#"):
        return None
    here = cast("object", root)
    for step in reference[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(here, dict):
            here = cast("dict[str, object]", here).get(name)
        elif isinstance(here, (list, tuple)) and name.isdigit():
            items = cast("Sequence[object]", here)
            here = items[int(name)] if int(name) < len(items) else None
        else:
            return None
    return cast("Schema", here) if isinstance(here, (bool, Mapping)) else None


class _Check:
    """One schema, against values."""

    def __init__(self, root: Schema) -> None:
        self._root = root

    def problems(self, schema: Schema, value: object, at: Place, via: frozenset[str]) -> Iterator[Problem]:
        """The problems of the value here; `via` are the references followed without going deeper into it."""
        if isinstance(schema, bool):
            if not schema:
                yield _problem(at, "is not allowed", value)
            return
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference not in via:
            target = resolve(self._root, reference)
            if target is not None:
                yield from self.problems(target, value, at, via | {reference})
        wrong = _wrong_kind(schema, value)
        if wrong:
            yield _problem(at, wrong, value)
            return
        yield from self._combined(schema, value, at, via)
        if isinstance(value, Mapping):
            yield from self._fields(schema, cast("Mapping[str, object]", value), at)
        elif isinstance(value, (list, tuple)):
            yield from self._items(schema, cast("Sequence[object]", value), at)
        elif isinstance(value, str):
            yield from (_problem(at, text, value) for text in _string(schema, value))
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield from (_problem(at, text, value) for text in _number(schema, value))

    def _fits(self, schema: Schema, value: object, via: frozenset[str]) -> bool:
        return next(self.problems(schema, value, (), via), None) is None

    def _combined(
        self, schema: Mapping[str, object], value: object, at: Place, via: frozenset[str]
    ) -> Iterator[Problem]:
        for each in _schemas(schema, "allOf"):
            yield from self.problems(each, value, at, via)
        if "anyOf" in schema:
            yield from self._any_of(_schemas(schema, "anyOf"), value, at, via)
        if "oneOf" in schema:
            fitting = sum(self._fits(each, value, via) for each in _schemas(schema, "oneOf"))
            if fitting > 1:
                yield _problem(at, f"fits {fitting} of the allowed forms where it may fit only one", value)
            elif not fitting:
                yield from self._any_of(_schemas(schema, "oneOf"), value, at, via)
        if "not" in schema and self._fits(cast("Schema", schema["not"]), value, via):
            yield _problem(at, "is of a form that is not allowed", value)
        if "if" in schema:
            branch = "then" if self._fits(cast("Schema", schema["if"]), value, via) else "else"
            if branch in schema:
                yield from self.problems(cast("Schema", schema[branch]), value, at, via)

    def _any_of(self, branches: Sequence[Schema], value: object, at: Place, via: frozenset[str]) -> Iterator[Problem]:
        """Nothing if a branch fits; else what is wrong by the only branch of the value's kind, if there is one."""
        found = [list(self.problems(each, value, at, via)) for each in branches]
        if not all(found):
            return
        near = [problems for each, problems in zip(branches, found, strict=True) if self._of_kind(each, value, via)]
        if len(near) == 1:
            yield from near[0]
        else:
            yield _problem(at, f"fits none of the {len(branches)} allowed forms", value)

    def _of_kind(self, schema: Schema, value: object, via: frozenset[str]) -> bool:
        """Whether the value is of the type that the schema names, whatever else is wrong with it."""
        if isinstance(schema, bool):
            return schema
        reference = schema.get("$ref")
        target = resolve(self._root, reference) if isinstance(reference, str) and reference not in via else None
        if target is not None:
            return self._of_kind(target, value, via | {str(reference)})
        return "type" in schema and _wrong_kind({"type": schema["type"]}, value) is None

    def _fields(self, schema: Mapping[str, object], value: Mapping[str, object], at: Place) -> Iterator[Problem]:
        properties = cast("Mapping[str, Schema]", schema.get("properties", {}))
        patterns = cast("Mapping[str, Schema]", schema.get("patternProperties", {}))
        rest = cast("Schema", schema.get("additionalProperties", True))
        for name in cast("Sequence[str]", schema.get("required", ())):
            if name not in value:
                yield Problem((*at, name), missing(path_text((*at, name))), _NOTHING)
        for name, each in value.items():
            matching = [patterns[pattern] for pattern in patterns if re.search(pattern, name)]
            if name in properties:
                matching.append(properties[name])
            elif not matching and rest is False:
                yield Problem((*at, name), unknown(path_text((*at, name)), tuple(properties)), each)
            elif not matching:
                matching.append(rest)
            for one in matching:
                yield from self.problems(one, each, (*at, name), frozenset())
            if "propertyNames" in schema:
                names = cast("Schema", schema["propertyNames"])
                yield from self.problems(names, name, (*at, name), frozenset())
        for name, needed in cast("Mapping[str, Sequence[str]]", schema.get("dependentRequired", {})).items():
            for other in needed if name in value else ():
                if other not in value:
                    yield Problem((*at, other), missing(path_text((*at, other))), _NOTHING)
        yield from _size(schema, len(value), "Properties", "fields", at, value)

    def _items(self, schema: Mapping[str, object], value: Sequence[object], at: Place) -> Iterator[Problem]:
        first = _schemas(schema, "prefixItems")
        rest = cast("Schema", schema.get("items", True))
        for index, each in enumerate(value):
            yield from self.problems(first[index] if index < len(first) else rest, each, (*at, index), frozenset())
        if schema.get("uniqueItems") is True:
            said = [json.dumps(each, sort_keys=True) for each in value]
            if len(set(said)) < len(said):
                yield _problem(at, "must not hold the same item twice", value)
        if "contains" in schema:
            count = sum(self._fits(cast("Schema", schema["contains"]), each, frozenset()) for each in value)
            least = cast("int", schema.get("minContains", 1))
            if count < least or count > cast("float", schema.get("maxContains", float("inf"))):
                yield _problem(at, f"holds {count} items of the form that is asked for", value)
        yield from _size(schema, len(value), "Items", "items", at, value)


_NOTHING = object()


def _schemas(schema: Mapping[str, object], keyword: str) -> Sequence[Schema]:
    return cast("Sequence[Schema]", schema.get(keyword, ()))


def _wrong_kind(schema: Mapping[str, object], value: object) -> str | None:
    if "type" in schema:
        kinds = schema["type"]
        allowed = cast("Sequence[str]", kinds) if isinstance(kinds, (list, tuple)) else [cast("str", kinds)]
        if not any(_is_kind(value, kind) for kind in allowed):
            return f"must be of type {' or '.join(allowed)}"
    if "const" in schema and not _same(schema["const"], value):
        return f"must be {given_text(schema['const'])}"
    if "enum" in schema:
        allowed_values = cast("Sequence[object]", schema["enum"])
        if not any(_same(each, value) for each in allowed_values):
            return f"must be one of {', '.join(given_text(each) for each in allowed_values)}"
    return None


def _is_kind(value: object, kind: str) -> bool:
    if kind == "integer":
        return (isinstance(value, int) and not isinstance(value, bool)) or (
            isinstance(value, float) and value.is_integer()
        )
    if kind == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    python = {"string": str, "boolean": bool, "array": (list, tuple), "object": Mapping, "null": type(None)}
    return isinstance(value, cast("type", python[kind]))


def _same(one: object, other: object) -> bool:
    # for JSON, true is not 1
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _string(schema: Mapping[str, object], value: str) -> Iterator[str]:
    if len(value) < cast("int", schema.get("minLength", 0)):
        yield f"must have at least {schema['minLength']} characters"
    if "maxLength" in schema and len(value) > cast("int", schema["maxLength"]):
        yield f"must have at most {schema['maxLength']} characters"
    if "pattern" in schema and not re.search(cast("str", schema["pattern"]), value):
        yield f"must match the pattern {schema['pattern']}"


def _number(schema: Mapping[str, object], value: float) -> Iterator[str]:
    for name, (holds, text) in _LIMITS.items():
        if name in schema and not holds(value, limit := cast("float", schema[name])):
            yield f"must be {text} {limit}"


def _is_multiple(value: float, of: float) -> bool:
    return Decimal(str(value)) % Decimal(str(of)) == 0


_LIMITS: dict[str, tuple[Callable[[float, float], bool], str]] = {
    "minimum": (operator.ge, "at least"),
    "maximum": (operator.le, "at most"),
    "exclusiveMinimum": (operator.gt, "more than"),
    "exclusiveMaximum": (operator.lt, "less than"),
    "multipleOf": (_is_multiple, "a multiple of"),
}


def _size(schema: Mapping[str, object], size: int, kind: str, noun: str, at: Place, value: object) -> Iterator[Problem]:
    if size < cast("int", schema.get(f"min{kind}", 0)):
        yield _problem(at, f"must have at least {schema[f'min{kind}']} {noun}", value)
    if f"max{kind}" in schema and size > cast("int", schema[f"max{kind}"]):
        yield _problem(at, f"must have at most {schema[f'max{kind}']} {noun}", value)


def _problem(at: Place, text: str, value: object) -> Problem:
    return Problem(at, f"{path_text(at) or 'arguments'}: {text}; given {given_text(value)}", value)


def path_text(place: Place) -> str:
    """A place as a person writes it: `days[0].city`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")
