"""The base of sources and operators: what they start from, and `link(sink, scope)`.

    OperatorFlow(link, source)      attach(source, link(sink, scope), scope)
    Producer(link, source)          link(sink, scope).start(source)

`link` is called once for each subscription and returns an object that keeps the state of that subscription. The object
is handed to the sink before anything is started. Mostly `link` is the class of these objects, or a `partial` of it with
the operator's parameters before `sink` and `scope`:

    def every(n: int) -> Callable[[Observable[T]], Flow[T]]:
        return partial(OperatorFlow, partial(_Every, n))        # class _Every(OperatorSink): __init__(n, sink, scope)

An operator with one source, attached in the subscriber's scope, is an `OperatorFlow`. A function that answers each
value is a `FuseableOperator` (see `fuse`). All else is a `Producer`: sources, operators with several sources, with a
scope of their own, or with something to do before they attach.

Special forms remain for speed: `just` and `defer` (see `fuse`) need no disposable of their own below an `OperatorSink`,
and a `Flow` of a plain function hands the subscriber's own sink on, as in `count_abandoned`.

(`link` is called in place of a method that subclasses override because a `partial` adds no Python call.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from reactivex import abc

from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.observer import Processor, Sink, Upstream, attach
from agentscope_rx.reactive.kernel.scope import Scope

A = TypeVar("A")
B = TypeVar("B")
S = TypeVar("S")
S_in = TypeVar("S_in", contravariant=True)


class OperatorFlow(Flow[B], Generic[A, B]):
    """Attaches `source` to `link(sink, scope)`."""

    def __init__(self, link: Callable[[Sink[B], Scope], Processor[A]], source: abc.ObservableBase[A]) -> None:
        self.link = link
        self.source = source

    def _attach(self, sink: Sink[B], scope: Scope) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        link = self.link(sink, scope)
        sink.on_subscribe(link)
        if not link.disposed:
            # `attach`, without its call
            connect = getattr(self.source, "_attach", None)
            if connect is not None:
                connect(link, scope)
            else:
                attach(self.source, link, scope)


class Startable(Upstream, Protocol[S_in]):
    """The state of one subscription to a `Producer`."""

    disposed: bool

    def start(self, source: S_in, /) -> None:
        """Begin; called once, after the sink has got this object, unless it was disposed of by then."""
        ...


class Producer(Flow[B], Generic[S, B]):
    """Calls `start(source)` of `link(sink, scope)`; `source` is a source, a function, several of these."""

    def __init__(self, link: Callable[[Sink[B], Scope], Startable[S]], source: S) -> None:
        self.link = link
        self.source = source

    def _attach(self, sink: Sink[B], scope: Scope) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        link = self.link(sink, scope)
        sink.on_subscribe(link)
        if not link.disposed:
            link.start(self.source)
