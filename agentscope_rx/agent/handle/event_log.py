"""The log of a run: its events with their sizes, and their JSON for every protocol that sends them.

    agent's stream  -> EventRecorder -> ReplayLog[LoggedEvent] -> subscribers; a protocol encodes what its client reads

| an event is    | its size                                     | it is kept                                           |
|----------------|----------------------------------------------|------------------------------------------------------|
| `LoggedEvent`  | estimated; JSON is written at its first use    | as it is, with its context and history            |
| `.of(event)`   | that of its JSON, which is written now       | without its surroundings, as JSON has it             |

The second is for services: an event without a JSON form ends the run at once, several clients share the bytes, and a
log that outlives its run by minutes keeps no object of the caller alive.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import fields
from functools import cache, partial

from reactivex import Observable

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.events import ErrorEvent, Event, EventSource, PostCallEvent, event_size
from agentscope_rx.events.base import encode_event, stamp
from agentscope_rx.messages import Msg
from agentscope_rx.reactive import Flow, OneShotEvent, Scope, catch, concat, just, throw
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink
from agentscope_rx.reactive.kernel.operator import OperatorFlow


class LoggedEvent:
    """An event in a log: its number, its size in bytes, and its JSON in UTF-8 on one line."""

    __slots__ = ("_json", "event", "size")

    def __init__(self, event: Event, json: bytes | None = None) -> None:
        self.event: Event = event
        self._json = json
        self.size: int = event_size(event) if json is None else len(json)

    def __repr__(self) -> str:
        return f"LoggedEvent({self.event!r})"

    @property
    def seq(self) -> int:
        """The number of the event in its run."""
        return self.event.seq

    @property
    def json(self) -> bytes:
        """The JSON, written once; `InvalidInputError` if the event holds a value that JSON cannot express."""
        if self._json is None:
            self._json = encode_event(self.event)
        return self._json

    @classmethod
    def of(cls, event: Event) -> LoggedEvent:
        """The event as `event_from_json` would read it back, and its JSON; `InvalidInputError` if it has none."""
        data = encode_event(event)
        source = event.source
        if source.context is not None:
            source = EventSource(source.run_id, source.agent, source.path)
        return cls(event.replace(source=source, **_surroundings(type(event))), data)


@cache
def _surroundings(kind: type[Event]) -> dict[str, object]:
    """The fields that are no part of an event's equality, with their defaults."""
    return {each.name: each.default for each in fields(kind) if not each.compare}


class EventRecorder:
    """Records the events of one run: its first and last event, its reply, and the error that it ends with.

    `record` makes the entry of an event. `begun` fires at the first one.
    """

    __slots__ = ("begun", "error_emitted", "first", "last", "record", "reply", "source")

    def __init__(self, record: Callable[[Event], LoggedEvent]) -> None:
        self.record: Callable[[Event], LoggedEvent] = record
        self.source: EventSource | None = None
        self.error_emitted: bool = False
        self.first: LoggedEvent | None = None
        self.last: LoggedEvent | None = None
        self.reply: Msg | None = None
        self.begun: OneShotEvent = OneShotEvent()

    def recorded(self, events: Observable[Event]) -> Flow[LoggedEvent]:
        """Each event with its entry; a run that fails after its first event ends with an `error` event.

        Signals: logged events, and completion; the error of the run, after an `error` event unless it is the first.
        Cancels: the run.
        """
        recording: Flow[LoggedEvent] = OperatorFlow(partial(_Recording, self), events)
        return recording.pipe(catch(self._fail))

    def _fail(self, error: Exception) -> Flow[LoggedEvent]:
        if self.error_emitted:
            return throw(error)
        return concat(just(*self.closing(error)), throw(error))

    def closing(self, error: Exception) -> tuple[LoggedEvent, ...]:
        """The `error` event for a run that this error ends; none if the run has emitted nothing."""
        if self.last is None:
            return ()
        self.error_emitted = True
        # the last event may be a sub-agent's; the error is the outermost run's
        source = self.source or self.last.event.source
        return (self.record(stamp(ErrorEvent.of(error), source, self.last.seq + 1, time.time())),)


def _no_event(item: object) -> InvalidInputError:
    return InvalidInputError(
        "A shared run takes a stream of events, such as agent.stream(...), and got "
        f"{type(item).__name__}: {item!r:.80}."
    )


class _Recording(OperatorSink):
    __slots__ = ("_recorder", "_sink")

    def __init__(self, recorder: EventRecorder, sink: Sink[LoggedEvent], scope: Scope) -> None:
        super().__init__()
        self._recorder = recorder
        self._sink = sink

    def on_next(self, event: Event) -> None:
        recorder = self._recorder
        try:
            recorder.last = logged = recorder.record(event)
            if len(event.source.path) < 2:
                # depth 0, without the call of a property
                recorder.source = logged.event.source
                recorder.error_emitted = type(event) is ErrorEvent
                if type(event) is PostCallEvent:
                    recorder.reply = event.message
            if recorder.first is None:
                recorder.first = logged
                recorder.begun.fire()
        except Exception as error:
            failure = error if isinstance(event, Event) else _no_event(event)  # pyright: ignore[reportUnnecessaryIsInstance]
        else:
            self._sink.on_next(logged)
            return
        self.dispose()
        self._sink.on_error(failure)

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._sink.on_error(error)

    def on_completed(self) -> None:
        self._upstream = None
        self._sink.on_completed()
