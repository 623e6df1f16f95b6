"""A run's events in the wire format of server-sent events (WHATWG HTML, section 9.2).

    id: 7
    event: reasoning_chunk
    data: {"type":"reasoning_chunk","run_id":"...","seq":7,...}
    <blank line>

Encoded once, however many clients read it, and holding on to nothing of the run.
"""

from __future__ import annotations

import re
import time
from typing import NamedTuple

from reactivex import Observable

from agentscope_rx.events import ErrorEvent, Event, EventSource
from agentscope_rx.events.base import stamp
from agentscope_rx.reactive import Flow, catch, concat_map, defer, empty, flow, just, throw

HEARTBEAT = b":\n"
"""A comment: clients skip it, proxies see that the connection lives. Without a blank line: some clients dispatch an
empty event at each of those."""

_LINE_ENDS = re.compile(r"\r\n|\r|\n")


class Frame(NamedTuple):
    """One event as it goes over the wire."""

    seq: int
    type: str
    source: EventSource
    data: bytes

    @classmethod
    def of(cls, event: Event) -> Frame:
        """The event, encoded; `InvalidInputError` if it says what JSON has no form for."""
        return cls(event.seq, event.type, event.source, encoded(event.type, event.to_json(), id=event.seq))


def encoded(event: str, data: str, *, id: int | None = None) -> bytes:
    """The bytes of one server-sent event; without an id, the client's last one stays."""
    # half a surrogate pair has no UTF-8; as an escape it is JSON still
    lines = "".join(f"data: {line}\n" for line in _LINE_ENDS.split(data))
    head = "" if id is None else f"id: {id}\n"
    return f"{head}event: {event}\n{lines}\n".encode(errors="backslashreplace")


def retry_hint(seconds: float) -> bytes:
    """What tells a client how long to wait before it connects again; a line of the event that follows."""
    return f"retry: {round(seconds * 1000)}\n".encode()


def frames(events: Observable[Event]) -> Flow[Frame]:
    """Each event as a frame; a run that fails after its first event ends with a frame of type `error`.

    Signals: frames, and completion; an error only if there was no event before it.
    Cancels: the run.
    """

    def begin() -> Flow[Frame]:
        encoder = _Encoder()
        return flow(events).pipe(concat_map(encoder.encode), catch(encoder.failed))

    return defer(begin)


def last_frame(error: Exception, before: Frame) -> Frame:
    """The frame of an error that the run itself did not tell, following `before`."""
    return Frame.of(stamp(ErrorEvent.of(error), before.source, before.seq + 1, time.time()))


class _Encoder:
    __slots__ = ("_last", "_source", "_told")

    def __init__(self) -> None:
        self._last: Frame | None = None
        self._source: EventSource | None = None
        self._told = False

    def encode(self, event: Event) -> Frame:
        self._last = Frame.of(event)
        if event.depth == 0:
            self._source = event.source
            self._told = type(event) is ErrorEvent
        return self._last

    def failed(self, error: Exception) -> Flow[Frame]:
        if self._last is None:
            return throw(error)
        if self._told:
            return empty()
        # (the last event may have been a sub-agent's)
        return just(last_frame(error, self._last._replace(source=self._source or self._last.source)))
