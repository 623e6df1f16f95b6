"""Nulls that models send for what they leave out: which of them say nothing.

    without_nulls({"a": None, "b": {"c": None}}, schema)        {"b": {}}

if the schema declares a and c, does not require them, and null is no value of them. Any other null stays: it is the
model's word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from agentscope_rx.tools.schemas.foreign import resolve
from agentscope_rx.tools.schemas.guarded import TooComplexError

Schema = Mapping[str, object]

MAX_STEPS = 15_000
"""Parts of a foreign schema that one value is held beside."""

MAX_REFERENCES = 20
"""References that lead to references end there: they may go round in a circle."""


class Steps:
    """How much further a schema that may be hostile is followed: `TooComplexError` after `MAX_STEPS` parts."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = MAX_STEPS

    def take(self) -> None:
        """One part more."""
        self._left -= 1
        if self._left < 0:
            raise TooComplexError(f"reading it takes more than {MAX_STEPS:,} steps")


def without_nulls(value: object, schema: Schema, steps: Steps | None = None) -> object:
    """The value without the nulls that say nothing, all the way down; the very same if there are none."""
    return _pruned(value, [schema], schema, steps)


def takes_null(schema: object, root: Schema, depth: int = 0, steps: Steps | None = None) -> bool:
    """Whether null is a value of this part of the schema; a part that refers to itself without end takes none."""
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
        if each is not None or not _says_nothing(name, forms, root, steps)
    }
    return kept if len(kept) != len(fields) or any(kept[name] is not fields[name] for name in kept) else fields


def _says_nothing(name: str, forms: Sequence[Schema], root: Schema, steps: Steps | None) -> bool:
    """Whether some form of the object declares this name as one that may be left out, and none lets it be null."""
    declaring = [form for form in forms if name in _properties(form)]
    optional = any(name not in cast("Sequence[str]", form.get("required") or ()) for form in declaring)
    return optional and not any(takes_null(_properties(form)[name], root, steps=steps) for form in declaring)


def forms_of(schema: object, root: Schema, depth: int = 0, steps: Steps | None = None) -> Iterator[Schema]:
    """The schema, or those that it is made of: what is referred to, the forms of a union."""
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
    """What the forms of an object say of this field."""
    found: list[object] = []
    for form in forms:
        properties = _properties(form)
        if name in properties:
            found.append(properties[name])
        elif "patternProperties" not in form:
            found.append(form.get("additionalProperties"))
    return found


def of_item(forms: Sequence[Schema], index: int) -> list[object]:
    """What the forms of a list say of this item."""
    found: list[object] = []
    for form in forms:
        items = form.get("items")
        by_place = cast("Sequence[object]", items if isinstance(items, list) else form.get("prefixItems") or ())
        rest = form.get("additionalItems") if isinstance(items, list) else items
        found.append(by_place[index] if index < len(by_place) else rest)
    return found


def _properties(form: Schema) -> Mapping[str, object]:
    return cast("Mapping[str, object]", form.get("properties") or {})
