"""Checks a JSON value by a JSON schema: one line a problem, in words that a model can act on.

    check = SchemaCheck({"type": "object", "properties": {"days": {"type": "integer"}}})
    check.problems({"days": "two"})           days: 'two' is not of type 'integer'

The dialect is the one that `$schema` names, else draft 2020-12. References must be to the schema itself: nothing is
ever fetched. `format` is shown to the model, and not checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from agentscope_rx.errors import ConfigurationError, ToolDefinitionError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.tools.arguments import MAX_PROBLEMS, InvalidArgumentsError, cut, missing, unknowns
from agentscope_rx.tools.schemas.foreign import Place, path_text, read_schema, resolve
from agentscope_rx.tools.schemas.guarded import TooComplexError
from agentscope_rx.tools.schemas.lenient import Steps, loosened, made_whole, without_nulls
from agentscope_rx.tools.schemas.stepwise import MAX_ERRORS, found

if TYPE_CHECKING:
    from jsonschema import ValidationError

__all__ = ["Problem", "SchemaCheck", "check_of", "fitting", "path_text", "resolve"]

MAX_TEXT = 300
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem: its place, its text, and the value there."""

    place: Place
    text: str
    given: object


class SchemaCheck:
    """A schema compiled once for any number of values; `ConfigurationError` if it is invalid, or refers elsewhere.

    Schema and values may be hostile: a schema that would take too long to check is refused here (see `foreign`), such a
    value is a problem (see `stepwise`).
    """

    __slots__ = ("_read",)

    def __init__(self, schema: Mapping[str, object]) -> None:
        self._read = read_schema(schema)

    def problems(self, value: object) -> list[Problem]:
        """The problems of the value, in the order of its parts; an empty list if it fits."""
        try:
            errors = sorted(found(self._read, value), key=_place)
            problems: list[Problem] = []
            for error in errors:
                problems += _problems(error, suggest=len(problems) < MAX_PROBLEMS)
            return problems[:MAX_ERRORS]
        except TooComplexError as error:
            return [Problem((), f"arguments: too complex to be checked ({error}): send fewer or simpler values", value)]

    def whole(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """Arguments that fit, with 5.0 as 5 where an integer is wanted; as they are if that would take too long."""
        try:
            return cast("Mapping[str, object]", made_whole(arguments, self._read.root, Steps()))
        except (TooComplexError, RecursionError):
            return arguments

    def read(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """Arguments that do not fit, read leniently (see `tools.schemas.lenient`)."""
        steps = Steps()
        try:
            pruned = without_nulls(arguments, self._read.root, steps)
            return cast("Mapping[str, object]", loosened(pruned, self._read.root, steps))
        except (TooComplexError, RecursionError):
            return arguments


def check_of(name: str, parameters: Mapping[str, object]) -> SchemaCheck:
    """The compiled parameters of the tool of this name; `ToolDefinitionError` if they are no JSON schema of type
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
    """The arguments if they fit, or `InvalidArgumentsError`.

    Scalars are read by the rule of `tools.schemas.lenient`. A null that does not fit counts as not given, at every
    depth.
    """
    problems = check.problems(arguments)
    if not problems:
        return check.whole(arguments)
    read = check.read(arguments)
    if read is not arguments:
        arguments = read
        problems = check.problems(arguments)
    nulls = [each.place for each in problems if each.given is None and _is_name(each.place[-1:])]
    if nulls:
        # only a required one is still missing
        arguments = cast("Mapping[str, object]", _without(arguments, nulls))
        problems = check.problems(arguments)
    if problems:
        raise InvalidArgumentsError(tool, [problem.text for problem in problems])
    return arguments


def _is_name(step: Place) -> bool:
    return bool(step) and isinstance(step[0], str)


def _without(value: object, places: Sequence[Place]) -> object:
    """A copy without the fields at these places."""
    if isinstance(value, list):
        items = cast("list[object]", value)
        return [_beneath(each, places, index) for index, each in enumerate(items)]
    fields = cast("Mapping[str, object]", value)
    removed = {place[0] for place in places if len(place) == 1}
    return {name: _beneath(each, places, name) for name, each in fields.items() if name not in removed}


def _beneath(value: object, places: Sequence[Place], step: int | str) -> object:
    deeper = [place[1:] for place in places if len(place) > 1 and place[0] == step]
    return _without(value, deeper) if deeper else value


def _place(error: ValidationError) -> list[str]:
    return [f"{step}" for step in error.absolute_path]


def _problems(error: ValidationError, *, suggest: bool) -> list[Problem]:
    """The problems of an error: fields by name, and for a union those of its nearest form."""
    place: Place = tuple(error.absolute_path)
    value = cast("object", error.instance)
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        absent = [(*place, name) for name in _missing(error)]
        if absent:
            return [Problem(at, missing(path_text(at)), _NOTHING) for at in absent]
        if strays := _strays(error, place, fields, suggest=suggest):
            return strays
    if error.validator in ("anyOf", "oneOf") and error.context:
        near = [form for form in _forms(error) if not any(_is_of_other_kind(each) for each in form)]
        if len(near) == 1:
            return [problem for each in near[0] for problem in _problems(each, suggest=suggest)]
    return [
        Problem(place, f"{cut(path_text(place)) or 'arguments'}: {error.message[:MAX_TEXT]}", cast("object", value))
    ]


def _strays(error: ValidationError, place: Place, fields: Mapping[str, object], *, suggest: bool) -> list[Problem]:
    if not _is_closed(error):
        return []
    known = cast("Mapping[str, object]", cast("Mapping[str, object]", error.schema).get("properties", {}))
    names = [name for name in fields if name not in known]
    texts = unknowns((path_text((*place, name)) for name in names), tuple(known), suggest=suggest)
    return [Problem((*place, name), text, fields[name]) for name, text in zip(names, texts, strict=False)]


def _missing(error: ValidationError) -> list[str]:
    """The field that a `required` lacks: there is an error for each."""
    return [*cast("Sequence[str]", error.validator_value)] if error.validator == "required" else []


def _is_closed(error: ValidationError) -> bool:
    """True if fields are refused because only the named ones are allowed."""
    return (
        error.validator == "additionalProperties"
        and error.validator_value is False
        and "patternProperties" not in cast("Mapping[str, object]", error.schema)
    )


def _is_of_other_kind(error: ValidationError) -> bool:
    return error.validator == "type" and not error.relative_path


def _forms(error: ValidationError) -> list[list[ValidationError]]:
    """The errors by each form of a union."""
    forms: dict[object, list[ValidationError]] = {}
    for each in error.context or ():
        forms.setdefault(each.relative_schema_path[0], []).append(each)
    return list(forms.values())
