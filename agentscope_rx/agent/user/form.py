"""`Form`: a shape as one question for each field; each answer is checked when it comes. Pure.

| typed                | means                                                                          |
|----------------------|--------------------------------------------------------------------------------|
| nothing              | the answer given before, else "not given" if that is allowed                   |
| `3`, `[1, 2]`, `{}`  | that JSON, if the field accepts it                                             |
| `yes`, `no`          | true and false, if the field accepts them                                      |
| `a, b`               | a list, if the field is one                                                    |
| anything else        | this text; `""` is the empty text                                              |
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from agentscope_rx.agent.structured_output.schema import OutputSchema
from agentscope_rx.agent.user.answer import UnfitError, readings, whole
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.tools.arguments import InvalidArgumentsError
from agentscope_rx.tools.schemas.check import resolve

Values = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Field:
    """One question of a form."""

    name: str
    label: str
    required: bool

    def prompt(self, values: Values) -> str:
        """The prompt, with the answer given before, which an empty line repeats."""
        before = f" [{json.dumps(values[self.name], ensure_ascii=False)}]" if self.name in values else ""
        return f"{self.label}{before}: "


class Form:
    """The questions of a shape."""

    def __init__(self, shape: OutputSchema) -> None:
        self._shape = shape
        required = cast("Sequence[str]", shape.schema.get("required", ()))
        properties = cast("Mapping[str, Mapping[str, object]]", shape.properties)
        self.fields: tuple[Field, ...] = tuple(
            Field(name, self._label(name, part), name in required) for name, part in properties.items()
        )

    def read(self, field: Field, line: str, values: Values) -> dict[str, object]:
        """The values with this field as it was typed; `UnfitError` if it does not fit."""
        if not line.strip():
            if field.required and field.name not in values:
                raise UnfitError((f'{field.name}: an answer is needed; "" is the empty text',))
            return dict(values)
        first: tuple[str, ...] = ()
        for reading in readings(line):
            changed = {**values, field.name: reading}
            problems = self._problems(field, changed)
            if not problems:
                return changed
            first = first or problems
        raise UnfitError(first)

    def value(self, values: Values) -> object:
        """The whole value; `UnfitError` if the fields do not fit together."""
        return self._shape.value(whole(dict(values), self._shape))

    def _problems(self, field: Field, values: Values) -> tuple[str, ...]:
        """The problems of this field only; the others may not be answered yet."""
        try:
            self._shape.read(values, "answer")
        except InvalidArgumentsError as error:
            own = (f"{field.name}:", f"{field.name}.", f"{field.name}[")
            return tuple(problem for problem in error.problems if problem.startswith(own))
        return ()

    def _label(self, name: str, part: Mapping[str, object]) -> str:
        label = "answer" if name == self._shape.field else name
        description = part.get("description")
        hints = [*self._hints(part, frozenset())]
        if "default" in part and part["default"] is not None:
            hints.append(f"default {json.dumps(part['default'], ensure_ascii=False, default=list)}")
        about = f" - {description}" if description else ""
        return f"{label}{about} ({', '.join(hints)})" if hints else f"{label}{about}"

    def _hints(self, part: Mapping[str, object], via: frozenset[str]) -> Iterator[str]:
        reference = part.get("$ref")
        if isinstance(reference, str) and reference not in via:
            target = resolve(self._shape.schema, reference)
            if isinstance(target, Mapping):
                yield from self._hints(target, via | {reference})
            return
        branches = part.get("anyOf") or part.get("oneOf")
        if isinstance(branches, Sequence):
            each = [", ".join(self._hints(branch, via)) for branch in cast("Sequence[Mapping[str, object]]", branches)]
            yield " or ".join(dict.fromkeys(hint or "text" for hint in each))
        elif "enum" in part:
            yield " | ".join(str(value) for value in cast("Sequence[object]", part["enum"]))
        else:
            yield from _kind(part)


_KINDS = {
    "integer": "whole number", "number": "number", "boolean": "yes/no", "array": "a list: a, b", "object": "JSON",
    "null": "nothing",
}  # fmt: skip
_BOUNDS = {
    "minimum": "at least", "exclusiveMinimum": "more than", "maximum": "at most", "exclusiveMaximum": "less than",
}  # fmt: skip


def _kind(part: Mapping[str, object]) -> Iterator[str]:
    kind = part.get("type")
    if isinstance(kind, str) and kind in _KINDS:
        items = part.get("items")
        deep = isinstance(items, Mapping) and cast("Mapping[str, object]", items).get("type") not in _PLAIN
        yield "a list, as JSON" if kind == "array" and deep else _KINDS[kind]
    for keyword, words in _BOUNDS.items():
        if keyword in part:
            yield f"{words} {part[keyword]}"


_PLAIN = ("string", "integer", "number", "boolean")
