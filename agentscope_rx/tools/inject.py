"""Injected parameters: they come from the call's context, and never appear in the schema.

| parameter                                | gets                                                            |
|------------------------------------------|-----------------------------------------------------------------|
| `context: ToolContext`                   | the call itself: its run, `emit`, `interrupted`                 |
| `context: RuntimeContext`                | the caller's context of the run                                 |
| `db: Annotated[Database, Inject]`        | the object of that type: `ToolContext.get(Database)`            |
| `db: Annotated[Database, Inject("old")]` | the one under that key (or the attribute of that name)          |
| `... | None`                             | None if there is none, unless the parameter has another default |
| `... = default`                          | the default if there is none                                    |
| otherwise                                | the call fails with an `InjectionError` that names the type     |

Looked up in the call's RuntimeContext, then in the stores of it, of the agent and of the toolkit (see `ContextStore`).
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Annotated, Union, cast, get_args, get_origin

from agentscope_rx.context import RuntimeContext, Search
from agentscope_rx.errors import ContextError, ToolDefinitionError, ToolError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.tools.context import ToolContext
from agentscope_rx.tools.schemas.signature import MISSING, Parameter


@dataclass(frozen=True, slots=True)
class Inject:
    r"""Marks a parameter that the caller provides: `Annotated[Database, Inject]`.

    An injected parameter is not in the schema, and an argument of its name from a model is an error. The function stays
    callable by hand with all its parameters.

    | parameter | gets |
    |---|---|
    | `context: ToolContext` | the call itself: its run, `emit`, `interrupted` |
    | `context: RuntimeContext` | the objects that the caller gave to `call(..., context=)` |
    | `db: Annotated[Database, Inject]` | the object of that type |
    | `db: Annotated[Database, Inject("old")]` | the one under that key, or the attribute of that name |
    | `db: Annotated[Database \| None, Inject]` | the same, or None |
    | one with a default | the default, if there is no object |
    | one without a default | an error that names tool, parameter and type, if there is no object |

    Objects are looked up in the call's `RuntimeContext`, then in its store, the agent's store and the toolkit's store
    (see `ContextStore`). The first match wins.
    """

    key: str = ""


class InjectionError(ToolError):
    """The context of a call lacks an object that a tool needs; names the tool and its parameter."""

    def __init__(self, message: str, *, tool: str, parameter: str) -> None:
        super().__init__(f"Tool {tool!r} cannot run, {parameter!r} is missing: {message}")
        self.tool = tool
        self.parameter = parameter


@dataclass(frozen=True, slots=True)
class Injected:
    """One parameter that comes from the context."""

    name: str
    kind: type
    key: str
    optional: bool
    has_default: bool

    def put(self, values: dict[str, object], context: ToolContext, tool: str) -> Search[None]:
        """Add its value to `values`, unless the function's own default is to be used."""
        if self.kind is ToolContext:
            values[self.name] = context
            return
        try:
            kind = cast("type[object]", self.kind)
            optional = self.optional or self.has_default
            found = yield from context.search(kind, self.key)
            if found is None and not optional:
                raise context.missing(kind, self.key)
        except ContextError as error:
            raise InjectionError(str(error), tool=tool, parameter=self.name) from error
        if found is not None or not self.has_default:
            values[self.name] = found


def split(parameters: Sequence[Parameter], tool: str) -> tuple[tuple[Parameter, ...], tuple[Injected, ...]]:
    """The parameters for the model, and the injected ones."""
    found = [(each, _injected(each, tool)) for each in parameters]
    return (
        tuple(each for each, injected in found if injected is None),
        tuple(injected for _, injected in found if injected is not None),
    )


def _injected(parameter: Parameter, tool: str) -> Injected | None:
    kind, marks, optional = _read(parameter.annotation)
    marker = next((each for each in marks if isinstance(each, Inject) or each is Inject), None)
    if marker is None and kind is not ToolContext and kind is not RuntimeContext:
        return None
    if not isinstance(kind, type):
        raise ToolDefinitionError(
            f"Parameter {parameter.name!r} of tool {tool!r} is annotated with Inject, but {kind!r} is no single "
            "class. Annotate it as Annotated[SomeClass, Inject].",
            tool=tool,
        )
    key = marker.key if isinstance(marker, Inject) else ""
    return Injected(parameter.name, kind, key, optional, parameter.default is not MISSING)


def _read(annotation: object) -> tuple[object, tuple[object, ...], bool]:
    """The class behind `Annotated` and `| None`, the annotations of the former, and True if the latter was there."""
    marks: tuple[object, ...] = ()
    optional = False
    while True:
        origin, within = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            annotation, *more = within
            marks += tuple(more)
        elif origin in (Union, types.UnionType):
            rest = tuple(each for each in within if each is not types.NoneType)
            if len(rest) != 1:
                return annotation, marks, optional
            annotation, optional = rest[0], True
        else:
            return origin or annotation, marks, optional
