"""`Tool`: the port of everything that a model may call; and the checks that all kinds of tools share."""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from agentscope_rx.errors import ToolDefinitionError
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.messages.frozen import EMPTY, freeze
from agentscope_rx.models.options import ExecutionConfig, ToolSchema
from agentscope_rx.reactive import Flow, Rate
from agentscope_rx.tools.arguments import InvalidArgumentsError, missing, unknowns
from agentscope_rx.tools.background import Background
from agentscope_rx.tools.calls.signals import ToolEvent
from agentscope_rx.tools.effects import Effects
from agentscope_rx.tools.groups import ToolGroup
from agentscope_rx.tools.limits import ToolLimits, limits_of
from agentscope_rx.tools.results.postprocess import Postprocess
from agentscope_rx.tools.results.result_limit import ResultLimit
from agentscope_rx.tools.schemas.check import SchemaCheck, check_of, fitting

if TYPE_CHECKING:
    from agentscope_rx.context import RuntimeContext
    from agentscope_rx.tools.context import ToolContext

Approval = bool | Callable[[Mapping[str, Any]], bool]
"""The calls of a tool that need approval: all, none, or a function that returns True for their arguments."""

InDoubt = Literal["ask", "run", "fail"]
"""A call whose process ended while it ran: the caller is asked, it is run again, or it gets an error result."""

NO_PARAMETERS = freeze({"type": "object", "properties": EMPTY})
"""The schema of a tool without parameters."""

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
MAX_FOREIGN_NAME = 256


class Tool(ABC):
    """A function that a model may call: a name, a description, a schema, and `call`, which returns a Flow of values.

    Subclass it for a tool that is no function. `parameters` is the JSON schema (of type object) that arguments must
    match. With `streams=True` every value before the last is progress. The other attributes are the options of `tool`.
    A class that needs the call's context overrides `call_with(arguments, context)` besides `call(arguments)`.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, object] = NO_PARAMETERS
    strict: bool | None = None
    execution_config: ExecutionConfig | None = None
    streams: bool = False
    requires_approval: Approval = False
    always_asks: bool = False
    """True if no hook and no rule lifts its `requires_approval`; a toolkit's policy, a plain function, does."""
    effects: Effects | None = None
    """Which of its arguments are paths, a command or code; None: by their names."""
    read_only: bool = False
    """True if its calls change nothing outside of the conversation.

    They are allowed in plan mode, and one that was cut off by the end of its process is run again.
    """
    interruptible: bool = True
    max_concurrency: int | None = None
    rate: Rate | None = None
    exclusive: bool = False
    postprocess: Postprocess | None = None
    """Changes each result: `(call, result) -> result`, or None for unchanged; may be async, and sees errors, too."""
    result: Literal["last", "joined"] = "last"
    max_result: int | ResultLimit | None = None
    return_direct: bool = False
    """True if a result without an error is the agent's reply, without another request to the model.

    All calls of the round run first. Results of several such tools are one reply, in call order; those of other tools
    are only remembered. An error, a rejected call included, goes back to the model. If a call of the round waits for a
    person or a client, the call that answers it ends with the reply. A run with a structured output continues. The
    reply has the reason `RETURN_DIRECT`.
    """
    idempotent: bool = False
    """True if a call may be run again with the same `ToolContext.idempotency_key`, and has its effect once."""
    in_doubt: InDoubt | None = None
    """The fate of a call whose process ended while it ran: "ask", "run" or "fail"; None: as the agent says."""
    background: Background | None = None
    """The time after which its calls go on in the background; None: as the agent says (default: never)."""
    shared_by_hooks: bool = False
    """True if several hooks of an agent may bring this object: registered once, it goes with the last of them."""

    takes_context: bool = False
    """True if calls go through `call_with`: set for a class that overrides it."""

    def __init_subclass__(cls, **keywords: object) -> None:
        super().__init_subclass__(**keywords)
        cls.takes_context = cls.call_with is not Tool.call_with

    @property
    def limits(self) -> ToolLimits:
        """The limits that all calls of this tool share; a wrapper shares those of its inner tool."""
        own = cast("dict[str, ToolLimits]", self.__dict__)
        if "_limits" not in own:
            own.setdefault("_limits", limits_of(self.name, self.max_concurrency, self.rate, self.exclusive))
        return own["_limits"]

    @property
    def schema(self) -> ToolSchema:
        """The tool as a model sees it; a toolkit reads it once, at registration."""
        return ToolSchema(self.name, self.description, self.parameters, self.strict)

    def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """Check the arguments and return them for `call`; raises `InvalidArgumentsError`.

        By default they must fit the schema `parameters`. Models send `"5"` for 5 and null for omitted arguments. One
        rule reads these, at every depth, for function tools, JSON schemas, `Tool` subclasses and MCP tools:

        | the parameter takes | also accepted | refused |
        |---|---|---|
        | an integer | text of one: `"5"`, `"5.0"`; `5.0` is 5 | `true`, `5.5`, `"5.5"`, `"five"` |
        | a number | text of a number: `"5.5"`, `"1e3"` | `true`, `"nan"`, `"inf"`, `"five"` |
        | a boolean | `"true"`, `"yes"`, `"on"`, `"1"`, `1` and their opposites | `2`, `"maybe"` |
        | an optional value that is never null | null: it is omitted | null for a required value |

        A valid value stays unchanged: text where text is allowed, `5.0` where any number is. Fixed values (`enum`,
        `Literal`) are compared as they were sent. A strict type (`Field(strict=True)`, a model with
        `ConfigDict(strict=True)`) stays strict. `true` for a number is refused whatever validators accept, because the
        schema says `integer`.
        """
        own = cast("dict[str, tuple[object, SchemaCheck]]", self.__dict__)
        known = own.get("_check")
        if known is None or known[0] is not self.parameters:
            known = own["_check"] = (self.parameters, check_of(self.name, self.parameters))
        return fitting(known[1], self.name, arguments)

    @abstractmethod
    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        """A cold Flow of one call; its last value is the result.

        Signals: values of any type that the table of `tool` lists, completion; any error, which becomes an error
        result.
        Cancels: the call.
        """

    def call_with(self, arguments: Mapping[str, object], context: ToolContext) -> Flow[object]:
        """Like `call`, with the call's context. Override it to read the context or to emit progress.

        A wrapper passes the context on: `self.inner.call_with(arguments, context)`.

        Signals and cancels: as `call`.
        """
        return self.call(arguments)


class ToolSource(Protocol):
    """The tools that are called together: what a tool, a hook or a server sees of a `Toolkit`."""

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def groups(self) -> tuple[ToolGroup, ...]: ...
    @property
    def active_groups(self) -> tuple[str, ...]: ...
    def get(self, name: str) -> Tool | None: ...
    def schemas(self) -> tuple[ToolSchema, ...]: ...
    def groups_of(self, tool: str) -> tuple[str, ...]: ...
    def update_tool_groups(self, names: Iterable[str], active: bool) -> None: ...
    def needs_approval(self, call: ToolUseBlock, context: RuntimeContext | None = None) -> bool: ...
    def call(
        self, call: ToolUseBlock, *, config: ExecutionConfig | None = None, context: ToolContext | None = None
    ) -> Flow[ToolEvent]: ...


def check_names(tool: Tool, arguments: Mapping[str, object]) -> None:
    """`InvalidArgumentsError` if a name is missing or unknown: for tools that check the values themselves."""
    properties = cast("Mapping[str, object]", tool.parameters.get("properties", EMPTY))
    required = cast("list[str]", tool.parameters.get("required", []))
    problems = [missing(name) for name in required if name not in arguments]
    if tool.parameters.get("additionalProperties") is False:
        problems += unknowns((name for name in arguments if name not in properties), tuple(properties))
    if problems:
        raise InvalidArgumentsError(tool.name, problems)


def check_keywords(function: str, given: Mapping[str, object], known: type) -> None:
    """`TypeError` for a keyword that the TypedDict does not have, like Python's own."""
    for name in given:
        if name not in known.__annotations__:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")


def check_mark(tool: str, mark: Approval) -> Approval:
    """A tool's approval rule; `ToolDefinitionError` if it is none, or cannot answer at once."""
    if isinstance(mark, bool) or (callable(mark) and not inspect.iscoroutinefunction(mark)):
        return mark
    raise ToolDefinitionError(
        f"requires_approval of tool {tool!r} must be True, False or a plain function of the arguments that "
        f"returns a bool, not {mark!r:.60}.",
        tool=tool,
    )


def check_result(tool: str, result: Literal["last", "joined"]) -> Literal["last", "joined"]:
    """`ToolDefinitionError` if it is neither "last" nor "joined"."""
    if result in ("last", "joined"):
        return result
    raise ToolDefinitionError(f"result of tool {tool!r} must be 'last' or 'joined', not {result!r:.60}.", tool=tool)


def check_return_direct(tool: str, value: bool) -> bool:
    """`ToolDefinitionError` if it is neither True nor False."""
    if isinstance(value, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        return value
    raise ToolDefinitionError(f"return_direct of tool {tool!r} must be True or False, not {value!r:.60}.", tool=tool)


def check_in_doubt(where: str, value: InDoubt | None) -> InDoubt | None:
    """`ToolDefinitionError` if it is none of "ask", "run" and "fail"."""
    if value is None or value in ("ask", "run", "fail"):
        return value
    raise ToolDefinitionError(
        f"in_doubt of tool {where!r} must be 'ask', 'run' or 'fail', not {value!r:.60}.", tool=where
    )


def check_read_only(tool: str, value: bool) -> bool:
    """`ToolDefinitionError` if it is neither True nor False."""
    if isinstance(value, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        return value
    raise ToolDefinitionError(f"read_only of tool {tool!r} must be True or False, not {value!r:.60}.", tool=tool)


def check_name(name: str) -> str:
    """The name if model providers accept it, else a `ToolDefinitionError` that suggests one that they accept."""
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ToolDefinitionError(f"A tool's name must be text, not {name!r:.60}.", tool=repr(name))
    if _NAME.fullmatch(name):
        return name
    if name == "<lambda>":
        raise ToolDefinitionError("A lambda has no name for a model to call. Use a function, or name=...", tool=name)
    better = re.sub(r"[^a-zA-Z0-9_-]+", "_", name).strip("_")[:64] or "my_tool"
    raise ToolDefinitionError(
        f"{name!r} cannot name a tool: models accept 1 to 64 letters (a-z), digits, '_' and '-'. Try name={better!r}.",
        tool=name,
    )


def is_plain(name: str) -> bool:
    """True if all providers accept the name."""
    return _NAME.fullmatch(name) is not None


def check_foreign_name(name: str) -> str:
    """The name of a tool that is described elsewhere; `ToolDefinitionError` if empty, too long or not printable.

    For a provider that does not accept it, the name is encoded (see `models.wire.tool_names`).
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ToolDefinitionError(f"A tool's name must be text, not {name!r:.60}.", tool=repr(name))
    if name.strip() == name and name.isprintable() and 0 < len(name) <= MAX_FOREIGN_NAME:
        return name
    raise ToolDefinitionError(
        f"{name!r:.80} cannot name a tool: it must be 1 to {MAX_FOREIGN_NAME} printable characters, without spaces at "
        "its ends.",
        tool=f"{name:.80}",
    )
