"""What a model is told of a tool's arguments, changed: another schema in the place of the tool's, fields beside them.

Both are checked as well as shown, and the tool's own validation follows: an argument passes only if all agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError

from agentscope_rx.errors import ConfigurationError, ToolDefinitionError
from agentscope_rx.tools.arguments import InvalidArgumentsError, explain, missing
from agentscope_rx.tools.base import Tool
from agentscope_rx.tools.external import ExternalTool
from agentscope_rx.tools.schemas.edit import extended, properties_of, required_of
from agentscope_rx.tools.schemas.function import Generator, in_order
from agentscope_rx.tools.schemas.loose_scalars import misread
from agentscope_rx.tools.schemas.nulls import without_nulls
from agentscope_rx.tools.wrapper import WrapperTool, overruled, strays


class OverriddenTool(WrapperTool):
    """A tool whose parameters are described by another schema; `ToolDefinitionError` if no call could pass both."""

    def __init__(self, inner: Tool, parameters: Mapping[str, object]) -> None:
        super().__init__(inner)
        self._check = ExternalTool(inner.name, "", parameters)
        self.parameters = self._check.parameters
        names = properties_of(self.parameters)
        lost = [missing(name) for name in required_of(inner.parameters) if name not in names]
        _, problems = strays(inner, names)
        if lost or problems:
            raise ToolDefinitionError(
                f"The parameters given for tool {inner.name!r} do not fit the tool: {'; '.join([*lost, *problems])}.",
                tool=inner.name,
            )

    def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """The inner tool's arguments, if they fit the schema here too."""
        given = overruled(self)
        if not given.isdisjoint(arguments):
            arguments = {name: value for name, value in arguments.items() if name not in given}
        try:
            checked = self._check.validate(arguments)
        except InvalidArgumentsError as error:
            raise InvalidArgumentsError(self.name, error.problems) from None
        return super().validate(checked)


class ExtendedTool(WrapperTool):
    """A tool whose model is asked for more fields, those of a pydantic model; the tool itself does not get them.

    They are checked as the model says, and are found in the call: `ToolContext.call.input`, hooks, approval policies.
    """

    def __init__(self, inner: Tool, extension: type[BaseModel]) -> None:
        super().__init__(inner)
        if not (isinstance(extension, type) and issubclass(extension, BaseModel)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ToolDefinitionError(
                f"extend= of tool {inner.name!r} must be a pydantic model, not {extension!r:.60}.", tool=inner.name
            )
        try:
            self._schema: dict[str, Any] = in_order(extension.model_json_schema(schema_generator=Generator))
            self.parameters = extended(inner.parameters, self._schema)
        except (ConfigurationError, PydanticUserError, PydanticInvalidForJsonSchema) as error:
            raise ToolDefinitionError(
                f"Tool {inner.name!r} cannot be extended by {extension.__name__}: {error}.", tool=inner.name
            ) from error
        self._extension = extension

    def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """The inner tool's arguments, if those of the extension are right too."""
        kept, problems = strays(self, arguments)
        fields = properties_of(self._schema)
        added = {name: value for name, value in kept.items() if name in fields}
        try:
            self._extension.model_validate(without_nulls(added, self._schema))
        except ValidationError as error:
            problems = [*explain(error, self.name, added, tuple(fields)).problems, *problems]
        problems = [*misread(added, self._schema), *problems]
        try:
            valid = super().validate({name: value for name, value in kept.items() if name not in fields})
        except InvalidArgumentsError as error:
            raise InvalidArgumentsError(self.name, [*error.problems, *problems]) from None
        if problems:
            raise InvalidArgumentsError(self.name, problems)
        return valid
