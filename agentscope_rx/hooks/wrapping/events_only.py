"""`EventsOnly`: operators over the events of a stage, while its tail is carried past them.

    stage              --e1--e2--tail|
    the operators      --e1--e2------|          --E1--E2--|
    result                                      --E1--E2--tail|

The tail is the next stage, or the reply. It is emitted when the operators' flow has completed. Events of sub-agents,
which travel through a stage in an envelope, are unwrapped for the operators and wrapped again behind them.
"""

from __future__ import annotations

from collections.abc import Callable

from agentscope_rx.events import Event
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.reactive import Flow
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, attach
from agentscope_rx.reactive.kernel.operator import OperatorFlow
from agentscope_rx.reactive.kernel.scope import Scope
from agentscope_rx.tools.calls.signals import ToolNested


class EventsOnly(OperatorSink):
    """The sink of the operators. `depth` is the length of the path of the run's own events."""

    __slots__ = ("_around", "_depth", "_scope", "_sink", "calls", "tail")

    def __init__(
        self, around: Callable[[Flow[Event]], Flow[Event]], depth: int, sink: Sink[object], scope: Scope
    ) -> None:
        self._upstream = None
        self.disposed = False
        self._around = around
        self._depth = depth
        self._sink = sink
        self._scope = scope
        self.calls: dict[str, ToolUseBlock] = {}
        """The calls that sub-agents run in, by id."""
        self.tail: object = None

    def start(self, source: Flow[object]) -> None:
        attach(self._around(OperatorFlow(lambda sink, scope: _Strip(self, sink), source)), self, self._scope)

    def note_call(self, nested: ToolNested) -> None:
        """Remember the envelope of a sub-agent's event."""
        self.calls[nested.call.id] = nested.call

    def on_next(self, event: Event) -> None:
        path = event.source.path
        if len(path) > self._depth and (call := self.calls.get(path[self._depth])) is not None:
            self._sink.on_next(ToolNested(call, event))
        else:
            self._sink.on_next(event)

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._sink.on_error(error)

    def on_completed(self) -> None:
        self._upstream = None
        if self.tail is not None:
            self._sink.on_next(self.tail)
        if not self.disposed:
            self._sink.on_completed()


class _Strip(OperatorSink):
    """Hands events to the operators, and keeps all else."""

    __slots__ = ("_parent", "_sink")

    def __init__(self, parent: EventsOnly, sink: Sink[Event]) -> None:
        self._upstream = None
        self.disposed = False
        self._parent = parent
        self._sink = sink
        # of an earlier attempt
        parent.tail = None

    def on_next(self, value: object) -> None:
        if isinstance(value, Event):
            self._sink.on_next(value)
        elif isinstance(value, ToolNested):
            self._parent.note_call(value)
            if isinstance(value.event, Event):
                self._sink.on_next(value.event)
        else:
            self._parent.tail = value

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._sink.on_error(error)

    def on_completed(self) -> None:
        self._upstream = None
        self._sink.on_completed()
