"""The views of a run: a transcript, a line of JSON for each event, or the reply alone."""

from __future__ import annotations

import json
import time
from typing import Protocol, TextIO

from reactivex import Observable

from agentscope_rx.console import Console
from agentscope_rx.errors.text import encodable_in
from agentscope_rx.events import ErrorEvent, Event, EventSource, PostCallEvent
from agentscope_rx.reactive import Flow, catch, concat_map, throw


class View(Protocol):
    """Shows the events that pass through."""

    def show(self, events: Observable[Event]) -> Flow[Event]: ...
    def finish(self) -> None: ...


def view_of(file: TextIO, *, json_lines: bool, quiet: bool) -> View:
    """The view of these flags. It does not show the error of a run: the command prints that on stderr."""
    if json_lines:
        return JsonLines(file)
    return Reply(file) if quiet else Console(file, errors=False, live=True)


class JsonLines:
    """Each event as a line of JSON, which `event_from_json` reads back; the last is a `post_call` or an `error`."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._last: Event | None = None
        self._source = EventSource()

    def show(self, events: Observable[Event]) -> Flow[Event]:
        """Signals: those of the source, each event after it was written. Cancels: the source."""

        def failed(error: Exception) -> Flow[Event]:
            last = self._last
            if not (isinstance(last, ErrorEvent) and last.depth == 0):
                # ended from outside, by a deadline: the reader of the lines needs the error, too
                source, seq = (self._source, last.seq + 1) if last else (self._source, 0)
                self._write(ErrorEvent.of(error).replace(source=source, seq=seq, timestamp=time.time()))
            return throw(error)

        self._last = None
        return events.pipe(concat_map(self._write), catch(failed))

    def finish(self) -> None:
        """Nothing to do: every line is complete."""

    def _write(self, event: Event) -> Event:
        self._last = event
        if event.depth == 0:
            self._source = event.source
        line = event.to_json()
        if encodable_in(line, self._file) != line:
            # as escapes of JSON, so that the line stays valid
            line = json.dumps(event.to_dict(), separators=(",", ":"))
        self._file.write(f"{line}\n")
        self._file.flush()
        return event


class Reply:
    """Only the text of the reply."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def show(self, events: Observable[Event]) -> Flow[Event]:
        """Signals: those of the source, the last one after the reply was written. Cancels: the source."""

        def write(event: Event) -> Event:
            # a reply with pending calls often has no text, which is not an answer
            if not isinstance(event, PostCallEvent) or event.depth:
                return event
            if event.message.text or not event.message.pending_calls:
                self._file.write(encodable_in(f"{event.message.text}\n", self._file))
                self._file.flush()
            return event

        return events.pipe(concat_map(write))

    def finish(self) -> None:
        """Nothing to do: every line is complete."""
