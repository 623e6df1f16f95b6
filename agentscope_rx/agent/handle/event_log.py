"""The log of a run: its events, each with its JSON, for every protocol that sends them.

    agent's stream  -> record_events -> ReplayLog[LoggedEvent] -> a protocol encodes what its client reads

An event is written as JSON once, when it is logged: its size counts against the log's bound, an event without a JSON
form ends the run at once, and several clients share the bytes. It is kept without its surroundings (the context of the
call, the history), because a log may outlive its run by minutes and must not keep the caller's objects alive.
"""

from __future__ import annotations

import time
from dataclasses import fields
from functools import cache
from typing import NamedTuple

from reactivex import Observable

from agentscope_rx.errors.text import encode_json
from agentscope_rx.events import ErrorEvent, Event, EventSource
from agentscope_rx.events.base import stamp
from agentscope_rx.reactive import Flow, catch, concat_map, defer, empty, flow, just, throw


class LoggedEvent(NamedTuple):
    """An event as `event_from_json` would read it back from `json`, its JSON in UTF-8 on one line."""

    event: Event
    json: bytes

    @property
    def seq(self) -> int:
        """The number of the event in its run."""
        return self.event.seq

    @classmethod
    def of(cls, event: Event) -> LoggedEvent:
        """The event and its JSON; `InvalidInputError` if it holds a value that JSON cannot express."""
        data = encode_json(event.to_json())
        source = event.source
        if source.context is not None:
            source = EventSource(source.run_id, source.agent, source.path)
        return cls(event.replace(source=source, **_surroundings(type(event))), data)

    @classmethod
    def of_error(cls, error: Exception, source: EventSource, seq: int) -> LoggedEvent:
        """An `error` event that the run itself did not emit, such as one of the service's."""
        return cls.of(stamp(ErrorEvent.of(error), source, seq, time.time()))


@cache
def _surroundings(kind: type[Event]) -> dict[str, object]:
    """The fields that are no part of an event's equality, with their defaults."""
    return {each.name: each.default for each in fields(kind) if not each.compare}


def record_events(events: Observable[Event]) -> Flow[LoggedEvent]:
    """Each event with its JSON; a run that fails after its first event ends with an `error` event.

    Signals: logged events, and completion; an error only if there was no event before it.
    Cancels: the run.
    """

    def begin() -> Flow[LoggedEvent]:
        recorder = _Recorder()
        return flow(events).pipe(concat_map(recorder.record), catch(recorder.end))

    return defer(begin)


class _Recorder:
    __slots__ = ("_error_emitted", "_last", "_source")

    def __init__(self) -> None:
        self._last: LoggedEvent | None = None
        self._source: EventSource | None = None
        self._error_emitted = False

    def record(self, event: Event) -> LoggedEvent:
        self._last = LoggedEvent.of(event)
        if event.depth == 0:
            self._source = self._last.event.source
            self._error_emitted = type(event) is ErrorEvent
        return self._last

    def end(self, error: Exception) -> Flow[LoggedEvent]:
        if self._last is None:
            return throw(error)
        if self._error_emitted:
            return empty()
        # the last event may be a sub-agent's; the error is the outermost run's
        source = self._source or self._last.event.source
        return just(LoggedEvent.of_error(error, source, self._last.seq + 1))
