"""Makes tools of functions, callable objects, bound methods, objects with `@tool` methods, and schemas."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from types import FunctionType, ModuleType
from typing import Any, cast

from agentscope_rx.errors import ToolDefinitionError
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.tools.base import Tool, check_foreign_name
from agentscope_rx.tools.from_schema import ExternalTool, schema_of
from agentscope_rx.tools.function_tool import FunctionTool
from agentscope_rx.tools.schemas.check import check_of


def as_tool(source: object) -> Tool:
    """The source as a tool; `ToolDefinitionError` if it cannot be one."""
    bound_to = getattr(source, "__self__", None)
    function: Any = getattr(source, "__func__", None)
    if isinstance(function, FunctionTool):
        # the result of `@classmethod` above `@tool` from Python 3.13 on
        source = cast("FunctionTool[..., object]", function).__get__(bound_to)
    if isinstance(source, FunctionTool):
        if not source.bound:
            raise ToolDefinitionError(
                f"{source.name!r} is an unbound method: register it from an object, as in MyTools().{source.name}.",
                tool=source.name,
            )
        return cast("Tool", source)
    if isinstance(source, Tool):
        _check(source)
        return source
    if isinstance(source, (ToolSchema, Mapping)):
        return ExternalTool.of(schema_of(cast("ToolSchema | Mapping[str, object]", source)))
    if callable(own := getattr(source, "as_tool", None)) and not isinstance(source, type):
        # an agent
        return as_tool(own())
    if callable(source) and not isinstance(source, type):
        return as_tool(FunctionTool(source))
    hint = " Register an instance of it." if isinstance(source, type) else ""
    if callable(getattr(source, "on_event", None)) and callable(getattr(source, "tools", None)):
        hint = " It is a hook: give it to the agent as hooks=[...], which adds its tools, too."
    raise ToolDefinitionError(
        f"{source!r:.80} is not a tool: expected a Tool, a function, an object with @tool methods or a ToolSchema."
        f"{hint}",
        tool=getattr(source, "__name__", type(source).__name__),
    )


def _check(tool: Tool) -> None:
    name: object = getattr(tool, "name", None)
    if not isinstance(name, str):
        raise ToolDefinitionError(f"{type(tool).__name__} has no name. Set `name` in the class.", tool=repr(tool)[:80])
    check_foreign_name(name)
    if type(tool).validate is Tool.validate:
        # its arguments are checked by the schema
        check_of(name, tool.parameters)


def tools_of(source: object) -> tuple[Tool, ...]:
    """The tools of a source: an object's `@tool` methods, a toolkit's tools, those of several sources.

    A tool, a function, a callable object or a schema is one tool.
    """
    if isinstance(source, (Tool, ToolSchema, Mapping)):
        return (as_tool(source),)  # pyright: ignore[reportUnknownArgumentType]
    methods = tool_methods(source)
    if methods:
        return tuple(map(as_tool, methods))
    if _is_collection(source):
        return tuple(tool for each in cast("Iterable[object]", source) for tool in tools_of(each))
    return (as_tool(source),)


def _is_collection(source: object) -> bool:
    return isinstance(source, Iterable) and not (callable(source) or isinstance(source, (str, bytes, Mapping, type)))  # pyright: ignore[reportUnknownArgumentType]


def tool_methods(source: object) -> list[object]:
    """The `@tool` methods of an object, those of base classes first, in the order of their definition.

    If a subclass redefines a name, only its definition counts. Properties of the object are not evaluated.
    """
    if isinstance(source, type):
        return []
    names = dict.fromkeys(
        name
        for cls in reversed(type(source).__mro__)
        for name, member in vars(cls).items()
        if _is_function_tool(member)
    )
    found = [getattr(source, name) for name in names if _is_function_tool(inspect.getattr_static(source, name))]
    return [each for each in found if _is_function_tool(each)]


def public_methods(source: object) -> list[object]:
    """The methods of an object whose names begin with no underscore, those of base classes first, in the order of their
    definition; `ToolDefinitionError` if there are none."""
    if isinstance(source, (type, ModuleType)) or inspect.isroutine(source):
        raise ToolDefinitionError(
            f"register_methods takes an object, whose methods become tools, not {source!r:.80}.", tool=repr(source)[:80]
        )
    names = dict.fromkeys(
        name for cls in reversed(type(source).__mro__) if cls is not object for name in vars(cls) if name[:1] != "_"
    )
    found = [
        getattr(source, name)
        for name in names
        if isinstance(getattr(member := inspect.getattr_static(source, name), "__func__", member), _METHODS)
    ]
    if not found:
        raise ToolDefinitionError(f"{source!r:.80} has no public methods to make tools of.", tool=repr(source)[:80])
    return found


_METHODS = (FunctionType, FunctionTool)


def _is_function_tool(member: object) -> bool:
    """True for a tool, and for a class or static method made of one."""
    return isinstance(getattr(member, "__func__", member), FunctionTool)
