"""A function's signature and docstring as JSON schema, and its validator; both are made once.

    def weather(city: str, unit: Literal["C", "F"] = "C") -> str:
        '''Current weather of a city.

        Args:
            city: Its name in English.
        '''

    {"type": "object", "required": ["city"], "additionalProperties": false, "properties": {
        "city": {"type": "string", "description": "Its name in English."},
        "unit": {"type": "string", "enum": ["C", "F"], "default": "C"}}}

Types are pydantic's. A description comes from `Annotated[..., Field(description=...)]`, `Annotated[..., "text"]` or the
docstring (Google, NumPy or reST style), in this order. `x: str = None` reads as `str | None`. An explicit null for an
argument or field that has a default and does not take null means "not given", as models often send it. Parameters that
are injected (see `inject`) are no arguments: a model that sends one of that name gets a problem in answer.

`UnpackedSchema` is for a function of one typed object, whose fields are what a model fills in:

    @tool(unpack=True)
    def book(request: Booking) -> str: ...        {"properties": {"hotel": ..., "nights": ...}, ...}
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Optional, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUndefinedAnnotation, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import PydanticSerializationError, SchemaValidator, to_json
from typing_extensions import Doc, is_typeddict

from agentscope_rx.context import Search, in_time
from agentscope_rx.errors import ToolDefinitionError
from agentscope_rx.reactive import Flow
from agentscope_rx.tools.arguments import InvalidArgumentsError, explain, unknowns
from agentscope_rx.tools.context import ToolContext
from agentscope_rx.tools.inject import Injected, split
from agentscope_rx.tools.schemas.foreign import resolve
from agentscope_rx.tools.schemas.lenient import misread, without_nulls
from agentscope_rx.tools.schemas.signature import MISSING, Parameter, bound_names, docstring, read_parameters

_NEVER_MISREAD = frozenset({int, float, types.NoneType})
_SCALARS = frozenset({str, bool, *_NEVER_MISREAD})
"""The types of values that no tool can change."""


class FunctionSchema:
    """The schema of a function, and the way from a model's arguments to a call of it."""

    __slots__ = (
        "_bound",
        "_fields",
        "_known",
        "_parameters",
        "_positional",
        "_tool",
        "_validator",
        "description",
        "injected",
        "json_schema",
    )

    def __init__(self, function: Callable[..., object], tool: str, *, receiver: bool = False) -> None:
        self._tool = tool
        everything = read_parameters(function, tool, receiver=receiver)
        self._parameters, injected = split(everything, tool)
        self.injected: tuple[Injected, ...] = injected
        self._bound = bound_names(function)
        self._known = [parameter.name for parameter in self._parameters]
        self._positional = [parameter for parameter in everything if parameter.positional_only]
        description, described = read_docstring(docstring(function), tool)
        self.description: str = description
        model, json_schema = _model(self._parameters, described, tool)
        self.json_schema: dict[str, object] = json_schema
        self._validator = cast("SchemaValidator", model.__pydantic_validator__)
        # an argument without a Python default is always passed, even if pydantic has one: Field(default_factory=...)
        self._fields = [
            (parameter.name, f"p{index}", parameter.default is MISSING or isinstance(parameter.default, FieldInfo))
            for index, parameter in enumerate(self._parameters)
        ]

    def renamed(self, tool: str) -> FunctionSchema:
        """The same schema for a tool of another name."""
        other = copy.copy(self)
        other._tool = tool
        return other

    def validate(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """The arguments in the function's types; `InvalidArgumentsError` if they do not fit.

        They may be frozen: what the function gets is its own.
        """
        given = arguments
        if self._bound or not isinstance(arguments, dict):
            given = {name: own(value) for name, value in arguments.items() if name not in self._bound}
        else:
            # a validator may pass containers on as they are
            for value in arguments.values():
                if type(value) not in _SCALARS:
                    given = {name: own(value) for name, value in arguments.items()}
                    break
        model = self._read(self._validator, given)
        values, present = model.__dict__, model.__pydantic_fields_set__
        # a loop, not a comprehension: it is a call less
        validated: dict[str, object] = {}
        for name, field, always in self._fields:
            if always or field in present:
                validated[name] = values[field]
        return validated

    def _read(self, validator: SchemaValidator, given: Mapping[str, object]) -> Any:
        """The value of the arguments, read by the rule of `lenient`; `InvalidArgumentsError` if they do not fit."""
        try:
            value = validator.validate_python(given)
        except ValidationError as error:
            return self._reread(validator, given, error)
        for each in given.values():
            # plain numbers are what they are, and mostly there is nothing else
            if type(each) not in _NEVER_MISREAD:
                if wrong := misread(given, self.json_schema):
                    raise InvalidArgumentsError(self._tool, wrong)
                break
        return value

    def _reread(self, validator: SchemaValidator, given: Mapping[str, object], error: ValidationError) -> Any:
        """As JSON, in which strict types take a date as text or a tuple as a list, then without nulls."""
        try:
            value = validator.validate_json(to_json(given, inf_nan_mode="constants"))
        except ValidationError as other:
            error = other if other.error_count() < error.error_count() else error
        except (PydanticSerializationError, ValueError, RecursionError):
            # the caller has set a value that JSON does not have
            pass
        else:
            if wrong := misread(given, self.json_schema):
                raise InvalidArgumentsError(self._tool, wrong)
            return value
        pruned = without_nulls(given, self.json_schema)
        if pruned is not given:
            return self._read(validator, cast("Mapping[str, object]", pruned))
        refused = explain(error, self._tool, given, self._known)
        wrong = misread(given, self.json_schema)
        raise InvalidArgumentsError(self._tool, [*refused.problems, *wrong]) if wrong else refused from None

    def inject(self, arguments: Mapping[str, object], context: ToolContext) -> Mapping[str, object] | Flow[Any]:
        """The arguments and the injected ones from the context; `InjectionError` if one is missing.

        A Flow of them if a store takes time to answer.
        """
        search = self._injecting(arguments, context)
        try:
            waiting = next(search)
        except StopIteration as end:
            return cast("Mapping[str, object]", end.value)
        return in_time(search, waiting)

    def _injecting(self, arguments: Mapping[str, object], context: ToolContext) -> Search[Mapping[str, object]]:
        values = dict(arguments)
        for each in self.injected:
            yield from each.put(values, context, self._tool)
        return values

    def bind(self, function: Callable[..., object], arguments: Mapping[str, object]) -> Callable[[], object]:
        """The call of `function` with validated arguments."""
        if not self._positional:
            return functools.partial(function, **arguments)
        named = dict(arguments)
        in_order = [named.pop(each.name, each.default) for each in self._positional]
        return functools.partial(function, *in_order, **named)


class UnpackedSchema(FunctionSchema):
    """The schema of the one object that a function takes: a pydantic model, a dataclass or a TypedDict.

    Injected parameters may stand beside it. Unknown names are refused, unless the object takes any
    (`extra="allow"`). Fields without a description get it from the function's docstring. `ToolDefinitionError` if the
    function takes anything else.
    """

    __slots__ = ("_adapter", "_open")

    def __init__(self, function: Callable[..., object], tool: str, *, receiver: bool = False) -> None:
        super().__init__(function, tool, receiver=receiver)
        if len(self._parameters) != 1 or not _has_fields(self._parameters[0].annotation):
            raise ToolDefinitionError(
                f"unpack=True is for a function of one pydantic model, dataclass or TypedDict; {tool!r} takes "
                f"({', '.join(self._known)}).",
                tool=tool,
            )
        self._adapter: TypeAdapter[Any] = TypeAdapter(cast("type[object]", self._parameters[0].annotation))
        self.json_schema: dict[str, object] = _flat(self._adapter.json_schema(schema_generator=Generator), tool)
        properties = cast("dict[str, dict[str, object]]", self.json_schema["properties"])
        for name, text in read_docstring(docstring(function), tool)[1].items():
            if name in properties:
                properties[name].setdefault("description", text)
        self._known = list(properties)
        self._open = self.json_schema["additionalProperties"] is not False

    def validate(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """The object made of the arguments, under the parameter's name; `InvalidArgumentsError` if they do not fit."""
        parameter = self._parameters[0]
        if not arguments and parameter.default is not MISSING:
            return {}
        strays = [] if self._open else [name for name in arguments if name not in self._known]
        problems = unknowns(strays, self._known)
        given = {name: own(value) for name, value in arguments.items() if self._open or name in self._known}
        value = None
        try:
            value = self._read(cast("SchemaValidator", self._adapter.validator), given)
        except InvalidArgumentsError as error:
            problems = [*error.problems, *problems]
        if problems:
            raise InvalidArgumentsError(self._tool, problems)
        return {parameter.name: value}


def _has_fields(annotation: object) -> bool:
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    kind: object = get_origin(annotation) or annotation
    if not isinstance(kind, type):
        return False
    cls = cast("type[object]", kind)
    return is_typeddict(cls) or issubclass(cls, BaseModel) or dataclasses.is_dataclass(cls)


def _flat(schema: dict[str, Any], tool: str) -> dict[str, object]:
    """The object's schema as the tool's; one that refers to itself stays among the definitions, too."""
    definitions = schema.get("$defs")
    if "$ref" in schema:
        found = resolve(schema, schema["$ref"])
        schema = {**cast("dict[str, Any]", found), "$defs": definitions}
    if schema.get("type") != "object":
        raise ToolDefinitionError(f"The parameter of tool {tool!r} has no fields to unpack.", tool=tool)
    return in_order({"additionalProperties": False, **schema})


def read_docstring(text: str, name: str) -> tuple[str, dict[str, str]]:
    """The descriptions of the function and of its parameters; without a docstring, the name in words."""
    if not text:
        words = name.replace("_", " ").replace("-", " ").strip()
        return f"{words[:1].upper()}{words[1:]}.", {}
    # imported with the first tool that has a docstring
    from docstring_parser import ParseError, parse

    try:
        parsed = parse(text)
    except ParseError:
        return text, {}
    described = {each.arg_name.lstrip("*"): each.description for each in parsed.params if each.description}
    return (parsed.description or text.partition("\n")[0]).strip(), described


def _model(
    parameters: Sequence[Parameter], described: Mapping[str, str], tool: str
) -> tuple[type[BaseModel], dict[str, object]]:
    """A pydantic model with the fields p0, p1, ... and the real names as aliases (some are reserved); its schema."""
    fields: dict[str, Any] = {}
    for index, parameter in enumerate(parameters):
        fields[f"p{index}"] = _field(parameter, described.get(parameter.name))
    try:
        model = create_model(tool, __config__=ConfigDict(extra="forbid"), **fields)
        model.model_rebuild(raise_errors=True)
        return model, in_order(model.model_json_schema(schema_generator=Generator))
    except UNUSABLE as error:
        raise _unusable(parameters, error, tool) from error


UNUSABLE = (PydanticUserError, PydanticUndefinedAnnotation, PydanticInvalidForJsonSchema, TypeError, NameError)


def _field(parameter: Parameter, described: str | None) -> tuple[object, object]:
    annotation, default = parameter.annotation, parameter.default
    about: dict[str, Any] = {"validation_alias": parameter.name}
    description = _description(annotation) or described
    if isinstance(default, FieldInfo):
        # x: int = Field(3, ge=1), as pydantic's own models write it
        description = default.description or description
        annotation = Annotated[annotation, default]
    elif default is not MISSING:
        about["default"] = default
        if default is None and not _takes_none(annotation):
            annotation = Optional[annotation]  # noqa: UP045 - an annotation of any form, not only a type
    if description:
        about["description"] = description
    return annotation, Field(**about)


def _description(annotation: object) -> str | None:
    """The description that an `Annotated` carries."""
    if get_origin(annotation) is not Annotated:
        return None
    for each in get_args(annotation)[1:]:
        if isinstance(each, str):
            return each
        if isinstance(each, Doc):
            return each.documentation
        if isinstance(each, FieldInfo) and each.description:
            return each.description
    return None


def _takes_none(annotation: object) -> bool:
    if get_origin(annotation) is Annotated:
        return _takes_none(get_args(annotation)[0])
    if annotation in (None, types.NoneType, Any, object):
        return True
    if get_origin(annotation) in (typing.Union, types.UnionType):
        return any(_takes_none(each) for each in get_args(annotation))
    return get_origin(annotation) is typing.Literal and None in get_args(annotation)


def _unusable(parameters: Sequence[Parameter], error: Exception, tool: str) -> ToolDefinitionError:
    """The error that names the parameter whose type pydantic refuses, and why."""
    for parameter in parameters:
        try:
            TypeAdapter(cast("type[object]", parameter.annotation)).json_schema(schema_generator=Generator)
        except UNUSABLE as own:
            return ToolDefinitionError(
                f"Parameter {parameter.name!r} of tool {tool!r} has a type without a JSON form: "
                f"{first_sentence(own)}. Use plain types, a pydantic model, a dataclass, an Enum or a Literal; what "
                "the caller gives, not the model, is Annotated[T, Inject].",
                tool=tool,
            )
    return ToolDefinitionError(f"No schema can be made for tool {tool!r}: {first_sentence(error)}", tool=tool)


def first_sentence(error: Exception) -> str:
    return str(error).partition("\n")[0].partition(". ")[0].rstrip(".")


class Generator(GenerateJsonSchema):
    """Leaves a default that JSON cannot write out of the schema; the function still has it."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}


_MAPS_OF_SCHEMAS = ("properties", "$defs", "patternProperties", "dependentSchemas")
_LISTS_OF_SCHEMAS = ("anyOf", "allOf", "oneOf", "prefixItems")
_SCHEMAS = ("items", "additionalProperties", "contains", "not", "propertyNames", "unevaluatedProperties")


def in_order(schema: dict[str, Any]) -> dict[str, object]:
    """A schema of pydantic's without titles, in a readable order; pydantic sorts the keys."""
    plain = untitled(schema)
    plain.setdefault("properties", {})
    return {
        key: plain[key] for key in ("type", "properties", "required", "additionalProperties", "$defs") if key in plain
    }


def untitled(schema: Mapping[str, object]) -> dict[str, object]:
    """The schema without titles; a *property* named title stays, as do defaults, enums and examples."""
    result: dict[str, object] = {}
    for key, value in schema.items():
        if key in _MAPS_OF_SCHEMAS and isinstance(value, dict):
            result[key] = {name: _untitled(each) for name, each in cast("dict[str, object]", value).items()}
        elif key in _LISTS_OF_SCHEMAS and isinstance(value, list):
            result[key] = [_untitled(each) for each in cast("list[object]", value)]
        elif key in _SCHEMAS:
            result[key] = _untitled(value)
        elif key != "title":
            result[key] = value
    return result


def _untitled(part: object) -> object:
    return untitled(cast("dict[str, object]", part)) if isinstance(part, dict) else part


def own(value: object) -> object:
    """A copy of JSON containers, so that a tool which changes its arguments does not change the message."""
    if isinstance(value, dict):
        return {name: own(each) for name, each in cast("dict[str, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [own(each) for each in cast("list[object]", value)]
    return value
