"""What a JSON value has against a JSON schema, one line a problem: `jsonschema` finds it, this tells a model.

    check = SchemaCheck({"type": "object", "properties": {"days": {"type": "integer"}}})
    check.problems({"days": "two"})           days: 'two' is not of type 'integer'

The dialect is the one that `$schema` names, else draft 2020-12. References must be to the schema itself: nothing is
ever fetched. `format` is said to the model, and not checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.message.frozen import thaw
from agentscope_rx.tool.arguments import InvalidArgumentsError, missing, unknown

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

Schema = Mapping[str, object] | bool
Place = tuple[int | str, ...]

MAX_TEXT = 300
_NOTHING = object()
_EACH_KIND: tuple[object, ...] = (None, True, 0, "", [], {})
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where, in words, and what was given there."""

    place: Place
    text: str
    given: object


class SchemaCheck:
    """A schema made ready, once, for any number of values; `ConfigurationError` if it is none, or refers elsewhere."""

    __slots__ = ("_validator",)

    def __init__(self, schema: Mapping[str, object]) -> None:
        plain = thaw(schema)
        try:
            text = json.dumps(plain)
        except (TypeError, ValueError, RecursionError):
            # no JSON, which is for the check to say
            self._validator = _validator(plain)
        else:
            self._validator = _known(text)

    def problems(self, value: object) -> list[Problem]:
        """What is wrong with the value, in the order of its parts; an empty list if it fits."""
        plain = thaw(cast("Mapping[str, object]", value)) if isinstance(value, Mapping) else value
        found = sorted(self._validator.iter_errors(plain), key=_place)  # pyright: ignore[reportArgumentType]
        return [problem for error in found for problem in _told(error)]


def fitting(check: SchemaCheck, tool: str, arguments: Mapping[str, object]) -> Mapping[str, object]:
    """The arguments if they fit, or `InvalidArgumentsError`. A null at the top that is wrong counts as not given."""
    problems = check.problems(arguments)
    nulls: set[object] = {each.place[0] for each in problems if len(each.place) == 1 and each.given is None}
    if nulls:
        # only one that is required is still missed
        arguments = {name: value for name, value in arguments.items() if name not in nulls}
        problems = check.problems(arguments)
    if problems:
        raise InvalidArgumentsError(tool, [problem.text for problem in problems])
    return arguments


def _place(error: ValidationError) -> list[str]:
    return [f"{step}" for step in error.absolute_path]


@lru_cache(maxsize=256)
def _known(text: str) -> Validator:
    # a schema is checked against that of schemas, which takes a millisecond: not again for each agent of a service
    return _validator(json.loads(text))


def _validator(plain: dict[str, object]) -> Validator:
    # imported on first use: it costs as much as a third of the library
    from jsonschema import Draft202012Validator, SchemaError
    from jsonschema.validators import validator_for

    kind = validator_for(plain, default=Draft202012Validator)
    if not set(kind.VALIDATORS) & set(plain):
        raise ConfigurationError(f"{plain!r:.80} is no JSON schema: it has none of its keywords (type, ...).")
    try:
        kind.check_schema(plain)
    except SchemaError as error:
        place = tuple(error.absolute_path)
        what = f"{error.instance!r} is not one of {', '.join(_TYPES)}" if place[-1:] == ("type",) else error.message
        raise ConfigurationError(
            f"This is no JSON schema: at {path_text(place) or 'its root'}, {what[:MAX_TEXT]}."
        ) from error
    for reference in _references(plain):
        if resolve(plain, reference) is None:
            raise ConfigurationError(f"The schema refers to {reference!r}, which is not in it (as '#/...').")
    validator = kind(plain)
    try:
        for value in _EACH_KIND:
            validator.is_valid(value)  # pyright: ignore[reportArgumentType]
    except RecursionError:
        raise ConfigurationError("The schema refers to itself without end.") from None
    return validator


def _references(part: object) -> Iterator[str]:
    if isinstance(part, dict):
        fields = cast("dict[str, object]", part)
        for keyword in ("$ref", "$dynamicRef"):
            if isinstance(reference := fields.get(keyword), str):
                yield reference
        for name, each in fields.items():
            if name not in ("const", "enum", "default", "examples"):
                yield from _references(each)
    elif isinstance(part, list):
        for each in cast("list[object]", part):
            yield from _references(each)


def resolve(root: Schema, reference: str) -> Schema | None:
    """What `#/a/b` points to within the root; None if it is not there, or elsewhere."""
    if reference != "#" and not reference.startswith("#/"):
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


def _told(error: ValidationError) -> list[Problem]:
    """The error as a model can act on it: fields by name, and of a union what the nearest of its forms says."""
    place: Place = tuple(error.absolute_path)
    value = cast("object", error.instance)
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        told = [(*place, name) for name in _missed(error, fields)]
        if told:
            return [Problem(at, missing(path_text(at)), _NOTHING) for at in told]
        known = tuple(cast("Mapping[str, Mapping[str, object]]", error.schema).get("properties", {}))
        unexpected = [name for name in fields if name not in known] if _is_closed(error) else []
        if unexpected:
            return [
                Problem(at, unknown(path_text(at), known), fields[at[-1]]) for at in [(*place, n) for n in unexpected]
            ]
    if error.validator in ("anyOf", "oneOf") and error.context:
        near = [form for form in _forms(error) if not any(_is_of_other_kind(each) for each in form)]
        if len(near) == 1:
            return [problem for each in near[0] for problem in _told(each)]
    return [
        Problem(place, f"{path_text(place) or 'arguments'}: {error.message[:MAX_TEXT]}", cast("object", error.instance))
    ]


def _missed(error: ValidationError, fields: Mapping[str, object]) -> list[str]:
    """The field that a `required` misses; `jsonschema` gives an error for each, and names it in its text alone."""
    if error.validator == "required":
        required = cast("Sequence[str]", error.validator_value)
        return [name for name in required if name not in fields and error.message.startswith(repr(name))]
    return []


def _is_closed(error: ValidationError) -> bool:
    """Whether fields are refused because none but the named ones are allowed."""
    return (
        error.validator == "additionalProperties"
        and error.validator_value is False
        and "patternProperties" not in cast("Mapping[str, object]", error.schema)
    )


def _is_of_other_kind(error: ValidationError) -> bool:
    return error.validator == "type" and not error.relative_path


def _forms(error: ValidationError) -> list[list[ValidationError]]:
    """What is wrong by each of the forms of a union."""
    forms: dict[object, list[ValidationError]] = {}
    for each in error.context or ():
        forms.setdefault(each.relative_schema_path[0], []).append(each)
    return list(forms.values())


def path_text(place: Place) -> str:
    """A place as a person writes it: `days[0].city`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")
