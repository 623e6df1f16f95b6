"""Wrappers that change a tool's arguments: presets, another schema, more fields, and the arguments of one run.

A preset is an argument that is given at registration, in the model's place.

| mode        | the model sees the parameter | sends it itself                             | does not        |
|-------------|------------------------------|---------------------------------------------|-----------------|
| `"fixed"`   | no                           | its value is dropped, and the preset counts | gets the preset |
| `"default"` | as optional, with its value  | its value counts                            | gets the preset |

A model may send a fixed argument all the same: it has seen it in an earlier conversation, or guesses it. To refuse the
call would cost a round and change nothing. In both modes an explicit null counts as not sent, where null is no value of
the parameter. Values are checked once, at registration. Fixed values are in no message, no event and no problem that a
model reads: they may be secrets.

The arguments of one run take precedence over the model's, and fixed presets over them:

    agent.call("...", context=RuntimeContext(tool_arguments={"search": {"limit": 3}}))

The model sees the parameter as ever; its value for it does not count in this call, and it need not send any. Values are
checked as the model's are, when the run begins (see `check_layers`) and again at each call, for a tool that has been
registered or replaced meanwhile. They are in no message and no event but for a suspended call's placeholder, with which
the call is run outside.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError

from agentscope_rx.errors import ConfigurationError, InvalidInputError, ToolArgumentsError, ToolDefinitionError
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.messages.frozen import thaw
from agentscope_rx.tools.arguments import InvalidArgumentsError, explain, given_text, missing
from agentscope_rx.tools.base import Tool, ToolSource
from agentscope_rx.tools.from_schema import ExternalTool
from agentscope_rx.tools.function_tool import FunctionTool
from agentscope_rx.tools.schemas.check import SchemaCheck
from agentscope_rx.tools.schemas.edit import extended, hidden, properties_of, required_of, shown_default
from agentscope_rx.tools.schemas.function import Generator, in_order, own
from agentscope_rx.tools.schemas.lenient import misread, takes_null, without_nulls
from agentscope_rx.tools.wrapper import WrapperTool, innermost, overruled, strays

if TYPE_CHECKING:
    from agentscope_rx.context import RuntimeContext

_log = logging.getLogger("agentscope_rx")

PresetMode = Literal["fixed", "default"]

_OF_ONE = ("type", "properties", "$defs", "definitions", "$schema")
"""The keywords of a tool's schema that describe a single argument."""


class PresetTool(WrapperTool):
    """A tool with some arguments given; `ToolDefinitionError` for values that it cannot take."""

    def __init__(self, inner: Tool, values: Mapping[str, object], mode: PresetMode = "fixed") -> None:
        super().__init__(inner)
        self._fixed = mode == "fixed"
        self._values = _checked(inner, values)
        self.fixed: frozenset[str] = frozenset(self._values) if self._fixed else frozenset()
        self._optional = [
            name for name in self._values if not takes_null(properties_of(inner.parameters)[name], inner.parameters)
        ]
        change = hidden if self._fixed else shown_default
        self.parameters: Mapping[str, object] = change(inner.parameters, self._values)

    def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """The inner tool's arguments: what the model sent, and the presets."""
        if not self._fixed:
            nulls = [name for name in self._optional if name in arguments and arguments[name] is None]
            given = {name: value for name, value in arguments.items() if name not in nulls}
            return super().validate({**_fresh(self._values), **given})
        given, problems = strays(self, arguments)
        try:
            valid = super().validate({**given, **_fresh(self._values)})
        except InvalidArgumentsError as error:
            raise InvalidArgumentsError(self.name, [*map(_discreet, error.problems), *problems]) from None
        if problems:
            raise InvalidArgumentsError(self.name, problems)
        return valid


def _fresh(values: Mapping[str, object]) -> dict[str, object]:
    # a tool may change its arguments
    return {name: own(value) for name, value in values.items()}


def _checked(tool: Tool, values: Mapping[str, object]) -> dict[str, object]:
    """A copy of the values; `ToolDefinitionError` names the parameter that does not exist, or does not take its own."""
    known = properties_of(tool.parameters)
    for name in values:
        if name not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes no arguments"
            raise ToolDefinitionError(
                f"Tool {tool.name!r} has no parameter {name!r} to be preset: {takes}.", tool=tool.name
            )
    copied = _fresh(values)
    problems = problems_of(tool, copied)
    if problems:
        name, problem = problems[0]
        raise ToolDefinitionError(
            f"The preset {name}={given_text(copied[name])} of tool {tool.name!r} is refused by the tool itself: "
            f"{problem}.",
            tool=tool.name,
        )
    return copied


def problems_of(tool: Tool, values: Mapping[str, object]) -> list[tuple[str, str]]:
    """The problems that the tool has with these values, by name; missing others are no problem."""
    found: list[tuple[str, str]] = []
    if not isinstance(innermost(tool), FunctionTool):
        # its validator may check the names alone
        found += _against_schema(tool, values)
    try:
        tool.validate(_fresh(values))
    except InvalidArgumentsError as error:
        found += [(name, problem) for problem in error.problems for name in values if _is_about(name, problem)]
    except Exception as error:
        # a validator that needs arguments that only a call has. (Its text may quote a secret.)
        _log.debug("presets of tool %s could not be checked by its validator: %s", tool.name, type(error).__name__)
    return found


def _against_schema(tool: Tool, values: Mapping[str, object]) -> list[tuple[str, str]]:
    schema = {key: each for key, each in tool.parameters.items() if key in _OF_ONE}
    try:
        found = SchemaCheck({"type": "object", **schema}).problems(values)
    except ConfigurationError as error:
        raise ToolDefinitionError(
            f"The parameters of tool {tool.name!r} cannot be checked: {error}", tool=tool.name
        ) from error
    return [(str(each.place[0]), each.text) for each in found if each.place]


def _discreet(problem: str) -> str:
    """The problem, unless it is about all arguments together: a schema that compares them may quote fixed ones."""
    if problem.startswith("arguments:"):
        return "arguments: they do not go together as this tool demands"
    return problem


class OverriddenTool(WrapperTool):
    """A tool described by another schema, checked before its own; `ToolDefinitionError` if no call fits both."""

    def __init__(self, inner: Tool, parameters: Mapping[str, object]) -> None:
        super().__init__(inner)
        self._check = ExternalTool(inner.name, "", parameters)
        self.parameters: Mapping[str, object] = self._check.parameters
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
    """A tool that asks the model for more fields, those of a pydantic model, which the tool itself does not get.

    They are checked by that model, and are found in the call: `ToolContext.call.input`, hooks, approval policies.
    """

    def __init__(self, inner: Tool, extension: type[BaseModel]) -> None:
        super().__init__(inner)
        if not (isinstance(extension, type) and issubclass(extension, BaseModel)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ToolDefinitionError(
                f"extend= of tool {inner.name!r} must be a pydantic model, not {extension!r:.60}.", tool=inner.name
            )
        try:
            self._schema: dict[str, Any] = in_order(extension.model_json_schema(schema_generator=Generator))
            self.parameters: Mapping[str, object] = extended(inner.parameters, self._schema)
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


class LayeredTool(WrapperTool):
    """A tool in one call, with the caller's arguments; `ToolArgumentsError` if the tool does not take these."""

    def __init__(self, inner: Tool, given: Mapping[str, object]) -> None:
        super().__init__(inner)
        self._layer = given

    def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """The inner tool's arguments: what the model sent, and the caller's in its place."""
        try:
            return super().validate({**arguments, **thaw(self._layer)})
        except InvalidArgumentsError as error:
            wrong = [name for name in self._layer if any(_is_about(name, problem) for problem in error.problems)]
            if wrong:
                raise ToolArgumentsError(self.name, wrong) from None
            raise


def layered(tool: Tool, context: RuntimeContext | None, name: str) -> Tool:
    """The tool with the context's arguments for it, under the name that it is called by."""
    given = None if context is None else context.tool_arguments.get(name)
    return LayeredTool(tool, given) if given else tool


def layered_call(call: ToolUseBlock, context: RuntimeContext | None) -> ToolUseBlock:
    """The call with the caller's arguments, as it will run: for approval policies."""
    given = None if context is None else context.tool_arguments.get(call.name)
    return call.replace(input={**call.input, **given}) if given and call.input_error is None else call


def check_layers(
    layers: Mapping[str, Mapping[str, object]], toolkit: ToolSource, others: frozenset[str] | None
) -> None:
    """`InvalidInputError` for a tool that is neither in the toolkit nor one of the `others` (None: they are unknown),
    and for arguments that a tool of the toolkit does not take."""
    for name, given in layers.items():
        tool = toolkit.get(name)
        if tool is None:
            if others is not None and name not in others:
                raise _no_such(name, (*toolkit.names, *sorted(others)))
            continue
        problems = dict(reversed(problems_of(tool, given)))
        if problems:
            raise InvalidInputError(f"tool_arguments do not fit tool {name!r}: {'; '.join(problems.values())}.")


def _no_such(name: str, known: tuple[str, ...]) -> InvalidInputError:
    near = get_close_matches(name[:200], known, 1)
    hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(known) or 'none'}."
    return InvalidInputError(
        f"tool_arguments are for a tool {name!r:.200}, but neither the agent nor its sub-agents have one when the run "
        f"begins. {hint}"
    )


def _is_about(name: str, problem: str) -> bool:
    return problem.startswith((f"{name}:", f"{name}.", f"{name}["))
