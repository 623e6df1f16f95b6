"""`around`: make an operator the hook around a call, a stage, a model call or a tool call.

    around("model", ops.retry(2))                     any `Observable -> Observable` function

    @around("tool", priority=10)                      with the request at hand
    def timed(source, request): ...

    class Cache(Hook):                                as methods: `around_` and the kind
        def around_model(self, source, request): ...

A function that can be called with the source alone is called so; else it gets the request, too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from functools import partial
from types import MethodType
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, overload

from reactivex import Observable

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import Event
from agentscope_rx.hooks.base import AROUND, AROUND_KINDS, DEFAULT_PRIORITY, Hook, check_priority
from agentscope_rx.hooks.wrapping.requests import CallRequest, ModelRequest, Request, StageRequest, ToolRequest
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.tools.calls.signals import ToolEvent

T = TypeVar("T")
R = TypeVar("R", bound=Request)

StageKind = Literal["stage", "reasoning", "acting", "summarizing"]
AroundKind = Literal["call", "stage", "reasoning", "acting", "summarizing", "model", "tool"]
Operator = Callable[[Observable[T]], Observable[T]] | Callable[[Observable[T], R], Observable[T]]

Apply = Callable[[Observable[Any], Request], object]

PLACES: dict[str, tuple[str, ...]] = {
    kind: ("reasoning", "acting", "summarizing") if kind == "stage" else (kind,) for kind in AROUND_KINDS
}
"""The kinds of `around`, and the flows that an operator of the kind stands around."""


class Step(NamedTuple):
    """One operator around one flow."""

    hook: Hook
    where: str
    apply: Apply


class AroundHook(Hook):
    """An operator around the flows of one kind; made by `around`."""

    kinds: tuple[type[Event], ...] | None = ()

    def __init__(
        self, kind: str, operator: Callable[..., object], priority: int = DEFAULT_PRIORITY, label: str = ""
    ) -> None:
        check_kind(kind)
        label = label or f"around({kind!r})"
        if not callable(operator):
            raise ConfigurationError(f"{label} needs an operator, such as ops.retry(2), not {operator!r:.60}.")
        self.kind = kind
        self.operator = operator
        self.priority: int = priority
        self.__doc__ = operator.__doc__
        # a function in the body of a class is checked when it is bound
        self._unbound = _names_self(operator)
        self._apply: Apply | None = None if self._unbound else applied(operator, label)

    def __call__(self, *args: object) -> object:
        return self.operator(*args)

    def __get__(self, instance: object, owner: type | None = None) -> AroundHook:
        """Bind a method to its object, so that `hooks=[guard.check]` works."""
        if instance is None:
            return self
        return AroundHook(self.kind, MethodType(self.operator, instance), self.priority)

    def is_same(self, other: Hook) -> bool:
        """True if the other one is this hook. (Each access to a method gives a new object, so `is` does not tell.)"""
        if self is other:
            return True
        mine = (self.kind, self.operator, self.priority)
        return isinstance(other, AroundHook) and mine == (other.kind, other.operator, other.priority)

    @property
    def name(self) -> str:
        name: str = getattr(self.operator, "__name__", "_")
        # the name of a function inside a stock operator is no help
        return f"around({self.kind!r})" if name.startswith(("_", "<")) else name

    def __repr__(self) -> str:
        where = "" if self.name.startswith("around(") else f" around {self.kind}"
        return f"<hook {self.name}{where}, priority {self.priority}>"

    def step(self) -> Apply:
        """The operator, called with source and request."""
        if self._apply is None:
            raise ConfigurationError(
                f"{self!r} is a method without its object. Give it as an attribute of the object: hooks=[guard.check]."
            )
        return self._apply


class AroundDecorator(Protocol):
    """The decorator that `around(kind)` returns."""

    def __call__(self, operator: Callable[..., Observable[T]], /) -> AroundHook: ...


@overload
def around(kind: Literal["call"], operator: Operator[Event, CallRequest], priority: int = ...) -> AroundHook: ...
@overload
def around(kind: StageKind, operator: Operator[Event, StageRequest], priority: int = ...) -> AroundHook: ...
@overload
def around(
    kind: Literal["model"], operator: Operator[ChatResponse, ModelRequest], priority: int = ...
) -> AroundHook: ...
@overload
def around(kind: Literal["tool"], operator: Operator[ToolEvent, ToolRequest], priority: int = ...) -> AroundHook: ...
@overload
def around(kind: AroundKind, operator: None = ..., priority: int = ...) -> AroundDecorator: ...
def around(
    kind: str, operator: Callable[..., object] | None = None, priority: int = DEFAULT_PRIORITY
) -> AroundHook | AroundDecorator:
    """Put an operator, stock or your own, around a call, a stage, a model call or a tool call.

    | kind                                                   | the operator sees                   | request        |
    |--------------------------------------------------------|-------------------------------------|----------------|
    | `call`                                                 | the events of a run                 | `CallRequest`  |
    | `reasoning`, `acting`, `summarizing`; `stage`: all of these | the events of a stage          | `StageRequest` |
    | `model`                                                | the `ChatResponse`s of a model call | `ModelRequest` |
    | `tool`                                                 | the `ToolEvent`s of a tool call     | `ToolRequest`  |

    `operator` is any `Observable -> Observable` function; with two parameters it gets the request, too. Without
    `operator`, `around` is a decorator. A `Hook` class has methods instead: `around_model(self, source, request)`.
    Operators of lower `priority` stand outside; of equal ones, the one registered first. Outside of all of them are the
    run's deadline, its repair and its `ErrorEvent`; approval and hooks on PreActing come before an operator around a
    tool. Retries of the model or the tool itself are inside.

    What an operator may do:

    - **Change, drop, delay and add chunks and Pre events** of a call or stage; responses of a model; progress and the
      result of a tool. What comes out of an operator around a model is the answer, and becomes the message.
    - **Answer in place** of a model or a tool, such as from a cache. A model call counts as one of the run even so.
    - **Subscribe again**, until the run has taken its input (`call`) or memory is written (a stage). If chunks were
      shown, a `RetryEvent` with `discarded` comes first. A tool that fails gives a result and no error: to try again,
      turn the result into an error.

    What it must keep, or a `HookError` names it:

    - **Records** come out once, in order and unchanged: PreCall, the Post events, MemoryEvent, ContextEvent, PlanEvent,
      BackgroundEvent, HubEvent, RetrievalEvent, CitationEvent. They say what memory holds. To change a message, use a
      hook on its event. So an operator that thins out, such as `ops.sample`, fits around a model, not around a stage.
    - **A tool** has one result, with the call's id, last.
    - **A stage** completes when its source does, and nothing follows the PostCallEvent.
    - **A failed run** stays failed: the error may be replaced, not caught.

    What an operator around a stage holds back delays the next stage, also of an interrupted run. `observe_only` hooks
    have no operators. A sub-agent has operators of its own; its events pass those of the agent that has called it.

    An error of an operator fails the run; around a tool it becomes the call's result. One operator serves every flow of
    its kind, in all runs: make one with a state of its own, such as `ops.publish()`, in a function.
    """
    check_kind(kind)
    check_priority(f"around({kind!r})", priority)
    if operator is None:
        return partial(_decorated, kind, priority)
    return AroundHook(kind, operator, priority)


def _decorated(kind: str, priority: int, operator: Callable[..., object], /) -> AroundHook:
    return AroundHook(kind, operator, priority)


def check_kind(kind: object) -> None:
    """`ConfigurationError` for a kind that does not exist."""
    if kind in PLACES:
        return
    meant = get_close_matches(str(kind), PLACES, 1, 0.6)
    hint = f"Did you mean {meant[0]!r}?" if meant else f"Choose one of {', '.join(map(repr, PLACES))}."
    if callable(kind):
        hint += " It comes before the operator: around('model', operator), @around('model')."
    raise ConfigurationError(f"around: there is no kind {kind!r:.60}. {hint}")


def applied(operator: Callable[..., object], label: str) -> Apply:
    """The operator as a function of source and request; `ConfigurationError` if it takes neither one nor both."""
    if inspect.iscoroutinefunction(operator) or inspect.isasyncgenfunction(operator):
        raise ConfigurationError(
            f"{label} must be an operator, a plain function that returns an Observable, and not an async function."
        )
    try:
        signature = inspect.signature(operator)
    except (TypeError, ValueError):
        return lambda source, request: operator(source)
    if _takes(signature, 1):
        return lambda source, request: operator(source)
    if _takes(signature, 2):
        return operator
    raise ConfigurationError(
        f"{label} is called with the source, or with the source and the request: `def {_name(operator)}(source, "
        f"request)`, and not as {_name(operator)}{signature}."
    )


def _takes(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*[object()] * count)
    except TypeError:
        return False
    return True


def _name(operator: Callable[..., object]) -> str:
    return getattr(operator, "__name__", "operator")


def _names_self(operator: Callable[..., object]) -> bool:
    if not inspect.isfunction(operator):
        return False
    parameters = list(inspect.signature(operator).parameters)
    return bool(parameters) and parameters[0] == "self"


def steps_of(hook: Hook) -> Iterator[tuple[str, Step]]:
    """The places where the hook stands around a flow, each with its operator."""
    if isinstance(hook, AroundHook):
        for place in PLACES[hook.kind]:
            yield place, Step(hook, f"around_{hook.kind}", hook.step())
        return
    for kind, places in PLACES.items():
        name = f"{AROUND}{kind}"
        method: object = getattr(hook, name, None)
        if method is None:
            continue
        label = f"{type(hook).__name__}.{name}"
        if not callable(method):
            raise ConfigurationError(f"{label} is the name of a hook: it must be a method, not {method!r:.60}.")
        step = Step(hook, name, applied(method, label))
        for place in places:
            yield place, step
