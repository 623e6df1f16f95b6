"""The edge of a run, where its events leave it: stamped, chosen, and folded to the reply."""

from __future__ import annotations

import time

from agentscope_rx.agent.run import Run
from agentscope_rx.event import Event, PostCallEvent, StreamOptions
from agentscope_rx.event.event import stamp
from agentscope_rx.message import Msg
from agentscope_rx.reactive import Flow
from agentscope_rx.reactive.observer import Sink, Upstream, attach


def stamped(events: Flow[Event], run: Run, options: StreamOptions | None) -> Flow[Event]:
    """The events with source, sequence number and time, as the options choose them."""
    return Flow(lambda sink, scope: attach(events, _Stamp(sink, run, options), scope))


class _Stamp:
    __slots__ = ("_clock", "_options", "_run", "_sink", "on_completed", "on_error", "on_subscribe")

    def __init__(self, sink: Sink[Event], run: Run, options: StreamOptions | None) -> None:
        self._sink = sink
        self._run = run
        self._clock = run.scope.loop.time
        self._options = options
        self.on_subscribe = sink.on_subscribe
        self.on_error = sink.on_error
        self.on_completed = sink.on_completed

    def on_next(self, event: Event) -> None:
        run = self._run
        if self._options is not None:
            shown = self._options.shown(event)
            if shown is None:
                return
            event = shown
        event = stamp(event, run.source, run.seq, time.time())
        run.seq += 1
        run.last_event = self._clock()
        self._sink.on_next(event)


def last_message(events: Flow[Event]) -> Flow[Msg]:
    """The message of the run's last event, signalled when the run has let go of its agent."""
    return Flow(lambda sink, scope: attach(events, _LastMessage(sink), scope))


class _LastMessage:
    __slots__ = ("_disposed", "_message", "_sink", "_upstream", "on_error")

    def __init__(self, sink: Sink[Msg]) -> None:
        self._sink = sink
        self._message: Msg | None = None
        self._disposed = False
        self._upstream: Upstream | None = None
        self.on_error = sink.on_error

    def on_subscribe(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._sink.on_subscribe(self)

    def on_next(self, event: Event) -> None:
        if type(event) is PostCallEvent:
            self._message = event.message

    def on_completed(self) -> None:
        if self._message is not None:
            self._sink.on_next(self._message)
        if not self._disposed:
            self._sink.on_completed()

    def dispose(self) -> None:
        self._disposed = True
        if self._upstream is not None:
            self._upstream.dispose()
