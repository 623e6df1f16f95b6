"""Presets: arguments that whoever registers a tool gives in the model's place.

| mode        | the model sees the parameter | sends it itself                             | does not        |
|-------------|------------------------------|---------------------------------------------|-----------------|
| `"fixed"`   | no                           | its value is dropped, and the preset counts | gets the preset |
| `"default"` | as optional, with its value  | its value counts                            | gets the preset |

A model may send a fixed one all the same: it has seen it in an earlier conversation, or guesses it. To refuse the call
would cost a round and change nothing. In both modes an explicit null counts as not sent, where null is no value of the
parameter. Values are checked once, at registration. Fixed ones are in no message, no event and no problem that a model
is told of: they may be secrets.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Literal

from agentscope_rx.errors import ConfigurationError, ToolDefinitionError
from agentscope_rx.tools.arguments import InvalidArgumentsError, given_text
from agentscope_rx.tools.base import FunctionTool, Tool
from agentscope_rx.tools.schemas.check import SchemaCheck
from agentscope_rx.tools.schemas.edit import hidden, properties_of, shown_default
from agentscope_rx.tools.schemas.function import own
from agentscope_rx.tools.schemas.nulls import takes_null
from agentscope_rx.tools.wrapper import WrapperTool, innermost, strays

_log = logging.getLogger("agentscope_rx")

PresetMode = Literal["fixed", "default"]

_OF_ONE = ("type", "properties", "$defs", "definitions", "$schema")
"""What of a schema says what a single argument may be."""


class PresetTool(WrapperTool):
    """A tool some of whose arguments are given already; `ToolDefinitionError` for those that it cannot take."""

    def __init__(self, inner: Tool, values: Mapping[str, object], mode: PresetMode = "fixed") -> None:
        super().__init__(inner)
        self._fixed = mode == "fixed"
        self._values = _checked(inner, values)
        self.gives = frozenset(self._values) if self._fixed else frozenset()
        self._optional = [
            name for name in self._values if not takes_null(properties_of(inner.parameters)[name], inner.parameters)
        ]
        change = hidden if self._fixed else shown_default
        self.parameters = change(inner.parameters, self._values)

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
    # a tool may change what it is given
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
    """What the tool has against these values; that others are missing does not count."""
    found: list[tuple[str, str]] = []
    if not isinstance(innermost(tool), FunctionTool):
        # a validator of its own may look at the names alone
        found += _against_schema(tool, values)
    try:
        tool.validate(_fresh(values))
    except InvalidArgumentsError as error:
        found += [
            (name, problem)
            for problem in error.problems
            for name in values
            if problem.startswith((f"{name}:", f"{name}.", f"{name}["))
        ]
    except Exception as error:
        # one that cannot do without what is not there yet: a call has all. (Its text may quote a secret.)
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
