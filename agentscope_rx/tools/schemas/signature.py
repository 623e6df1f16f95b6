"""Reads the parameters of a callable with resolved annotations; a `ToolDefinitionError` says what to change.

| callable                          | name                   | signature                                     |
|-----------------------------------|------------------------|-----------------------------------------------|
| function, coroutine, generator    | its own                | its own                                       |
| bound method                      | the method's           | without the receiver                          |
| `functools.partial`               | the inner function's   | without bound ones, by position or by name    |
| an object with `__call__`         | its class, snake_case  | that of `__call__`                            |
| decorated with `functools.wraps`  | the wrapped function's | the wrapped function's                        |
| lambda                            | must be given          | works without parameters only                 |
| class, builtin                    | refused: wrap it in a function                                         |

Annotations given as strings (`from __future__ import annotations`) are looked up in the function's module, in its
closure, and in the function or class body in which it is being defined.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import typing
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, SimpleNamespace
from typing import cast

from agentscope_rx.errors import ToolDefinitionError
from agentscope_rx.frozen_values import dataclass

MISSING = inspect.Parameter.empty
"""A parameter without a default."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument that a model may give."""

    name: str
    annotation: object
    default: object
    positional_only: bool


def plain_function(function: Callable[..., object], *, unwrap: bool = True) -> Callable[..., object]:
    """The function in the source: behind a partial, a method, a callable object and (`unwrap`) a decorator."""
    while True:
        if isinstance(function, functools.partial):
            function = cast("functools.partial[object]", function).func
        elif isinstance(function, MethodType):
            function = function.__func__
        elif unwrap and hasattr(function, "__wrapped__"):
            function = inspect.unwrap(function)
        elif not isinstance(function, FunctionType) and isinstance(
            call := inspect.getattr_static(type(function), "__call__", None), FunctionType
        ):
            function = call
        else:
            return function


def default_name(function: Callable[..., object]) -> str:
    """The function's name; for an object with `__call__` that of its class in snake_case."""
    while isinstance(function, functools.partial):
        function = cast("functools.partial[object]", function).func
    name = getattr(function, "__name__", None)
    if isinstance(name, str):
        return name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(function).__name__).lower()


def docstring(function: Callable[..., object]) -> str:
    """The docstring of the function in the source, or of the class of a callable object; may be empty."""
    plain = plain_function(function)
    text = plain.__doc__
    if not text and getattr(plain, "__name__", "") == "__call__":
        text = type(function).__doc__
    return inspect.cleandoc(text) if text else ""


def has_receiver(function: Callable[..., object]) -> bool:
    """True for a method in its class body: its first parameter is `self` or `cls`."""
    if not isinstance(function, FunctionType):
        return False
    parent = function.__qualname__.rpartition(".")[0]
    if not parent or parent.endswith("<locals>"):
        return False
    first = next(iter(inspect.signature(function).parameters.values()), None)
    if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
        return False
    return first.annotation is MISSING or first.name in ("self", "cls")


def read_parameters(function: Callable[..., object], tool: str, *, receiver: bool = False) -> tuple[Parameter, ...]:
    """The parameters that a model fills in, in order; `receiver` leaves out the first."""
    if isinstance(function, type):
        raise ToolDefinitionError(
            f"{function.__name__} is a class, not a tool. Pass an instance of it, or a function that makes one.",
            tool=tool,
        )
    if isinstance(plain_function(function), BuiltinFunctionType):
        raise ToolDefinitionError(
            f"{tool!r} is a builtin without annotations. Wrap it in a function whose parameters are annotated.",
            tool=tool,
        )
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError) as error:
        raise ToolDefinitionError(
            f"{tool!r} has no signature to read ({error}). Wrap it in a function whose parameters are annotated.",
            tool=tool,
        ) from error
    bound: Mapping[str, object] = getattr(function, "keywords", {}) if type(function) is functools.partial else {}
    found = [each for each in signature.parameters.values() if each.name not in bound][1 if receiver else 0 :]
    resolve = _Resolver(function, tool)
    return tuple(
        Parameter(each.name, resolve.annotation(each), each.default, each.kind is each.POSITIONAL_ONLY)
        for each in found
    )


def bound_names(function: Callable[..., object]) -> frozenset[str]:
    """The parameters that a `functools.partial` has bound, by position or by name."""
    if not isinstance(function, functools.partial):
        return frozenset()
    bound = cast("functools.partial[object]", function)
    try:
        inner, outer = inspect.signature(bound.func).parameters, inspect.signature(bound).parameters
    except (ValueError, TypeError):
        # a builtin, whose positional parameters have no names
        return frozenset(bound.keywords)
    return frozenset(inner).difference(outer).union(bound.keywords)


def parameters_of(function: Callable[..., object], tool: str) -> tuple[tuple[Parameter, ...], bool]:
    """The parameters that a function takes by name, annotated or not; True if it takes any other (`**kwargs`).

    For a function whose arguments are described elsewhere; a missing or unknown annotation is `object`.
    """
    try:
        found = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        # a builtin without a signature
        return (), True
    bound, resolve = bound_names(function), _Resolver(function, tool)
    taken: list[Parameter] = []
    for each in found:
        if each.name in bound or each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL):
            continue
        try:
            annotation = object if each.annotation is MISSING else resolve.annotation(each)
        except ToolDefinitionError:
            annotation = object
        taken.append(Parameter(each.name, annotation, each.default, each.kind is each.POSITIONAL_ONLY))
    return tuple(taken), any(each.kind is each.VAR_KEYWORD for each in found)


def return_annotation(function: Callable[..., object]) -> object:
    """The function's return annotation; None if there is none, or its name is not known (yet).

    The annotation of a decorated function is ignored: it is the inner function's, not the decorator's.
    """
    plain = plain_function(function, unwrap=False)
    if hasattr(plain, "__wrapped__"):
        return None
    raw = getattr(plain, "__annotations__", {}).get("return")
    if not isinstance(raw, str):
        return raw
    try:
        return _evaluate(raw, getattr(plain, "__globals__", {}), _surroundings(plain))
    except Exception:
        return None


class _Resolver:
    """Turns the annotations of one function into types."""

    __slots__ = ("_function", "_locals", "_tool")

    def __init__(self, function: Callable[..., object], tool: str) -> None:
        self._function = plain_function(function)
        self._tool = tool
        self._locals: Mapping[str, object] | None = None

    def annotation(self, parameter: inspect.Parameter) -> object:
        name, tool = parameter.name, self._tool
        if parameter.kind is parameter.VAR_POSITIONAL or parameter.kind is parameter.VAR_KEYWORD:
            stars, example = (
                ("*", f"{name}: list[str]")
                if parameter.kind is parameter.VAR_POSITIONAL
                else (
                    "**",
                    f"{name}: dict[str, str]",
                )
            )
            raise ToolDefinitionError(
                f"Tool {tool!r} takes {stars}{name}, but a model must know every argument by name. "
                f"Replace it by a parameter such as {example}.",
                tool=tool,
            )
        if parameter.annotation is MISSING:
            raise ToolDefinitionError(
                f"Parameter {name!r} of tool {tool!r} has no annotation. Add one, such as {name}: str, "
                "so that a model knows what to send.",
                tool=tool,
            )
        if self._locals is None:
            self._locals = _surroundings(self._function)
        try:
            return _evaluate(parameter.annotation, getattr(self._function, "__globals__", {}), self._locals)
        except Exception as error:
            raise ToolDefinitionError(
                f"The annotation {parameter.annotation!r} of parameter {name!r} of tool {tool!r} cannot be resolved "
                f"({type(error).__name__}: {error}). Define or import the type before the tool, "
                "and not under `if TYPE_CHECKING`.",
                tool=tool,
            ) from error


def _evaluate(annotation: object, module: dict[str, object], names: Mapping[str, object]) -> object:
    holder = SimpleNamespace(__annotations__={"it": annotation})
    hints = typing.get_type_hints(holder, globalns=module, localns=dict(names), include_extras=True)
    return hints["it"]


def _surroundings(function: Callable[..., object]) -> dict[str, object]:
    """The names around a definition: its closure and, while they are on the stack, the bodies that enclose it."""
    names: dict[str, object] = {}
    if not isinstance(function, FunctionType):
        return names
    enclosing = _prefixes(function.__qualname__)
    frame = sys._getframe(1) if enclosing else None
    while frame is not None:
        # the bodies nearest to the definition come first on the stack and win
        if frame.f_globals is function.__globals__ and frame.f_code.co_qualname in enclosing:
            names = {**frame.f_locals, **names}
        frame = frame.f_back
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            names.setdefault(name, cell.cell_contents)
        except ValueError:
            # the cell is not filled yet
            continue
    return names


def _prefixes(qualname: str) -> set[str]:
    """The qualified names of the bodies that enclose a definition: `a.<locals>.B.c` is in `a.<locals>.B` and `a`."""
    parts = qualname.split(".")[:-1]
    return {".".join(parts[: i + 1]) for i in range(len(parts)) if parts[i] != "<locals>"}
