"""`tool_from_schema`: a schema of foreign origin and the function that runs its calls.

    tool_from_schema(
        {"type": "function", "function": {"name": "math.sqrt", "parameters": {"type": "object", ...}}},
        lambda **arguments: run_elsewhere("math.sqrt", arguments),
    )

The schema is shown to the model as it is, and arguments are checked by it alone: the handler gets JSON values, by name,
and its annotations count for what is injected only (see `tools.inject`). What the schema does not require and the model
leaves out is left to the handler's own defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Literal, TypedDict, TypeVar, Unpack, cast

from agentscope_rx.errors import ToolDefinitionError
from agentscope_rx.messages.frozen import freeze
from agentscope_rx.models.options import ExecutionConfig, ToolSchema
from agentscope_rx.reactive import Rate
from agentscope_rx.tools.base import FunctionTool, check_foreign_name
from agentscope_rx.tools.inject import split
from agentscope_rx.tools.options import Approval
from agentscope_rx.tools.results.result_limit import ResultLimit
from agentscope_rx.tools.schemas.check import check_of, fitting
from agentscope_rx.tools.schemas.describe import schema_of
from agentscope_rx.tools.schemas.edit import properties_of, required_of
from agentscope_rx.tools.schemas.function import FunctionSchema
from agentscope_rx.tools.schemas.signature import MISSING, bound_names, parameters_of

R = TypeVar("R")


class SchemaToolOptions(TypedDict, total=False):
    """Options of `tool_from_schema`; each means what it means for `@tool`."""

    execution_config: ExecutionConfig | None
    executor: Executor | None
    requires_approval: Approval
    interruptible: bool
    max_concurrency: int | None
    rate: Rate | None
    exclusive: bool
    result: Literal["last", "joined"]
    max_result: int | ResultLimit | None
    return_direct: bool


def tool_from_schema(
    schema: ToolSchema | Mapping[str, object],
    handler: Callable[..., R],
    **options: Unpack[SchemaToolOptions],
) -> FunctionTool[..., R]:
    """A tool that looks as `schema` says and is run by `handler(**arguments)`; of any kind that `@tool` takes.

    `schema` is a `ToolSchema`, or a dict as model providers take them (see `schema_of`). The handler may take
    `**kwargs`; without it, `ToolDefinitionError` names a parameter that only one of the two has.
    """
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
    """The schema as it was given, over a function that takes what passes it."""

    __slots__ = ("_check",)

    def __init__(self, schema: ToolSchema, handler: Callable[..., object]) -> None:
        self._tool = name = check_foreign_name(schema.name)
        self.description = schema.description
        frozen = freeze(schema.parameters)
        self.json_schema = cast("dict[str, object]", frozen)
        self._check = check_of(name, frozen)
        self._bound = bound_names(handler)
        taken, more = parameters_of(handler, name)
        self._parameters, self.injected = split(taken, name)
        self._known = list(properties_of(frozen))
        self._positional = [each for each in taken if each.positional_only]
        self._fields = []
        self._check_handler(required_of(frozen), takes_any=more)

    def validate(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """The arguments if they fit the schema, as the handler's own copy, or `InvalidArgumentsError`."""
        given = {name: value for name, value in arguments.items() if name not in self._bound}
        return dict(fitting(self._check, self._tool, given))

    def _check_handler(self, required: list[str], *, takes_any: bool) -> None:
        """`ToolDefinitionError` if a valid call could be none of the handler."""
        names = [each.name for each in self._parameters]
        lost = [] if takes_any else [name for name in self._known if name not in names and name not in self._bound]
        if lost:
            raise self._misfit(lost[0], "is in the schema, but the handler does not take it. Add it, or **kwargs.")
        if injected := [each.name for each in self.injected if each.name in self._known]:
            raise self._misfit(injected[0], "is in the schema, but the handler has it injected. Rename it there.")
        for each in self._parameters:
            if each.default is MISSING and each.name not in required:
                raise self._misfit(each.name, "is required by the handler, but not by the schema. Give it a default.")

    def _misfit(self, parameter: str, what: str) -> ToolDefinitionError:
        return ToolDefinitionError(f"Parameter {parameter!r:.80} of tool {self._tool!r:.80} {what}", tool=self._tool)
