"""Nulls that models send for what they leave out: which of them say nothing.

    without_nulls({"a": None, "b": {"c": None}}, schema)        {"b": {}}

if the schema declares a and c, does not require them, and null is no value of them. Any other null stays: it is the
model's word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from agentscope_rx.tools.schemas.check import resolve

Schema = Mapping[str, object]

MAX_REFERENCES = 20
"""References that lead to references end there: they may go round in a circle."""


def without_nulls(value: object, schema: Schema) -> object:
    """The value without the nulls that say nothing, all the way down; the very same if there are none."""
    return _pruned(value, [schema], schema)


def takes_null(schema: object, root: Schema, depth: int = 0) -> bool:
    """Whether null is a value of this part of the schema; a part that refers to itself without end takes none."""
    if not isinstance(schema, Mapping):
        return schema is True
    part = cast("Schema", schema)
    if isinstance(reference := part.get("$ref"), str):
        return depth < MAX_REFERENCES and takes_null(resolve(root, reference), root, depth + 1)
    for union in ("anyOf", "oneOf"):
        if union in part:
            return any(takes_null(each, root, depth) for each in cast("Sequence[object]", part[union]))
    if "allOf" in part:
        return all(takes_null(each, root, depth) for each in cast("Sequence[object]", part["allOf"]))
    if "const" in part or "enum" in part:
        return None in cast("Sequence[object]", part.get("enum", [part.get("const")]))
    kinds = part.get("type", "null")
    return kinds == "null" or (not isinstance(kinds, str) and "null" in cast("Sequence[str]", kinds))


def _pruned(value: object, schemas: Sequence[object], root: Schema) -> object:
    if not isinstance(value, (dict, list)) or not value:
        return cast("object", value)
    forms = [form for each in schemas for form in _forms(each, root)]
    if isinstance(value, list):
        items = cast("list[object]", value)
        new = [_pruned(each, _of_item(forms, index), root) for index, each in enumerate(items)]
        return new if any(a is not b for a, b in zip(new, items, strict=True)) else items
    fields = cast("dict[str, object]", value)
    kept = {
        name: _pruned(each, _of_field(forms, name), root)
        for name, each in fields.items()
        if each is not None or not _says_nothing(name, forms, root)
    }
    return kept if len(kept) != len(fields) or any(kept[name] is not fields[name] for name in kept) else fields


def _says_nothing(name: str, forms: Sequence[Schema], root: Schema) -> bool:
    """Whether some form of the object declares this name as one that may be left out, and none lets it be null."""
    declaring = [form for form in forms if name in _properties(form)]
    optional = any(name not in cast("Sequence[str]", form.get("required") or ()) for form in declaring)
    return optional and not any(takes_null(_properties(form)[name], root) for form in declaring)


def _forms(schema: object, root: Schema, depth: int = 0) -> Iterator[Schema]:
    """The schema, or those that it is made of: what is referred to, the forms of a union."""
    if not isinstance(schema, Mapping) or depth > MAX_REFERENCES:
        return
    part = cast("Schema", schema)
    if isinstance(reference := part.get("$ref"), str):
        yield from _forms(resolve(root, reference), root, depth + 1)
    for several in ("anyOf", "oneOf", "allOf"):
        for each in cast("Sequence[object]", part.get(several) or ()):
            yield from _forms(each, root, depth + 1)
    yield part


def _of_field(forms: Sequence[Schema], name: str) -> list[object]:
    return [_properties(form).get(name, form.get("additionalProperties")) for form in forms]


def _of_item(forms: Sequence[Schema], index: int) -> list[object]:
    found: list[object] = []
    for form in forms:
        first = cast("Sequence[object]", form.get("prefixItems") or ())
        found.append(first[index] if index < len(first) else form.get("items"))
    return found


def _properties(form: Schema) -> Mapping[str, object]:
    return cast("Mapping[str, object]", form.get("properties") or {})
