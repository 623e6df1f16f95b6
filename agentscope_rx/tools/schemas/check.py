"""What a JSON value has against a JSON schema, one line a problem: `jsonschema` finds it, this tells a model.

    check = SchemaCheck({"type": "object", "properties": {"days": {"type": "integer"}}})
    check.problems({"days": "two"})           days: 'two' is not of type 'integer'

The dialect is the one that `$schema` names, else draft 2020-12. References must be to the schema itself: nothing is
ever fetched. `format` is said to the model, and not checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from agentscope_rx.errors import ConfigurationError, ToolDefinitionError
from agentscope_rx.tools.arguments import MAX_PROBLEMS, InvalidArgumentsError, cut, missing, unknowns
from agentscope_rx.tools.schemas.foreign import Place, path_text, read_schema, resolve
from agentscope_rx.tools.schemas.guarded import TooComplexError
from agentscope_rx.tools.schemas.stepwise import MAX_ERRORS, found

if TYPE_CHECKING:
    from jsonschema import ValidationError

__all__ = ["Problem", "SchemaCheck", "check_of", "fitting", "path_text", "resolve"]

MAX_TEXT = 300
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where, in words, and what was given there."""

    place: Place
    text: str
    given: object


class SchemaCheck:
    """A schema made ready, once, for any number of values; `ConfigurationError` if it is none, or refers elsewhere.

    Schema and values may be hostile: a schema that would take too long is refused here (see `foreign_schema`), a value
    that would is a problem (see `stepwise`).
    """

    __slots__ = ("_read",)

    def __init__(self, schema: Mapping[str, object]) -> None:
        self._read = read_schema(schema)

    def problems(self, value: object) -> list[Problem]:
        """What is wrong with the value, in the order of its parts; an empty list if it fits."""
        try:
            errors = sorted(found(self._read, value), key=_place)
            problems: list[Problem] = []
            for error in errors:
                problems += _told(error, suggest=len(problems) < MAX_PROBLEMS)
            return problems[:MAX_ERRORS]
        except TooComplexError as error:
            return [Problem((), f"arguments: too complex to be checked ({error}): send fewer or simpler values", value)]


def check_of(name: str, parameters: Mapping[str, object]) -> SchemaCheck:
    """The parameters of the tool of this name, made ready; `ToolDefinitionError` if they are no JSON schema of type
    object, or one that cannot be checked."""
    if not isinstance(parameters, Mapping) or parameters.get("type") != "object":  # pyright: ignore[reportUnnecessaryIsInstance]
        found = dict(parameters) if isinstance(parameters, Mapping) else parameters  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ToolDefinitionError(
            f"The parameters of tool {name!r:.80} must be a JSON schema of type object, such as "
            f"{{'type': 'object', 'properties': {{}}}}, not {found!r:.80}.",
            tool=name,
        )
    try:
        return SchemaCheck(parameters)
    except ConfigurationError as error:
        raise ToolDefinitionError(
            f"The parameters of tool {name!r:.80} cannot be checked: {error}", tool=name
        ) from error


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


def _told(error: ValidationError, *, suggest: bool) -> list[Problem]:
    """The error as a model can act on it: fields by name, and of a union what the nearest of its forms says."""
    place: Place = tuple(error.absolute_path)
    value = cast("object", error.instance)
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        missed = [(*place, name) for name in _missed(error)]
        if missed:
            return [Problem(at, missing(path_text(at)), _NOTHING) for at in missed]
        if strays := _strays(error, place, fields, suggest=suggest):
            return strays
    if error.validator in ("anyOf", "oneOf") and error.context:
        near = [form for form in _forms(error) if not any(_is_of_other_kind(each) for each in form)]
        if len(near) == 1:
            return [problem for each in near[0] for problem in _told(each, suggest=suggest)]
    return [
        Problem(place, f"{cut(path_text(place)) or 'arguments'}: {error.message[:MAX_TEXT]}", cast("object", value))
    ]


def _strays(error: ValidationError, place: Place, fields: Mapping[str, object], *, suggest: bool) -> list[Problem]:
    if not _is_closed(error):
        return []
    known = cast("Mapping[str, object]", cast("Mapping[str, object]", error.schema).get("properties", {}))
    names = [name for name in fields if name not in known]
    told = unknowns((path_text((*place, name)) for name in names), tuple(known), suggest=suggest)
    return [Problem((*place, name), text, fields[name]) for name, text in zip(names, told, strict=False)]


def _missed(error: ValidationError) -> list[str]:
    """The field that a `required` misses: there is an error for each."""
    return [*cast("Sequence[str]", error.validator_value)] if error.validator == "required" else []


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
