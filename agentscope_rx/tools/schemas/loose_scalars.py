"""Loose scalars: what a model may send in the place of a number or a truth value, by one rule for all tools.

| the parameter takes | taken as well                                             | refused                            |
|---------------------|-----------------------------------------------------------|------------------------------------|
| an integer          | text of a whole number: `"5"`, `"5.0"`; `5.0`: they are 5 | `true`, `5.5`, `"5.5"`, `"five"`   |
| a number            | text of a number: `"5.5"`, `"1e3"`                        | `true`, `"nan"`, `"inf"`, `"five"` |
| a boolean           | `"true"`, `"yes"`, `"on"`, `"1"`, `1` and their opposites | `2`, `"maybe"`                     |

A value that fits as it is stays as it is: text where the schema takes text, too, and `5.0` where it takes any number.
Fixed values (`enum`, `const`, `Literal`) are compared as they are sent.

How text is read is pydantic's affair, so function tools and JSON schemas read alike. In a function tool a type that is
strict (`Field(strict=True)`, a model's `ConfigDict(strict=True)`) stays strict; but what pydantic would take for a
number and the rule refuses, `true` and `"nan"`, is refused in models of your own, too: their schema says `number`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from pydantic import TypeAdapter, ValidationError

from agentscope_rx.tools.schemas.foreign import Place, path_text, resolve
from agentscope_rx.tools.schemas.nulls import MAX_REFERENCES, Schema, Steps, forms_of, of_field, of_item

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
_READERS: Mapping[str, TypeAdapter[int] | TypeAdapter[float] | TypeAdapter[bool]] = {
    "integer": TypeAdapter(int),
    "number": TypeAdapter(float),
    "boolean": TypeAdapter(bool),
}


def loosened(value: object, schema: Schema, steps: Steps | None = None) -> object:
    """The value with its scalars read by the rule, as far as they can be; the very same if none are to be read."""
    return _Walk(schema, steps, lambda _, each, kinds, exact: each if exact else _read(each, kinds)).of(
        value, [schema], ()
    )


def made_whole(value: object, schema: Schema, steps: Steps | None = None) -> object:
    """A value that fits its schema, with floats such as 5.0 as integers where the schema takes no other number."""
    if not _has(value, lambda each: type(each) is float and each.is_integer()):
        return value

    def whole(place: Place, each: object, kinds: Kinds, exact: bool) -> object:
        return _read(each, kinds) if type(each) is float else each

    return _Walk(schema, steps, whole).of(value, [schema], ())


def misread(value: object, schema: Schema) -> list[str]:
    """What pydantic takes for a number and the rule does not: one problem for each."""
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
    """One pass over a value beside its schema; `see` is asked what becomes of each scalar."""

    def __init__(self, root: Schema, steps: Steps | None, see: Callable[[Place, object, Kinds, bool], object]) -> None:
        self._root = root
        self._steps = steps
        self._see = see

    def of(self, value: object, schemas: Sequence[object], place: Place) -> object:
        """What becomes of the value at this place, which these schemas describe."""
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
        said = [self._kinds(each, 0) for each in schemas if each is not None and not isinstance(each, bool)]
        return _either(said) if said else (None, False)

    def _kinds(self, schema: object, depth: int) -> tuple[Kinds, bool]:
        """The types that this part takes, and whether it takes fixed values of them only."""
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


def _either(said: Sequence[tuple[Kinds, bool]]) -> tuple[Kinds, bool]:
    found = _NOTHING
    for kinds, _ in said:
        if kinds is None:
            return None, any(exact for _, exact in said)
        found |= kinds
    return found, any(exact for _, exact in said)


def _meet(one: frozenset[str], other: frozenset[str]) -> frozenset[str]:
    met = one & other
    # (an integer is a number)
    return met | {"integer"} if one & _NUMBERS and other & _NUMBERS and not met & _NUMBERS else met


def _read(value: object, kinds: Kinds) -> object:
    """The scalar as one of these types, if the rule takes it for one; else as it is."""
    if kinds is None:
        return value
    if type(value) is str and "string" not in kinds:
        for kind, reader in _READERS.items():
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
    """Whether this is text that Python reads as a number which is none of JSON's."""
    if type(value) is not str or len(value) > 400:
        return False
    try:
        return not math.isfinite(float(value))
    except ValueError:
        return False


def _has(value: object, of_interest: Callable[[object], bool]) -> bool:
    """Whether some scalar in the value is of interest."""
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
