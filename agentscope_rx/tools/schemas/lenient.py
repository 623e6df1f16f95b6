"""Leniency: what a model may send in the place of a number, a truth value or nothing, by one rule for all tools.

| the parameter takes | taken as well                                             | refused                            |
|---------------------|-----------------------------------------------------------|------------------------------------|
| an integer          | text of a whole number: `"5"`, `"5.0"`; `5.0`: they are 5 | `true`, `5.5`, `"5.5"`, `"five"`   |
| a number            | text of a number: `"5.5"`, `"1e3"`                        | `true`, `"nan"`, `"inf"`, `"five"` |
| a boolean           | `"true"`, `"yes"`, `"on"`, `"1"`, `1` and their opposites | `2`, `"maybe"`                     |

A value that fits stays as it is: text where the schema takes text, too, and `5.0` where it takes any number. Fixed
values (`enum`, `const`, `Literal`) are compared as they are sent.

pydantic reads the text, so function tools and JSON schemas read alike. In a function tool a type that is strict
(`Field(strict=True)`, a model's `ConfigDict(strict=True)`) stays strict; but `true` and `"nan"`, which pydantic takes
for numbers and the rule refuses, are refused in your own models, too: their schema says `number`.

Models send nulls for what they leave out:

    without_nulls({"a": None, "b": {"c": None}}, schema)        {"b": {}}

if the schema declares a and c, does not require them, and null is no value of them. Any other null stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import cast

from pydantic import TypeAdapter, ValidationError

from agentscope_rx.tools.schemas.foreign import Place, path_text, resolve
from agentscope_rx.tools.schemas.guarded import TooComplexError

Schema = Mapping[str, object]

MAX_STEPS = 15_000
"""Parts of a foreign schema that one value is compared with."""

MAX_REFERENCES = 20
"""The longest chain of references that is followed: they may form a circle."""


class Steps:
    """A budget for following a schema that may be hostile: `TooComplexError` after `MAX_STEPS` parts."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = MAX_STEPS

    def take(self) -> None:
        """Count one part."""
        self._left -= 1
        if self._left < 0:
            raise TooComplexError(f"reading it takes more than {MAX_STEPS:,} steps")


def without_nulls(value: object, schema: Schema, steps: Steps | None = None) -> object:
    """The value without the nulls that stand for nothing, at every depth; the same object if there are none."""
    return _pruned(value, [schema], schema, steps)


def takes_null(schema: object, root: Schema, depth: int = 0, steps: Steps | None = None) -> bool:
    """True if null is a value of this part of the schema; a part that refers to itself without end takes none."""
    if not isinstance(schema, Mapping):
        return schema is True
    if steps is not None:
        steps.take()
    part = cast("Schema", schema)
    if isinstance(reference := part.get("$ref"), str):
        return depth < MAX_REFERENCES and takes_null(resolve(root, reference), root, depth + 1, steps)
    for union in ("anyOf", "oneOf"):
        if union in part:
            return any(takes_null(each, root, depth, steps) for each in cast("Sequence[object]", part[union]))
    if "allOf" in part:
        return all(takes_null(each, root, depth, steps) for each in cast("Sequence[object]", part["allOf"]))
    if "const" in part or "enum" in part:
        return None in cast("Sequence[object]", part.get("enum", [part.get("const")]))
    kinds = part.get("type", "null")
    return kinds == "null" or (not isinstance(kinds, str) and "null" in cast("Sequence[str]", kinds))


def _pruned(value: object, schemas: Sequence[object], root: Schema, steps: Steps | None) -> object:
    if not isinstance(value, (dict, list)) or not value:
        return cast("object", value)
    forms = [form for each in schemas for form in forms_of(each, root, steps=steps)]
    if isinstance(value, list):
        items = cast("list[object]", value)
        new = [_pruned(each, of_item(forms, index), root, steps) for index, each in enumerate(items)]
        return new if any(a is not b for a, b in zip(new, items, strict=True)) else items
    fields = cast("dict[str, object]", value)
    kept = {
        name: _pruned(each, of_field(forms, name), root, steps)
        for name, each in fields.items()
        if each is not None or not _is_left_out(name, forms, root, steps)
    }
    return kept if len(kept) != len(fields) or any(kept[name] is not fields[name] for name in kept) else fields


def _is_left_out(name: str, forms: Sequence[Schema], root: Schema, steps: Steps | None) -> bool:
    """True if some form of the object declares this name as optional, and none lets it be null."""
    declaring = [form for form in forms if name in _properties(form)]
    optional = any(name not in cast("Sequence[str]", form.get("required") or ()) for form in declaring)
    return optional and not any(takes_null(_properties(form)[name], root, steps=steps) for form in declaring)


def forms_of(schema: object, root: Schema, depth: int = 0, steps: Steps | None = None) -> Iterator[Schema]:
    """The schema and those that it consists of: the target of its reference, the forms of its union."""
    if not isinstance(schema, Mapping) or depth > MAX_REFERENCES:
        return
    if steps is not None:
        steps.take()
    part = cast("Schema", schema)
    if isinstance(reference := part.get("$ref"), str):
        yield from forms_of(resolve(root, reference), root, depth + 1, steps)
    for several in ("anyOf", "oneOf", "allOf"):
        for each in cast("Sequence[object]", part.get(several) or ()):
            yield from forms_of(each, root, depth + 1, steps)
    yield part


def of_field(forms: Sequence[Schema], name: str) -> list[object]:
    """The schemas that the forms of an object have for this field."""
    found: list[object] = []
    for form in forms:
        properties = _properties(form)
        if name in properties:
            found.append(properties[name])
        elif "patternProperties" not in form:
            found.append(form.get("additionalProperties"))
    return found


def of_item(forms: Sequence[Schema], index: int) -> list[object]:
    """The schemas that the forms of a list have for this item."""
    found: list[object] = []
    for form in forms:
        items = form.get("items")
        by_place = cast("Sequence[object]", items if isinstance(items, list) else form.get("prefixItems") or ())
        rest = form.get("additionalItems") if isinstance(items, list) else items
        found.append(by_place[index] if index < len(by_place) else rest)
    return found


def _properties(form: Schema) -> Mapping[str, object]:
    return cast("Mapping[str, object]", form.get("properties") or {})


Kinds = frozenset[str] | None
"""JSON types that a place takes; None if it takes any value."""

_NUMBERS = frozenset({"integer", "number"})
_NOTHING: frozenset[str] = frozenset()
_TYPES: Mapping[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    type(None): "null",
    list: "array",
}


@cache
def _readers() -> Mapping[str, TypeAdapter[int] | TypeAdapter[float] | TypeAdapter[bool]]:
    # built on first use: the first one of a process takes as long as ten modules, because pydantic looks for plugins
    return {"integer": TypeAdapter(int), "number": TypeAdapter(float), "boolean": TypeAdapter(bool)}


def loosened(value: object, schema: Schema, steps: Steps | None = None) -> object:
    """The value with its scalars read by the rule where they can be; the same object if none can."""
    return _Walk(schema, steps, lambda _, each, kinds, exact: each if exact else _read(each, kinds)).of(
        value, [schema], ()
    )


def made_whole(value: object, schema: Schema, steps: Steps | None = None) -> object:
    """A value that fits its schema, with floats such as 5.0 made integers where the schema takes no other number."""
    if not _has(value, lambda each: type(each) is float and each.is_integer()):
        return value

    def whole(place: Place, each: object, kinds: Kinds, exact: bool) -> object:
        return _read(each, kinds) if type(each) is float else each

    return _Walk(schema, steps, whole).of(value, [schema], ())


def misread(value: object, schema: Schema) -> list[str]:
    """One problem for each value that pydantic takes for a number and the rule refuses."""
    if not _has(value, lambda each: isinstance(each, bool) or _is_infinite(each)):
        return []
    problems: list[str] = []

    def look(place: Place, each: object, kinds: Kinds, exact: bool) -> object:
        if kinds is None or not kinds & _NUMBERS:
            return each
        what = "an integer" if "number" not in kinds else "a number"
        if isinstance(each, bool) and "boolean" not in kinds:
            given = str(each).lower()
            problems.append(f"{path_text(place)}: Input should be {what}, not a truth value; given {given}")
        elif "string" not in kinds and _is_infinite(each):
            problems.append(f"{path_text(place)}: Input should be {what} that is finite; given {each!r}")
        return each

    _Walk(schema, None, look).of(value, [schema], ())
    return problems


class _Walk:
    """One pass over a value and its schema together; `see` replaces each scalar."""

    def __init__(self, root: Schema, steps: Steps | None, see: Callable[[Place, object, Kinds, bool], object]) -> None:
        self._root = root
        self._steps = steps
        self._see = see

    def of(self, value: object, schemas: Sequence[object], place: Place) -> object:
        """The new value at this place, which these schemas describe."""
        if not isinstance(value, (dict, list)):
            kinds, exact = self._kinds_of(schemas)
            return self._see(place, value, kinds, exact)
        if not value:
            return cast("object", value)
        forms = [form for each in schemas for form in forms_of(each, self._root, steps=self._steps)]
        if isinstance(value, list):
            items = cast("list[object]", value)
            new = [self.of(each, of_item(forms, index), (*place, index)) for index, each in enumerate(items)]
            return new if any(a is not b for a, b in zip(new, items, strict=True)) else items
        fields = cast("dict[str, object]", value)
        made = {name: self.of(each, of_field(forms, name), (*place, name)) for name, each in fields.items()}
        return made if any(made[name] is not fields[name] for name in made) else fields

    def _kinds_of(self, schemas: Sequence[object]) -> tuple[Kinds, bool]:
        kinds = [self._kinds(each, 0) for each in schemas if each is not None and not isinstance(each, bool)]
        return _either(kinds) if kinds else (None, False)

    def _kinds(self, schema: object, depth: int) -> tuple[Kinds, bool]:
        """The types that this part takes; True if it takes only fixed values of them."""
        if not isinstance(schema, Mapping) or depth > MAX_REFERENCES:
            return None, False
        if self._steps is not None:
            self._steps.take()
        part = cast("Schema", schema)
        both: list[tuple[Kinds, bool]] = []
        if (kinds := part.get("type")) is not None:
            both.append((frozenset([kinds] if isinstance(kinds, str) else cast("Sequence[str]", kinds)), False))
        if "enum" in part or "const" in part:
            values = cast("Sequence[object]", part.get("enum", [part.get("const")]))
            both.append((frozenset(map(_type_of, values)), True))
        if isinstance(reference := part.get("$ref"), str):
            both.append(self._kinds(resolve(self._root, reference), depth + 1))
        for union in ("anyOf", "oneOf"):
            if union in part:
                both.append(_either([self._kinds(each, depth + 1) for each in cast("Sequence[object]", part[union])]))
        both += [self._kinds(each, depth + 1) for each in cast("Sequence[object]", part.get("allOf") or ())]
        found: Kinds = None
        for kinds, _ in both:
            found = kinds if found is None else found if kinds is None else _meet(found, kinds)
        return found, any(exact for _, exact in both)


def _type_of(value: object) -> str:
    return _TYPES.get(type(value), "object")


def _either(options: Sequence[tuple[Kinds, bool]]) -> tuple[Kinds, bool]:
    found = _NOTHING
    for kinds, _ in options:
        if kinds is None:
            return None, any(exact for _, exact in options)
        found |= kinds
    return found, any(exact for _, exact in options)


def _meet(one: frozenset[str], other: frozenset[str]) -> frozenset[str]:
    met = one & other
    # (an integer is a number)
    return met | {"integer"} if one & _NUMBERS and other & _NUMBERS and not met & _NUMBERS else met


def _read(value: object, kinds: Kinds) -> object:
    """The scalar as one of these types if the rule allows it; else unchanged."""
    if kinds is None:
        return value
    if type(value) is str and "string" not in kinds:
        for kind, reader in _readers().items():
            if kind in kinds and not (kind == "number" and _is_infinite(value)):
                try:
                    return reader.validate_python(value)
                except ValidationError:
                    continue
    elif type(value) is float and value.is_integer() and "integer" in kinds and "number" not in kinds:
        return int(value)
    elif type(value) in (int, float) and value in (0, 1) and "boolean" in kinds and not kinds & _NUMBERS:
        return value == 1
    return value


def _is_infinite(value: object) -> bool:
    """True for text that Python reads as a number that JSON does not have."""
    if type(value) is not str or len(value) > 400:
        return False
    try:
        return not math.isfinite(float(value))
    except ValueError:
        return False


def _has(value: object, of_interest: Callable[[object], bool]) -> bool:
    """True if some scalar in the value is of interest."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting += cast("dict[str, object]", each).values()
        elif isinstance(each, list):
            waiting += cast("list[object]", each)
        elif of_interest(each):
            return True
    return False
