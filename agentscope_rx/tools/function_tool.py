"""`@tool`: a function as a tool; it stays callable.

    @tool                                             @tool(name="find", strict=True, executor=pool)
    async def weather(city: str) -> str: ...          def search(self, query: str) -> list[str]: ...

A `FunctionTool` is called like its function, and on a class it is a method: `obj.search` is a tool bound to `obj`.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from functools import partial
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypedDict, TypeVar, Unpack, cast, overload

from agentscope_rx.errors import ToolDefinitionError
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.reactive import Flow, Rate, concat_map
from agentscope_rx.tools.background import Background, BackgroundOption, background_of, check_alone
from agentscope_rx.tools.base import (
    Approval,
    InDoubt,
    Tool,
    check_in_doubt,
    check_keywords,
    check_mark,
    check_name,
    check_read_only,
    check_result,
    check_return_direct,
)
from agentscope_rx.tools.calls.lift import kind_of, lift
from agentscope_rx.tools.context import ToolContext
from agentscope_rx.tools.effects import Effects, check_effects
from agentscope_rx.tools.limits import limits_of
from agentscope_rx.tools.results.result_limit import ResultLimit, check_limit
from agentscope_rx.tools.schemas.function import FunctionSchema, UnpackedSchema
from agentscope_rx.tools.schemas.signature import default_name, has_receiver, plain_function

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")


class CallOptions(TypedDict, total=False):
    """Options of a tool that is made of a function, with a schema of its own or not."""

    execution_config: ExecutionConfig | None
    """Deadlines and retries of each call."""
    executor: Executor | None
    """Runs a blocking function."""
    requires_approval: Approval
    """Calls that wait for a person (default: False)."""
    always_asks: bool
    """With True no hook and no rule lifts `requires_approval` (default: False)."""
    effects: Effects | None
    """Which arguments are paths, a command or code, for rules about them; None: by their names."""
    read_only: bool
    """With True its calls change nothing outside of the conversation (default: False).

    Plan mode allows them, and one that a crash has cut off is run again.
    """
    interruptible: bool
    """With False a call runs to its end at an interruption (default: True)."""
    max_concurrency: int | None
    """Calls at once, in the whole process."""
    rate: Rate | None
    """Calls that begin in a time."""
    exclusive: bool
    """With True a call runs alone in its batch (default: False)."""
    result: Literal["last", "joined"]
    """With "joined" the result consists of all values that a generator yields (default: "last")."""
    max_result: int | ResultLimit | None
    """How large a result may be; None: the toolkit's limit."""
    return_direct: bool
    """With True a result that is no error is the agent's reply: the model is not asked again (default: False)."""
    idempotent: bool
    """With True a call may be run again with its `ToolContext.idempotency_key` (default: False)."""
    in_doubt: InDoubt | None
    """A call that a crash has cut off: "ask", "run" or "fail"; None: as the agent says."""
    background: BackgroundOption
    """True: a call goes on in the background at once; a number: after so many seconds."""


class FunctionToolOptions(CallOptions, total=False):
    """Options of `@tool`."""

    name: str | None
    """In the place of the function's own."""
    description: str | None
    """In the place of the docstring's."""
    strict: bool | None
    """Asks providers to hold the model to the schema."""
    unpack: bool
    """With True the fields of the only parameter, a model, a dataclass or a TypedDict, are the tool's parameters."""


class FunctionTool(Tool, Generic[P, R_co]):
    """A function as a tool: see `tool` for its options, its results and its errors.

    The schema and the validator are made once, from signature and docstring, or come from `schema`. pydantic reads
    arguments, so models may send `"5"` for 5 (see `Tool.validate`).
    """

    def __init__(
        self,
        function: Callable[P, R_co],
        *,
        schema: FunctionSchema | None = None,
        **options: Unpack[FunctionToolOptions],
    ) -> None:
        check_keywords("FunctionTool", options, FunctionToolOptions)
        raw, by_class, waits = _receiving(function)
        given = options.get("name")
        name = default_name(raw) if given is None else given
        # the looks only: attributes of a callable object must not hide this tool's own
        functools.update_wrapper(self, plain_function(raw), updated=())
        self.__name__: str = default_name(raw)
        self._function = raw
        self.__wrapped__: Callable[P, R_co] = raw
        self._by_class = by_class
        self._waits = waits
        if schema is not None:
            self._schema = schema
        elif options.get("unpack", False):
            self._schema = UnpackedSchema(raw, check_name(name), receiver=waits)
        elif isinstance(function, FunctionTool):
            self._schema = cast("FunctionTool[P, R_co]", function)._schema.renamed(check_name(name))
        else:
            self._schema = FunctionSchema(raw, check_name(name), receiver=waits)
        description = options.get("description")
        self.name = name
        self.description: str = self._schema.description if description is None else description
        self.parameters: Mapping[str, object] = self._schema.json_schema
        self.takes_context: bool = bool(self._schema.injected)
        self._kind = kind_of(raw)
        self.streams: bool = self._kind.streams
        self._set(name, options)

    def _set(self, name: str, options: FunctionToolOptions) -> None:
        self.strict: bool | None = options.get("strict")
        self.execution_config: ExecutionConfig | None = options.get("execution_config")
        self.executor: Executor | None = options.get("executor")
        self.default_executor: Executor | None = None
        """Runs a blocking function if neither tool nor toolkit has an executor; None: the library's workers."""
        self.requires_approval: Approval = check_mark(name, options.get("requires_approval", False))
        self.always_asks: bool = options.get("always_asks", False)
        self.effects: Effects | None = check_effects(name, options.get("effects"), self.parameters)
        self.read_only: bool = check_read_only(name, options.get("read_only", False))
        self.interruptible: bool = options.get("interruptible", True)
        self.max_concurrency: int | None = options.get("max_concurrency")
        self.rate: Rate | None = options.get("rate")
        self.exclusive: bool = options.get("exclusive", False)
        # made now: all objects that a method is bound to share the limits
        self._limits = limits_of(name, self.max_concurrency, self.rate, self.exclusive)
        self.result: Literal["last", "joined"] = check_result(name, options.get("result", "last"))
        self.max_result: int | ResultLimit | None = options.get("max_result")
        check_limit(self.max_result, f"tool {name!r}")
        self.return_direct: bool = check_return_direct(name, options.get("return_direct", False))
        self.idempotent: bool = options.get("idempotent", False)
        self.in_doubt: InDoubt | None = check_in_doubt(name, options.get("in_doubt"))
        self.background: Background | None = background_of(name, options.get("background"))
        check_alone(name, self.exclusive, self.background)

    @property
    def owner(self) -> object:
        """The object that it is a method of; None for a function."""
        return getattr(self._function, "__self__", None)

    @property
    def bound(self) -> bool:
        """True if a model can call it; False for a method of a class that is not bound to an object."""
        return not self._waits

    def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """The arguments in the types of the function's annotations, or `InvalidArgumentsError`."""
        return self._schema.validate(arguments)

    def call(self, arguments: Mapping[str, object], executor: Executor | None = None) -> Flow[object]:
        """One call of the function with validated arguments; `executor` runs blocking ones that have none.

        Signals: as `Tool.call`; the table of `tool` has the values for each kind of function.
        Cancels: the coroutine's task or the generator. A blocking call that has begun is abandoned: its thread goes on.
        """
        if self._schema.injected:
            return self.call_with(arguments, ToolContext(ToolUseBlock("", self.name, arguments)), executor)
        return lift(
            self._kind, self._schema.bind(self._function, arguments), self.executor or executor or self.default_executor
        )

    def call_with(
        self, arguments: Mapping[str, object], context: ToolContext, executor: Executor | None = None
    ) -> Flow[object]:
        """Like `call`, with injected parameters from the context; a `ToolError` if the context lacks one."""
        given = self._schema.inject(arguments, context)
        if isinstance(given, Flow):
            return given.pipe(concat_map(partial(self._run, executor)))
        return self._run(executor, given)

    def _run(self, executor: Executor | None, given: Mapping[str, object]) -> Flow[object]:
        where = self.executor or executor or self.default_executor
        return lift(self._kind, self._schema.bind(self._function, given), where)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Calls the function itself, as if it were no tool."""
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
        """The tool bound to an object (for a class method, to its class); itself if there is nothing to bind."""
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
    """The plain callable; True if it is bound to a class, not an object; True if it is still to be bound."""
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


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(**options: Unpack[FunctionToolOptions]) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(function: Callable[..., object] | None = None, /, **options: Unpack[FunctionToolOptions]) -> object:
    """Makes a function, coroutine function, generator, method or callable object a tool; it stays callable.

    The schema comes from the annotations (pydantic types, `Literal`, enums, nested models, defaults) and the docstring.
    `ToolDefinitionError` if a parameter has no annotation, or if there are `*args` or `**kwargs`: a model must know
    every argument by name.

    | option | default | effect |
    |---|---|---|
    | `name`, `description` | the function's | name and description for the model |
    | `strict` | None | asks providers to hold the model to the schema |
    | `unpack` | False | the fields of the only parameter (a model, a dataclass, a TypedDict) are the parameters |
    | `execution_config` | None | deadlines and retries; field by field it comes before the agent's and the toolkit's |
    | `executor` | None | runs a blocking function |
    | `requires_approval` | False | these calls wait for a person; or a function of the validated arguments |
    | `always_asks` | False | True: no hook and no rule lifts `requires_approval` |
    | `effects` | None | which arguments are paths, a command or code: an `Effects` |
    | `read_only` | False | True: calls change nothing outside of the conversation; plan mode allows them |
    | `interruptible` | True | False: a call runs to its end when the run is interrupted |
    | `max_concurrency` | None | calls at once, in all runs, toolkits, threads and loops of the process |
    | `rate` | None | a `Rate`: calls that begin in a time, attempts included |
    | `exclusive` | False | the call is alone in its round: calls before it end first, calls behind it wait |
    | `result` | "last" | "joined": all values of a generator together are the result |
    | `max_result` | None | characters of a result, or a `ResultLimit`; None: the toolkit's |
    | `return_direct` | False | a result without an error is the agent's reply |
    | `idempotent` | False | a call may run again with the same `ToolContext.idempotency_key` |
    | `in_doubt` | None | "ask", "run" or "fail" for a call that a crash has cut off; None: the agent's |
    | `background` | None | True, or seconds: after them the call goes on in the background |

    Arguments are checked before the call; the model reads every problem. Some values are read though they are not quite
    right, in every kind of tool and at every depth:

    | the parameter takes | also read | refused |
    |---|---|---|
    | an integer | `"5"`, `"5.0"`, `5.0`: they are 5 | `true`, `5.5`, `"5.5"`, `"five"` |
    | a number | `"5.5"`, `"1e3"` | `true`, `"nan"`, `"inf"`, `"five"` |
    | a boolean | `"true"`, `"yes"`, `"on"`, `"1"`, `1` and their opposites | `2`, `"maybe"` |
    | an optional value that is never null | null: it is left out | null for a required value |

    A value that fits stays as it is. Fixed values (`enum`, `Literal`) are compared as they were sent. A strict type
    stays strict: `Field(strict=True)`, or a model with `ConfigDict(strict=True)`.

    How a function runs:

    | function | runs | values |
    |---|---|---|
    | a plain one | on a worker thread | its return value |
    | `async def` | as a task on the loop | its return value |
    | a generator | on a worker, each item | its items; a generator is not advanced while its reader has enough |
    | an async generator | as a task on the loop | its items |
    | annotated `-> Observable` or `-> Flow` | on the loop | its values |

    Values before the last are progress, each shown once and in order:

    | the tool                            | chunks  | last chunk event | result    |
    |-------------------------------------|---------|------------------|-----------|
    | returns a                           |         | a                | a         |
    | emits a, b and returns c            | a, b    | c                | c         |
    | yields a, b, c                      | a, b, c | nothing more     | c         |
    | yields a, b, with `result="joined"` | a, b    | nothing more     | ab        |
    | yields a, and fails                 | a       | the error        | the error |

    The output for the model:

    | returned | output |
    |---|---|
    | `str` | the text, without quotes |
    | `None` | "Done." |
    | a text, image, audio, video or file block | the block |
    | `bytes` of a known picture, sound, video or PDF | a block with the detected media type; other bytes are an error |
    | a PIL image, a matplotlib figure, any notebook representation | an image, drawn on a worker thread |
    | a list or tuple with one of these | the output of each element, in order |
    | `Msg` | its text and media |
    | `ToolResultBlock` | itself, with the id and name of the call |
    | numbers, dicts, lists, dataclasses, pydantic models, dates, ... | compact JSON; JSON strings become text |
    | an object without a JSON form | `str(value)` |
    | more than 100 levels of lists and dicts | an error |

    Limits: a call begins when all its limits admit it, and holds nothing while it waits, so calls of other tools pass
    it. Calls of one tool begin in call order. The wait uses up none of the tool's deadlines; an interruption, the run's
    deadline or a disposal ends it at once. A permit comes back when the call has really ended: after `finally` blocks,
    and after an abandoned function has returned. A tool that calls itself, through a sub-agent for example, needs a
    permit for each level. A method has one limit for all objects of its class; `tool(max_concurrency=2)(obj.method)`
    makes a tool with its own.

    With `Toolkit(on_failure="cancel_siblings")` the first `failed`, `timeout`, `not_found` or `invalid_arguments` ends
    the other calls with results of kind `interrupted` that name it. Calls that are not `interruptible` run to their
    end. The run continues.

    With `return_direct=True` all calls of the round run first. Several such results are one reply, in call order;
    results of other tools are only remembered. If one of these calls fails or is rejected, the model reads the error.
    If a call of the round waits, the run that answers it ends with the reply. A run with an `output` goes on.

    An error becomes a result with a `kind`: `not_found`, `invalid_arguments`, `timeout`, `failed`, `interrupted` or
    `rejected`. A failing tool does not fail its siblings or the run. Raise `ToolError("...")` for a text without the
    exception's name, `ToolSuspend(reason)` to wait for the caller.
    """
    check_keywords("tool", options, FunctionToolOptions)

    def decorate(decorated: Callable[P, R]) -> FunctionTool[P, R]:
        return FunctionTool(decorated, **options)

    return decorate if function is None else decorate(function)
