"""`map_at_most`: an inner flow for each value, a bounded number of them at once.

source        a---b---c---d---e|            at most 2 at once
a             =======A
b                 ==B                       demand is withheld while two are in progress
c                        ===C
ordered       -------AB-----C..
not ordered   -------BA-----C..             as they come
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from reactivex import Observable, abc

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.reactive.kernel.demand import BufferDemand
from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, attach
from agentscope_rx.reactive.kernel.operator import Producer
from agentscope_rx.reactive.kernel.scope import Scope

A = TypeVar("A")
B = TypeVar("B")


def map_at_most(
    function: Callable[[A], abc.ObservableBase[B]], at_most: int, *, ordered: bool = True
) -> Callable[[Observable[A]], Flow[B]]:
    """Emits the values of the flows `function(value)`; at most `at_most` of them are in progress at once.

    At the bound, and while the subscriber withholds its demand, a source with back-pressure stops reading; values of
    others wait. With `ordered` values come in the order of the source. A flow that has ended counts as in progress
    until those before it have ended, so a slow flow bounds the values that are held.

    Signals: the inner values; the first error, of the source, of `function` or of an inner flow, which ends all;
    completion when the source and all inner flows have completed.
    Cancels: the source and every inner flow; values that wait are dropped.
    """
    if type(at_most) is not int or at_most < 1:
        raise ConfigurationError(f"at_most must be a whole number of at least 1, not {at_most!r}.")
    return partial(Producer, partial(_MapAtMost, function, at_most, ordered))


class _MapAtMost(OperatorSink, Generic[A, B]):
    __slots__ = (
        "_at_most",
        "_demand",
        "_forget",
        "_function",
        "_lanes",
        "_ordered",
        "_outer_done",
        "_passing",
        "_pumping",
        "_scope",
        "_waiting",
        "sink",
    )

    def __init__(
        self, function: Callable[[A], abc.ObservableBase[B]], at_most: int, ordered: bool, sink: Sink[B], scope: Scope
    ) -> None:
        self._upstream = None
        self.disposed = False
        self.sink = sink
        self._scope = scope
        self._function = function
        self._at_most = at_most
        self._ordered = ordered
        self._demand = BufferDemand(scope.loop, scope.demand)
        self._waiting: deque[A] = deque()
        # in the order of the source; those of a flow that has ended stay until those before it are gone
        self._lanes: dict[_Lane[A, B], None] = {}
        self._outer_done = False
        self._pumping = False
        self._passing = False
        self._forget: Callable[[], None] | None = None

    def start(self, source: Observable[A]) -> None:
        scope = self._scope
        attach(source, self, Scope(scope.loop, scope.context, self._demand, scope.work))

    def on_next(self, value: A) -> None:
        self._waiting.append(value)
        self._pump()
        if not self.disposed and len(self._lanes) + len(self._waiting) >= self._at_most:
            self._demand.shut()

    def on_error(self, error: Exception) -> None:
        self.dispose()
        self.sink.on_error(error)

    def on_completed(self) -> None:
        self._upstream = None
        self._outer_done = True
        self._end()

    def dispose(self) -> None:
        if self.disposed:
            return
        self.disposed = True
        upstream, self._upstream = self._upstream, None
        self._waiting.clear()
        lanes, self._lanes = self._lanes, {}
        if self._forget is not None:
            self._forget()
        if upstream is not None:
            upstream.dispose()
        for lane in lanes:
            lane.dispose()
        # the source may go on for other subscribers, which must not wait for this one
        self._demand.open()

    # --- the flows in progress ------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Begin what may begin; a loop, so that flows that end at once do not nest."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._waiting and len(self._lanes) < self._at_most and not self.disposed and self._wanted():
                self._begin(self._waiting.popleft())
        finally:
            self._pumping = False
        if not self.disposed and self._demand.is_shut and len(self._lanes) + len(self._waiting) < self._at_most:
            self._demand.open()

    def _wanted(self) -> bool:
        """True if the subscriber asks for more; else the flows begin when it does."""
        demand = self._scope.demand
        if demand is None or demand.ready:
            return True
        if self._forget is None:
            self._forget = demand.when_ready(self._resumed)
        return False

    def _resumed(self) -> None:
        self._forget = None
        if not self.disposed:
            self._pump()
            self._end()

    def _begin(self, value: A) -> None:
        try:
            source = self._function(value)
        except Exception as error:
            self.on_error(error)
            return
        if self.disposed:
            return
        lane = _Lane(self, live=not self._ordered or not self._lanes)
        self._lanes[lane] = None
        attach(source, lane, self._scope)

    def lane_completed(self, lane: _Lane[A, B]) -> None:
        """A flow has ended: pass on what was held behind it, and begin others."""
        if self.disposed:
            return
        if self._ordered:
            self._pass_on()
        else:
            self._lanes.pop(lane, None)
        self._pump()
        self._end()

    def _pass_on(self) -> None:
        """Emit what the first lanes hold. A lane that ends while its values are emitted ends behind them."""
        if self._passing:
            return
        self._passing = True
        try:
            while self._lanes and self._pass_first():
                pass
        finally:
            self._passing = False

    def _pass_first(self) -> bool:
        """Emit what the first lane holds; True if it has ended, and the next one is the first."""
        first = next(iter(self._lanes))
        first.live = True
        while first.held:
            # it stays until it is emitted: what the lane emits meanwhile comes behind the others
            self.sink.on_next(first.held[0])
            if self.disposed:
                return False
            first.held.popleft()
        if first.done:
            del self._lanes[first]
        return first.done

    def _end(self) -> None:
        ended = self._outer_done and not self._lanes and not self._waiting
        if ended and not self.disposed and not self._pumping and not self._passing:
            self.disposed = True
            self.sink.on_completed()


class _Lane(OperatorSink, Generic[A, B]):
    """The sink of an inner flow, which holds its values until it is `live`."""

    __slots__ = ("_parent", "done", "held", "live")

    def __init__(self, parent: _MapAtMost[A, B], *, live: bool) -> None:
        self._upstream = None
        self.disposed = False
        self._parent = parent
        self.live = live
        self.done = False
        self.held: deque[B] = deque()

    def on_next(self, value: B) -> None:
        if self.live and not self.held:
            self._parent.sink.on_next(value)
        else:
            self.held.append(value)

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        if not self._parent.disposed:
            self._parent.on_error(error)

    def on_completed(self) -> None:
        self._upstream = None
        self.done = True
        self._parent.lane_completed(self)
