"""`WrapperTool`: a tool over another one, which is that other tool but for what is set or overridden here.

    class Loud(WrapperTool):
        def call_with(self, arguments, context): ...      the inner tool is `self.inner`

A subclass that lets blocking functions beneath it run on the toolkit's executor takes `executor` as well, as here.
Every attribute of the port is the inner tool's until one is set on the wrapper; what the inner tool has beyond the port
is found through the wrapper too. Wrappers stand on each other in any order; errors about arguments name the outermost.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import fields, replace
from typing import ClassVar, cast

from agentscope_rx.models.options import ToolSchema
from agentscope_rx.reactive import Flow
from agentscope_rx.tools.arguments import InvalidArgumentsError, unknowns
from agentscope_rx.tools.base import Tool
from agentscope_rx.tools.context import ToolContext
from agentscope_rx.tools.function_tool import FunctionTool
from agentscope_rx.tools.limits import ToolLimits, limits_of


class WrapperTool(Tool):
    """Passes everything on to `inner`: calls with their context and executor, streams, limits, marks."""

    passes_on: ClassVar[bool] = True
    """Whether its calls take an executor."""

    gives: frozenset[str] = frozenset()
    """The names of the arguments that it gives itself, whatever the model sends."""

    def __init__(self, inner: Tool) -> None:
        self.inner = inner

    def __init_subclass__(cls, **keywords: object) -> None:
        super().__init_subclass__(**keywords)
        own = [vars(cls)[name] for name in ("call", "call_with") if name in vars(cls)]
        cls.passes_on = cls.passes_on and all("executor" in inspect.signature(each).parameters for each in own)
        if "call_with" not in vars(cls):
            # whether it takes the context is for the inner tool to say, or for the class that overrode it
            del cls.takes_context

    @property
    def schema(self) -> ToolSchema:
        """The inner tool's, but for what is set here."""
        own = {each.name: vars(self)[each.name] for each in fields(ToolSchema) if each.name in vars(self)}
        return replace(self.inner.schema, **own)

    @property
    def limits(self) -> ToolLimits:
        """The inner tool's, within those that are set here: the inner tool is protected whoever calls it."""
        own = cast("dict[str, ToolLimits]", vars(self))
        if "_limits" not in own:
            inner = self.inner
            most = None if self.max_concurrency == inner.max_concurrency else self.max_concurrency
            rate = None if self.rate == inner.rate else self.rate
            own.setdefault("_limits", limits_of(self.name, most, rate, self.exclusive, inner.limits))
        return own["_limits"]

    def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """As the inner tool; problems are told under this tool's name."""
        try:
            return self.inner.validate(arguments)
        except InvalidArgumentsError as error:
            if error.tool == self.name:
                raise
            raise InvalidArgumentsError(self.name, error.problems) from None

    def call(self, arguments: Mapping[str, object], executor: Executor | None = None) -> Flow[object]:
        """As the inner tool."""
        return called(self.inner, arguments, None, executor)

    def call_with(
        self, arguments: Mapping[str, object], context: ToolContext, executor: Executor | None = None
    ) -> Flow[object]:
        """As the inner tool."""
        return called(self.inner, arguments, context, executor)

    def __getattr__(self, name: str) -> object:
        # what the port does not know; `inner` itself is missing while a copy or a pickle is being made
        if name.startswith("_") or name == "inner":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.inner, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} over {self.inner!r}>"


class _Inner:
    """An attribute that is the inner tool's, until the wrapper has one of its own."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, wrapper: WrapperTool | None, owner: type) -> object:
        return self if wrapper is None else getattr(wrapper.inner, self._name)


def delegated() -> tuple[str, ...]:
    """The names of the port that a wrapper takes from its inner tool: all but those that it defines itself."""
    public = dict.fromkeys(name for name in (*Tool.__annotations__, *vars(Tool)) if not name.startswith("_"))
    own = {"schema", "limits", "validate", "call", "call_with"}
    return tuple(name for name in public if name not in own)


for _name in delegated():
    setattr(WrapperTool, _name, _Inner(_name))


def called(
    tool: Tool, arguments: Mapping[str, object], context: ToolContext | None, executor: Executor | None
) -> Flow[object]:
    """A call of any tool; one that can be told is told where blocking functions run."""
    if executor is not None and (isinstance(tool, FunctionTool) or (isinstance(tool, WrapperTool) and tool.passes_on)):
        return tool.call(arguments, executor) if context is None else tool.call_with(arguments, context, executor)
    return tool.call(arguments) if context is None else tool.call_with(arguments, context)


def innermost(tool: Tool) -> Tool:
    """The tool beneath all wrappers."""
    while isinstance(tool, WrapperTool):
        tool = tool.inner
    return tool


def wraps(outer: Tool, tool: Tool) -> bool:
    """Whether `outer` is this very tool, or a wrapper over it."""
    while outer is not tool and isinstance(outer, WrapperTool):
        outer = outer.inner
    return outer is tool


def overruled(tool: Tool) -> frozenset[str]:
    """The names of arguments that are given beneath and that the tool does not show: a model's value does not count."""
    shown = cast("Mapping[str, object]", tool.parameters.get("properties") or {})
    names: set[str] = set()
    while isinstance(tool, WrapperTool):
        names |= tool.gives
        tool = tool.inner
    return frozenset(names.difference(shown))


def strays(tool: Tool, arguments: Mapping[str, object]) -> tuple[dict[str, object], list[str]]:
    """The arguments that the tool shows, and a problem for each other one, unless it is overruled; an open schema takes
    any name."""
    known = cast("Mapping[str, object]", tool.parameters.get("properties") or {})
    if tool.parameters.get("additionalProperties") is not False:
        return dict(arguments), []
    kept = {name: value for name, value in arguments.items() if name in known}
    if len(kept) == len(arguments):
        return kept, []
    given = overruled(tool)
    return kept, unknowns((name for name in arguments if name not in kept and name not in given), tuple(known))
