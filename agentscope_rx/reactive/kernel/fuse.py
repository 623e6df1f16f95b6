"""Flows that need no time are not wired up: they are worked out while they are attached.

    just(x).pipe(concat_map(f))  is  f(x)          no sink, no inner flow, no disposable of its own
    defer(make)                  is  make()

A stage of a run is written as a chain of flows, but most of its links are plain values: a memory in this process, no
hook, a plain function as a hook. Attaching a chain calls those links in a loop, down to the first flow that takes time;
only what is left of the chain behind that one becomes sinks. The laws stay: one subscription, one evaluation; nothing
is called after disposal; an exception of a function is the flow's error; the depth of the stack does not grow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, cast

from reactivex import abc
from typing_extensions import TypeIs

from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.observer import OperatorSink, Processor, Relay, Sink, attach
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")


def _attach_fused(flow: Flow[T], sink: Sink[T], scope: Scope) -> None:
    """Work out what needs no time, then attach what is left to what is behind it."""
    link: Sink[T] = sink
    if not isinstance(link, OperatorSink):
        link = Relay(sink)
        sink.on_subscribe(link)
        if link.disposed:
            return
    try:
        source, behind = _reduce(flow, link)
    except Exception as error:
        if not link.disposed:
            link.on_error(error)
        return
    if link.disposed:
        return
    if not behind and type(source) is Immediate:
        link.on_next(source.value)  # pyright: ignore
        if not link.disposed:
            link.on_completed()
        return
    out: Sink[object] = link  # pyright: ignore[reportAssignmentType]
    for bound in behind:
        operator = bound.make_sink(out, scope)
        out.on_subscribe(operator)
        out = operator
    attach(source, out, scope)


class Immediate(Flow[T]):
    """Emits one value at once."""

    def __init__(self, value: T) -> None:
        self.value = value

    def _attach(self, sink: Sink[T], scope: Scope) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        if isinstance(sink, OperatorSink):
            link: OperatorSink = sink
        else:
            link = OperatorSink()
            sink.on_subscribe(link)
        if not link.disposed:
            sink.on_next(self.value)
        if not link.disposed:
            sink.on_completed()


class Deferred(Flow[T]):
    """Emits what the Observable emits that `make` gives at each subscription; an exception of `make` is its error."""

    def __init__(self, make: Callable[[], abc.ObservableBase[T]]) -> None:
        self.make = make

    _attach = _attach_fused  # pyright: ignore[reportAssignmentType]


class Bound(Flow[B], Generic[A, B]):
    """An operator that answers each value with a flow, or, if `plain`, with a value: `function` for a source that is
    one value, `make_sink` for any other."""

    def __init__(
        self,
        source: abc.ObservableBase[A],
        function: Callable[[A], B | abc.ObservableBase[B]],
        make_sink: Callable[[Sink[B], Scope], Processor[A]],
        plain: bool = False,
    ) -> None:
        self.source = source
        self.plain = plain
        self.function = function
        self.make_sink = make_sink

    _attach = _attach_fused  # pyright: ignore[reportAssignmentType]


def reduced(source: abc.ObservableBase[T]) -> abc.ObservableBase[T]:
    """What the flow comes to once all that needs no time is done: an `Immediate`, or what still has to be waited for.

    Part of a subscription: call it once for each.
    """
    while type(source) is Deferred:
        source = source.make()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if type(source) is not Bound:
        return source
    rest, behind = _reduce(source, None)  # pyright: ignore[reportUnknownArgumentType]
    for bound in reversed(behind):
        rest = Bound(rest, bound.function, bound.make_sink, bound.plain)
    return cast("abc.ObservableBase[T]", rest)


def _reduce(
    source: abc.ObservableBase[object], link: OperatorSink | None
) -> tuple[abc.ObservableBase[object], list[Bound[object, object]]]:
    """The first flow of the chain that takes time (or the last value), and the operators behind it, outermost first."""
    behind: list[Bound[object, object]] = []
    while link is None or not link.disposed:
        if type(source) is Bound:
            behind.append(source)  # pyright: ignore[reportUnknownArgumentType]
            source = source.source  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        elif type(source) is Deferred:
            source = source.make()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        elif type(source) is Immediate and behind:
            bound = behind.pop()
            answer = bound.function(source.value)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
            # where a flow is due, `attach` says that this is none
            source = Immediate(answer) if bound.plain and not is_observable(answer) else answer  # pyright: ignore[reportAssignmentType]
        else:
            break
    return source, behind  # pyright: ignore[reportUnknownVariableType]


def is_observable(value: object) -> TypeIs[abc.ObservableBase[object]]:
    """Whether this is an Observable; cheap for flows and for most values."""
    return hasattr(value, "_attach") or isinstance(value, abc.ObservableBase)
