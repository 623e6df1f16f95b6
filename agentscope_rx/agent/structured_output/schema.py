"""`OutputSchema`: one JSON schema of type object for the model, and the check of its answer.

| output                                           | the model gives                                       |
|--------------------------------------------------|-------------------------------------------------------|
| an object: model, dataclass, TypedDict, dict     | its fields, flat                                      |
| anything else: scalar, list, union, recursive    | `{"response": ...}`, `$defs` stay at the root         |

Models often send null for an optional field that does not accept null: it counts as "not given".
"""

from __future__ import annotations

import inspect
import types
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast, get_origin

from pydantic import ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUndefinedAnnotation, PydanticUserError
from pydantic_core import PydanticSerializationError, to_json

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.messages.frozen import FrozenDict, freeze, thaw
from agentscope_rx.messages.structured import adapter_of, read_json
from agentscope_rx.tools.arguments import InvalidArgumentsError, explain
from agentscope_rx.tools.schemas.check import SchemaCheck
from agentscope_rx.tools.schemas.function import Generator, untitled

WRAPPED = "response"
"""The field for a value that is not an object."""

_UNUSABLE = (
    PydanticUserError,
    PydanticUndefinedAnnotation,
    PydanticInvalidForJsonSchema,
    TypeError,
    NameError,
    AttributeError,
)


class OutputSchema(ABC):
    """The shape of an output. `schema` describes the object that the model gives, with the value in `field`, if any."""

    __slots__ = ("field", "schema")

    def __init__(self, schema: Mapping[str, object], field: str | None) -> None:
        ordered = {"type": schema.get("type"), "properties": schema.get("properties", {}), **schema}
        self.schema: FrozenDict = freeze(ordered)
        self.field: str | None = field

    @property
    def properties(self) -> Mapping[str, object]:
        """The fields of the object."""
        return cast("Mapping[str, object]", self.schema["properties"])

    def read(self, given: Mapping[str, object], name: str) -> dict[str, object]:
        """The object that a model gave under this name, checked; `InvalidArgumentsError` if it does not fit."""
        plain = thaw(given)
        try:
            self._check(plain, name)
        except _Refused as refused:
            cleaned = _without(plain, refused.nulls) if refused.nulls else None
            if cleaned is None:
                raise refused.error from None
            try:
                self._check(cleaned, name)
            except _Refused:
                raise refused.error from None
            return cleaned
        return plain

    def value(self, read: Mapping[str, object]) -> object:
        """The value in a checked object, as plain JSON."""
        return read[self.field] if self.field is not None else dict(read)

    def text(self, read: Mapping[str, object]) -> str:
        """The text of the reply: compact JSON."""
        return to_json(self.value(read)).decode()

    @abstractmethod
    def _check(self, given: Mapping[str, object], name: str) -> None:
        """Raises `_Refused` if the object does not fit."""


class _Refused(Exception):
    """The object does not fit; `nulls` are the places of nulls that were refused."""

    def __init__(self, error: InvalidArgumentsError, nulls: Iterable[Sequence[int | str]]) -> None:
        super().__init__()
        self.error = error
        self.nulls = tuple(nulls)


class TypeOutputSchema(OutputSchema):
    """A Python type."""

    __slots__ = ("_adapter",)

    def __init__(self, kind: object, field: str | None = None) -> None:
        adapter: TypeAdapter[object] = _adapter_of(kind)
        schema = _json_schema(adapter, kind)
        if field is None and schema.get("type") != "object":
            field = WRAPPED
        if field is not None:
            adapter = _wrapped(kind, field)
            schema = _json_schema(adapter, kind)
        self._adapter = adapter
        super().__init__(schema, field)

    def _check(self, given: Mapping[str, object], name: str) -> None:
        try:
            read_json(self._adapter, given)
        except ValidationError as error:
            known = tuple(self.properties)
            nulls = [
                each["loc"] for each in error.errors(include_url=False, include_context=False) if each["input"] is None
            ]
            raise _Refused(explain(error, name, given, known), nulls) from None
        except Exception as error:
            # a validator of the type has raised another error
            raise _Refused(InvalidArgumentsError(name, [f"{type(error).__name__}: {error}"]), ()) from error


class JsonOutputSchema(OutputSchema):
    """A JSON schema."""

    __slots__ = ("_schema_check",)

    def __init__(self, schema: Mapping[str, object], field: str | None = None) -> None:
        # checked as given, so that an error shows the caller's own schema
        SchemaCheck(schema)
        if field is None and schema.get("type") != "object":
            field = WRAPPED
        super().__init__(schema if field is None else _hoisted(schema, field), field)
        self._schema_check = SchemaCheck(self.schema)

    def _check(self, given: Mapping[str, object], name: str) -> None:
        problems = self._schema_check.problems(given)
        if problems:
            nulls = [problem.place for problem in problems if problem.given is None]
            raise _Refused(InvalidArgumentsError(name, [problem.text for problem in problems]), nulls)


def output_schema_of(given: object, field: str | None = None) -> OutputSchema:
    """The shape of a type or a JSON schema, in a field if one is named; `ConfigurationError` for anything else."""
    if isinstance(given, Mapping):
        return JsonOutputSchema(_schema(cast("Mapping[object, object]", given)), field)
    if given is None or isinstance(given, (str, bytes, int, float, list, tuple)) or inspect.isroutine(given):
        # pydantic would take a str for the name of a type, and a function for a validator
        hint = _hint(cast("object", given))
        raise ConfigurationError(f"output must be a type or a JSON schema as a dict, not {given!r:.60}.{hint}")
    return TypeOutputSchema(given, field)


def value_schema(shape: OutputSchema) -> Mapping[str, object]:
    """The JSON schema of the value, without the object around it: its own shape has the schema of this one."""
    if shape.field is None:
        return shape.schema
    inner = cast("Mapping[str, object]", shape.properties[shape.field])
    definitions = {key: shape.schema[key] for key in _DEFINITIONS if key in shape.schema}
    return cast("Mapping[str, object]", _lifted({**inner, **definitions}, f"#/properties/{shape.field}"))


def _schema(given: Mapping[object, object]) -> Mapping[str, object]:
    try:
        to_json(given)
    except (PydanticSerializationError, RecursionError, ValueError) as error:
        raise ConfigurationError(
            f"output={given!r:.60} is no JSON schema: {str(error).partition(chr(10))[0]}. For fields with Python types "
            "use a pydantic model, a dataclass or a TypedDict."
        ) from error
    return cast("Mapping[str, object]", given)


def _adapter_of(kind: object) -> TypeAdapter[object]:
    try:
        return adapter_of(kind)
    except _UNUSABLE as error:
        raise ConfigurationError(f"{_refusal(kind)}: {_first_line(error)}{_hint(kind)}") from error


def _json_schema(adapter: TypeAdapter[object], kind: object) -> dict[str, object]:
    try:
        schema = untitled(adapter.json_schema(schema_generator=Generator))
    except _UNUSABLE as error:
        raise ConfigurationError(f"{_refusal(kind)}: {_first_line(error)}") from error
    if not schema:
        raise ConfigurationError(f"{_refusal(kind)}: it allows anything. Use a more specific type.")
    return schema


def _wrapped(kind: object, field: str) -> TypeAdapter[object]:
    fields: dict[str, Any] = {field: (kind, ...)}
    return TypeAdapter(create_model("Response", __config__=ConfigDict(extra="forbid"), **fields))


_DEFINITIONS = ("$defs", "definitions")


def _hoisted(schema: Mapping[str, object], field: str) -> dict[str, object]:
    """An object schema with this schema as its field; definitions stay at the root, where references find them."""
    inner = {key: value for key, value in schema.items() if key not in _DEFINITIONS}
    # in the order of a type's schema, so that repeated requests are equal texts for providers' caches
    root: dict[str, object] = {
        **{key: schema[key] for key in _DEFINITIONS if key in schema},
        "additionalProperties": False,
        "properties": {field: inner},
        "required": [field],
        "type": "object",
    }
    return cast("dict[str, object]", _redirected(root, field))


def _redirected(part: object, field: str) -> object:
    """The part with references to the root, except to definitions, pointing to the field."""
    if isinstance(part, Mapping):
        given = cast("Mapping[str, object]", part)
        moved: dict[str, object] = {key: _redirected(value, field) for key, value in given.items()}
        reference = given.get("$ref")
        if isinstance(reference, str) and reference.startswith("#") and not reference.startswith(_FIXED):
            moved["$ref"] = f"#/properties/{field}{reference[1:]}"
        return moved
    if isinstance(part, (list, tuple)):
        return [_redirected(each, field) for each in cast("list[object]", part)]
    return part


def _lifted(part: object, place: str) -> object:
    """The part with references to this place pointing to the root."""
    if isinstance(part, Mapping):
        given = cast("Mapping[str, object]", part)
        moved: dict[str, object] = {key: _lifted(value, place) for key, value in given.items()}
        reference = given.get("$ref")
        if isinstance(reference, str) and reference.startswith(place):
            moved["$ref"] = f"#{reference.removeprefix(place)}"
        return moved
    if isinstance(part, (list, tuple)):
        return [_lifted(each, place) for each in cast("list[object]", part)]
    return part


_FIXED = tuple(f"#/{name}/" for name in _DEFINITIONS)


def _refusal(kind: object) -> str:
    return f"output={kind!r:.80} cannot be asked of a model"


def _hint(given: object) -> str:
    is_form = isinstance(given, (type, types.UnionType)) or get_origin(given) is not None
    return "" if given is None or is_form or inspect.isroutine(given) else f" Did you mean {type(given).__name__}?"


def _first_line(error: Exception) -> str:
    return f"{str(error).partition(chr(10))[0].partition('. ')[0].rstrip('.')}."


def _without(given: Mapping[str, object], places: Sequence[Sequence[int | str]]) -> dict[str, object] | None:
    """A copy without the null fields at these places; None if there are none."""
    copy = thaw(freeze(given))
    removed = False
    for place in places:
        node: object = copy
        for step in place:
            if isinstance(node, dict) and step in node:
                fields = cast("dict[object, object]", node)
                if fields[step] is None:
                    del fields[step]
                    removed = True
                    break
                node = fields[step]
            elif isinstance(node, list) and isinstance(step, int):
                items = cast("list[object]", node)
                node = items[step] if step < len(items) else None
    return copy if removed else None
