"""`UnpackedSchema`: a function of one typed object, whose fields are what a model fills in.

    @tool(unpack=True)
    def book(request: Booking) -> str: ...        {"properties": {"hotel": ..., "nights": ...}, ...}

The object is a pydantic model, a dataclass or a TypedDict; injected parameters may stand beside it. Names that it has
not are refused, unless it says that it takes any (`extra="allow"`). What a field lacks of a description, the function's
docstring gives.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Annotated, Any, cast, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import SchemaValidator
from typing_extensions import is_typeddict

from agentscope_rx.errors import ToolDefinitionError
from agentscope_rx.tools.arguments import InvalidArgumentsError, explain, unknowns
from agentscope_rx.tools.schemas.check import resolve
from agentscope_rx.tools.schemas.function import FunctionSchema, Generator, in_order, own, read_docstring, validated
from agentscope_rx.tools.schemas.loose_scalars import misread
from agentscope_rx.tools.schemas.nulls import without_nulls
from agentscope_rx.tools.schemas.signature import MISSING, docstring


class UnpackedSchema(FunctionSchema):
    """The schema of the one object that a function takes; `ToolDefinitionError` if there is no such."""

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
        self.json_schema = _flat(self._adapter.json_schema(schema_generator=Generator), tool)
        properties = cast("dict[str, dict[str, object]]", self.json_schema["properties"])
        for name, said in read_docstring(docstring(function), tool)[1].items():
            if name in properties:
                properties[name].setdefault("description", said)
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
        try:
            value = validated(cast("SchemaValidator", self._adapter.validator), given)
        except ValidationError as error:
            pruned = without_nulls(given, self.json_schema)
            if pruned is not given:
                return self.validate(
                    {**cast("dict[str, object]", pruned), **{name: arguments[name] for name in strays}}
                )
            problems = [*explain(error, self._tool, given, self._known).problems, *problems]
        else:
            problems = [*misread(given, self.json_schema), *problems]
            if not problems:
                return {parameter.name: value}
        raise InvalidArgumentsError(self._tool, problems)


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
        raise ToolDefinitionError(f"What tool {tool!r} takes has no fields to unpack.", tool=tool)
    return in_order({"additionalProperties": False, **schema})
