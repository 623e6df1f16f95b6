"""`merge_ordered`: run several flows at once, at most n, and emit their results in the order of the flows.

    a        --p-----A|
    b        -q--B|
    result   -qp-----AB|       p, q are live (they pass at once), A and B are results (in order)

The flow whose turn it is passes straight through; the results of those behind it wait. A flow that runs `alone` is a
barrier: it begins when all before it have ended, and those behind it begin when it has ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Generic, TypeVar, cast

from reactivex import Observable, abc

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.reactive.kernel.flow import Flow, flow
from agentscope_rx.reactive.kernel.fuse import Deferred
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, attach
from agentscope_rx.reactive.kernel.operator import Producer
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")


def merge_ordered(
    sources: Sequence[abc.ObservableBase[T]],
    *,
    max_concurrency: int = 16,
    live: Callable[[T], bool] | None = None,
    alone: Collection[int] = (),
) -> Flow[T]:
    """Runs `sources` at the same time, at most `max_concurrency`, and emits results in their order.

    `alone` holds the indices of flows that run while no other runs.

    Signals: values for which `live(value)` is true, as they come; all others in order; the first error, which disposes
    the rest; completion when all have completed.
    Cancels: the flows in progress; the rest never begin.
    """
    if max_concurrency < 1:
        raise ConfigurationError(f"max_concurrency must be at least 1, not {max_concurrency}.")
    if len(sources) == 1:
        # its turn from the start
        return flow(cast("Observable[T]", sources[0]))
    return Producer(partial(_MergeOrdered, max_concurrency, live, alone), sources)


class _MergeOrdered(OperatorSink, Generic[T]):
    __slots__ = (
        "_active",
        "_advancing",
        "_alone",
        "_limit",
        "_live",
        "_running",
        "_scope",
        "_sources",
        "_turn",
        "sink",
    )

    def __init__(
        self,
        limit: int,
        live: Callable[[T], bool] | None,
        alone: Collection[int],
        sink: Sink[T],
        scope: Scope,
    ) -> None:
        # or ended
        self.disposed = False
        self._upstream = None
        self.sink = sink
        self._scope = scope
        self._sources: Sequence[abc.ObservableBase[T]] = ()
        self._limit = limit
        self._live = live
        self._alone = alone
        self._running: deque[_Lane[T]] = deque()
        self._turn = 0
        self._active = 0
        self._advancing = False

    def start(self, sources: Sequence[abc.ObservableBase[T]]) -> None:
        self._sources = sources
        self._advance()

    def _advance(self) -> None:
        """Start as many as may run and pass the turn on; a loop, so that synchronous sources do not nest."""
        if self._advancing:
            return
        self._advancing = True
        started = self._turn + len(self._running)
        while not self.disposed:
            if self._running and self._running[0].completed:
                self._running.popleft()
                self._turn += 1
                if self._running and self._running[0].held:
                    self._running[0].flush(self.sink)
            elif (
                started < len(self._sources)
                and self._active < self._limit
                and not (self._alone and self._barred(started))
            ):
                source = self._sources[started]
                started += 1
                self._active += 1
                lane = _Lane(self)
                self._running.append(lane)
                try:
                    # made here, as in `fuse`: mostly each source is a `defer(...)`
                    while type(source) is Deferred and not self.disposed:  # pyright: ignore[reportUnknownArgumentType]
                        source = source.make()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
                except Exception as error:
                    self.lane_failed(error)
                    break
                if not self.disposed:
                    attach(source, lane, self._scope)  # pyright: ignore[reportUnknownArgumentType]
            else:
                break
        self._advancing = False
        if not self.disposed and not self._running and started == len(self._sources):
            self.disposed = True
            self.sink.on_completed()

    def _barred(self, index: int) -> bool:
        """True if others run while this one, or the one before it, has to run alone."""
        return self._active > 0 and (index in self._alone or index - 1 in self._alone)

    def lane_failed(self, error: Exception) -> None:
        if not self.disposed:
            self.dispose()
            self.sink.on_error(error)

    def dispose(self) -> None:
        if not self.disposed:
            self.disposed = True
            lanes, self._running = self._running, deque()
            for lane in lanes:
                lane.dispose()


class _Lane(OperatorSink, Generic[T]):
    """One of the flows, and its results while it waits for its turn."""

    __slots__ = ("_parent", "completed", "held")

    def __init__(self, parent: _MergeOrdered[T]) -> None:
        self._upstream = None
        self.disposed = False
        self._parent = parent
        self.completed = False
        self.held: deque[T] = deque()

    def on_next(self, value: T) -> None:
        parent = self._parent
        if parent.disposed:
            return
        if parent._running[0] is not self or self.held:
            try:
                live = parent._live is not None and parent._live(value)
            except Exception as error:
                parent.lane_failed(error)
                return
            if not live:
                self.held.append(value)
                return
        parent.sink.on_next(value)

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._parent.lane_failed(error)

    def on_completed(self) -> None:
        self._upstream = None
        self.completed = True
        parent = self._parent
        if not parent.disposed:
            parent._active -= 1
            parent._advance()

    def flush(self, sink: Sink[T]) -> None:
        while self.held and not self._parent.disposed:
            # left among the held while it is emitted: values that come meanwhile go behind them
            value = self.held[0]
            sink.on_next(value)
            self.held.popleft()
