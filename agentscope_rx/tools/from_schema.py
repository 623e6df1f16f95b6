"""Tools that are described by a schema of foreign origin: `schema_of`, `ExternalTool`, `tool_from_schema`.

OpenAI Chat Completions  {"type": "function", "function": {"name": ..., "description": ..., "parameters": ...}}
OpenAI Responses         {"type": "function", "name": ..., "description": ..., "parameters": ...}
Anthropic                {"name": ..., "description": ..., "input_schema": ...}
MCP                      {"name": ..., "description": ..., "inputSchema": ...}

An `ExternalTool` runs outside: in a browser, at a client, by a person.

    toolkit.register_schema(ToolSchema("pick_file", "Let the user pick a file.", {"type": "object", ...}))

Its arguments are checked against the schema, then the call is suspended: the run ends, and goes on when the caller
brings the result. The placeholder's metadata has the checked `arguments` (but for fixed presets, which are in no
message); the call itself has them as the model wrote them. A null for an optional field at the top counts as not given,
as models often send it.

`tool_from_schema` binds a schema to the function that runs its calls:

    tool_from_schema(
        {"type": "function", "function": {"name": "math.sqrt", "parameters": {"type": "object", ...}}},
        lambda **arguments: run_elsewhere("math.sqrt", arguments),
    )

The model sees the schema as it is, and arguments are checked by it alone: the handler gets JSON values, by name, and
its annotations count only for injected parameters (see `tools.inject`). For an optional argument that the model leaves
out, the handler's own default counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar, Unpack, cast

from agentscope_rx.errors import ToolDefinitionError, ToolSuspend
from agentscope_rx.messages.frozen import freeze
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.reactive import Flow, throw
from agentscope_rx.tools.base import NO_PARAMETERS, Approval, Tool, check_foreign_name, check_keywords, check_mark
from agentscope_rx.tools.function_tool import CallOptions, FunctionTool
from agentscope_rx.tools.inject import Injected, split
from agentscope_rx.tools.schemas.check import check_of, fitting
from agentscope_rx.tools.schemas.edit import properties_of, required_of
from agentscope_rx.tools.schemas.function import FunctionSchema
from agentscope_rx.tools.schemas.signature import MISSING, bound_names, parameters_of

R = TypeVar("R")

_PARAMETERS = ("parameters", "input_schema", "inputSchema")
_KINDS: Mapping[type, str] = {str: "text", bool: "true or false", Mapping: "a JSON schema (a dict)"}


def schema_of(source: ToolSchema | Mapping[str, object]) -> ToolSchema:
    """The `ToolSchema` itself, or that of a dict; `ToolDefinitionError` for a dict that describes no tool.

    | from             | dict                                                                                     |
    |------------------|------------------------------------------------------------------------------------------|
    | Chat Completions | `{"type": "function", "function": {"name": ..., "description": ..., "parameters": ...}}` |
    | Responses        | `{"type": "function", "name": ..., "description": ..., "parameters": ...}`               |
    | Anthropic        | `{"name": ..., "description": ..., "input_schema": ...}`                                 |
    | MCP              | `{"name": ..., "description": ..., "inputSchema": ...}`                                  |

    Without parameters the tool takes nothing.
    """
    if isinstance(source, ToolSchema):
        return source
    kind, inner = source.get("type", "function"), source.get("function", source)
    name = cast("Mapping[str, object]", inner).get("name") if isinstance(inner, Mapping) else None
    if kind not in ("function", "custom") or not isinstance(name, str) or not isinstance(inner, Mapping):
        raise ToolDefinitionError(
            f"{dict(source)!r:.120} does not describe a tool. Give a ToolSchema, or a dict such as "
            "{'type': 'function', 'function': {'name': ..., 'description': ..., 'parameters': {...}}}.",
            tool=f"{name!r:.80}",
        )
    fields = cast("Mapping[str, object]", inner)
    parameters = next((fields[key] for key in _PARAMETERS if fields.get(key) is not None), NO_PARAMETERS)
    description, strict = fields.get("description"), fields.get("strict")
    for what, value, wanted in (
        ("description", description, str),
        ("strict", strict, bool),
        ("parameters", parameters, Mapping),
    ):
        if value is not None and not isinstance(value, wanted):
            raise ToolDefinitionError(
                f"{what} of tool {name!r:.80} must be {_KINDS[wanted]}, not {value!r:.60}.", tool=f"{name:.80}"
            )
    return ToolSchema(
        check_foreign_name(name),
        cast("str", description or ""),
        cast("Mapping[str, object]", parameters),
        cast("bool | None", strict),
    )


class ExternalTool(Tool):
    """A schema without a function: each valid call suspends the run, with this `reason`.

    It runs outside: in a browser, at a client, by a person. The caller brings the result, and the run goes on. The
    placeholder's `metadata["arguments"]` has the checked arguments without fixed presets.

    `ToolDefinitionError` if `parameters` is no JSON schema of type object, or one that cannot be checked.
    """

    def __init__(
        self,
        name: str,
        description: str = "",
        parameters: Mapping[str, object] = NO_PARAMETERS,
        *,
        strict: bool | None = None,
        reason: str | None = None,
        requires_approval: Approval = False,
    ) -> None:
        self.name: str = check_foreign_name(name)
        self.description = description
        self.parameters: Mapping[str, object] = freeze(parameters)
        self._check = check_of(name, self.parameters)
        self.strict = strict
        self.reason = reason
        self.requires_approval: Approval = check_mark(name, requires_approval)

    def __repr__(self) -> str:
        return f"<external tool {self.name}>"

    @classmethod
    def of(cls, schema: ToolSchema, *, reason: str | None = None) -> ExternalTool:
        """The tool that this schema describes."""
        return cls(schema.name, schema.description, schema.parameters, strict=schema.strict, reason=reason)

    def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """The arguments if they fit the schema, or `InvalidArgumentsError` with every problem."""
        return fitting(self._check, self.name, arguments)

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        """Suspends the call.

        Signals: a `ToolSuspend`.
        Cancels: nothing.
        """
        return throw(ToolSuspend(self.reason, arguments=dict(arguments)))


def tool_from_schema(
    schema: ToolSchema | Mapping[str, object],
    handler: Callable[..., R],
    **options: Unpack[CallOptions],
) -> FunctionTool[..., R]:
    r"""A tool that the model sees as `schema` and that `handler(**arguments)` runs, of any kind that `@tool` takes.

    `schema` is a `ToolSchema`, or a dict as model providers take them (see `schema_of`); it stays unchanged. The schema
    alone checks arguments: the handler gets JSON values, by name. Its annotations count for injected parameters only,
    and its defaults for arguments that the model omits. Without `**kwargs` it must take all parameters of the schema,
    else `ToolDefinitionError` names the difference.

    A name may have letters that providers refuse, such as a dot. On the wire it is then `math_power_x` and eight
    digits, everywhere else the tool's own. A `$schema` of draft 4 to 2020-12 is followed. Patterns have no look-around
    and no back-references, and `\d` and `\w` are ASCII. Arguments that are too complex to check are
    `invalid_arguments`.
    """
    check_keywords("tool_from_schema", options, CallOptions)
    described = schema_of(schema)
    if not callable(handler) or isinstance(handler, type):
        raise ToolDefinitionError(
            f"The handler of tool {described.name!r:.80} must be a function, not {handler!r:.60}.", tool=described.name
        )
    if isinstance(handler, FunctionTool):
        raise ToolDefinitionError(
            f"The handler of tool {described.name!r:.80} is a tool already: register it with parameters=... instead.",
            tool=described.name,
        )
    made = ForeignSchema(described, handler)
    return FunctionTool(
        handler, name=described.name, description=described.description, strict=described.strict, schema=made, **options
    )


class ForeignSchema(FunctionSchema):
    """A given schema in the place of the function's own."""

    __slots__ = ("_check",)

    def __init__(self, schema: ToolSchema, handler: Callable[..., object]) -> None:
        self._tool = name = check_foreign_name(schema.name)
        self.description: str = schema.description
        frozen = freeze(schema.parameters)
        self.json_schema: dict[str, object] = cast("dict[str, object]", frozen)
        self._check = check_of(name, frozen)
        self._bound = bound_names(handler)
        taken, more = parameters_of(handler, name)
        self._parameters, injected = split(taken, name)
        self.injected: tuple[Injected, ...] = injected
        self._known = list(properties_of(frozen))
        self._positional = [each for each in taken if each.positional_only]
        self._fields = []
        self._check_handler(required_of(frozen), takes_any=more)

    def validate(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """The arguments if they fit the schema, as the handler's own copy, or `InvalidArgumentsError`."""
        given = {name: value for name, value in arguments.items() if name not in self._bound}
        return dict(fitting(self._check, self._tool, given))

    def _check_handler(self, required: list[str], *, takes_any: bool) -> None:
        """`ToolDefinitionError` if the handler could not take a valid call."""
        names = [each.name for each in self._parameters]
        untaken = [] if takes_any else [name for name in self._known if name not in names and name not in self._bound]
        if untaken:
            raise self._misfit(untaken[0], "is in the schema, but the handler does not take it. Add it, or **kwargs.")
        if injected := [each.name for each in self.injected if each.name in self._known]:
            raise self._misfit(injected[0], "is in the schema, but the handler has it injected. Rename it there.")
        for each in self._parameters:
            if each.default is MISSING and each.name not in required:
                raise self._misfit(each.name, "is required by the handler, but not by the schema. Give it a default.")

    def _misfit(self, parameter: str, what: str) -> ToolDefinitionError:
        return ToolDefinitionError(f"Parameter {parameter!r:.80} of tool {self._tool!r:.80} {what}", tool=self._tool)
