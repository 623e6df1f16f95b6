"""`probed`: a `Probe` sees a flow begin, its items and its end, and chooses the context that the flow runs in.

    probe      begin(scope) -> context    item(a)  item(b)   end(COMPLETED)
    source           --------------------a--------b--------|     in `context`
    result           --------------------a--------b--------|     in the subscriber's own context

Nothing but the context is changed: a probe that fails is reported, and the flow goes on without it. So the current
span of a tracer, say, is one within the flow and another behind it, and no context variable has to be set back.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from reactivex import Observable

from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, attach
from agentscope_rx.reactive.kernel.operator import Producer
from agentscope_rx.reactive.kernel.scope import Scope
from agentscope_rx.reactive.operators._using import Outcome

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Probe(Generic[T_contra]):
    """Sees one subscription of a flow. Subclass it; every method is optional.

    Each `begin` has exactly one `end`: before the terminal signal passes, after a disposal has reached the source, or,
    on any thread, when the flow is freed without either.
    """

    __slots__ = ()

    kinds: frozenset[type] | None = None
    """The classes of the items that `item` is called with; None for all."""

    def begin(self, scope: Scope) -> Context | None:
        """The subscription begins. Return the context for the source, None for the subscriber's."""

    if TYPE_CHECKING:

        def item(self, value: T_contra) -> object:
            """An item passes."""

    else:
        # None, where it is not overridden: items pass without a call
        item = None

    def end(self, outcome: Outcome, error: Exception | None) -> object:
        """The flow has ended; `error` is that of a failed one."""


def probed(make: Callable[[], Probe[T] | None]) -> Callable[[Observable[T]], Flow[T]]:
    """Gives each subscription a probe of its own, by `make()`; None for none.

    Without `Probe.item` an item passes in the source's context, at no cost. With it the item passes in the subscriber's
    context, as terminal signals always do.

    Signals: those of the source.
    Cancels: the source; the probe sees an end.
    """
    return partial(Producer, partial(_Probed, make))


class _Probed(OperatorSink, Generic[T]):
    __slots__ = ("_make", "_probe", "_scope", "_sink", "on_next")

    def __init__(self, make: Callable[[], Probe[T] | None], sink: Sink[T], scope: Scope) -> None:
        self._upstream = None
        self.disposed = False
        self._sink = sink
        self._scope = scope
        self._make = make
        self._probe: Probe[T] | None = None
        self.on_next = sink.on_next  # pyright: ignore[reportAttributeAccessIssue]

    if TYPE_CHECKING:

        def on_next(self, value: T, /) -> None: ...

    def start(self, source: Observable[T]) -> None:
        scope, context = self._scope, None
        try:
            self._probe = self._make()
            if self._probe is not None:
                context = self._probe.begin(scope)
        except Exception as error:
            report_dropped(error, "the beginning of a probe")
        if self._probe is not None and self._probe.item is not None:  # pyright: ignore[reportUnnecessaryComparison]
            self.on_next = self._item  # pyright: ignore[reportAttributeAccessIssue]
        try:
            if context is None:
                attach(source, self, scope)
            else:
                within = Scope(scope.loop, context, scope.demand, scope.work)
                context.copy().run(attach, source, self, within)
        except Exception as error:
            # an operator of the source failed to start
            self._end(Outcome.FAILED, error)
            raise
        except BaseException:
            self._end(Outcome.DISPOSED)
            raise

    def _item(self, value: T) -> None:
        probe = self._probe
        if probe is not None and (probe.kinds is None or type(value) in probe.kinds):
            try:
                probe.item(value)
            except Exception as error:
                report_dropped(error, "a probe")
        self._scope.context.copy().run(self._sink.on_next, value)

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._end(Outcome.FAILED, error)
        self._scope.context.copy().run(self._sink.on_error, error)

    def on_completed(self) -> None:
        self._upstream = None
        self._end(Outcome.COMPLETED)
        self._scope.context.copy().run(self._sink.on_completed)

    def dispose(self) -> None:
        try:
            super().dispose()
        finally:
            self._end(Outcome.DISPOSED)

    def _end(self, outcome: Outcome, error: Exception | None = None) -> None:
        probe, self._probe = self._probe, None
        if probe is not None:
            # a bound method of this object would keep it for the garbage collector
            self.on_next = self._sink.on_next  # pyright: ignore[reportAttributeAccessIssue]
            try:
                probe.end(outcome, error)
            except Exception as failure:
                report_dropped(failure, "the end of a probe")

    def __del__(self) -> None:
        # freed with its loop, which was closed without a shutdown
        if self._probe is not None:
            self._end(Outcome.DISPOSED)
