"""`WrapperTool`: delegates to an inner tool; override what differs.

    class Loud(WrapperTool):
        def call_with(self, arguments, context): ...      the inner tool is `self.inner`

An override that takes `executor` as well, as the methods here do, lets blocking functions beneath it run on the
toolkit's executor. Every attribute of `Tool` is the inner tool's until it is set on the wrapper; other attributes of
the inner tool are found through the wrapper too. Wrappers can be nested in any order; errors about arguments name the
outermost.
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
    """Delegates to `inner`: calls with their context and executor, streams, limits, options. Override what differs.

        class Announced(WrapperTool):
            def call_with(self, arguments, context, executor=None):
                return concat(just(f"calling {self.name}"), super().call_with(arguments, context, executor))

    An override that takes `executor` lets blocking functions beneath it run on the toolkit's executor. Every attribute
    of `Tool` is the inner tool's until you set it on the wrapper. Wrappers nest in any order; errors about arguments
    name the outermost.
    """

    passes_on: ClassVar[bool] = True
    """True if its calls take an executor."""

    fixed: frozenset[str] = frozenset()
    """The names of the arguments that the wrapper sets itself, whatever the model sends."""

    def __init__(self, inner: Tool) -> None:
        self.inner = inner

    def __init_subclass__(cls, **keywords: object) -> None:
        super().__init_subclass__(**keywords)
        own = [vars(cls)[name] for name in ("call", "call_with") if name in vars(cls)]
        cls.passes_on = cls.passes_on and all("executor" in inspect.signature(each).parameters for each in own)
        if "call_with" not in vars(cls):
            # the inner tool decides if it takes the context, or the class that overrides `call_with`
            del cls.takes_context

    @property
    def schema(self) -> ToolSchema:
        """The inner tool's, with the fields that are set here."""
        own = {each.name: vars(self)[each.name] for each in fields(ToolSchema) if each.name in vars(self)}
        return replace(self.inner.schema, **own)

    @property
    def limits(self) -> ToolLimits:
        """The inner tool's and those that are set here: the inner tool's hold for all its callers."""
        own = cast("dict[str, ToolLimits]", vars(self))
        if "_limits" not in own:
            inner = self.inner
            most = None if self.max_concurrency == inner.max_concurrency else self.max_concurrency
            rate = None if self.rate == inner.rate else self.rate
            own.setdefault("_limits", limits_of(self.name, most, rate, self.exclusive, inner.limits))
        return own["_limits"]

    def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """Like the inner tool; problems are reported under this tool's name."""
        try:
            return self.inner.validate(arguments)
        except InvalidArgumentsError as error:
            if error.tool == self.name:
                raise
            raise InvalidArgumentsError(self.name, error.problems) from None

    def call(self, arguments: Mapping[str, object], executor: Executor | None = None) -> Flow[object]:
        """Like the inner tool."""
        return called(self.inner, arguments, None, executor)

    def call_with(
        self, arguments: Mapping[str, object], context: ToolContext, executor: Executor | None = None
    ) -> Flow[object]:
        """Like the inner tool."""
        return called(self.inner, arguments, context, executor)

    def __getattr__(self, name: str) -> object:
        # an attribute beyond `Tool`; `inner` itself is missing while a copy or a pickle is being made
        if name.startswith("_") or name == "inner":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.inner, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} over {self.inner!r}>"


class _Inner:
    """An attribute that is the inner tool's until the wrapper has its own."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, wrapper: WrapperTool | None, owner: type) -> object:
        return self if wrapper is None else getattr(wrapper.inner, self._name)


def delegated() -> tuple[str, ...]:
    """The attributes of `Tool` that a wrapper takes from its inner tool: all but those that it defines itself."""
    public = dict.fromkeys(name for name in (*Tool.__annotations__, *vars(Tool)) if not name.startswith("_"))
    own = {"schema", "limits", "validate", "call", "call_with"}
    return tuple(name for name in public if name not in own)


for _name in delegated():
    setattr(WrapperTool, _name, _Inner(_name))


def called(
    tool: Tool, arguments: Mapping[str, object], context: ToolContext | None, executor: Executor | None
) -> Flow[object]:
    """A call of any tool, with the executor if the tool takes one."""
    if executor is not None and (isinstance(tool, FunctionTool) or (isinstance(tool, WrapperTool) and tool.passes_on)):
        return tool.call(arguments, executor) if context is None else tool.call_with(arguments, context, executor)
    return tool.call(arguments) if context is None else tool.call_with(arguments, context)


def innermost(tool: Tool) -> Tool:
    """The tool beneath all wrappers."""
    while isinstance(tool, WrapperTool):
        tool = tool.inner
    return tool


def wraps(outer: Tool, tool: Tool) -> bool:
    """True if `outer` is this very tool, or a wrapper of it."""
    while outer is not tool and isinstance(outer, WrapperTool):
        outer = outer.inner
    return outer is tool


def overruled(tool: Tool) -> frozenset[str]:
    """The arguments that a wrapper beneath sets and the tool does not show: a model's value for them is dropped."""
    shown = cast("Mapping[str, object]", tool.parameters.get("properties") or {})
    names: set[str] = set()
    while isinstance(tool, WrapperTool):
        names |= tool.fixed
        tool = tool.inner
    return frozenset(names.difference(shown))


def strays(tool: Tool, arguments: Mapping[str, object]) -> tuple[dict[str, object], list[str]]:
    """The arguments that the tool shows, and a problem for each other one that is not overruled; an open schema takes
    any name."""
    known = cast("Mapping[str, object]", tool.parameters.get("properties") or {})
    if tool.parameters.get("additionalProperties") is not False:
        return dict(arguments), []
    kept = {name: value for name, value in arguments.items() if name in known}
    if len(kept) == len(arguments):
        return kept, []
    given = overruled(tool)
    return kept, unknowns((name for name in arguments if name not in kept and name not in given), tuple(known))
