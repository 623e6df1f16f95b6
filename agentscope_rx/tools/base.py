"""`Tool`: the port; `@tool`: a function as a tool that is still the function.

    @tool                                             @tool(name="find", strict=True, executor=pool)
    async def weather(city: str) -> str: ...          def search(self, query: str) -> list[str]: ...

A `FunctionTool` is called like its function, and on a class it is a method: `obj.search` is a tool bound to `obj`.
"""

from __future__ import annotations

import copy
import functools
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from functools import partial
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, cast, overload

from agentscope_rx.errors import ToolDefinitionError
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.messages.frozen import EMPTY, freeze
from agentscope_rx.models.options import ExecutionConfig, ToolSchema
from agentscope_rx.reactive import Flow, Rate, concat_map
from agentscope_rx.tools.arguments import InvalidArgumentsError, missing, unknowns
from agentscope_rx.tools.calls.lift import kind_of, lift
from agentscope_rx.tools.context import ToolContext
from agentscope_rx.tools.limits import ToolLimits, limits_of
from agentscope_rx.tools.results.postprocess import Postprocess
from agentscope_rx.tools.results.result_limit import ResultLimit, check_limit
from agentscope_rx.tools.schemas.check import SchemaCheck, check_of, fitting
from agentscope_rx.tools.schemas.function import FunctionSchema
from agentscope_rx.tools.schemas.signature import default_name, has_receiver, plain_function
from agentscope_rx.tools.schemas.unpacked import UnpackedSchema

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")

NO_PARAMETERS = freeze({"type": "object", "properties": EMPTY})
"""The schema of a tool that takes nothing."""

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
MAX_FOREIGN_NAME = 256


class Tool(ABC):
    """Something a model may call: what it says of itself, and a call that gives a Flow of raw values.

    `parameters` is a JSON schema of type object, by which arguments are checked. `streams` says that every value before
    the last is progress, to be shown as it comes. `execution_config` wins over the toolkit's and the agent's. A call
    that `requires_approval` (all of them, or those whose validated arguments the function says) waits for a person; one
    that is not `interruptible` runs to its end when the run is interrupted. `max_concurrency`, `rate` and `exclusive`:
    see `tools.limits`. Its `result` is the last value, or all of them joined (see `tools.results.join`), and within
    `max_result`: a number of characters, a `ResultLimit`, or None for the toolkit's.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, object] = NO_PARAMETERS
    strict: bool | None = None
    execution_config: ExecutionConfig | None = None
    streams: bool = False
    requires_approval: bool | Callable[[Mapping[str, Any]], bool] = False
    interruptible: bool = True
    max_concurrency: int | None = None
    rate: Rate | None = None
    exclusive: bool = False
    postprocess: Postprocess | None = None
    """What becomes of each result (see `tools.results.postprocess`)."""
    result: Literal["last", "joined"] = "last"
    max_result: int | ResultLimit | None = None
    return_direct: bool = False
    """Whether a result of this tool that is no error is the agent's reply (see `agent.react.return_direct`)."""

    takes_context: bool = False
    """Whether calls go through `call_with`: set for a class that overrides it."""

    def __init_subclass__(cls, **keywords: object) -> None:
        super().__init_subclass__(**keywords)
        cls.takes_context = cls.call_with is not Tool.call_with

    @property
    def limits(self) -> ToolLimits:
        """The gates that all calls of this tool go through; a tool that wraps another gives the other's."""
        own = cast("dict[str, ToolLimits]", self.__dict__)
        if "_limits" not in own:
            own.setdefault("_limits", limits_of(self.name, self.max_concurrency, self.rate, self.exclusive))
        return own["_limits"]

    @property
    def schema(self) -> ToolSchema:
        """The tool as a model sees it; a toolkit asks for it once, at registration."""
        return ToolSchema(self.name, self.description, self.parameters, self.strict)

    def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """The arguments as `call` wants them, or `InvalidArgumentsError`.

        Unless overridden, they must fit `parameters`; a null for what is not required and takes none is not given.
        """
        own = cast("dict[str, tuple[object, SchemaCheck]]", self.__dict__)
        known = own.get("_check")
        if known is None or known[0] is not self.parameters:
            known = own["_check"] = (self.parameters, check_of(self.name, self.parameters))
        return fitting(known[1], self.name, arguments)

    @abstractmethod
    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        """One call, begun at subscription; the last value is the result.

        Signals: raw values (`tools.results.convert` says what each becomes), completion; any error, which
        the caller of the tool turns into a result.
        Cancels: the call.
        """

    def call_with(self, arguments: Mapping[str, object], context: ToolContext) -> Flow[object]:
        """As `call`, by a tool that wants to know whose call it is or to emit progress: override this one as well.

        A tool that wraps another passes its context on: `self.inner.call_with(arguments, context)`.
        """
        return self.call(arguments)


class FunctionTool(Tool, Generic[P, R_co]):
    """A function as a tool: its schema and validator are made once, from its signature and docstring, unless a `schema`
    is given (see `tools.from_schema`)."""

    def __init__(
        self,
        function: Callable[P, R_co],
        *,
        name: str | None = None,
        description: str | None = None,
        strict: bool | None = None,
        execution_config: ExecutionConfig | None = None,
        executor: Executor | None = None,
        requires_approval: bool | Callable[[Mapping[str, Any]], bool] = False,
        interruptible: bool = True,
        max_concurrency: int | None = None,
        rate: Rate | None = None,
        exclusive: bool = False,
        unpack: bool = False,
        result: Literal["last", "joined"] = "last",
        max_result: int | ResultLimit | None = None,
        return_direct: bool = False,
        schema: FunctionSchema | None = None,
    ) -> None:
        raw, by_class, waits = _receiving(function)
        given = default_name(raw) if name is None else name
        # the looks only: an object's own attributes must not get in the way of ours
        functools.update_wrapper(self, plain_function(raw), updated=())
        self.__name__ = default_name(raw)
        self._function = self.__wrapped__ = raw
        self._by_class = by_class
        self._waits = waits
        if schema is not None:
            self._schema = schema
        elif unpack:
            self._schema = UnpackedSchema(raw, check_name(given), receiver=self._waits)
        elif isinstance(function, FunctionTool):
            self._schema = cast("FunctionTool[P, R_co]", function)._schema.renamed(check_name(given))
        else:
            self._schema = FunctionSchema(raw, check_name(given), receiver=self._waits)
        self._kind = kind_of(raw)
        self.takes_context = bool(self._schema.injected)
        self.name = given
        self.description = self._schema.description if description is None else description
        self.parameters = self._schema.json_schema
        self.strict = strict
        self.execution_config = execution_config
        self.executor = executor
        self.default_executor: Executor | None = None
        """Where it runs if neither it nor the toolkit has an executor; on the library's workers for tools if None."""
        self.requires_approval = check_mark(given, requires_approval)
        self.interruptible = interruptible
        self.max_concurrency = max_concurrency
        self.rate = rate
        self.exclusive = exclusive
        # made now, to be one for all that it will be bound to
        self._limits = limits_of(given, max_concurrency, rate, exclusive)
        self.result = check_result(given, result)
        check_limit(max_result, f"tool {given!r}")
        self.max_result = max_result
        self.return_direct = check_return_direct(given, return_direct)
        self.streams = self._kind.streams

    @property
    def bound(self) -> bool:
        """Whether it can be called by a model; a method of a class, before it is bound to an object, cannot."""
        return not self._waits

    def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """The arguments in the types of the function's annotations, or `InvalidArgumentsError`."""
        return self._schema.validate(arguments)

    def call(self, arguments: Mapping[str, object], executor: Executor | None = None) -> Flow[object]:
        """One call of the function with validated arguments; `executor` is for blocking ones without their own.

        Signals: as `Tool.call`; `tools.calls.lift` says how each kind of callable runs.
        Cancels: the coroutine's task or the generator; a blocking call that has begun is abandoned.
        """
        if self._schema.injected:
            return self.call_with(arguments, ToolContext(ToolUseBlock("", self.name, arguments)), executor)
        return lift(
            self._kind, self._schema.bind(self._function, arguments), self.executor or executor or self.default_executor
        )

    def call_with(
        self, arguments: Mapping[str, object], context: ToolContext, executor: Executor | None = None
    ) -> Flow[object]:
        """As `call`, with what the context holds for the parameters that are injected; an `InjectionError` if not."""
        given = self._schema.inject(arguments, context)
        if isinstance(given, Flow):
            return given.pipe(concat_map(partial(self._run, executor)))
        return self._run(executor, given)

    def _run(self, executor: Executor | None, given: Mapping[str, object]) -> Flow[object]:
        where = self.executor or executor or self.default_executor
        return lift(self._kind, self._schema.bind(self._function, given), where)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """The function itself, called as if it were no tool."""
        return self._function(*args, **kwargs)

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> FunctionTool[P, R_co]: ...
    @overload
    def __get__(
        self: FunctionTool[Concatenate[S, Q], R_co], instance: S, owner: type | None = None
    ) -> FunctionTool[Q, R_co]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> FunctionTool[P, R_co]: ...
    def __get__(self, instance: object, owner: type | None = None) -> object:
        """The tool bound to an object (for a class method, to its class); itself where nothing is to be bound."""
        if not self._waits or (instance is None and not self._by_class):
            return self
        target: object = (owner or type(instance)) if self._by_class else instance
        bound = copy.copy(self)
        bound._function = bound.__wrapped__ = cast("Any", self._function).__get__(target)
        bound._waits = False
        return bound

    def __repr__(self) -> str:
        return f"<tool {self.name}({', '.join(cast('Mapping[str, object]', self.parameters['properties']))})>"


def _receiving(function: Callable[P, R]) -> tuple[Callable[P, R], bool, bool]:
    """The plain callable, whether it is bound to a class instead of an object, and whether it waits to be bound."""
    given: object = function
    if isinstance(given, FunctionTool):
        existing = cast("FunctionTool[P, R]", given)
        return existing._function, existing._by_class, existing._waits
    if isinstance(given, staticmethod):
        return cast("staticmethod[P, R]", given).__func__, False, False
    if isinstance(given, classmethod):
        return cast("Callable[P, R]", cast("classmethod[object, ..., R]", given).__func__), True, True
    if not callable(given):
        raise ToolDefinitionError(f"{given!r:.80} cannot be called, so it cannot be a tool.", tool=f"{given!r:.80}")
    return function, False, has_receiver(function)


def check_names(tool: Tool, arguments: Mapping[str, object]) -> None:
    """`InvalidArgumentsError` if a name is missing or unknown: for tools that check the values in their own words."""
    properties = cast("Mapping[str, object]", tool.parameters.get("properties", EMPTY))
    required = cast("list[str]", tool.parameters.get("required", []))
    problems = [missing(name) for name in required if name not in arguments]
    if tool.parameters.get("additionalProperties") is False:
        problems += unknowns((name for name in arguments if name not in properties), tuple(properties))
    if problems:
        raise InvalidArgumentsError(tool.name, problems)


def check_mark(
    tool: str, mark: bool | Callable[[Mapping[str, Any]], bool]
) -> bool | Callable[[Mapping[str, Any]], bool]:
    """What a tool says of its approval; `ToolDefinitionError` if that is no answer, nor a function that gives one."""
    if isinstance(mark, bool) or (callable(mark) and not inspect.iscoroutinefunction(mark)):
        return mark
    raise ToolDefinitionError(
        f"requires_approval of tool {tool!r} must be True, False or a plain function of the arguments that says "
        f"which at once, not {mark!r:.60}.",
        tool=tool,
    )


def check_result(tool: str, result: Literal["last", "joined"]) -> Literal["last", "joined"]:
    """What a tool says its result is made of; `ToolDefinitionError` if that is neither of the two."""
    if result in ("last", "joined"):
        return result
    raise ToolDefinitionError(f"result of tool {tool!r} must be 'last' or 'joined', not {result!r:.60}.", tool=tool)


def check_return_direct(tool: str, value: bool) -> bool:
    """`ToolDefinitionError` if it is neither True nor False."""
    if isinstance(value, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        return value
    raise ToolDefinitionError(f"return_direct of tool {tool!r} must be True or False, not {value!r:.60}.", tool=tool)


def check_name(name: str) -> str:
    """The name if model providers accept it, else a `ToolDefinitionError` with one that they do."""
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
    """Whether all providers accept the name."""
    return _NAME.fullmatch(name) is not None


def check_foreign_name(name: str) -> str:
    """The name of a tool that is described elsewhere, if any provider can be told of it: what its wire does not take is
    sent in other letters (`models.wire.tool_names`). `ToolDefinitionError` if empty, too long or not printable."""
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ToolDefinitionError(f"A tool's name must be text, not {name!r:.60}.", tool=repr(name))
    if name.strip() == name and name.isprintable() and 0 < len(name) <= MAX_FOREIGN_NAME:
        return name
    raise ToolDefinitionError(
        f"{name!r:.80} cannot name a tool: it must be 1 to {MAX_FOREIGN_NAME} printable characters, without spaces at "
        "its ends.",
        tool=f"{name:.80}",
    )


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    strict: bool | None = None,
    execution_config: ExecutionConfig | None = None,
    executor: Executor | None = None,
    requires_approval: bool | Callable[[Mapping[str, Any]], bool] = False,
    interruptible: bool = True,
    max_concurrency: int | None = None,
    rate: Rate | None = None,
    exclusive: bool = False,
    unpack: bool = False,
    result: Literal["last", "joined"] = "last",
    max_result: int | ResultLimit | None = None,
    return_direct: bool = False,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(
    function: Callable[..., object] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    strict: bool | None = None,
    execution_config: ExecutionConfig | None = None,
    executor: Executor | None = None,
    requires_approval: bool | Callable[[Mapping[str, Any]], bool] = False,
    interruptible: bool = True,
    max_concurrency: int | None = None,
    rate: Rate | None = None,
    exclusive: bool = False,
    unpack: bool = False,
    result: Literal["last", "joined"] = "last",
    max_result: int | ResultLimit | None = None,
    return_direct: bool = False,
) -> object:
    """Makes a function, coroutine function, generator, method or callable object a tool; it stays callable.

    `name` and `description` replace the function's own and its docstring's; `strict` asks providers to hold the model
    to the schema; `execution_config` bounds and retries each call; a blocking function runs on `executor`. Calls wait
    for a person if `requires_approval` says so; `interruptible=False` lets a call run to its end at an interruption.
    With `unpack=True` the fields of the only parameter, a model, a dataclass or a TypedDict, are the tool's parameters.
    `max_concurrency` at once, a `rate` of beginnings, `exclusive` in its round: see `tools.limits`.
    `result="joined"` makes the result of all pieces that a generator yields; `max_result` bounds how large it may be.
    With `return_direct=True` a result that is no error is the agent's reply: the model is not asked again.
    Raises `ToolDefinitionError` if no schema can be made from it.
    """

    def decorate(decorated: Callable[P, R]) -> FunctionTool[P, R]:
        return FunctionTool(
            decorated,
            name=name,
            description=description,
            strict=strict,
            execution_config=execution_config,
            executor=executor,
            requires_approval=requires_approval,
            interruptible=interruptible,
            max_concurrency=max_concurrency,
            rate=rate,
            exclusive=exclusive,
            unpack=unpack,
            result=result,
            max_result=max_result,
            return_direct=return_direct,
        )

    return decorate if function is None else decorate(function)
