"""Where the events of a run leave it: numbered and selected for `stream`, reduced to the reply for `call`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import cast

from agentscope_rx.agent.run import Run
from agentscope_rx.events import Event, PostCallEvent, StreamOptions
from agentscope_rx.events.base import put_seq, put_source, put_timestamp, stamp
from agentscope_rx.messages import Msg
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, Upstream
from agentscope_rx.tools import ToolNested

_NESTED: type[object] = ToolNested
"""An event of a sub-agent's run, among the events of the run."""


class Numbering:
    """The sink of `stream`: the events that the options select, with source, sequence number and time."""

    __slots__ = ("_clock", "_options", "_run", "_sink")

    def __init__(self, sink: Sink[Event], run: Run, options: StreamOptions | None = None) -> None:
        self._sink = sink
        self._run = run
        self._clock = run.clock
        self._options = options

    @property
    def disposed(self) -> bool:
        """False: the subscriber's sink gets the disposable of the run."""
        return False

    def on_subscribe(self, upstream: Upstream) -> None:
        self._sink.on_subscribe(upstream)

    def on_error(self, error: Exception) -> None:
        self._sink.on_error(error)

    def on_completed(self) -> None:
        self._sink.on_completed()

    def on_next(self, event: Event) -> None:
        run = self._run
        if type(event) is _NESTED:
            self._nested(run, cast("ToolNested", event).event)
            return
        unemitted = run.unemitted
        if unemitted:
            # nearly always: the event of a write is emitted before the next write
            if unemitted[-1] is event:
                unemitted.pop()
            else:
                _emitted(unemitted, event)
        if self._options is not None:
            shown = self._options.shown(event)
            if shown is None:
                return
            event = shown
        seq = run.seq
        run.seq = seq + 1
        run.last_event = self._clock()
        if event.seq < 0:
            # `stamp`, without its call
            put_source(event, run.source)
            put_seq(event, seq)
            put_timestamp(event, time.time())
        else:
            event = stamp(event, run.source, seq, time.time())
        self._sink.on_next(event)

    def _nested(self, run: Run, nested: object) -> None:
        """An event of a sub-agent: numbered in this stream, with the sub-agent as its source."""
        event = cast("Event", nested)
        if self._options is not None:
            shown = self._options.shown_nested(event, event.depth - len(run.source.path) // 2)
            if shown is None:
                return
            event = shown
        event = stamp(event, event.source, run.seq, time.time())
        run.seq += 1
        run.last_event = self._clock()
        self._sink.on_next(event)


def _emitted(unemitted: list[Event], event: Event) -> None:
    """Take the event out of those to be emitted: hooks around a stage may have held it back until others came."""
    for index, each in enumerate(unemitted):
        if each is event:
            del unemitted[index]
            return


def reply_in(event: Event) -> Iterator[Msg]:
    """The reply, if this is the event that holds it."""
    if isinstance(event, PostCallEvent) and event.depth == 0:
        yield event.message


class LastMessage(OperatorSink):
    """The sink of `call`: the message of the run's last event, once the running flag is free.

    Events are counted, not numbered.
    """

    __slots__ = ("_clock", "_message", "_run", "_sink")

    def __init__(self, sink: Sink[Msg], run: Run) -> None:
        self._upstream = None
        self.disposed = False
        self._sink = sink
        self._run = run
        self._clock = run.clock
        self._message: Msg | None = None
        sink.on_subscribe(self)

    def on_next(self, event: Event) -> None:
        run = self._run
        unemitted = run.unemitted
        if unemitted:
            # nearly always: the event of a write is emitted before the next write
            if unemitted[-1] is event:
                unemitted.pop()
            else:
                _emitted(unemitted, event)
        run.seq += 1
        run.last_event = self._clock()
        if type(event) is PostCallEvent:
            self._message = event.message

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._sink.on_error(error)

    def on_completed(self) -> None:
        self._upstream = None
        if self._message is not None:
            self._sink.on_next(self._message)
        if not self.disposed:
            self._sink.on_completed()
