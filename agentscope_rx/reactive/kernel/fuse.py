"""Operator fusion: a chain of flows that need no time is evaluated while it is attached, without sinks.

    just(x).pipe(concat_map(f))  is  f(x)          no sink, no inner flow, no disposable of its own
    defer(make)                  is  make()

A stage of a run is written as a chain of flows, but most of its links are plain values: a memory in this process, no
hook, a plain function as a hook. Attaching a chain calls those links in a loop, down to the first flow that takes time;
only the operators behind that flow get sinks. The laws stay: one subscription, one evaluation; nothing is called after
disposal; an exception of a function is the flow's error; the depth of the stack does not grow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from reactivex import abc

from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.observer import OperatorSink, Processor, Relay, Sink, attach
from agentscope_rx.reactive.kernel.operator import OperatorFlow
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")


def _attach_fused(flow: Flow[T], sink: Sink[T], scope: Scope) -> None:
    """Evaluate the part that needs no time, then attach the rest to the sinks of the operators behind it."""
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
    for operator in behind:
        processor = operator.link(out, scope)
        out.on_subscribe(processor)
        out = processor
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
    """Emits the Observable that `make` returns at each subscription; an exception of `make` is its error."""

    def __init__(self, make: Callable[[], abc.ObservableBase[T]]) -> None:
        self.make = make

    _attach = _attach_fused  # pyright: ignore[reportAssignmentType]


class FuseableOperator(OperatorFlow[A, B]):
    """An operator that answers each value with a flow or, if `plain`, with a flow or a value.

    `function` is called for a source that is one value, `link` makes the sink for any other source.
    """

    def __init__(
        self,
        link: Callable[[Sink[B], Scope], Processor[A]],
        source: abc.ObservableBase[A],
        function: Callable[[A], B | abc.ObservableBase[B]],
        plain: bool = False,
    ) -> None:
        self.link = link
        self.source = source
        self.function = function
        self.plain = plain

    _attach = _attach_fused  # pyright: ignore[reportAssignmentType]


def reduced(source: abc.ObservableBase[T]) -> abc.ObservableBase[T]:
    """Evaluates the part of the flow that needs no time: an `Immediate`, or a flow of the rest.

    It is part of a subscription: call it once for each.
    """
    while type(source) is Deferred:
        source = source.make()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if type(source) is not FuseableOperator:
        return source
    rest, behind = _reduce(source, None)  # pyright: ignore[reportUnknownArgumentType]
    for operator in reversed(behind):
        rest = FuseableOperator(operator.link, rest, operator.function, operator.plain)
    return cast("abc.ObservableBase[T]", rest)


def _reduce(
    source: abc.ObservableBase[object], link: OperatorSink | None
) -> tuple[abc.ObservableBase[object], list[FuseableOperator[object, object]]]:
    """The first flow of the chain that takes time, or the last value, and the operators behind it, outermost first."""
    behind: list[FuseableOperator[object, object]] = []
    while link is None or not link.disposed:
        if type(source) is FuseableOperator:
            behind.append(source)  # pyright: ignore[reportUnknownArgumentType]
            source = source.source  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        elif type(source) is Deferred:
            source = source.make()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        elif type(source) is Immediate and behind:
            operator = behind.pop()
            answer = operator.function(source.value)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
            if operator.plain and not (hasattr(answer, "_attach") or isinstance(answer, abc.ObservableBase)):
                source = Immediate(answer)
            else:
                # where a flow is required, `attach` reports what is none
                source = answer  # pyright: ignore[reportAssignmentType, reportUnknownVariableType]
        else:
            break
    return source, behind  # pyright: ignore[reportUnknownVariableType]
