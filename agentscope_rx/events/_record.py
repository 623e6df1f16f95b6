"""`record` and `replay`: a run as a file, and the file as a stream again.

agent's stream |> record(file)          each event as a line of JSON, on its way to the file before it is passed on
replay(file)                            the same events, at once or at their pace
"""

from __future__ import annotations

import asyncio
import math
import time
from functools import partial
from os import PathLike
from typing import TypeVar

from reactivex import Observable, abc

from agentscope_rx.errors import AgentScopeError, ConfigurationError, EventLogError
from agentscope_rx.events._log_file import (
    LogFile,
    LogWriter,
    WriteMode,
    check_file,
    events_in,
    open_log,
    read_lines,
)
from agentscope_rx.events.base import NOWHERE, Event, stamp
from agentscope_rx.events.event_stream import EventStream
from agentscope_rx.events.kinds import ErrorEvent
from agentscope_rx.reactive import Flow, concat_map, defer, from_iterable, iterate_on_worker, just, then, timer
from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, attach
from agentscope_rx.reactive.kernel.operator import Producer
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")


def record(stream: Observable[Event], file: LogFile, *, mode: WriteMode = "x") -> EventStream:
    """Writes each event of a run as a line of JSON, then passes it on.

    `file` is a path or an open file of bytes or text. A path must be new; `mode="a"` appends, `"w"` overwrites. Only
    its owner can read the file. It is not synced: written lines survive the end of the process, not of the machine. An
    open file is flushed after each event, and stays open.

    Each subscription is a run, and opens the file anew. However the run ends, the file ends with a whole line; after a
    failure that is the `ErrorEvent`, even if the stream does not show it.

    Signals: the events, completion and errors of the stream; `EventLogError` if the file cannot be opened, before the
    run begins, or written, and `InvalidInputError` for an event without a JSON form: both end the run.
    Cancels: the run; the file is closed.
    """
    try:
        _check_record(stream, file, mode)
    except ConfigurationError:
        if isinstance(stream, Flow):
            # no warning beside this error that the run was never begun
            stream.take_over()
        raise
    return _as_stream(Producer(partial(_Recorder, file, mode), stream))


def replay(file: LogFile, *, pace: float | None = None, file_root: str | PathLike[str] | None = None) -> EventStream:
    """The events of a recorded log, sub-agents included. It reads on demand, so a log may be larger than memory.

    By default events come at once. `pace=1.0` keeps the recorded times after the first event, on the loop's clock (in
    virtual time they take none); 2.0 is twice as fast. `file_root` is that of `event_from_dict`.

    It completes at the end of the log, even if the run failed: the last event is then its `ErrorEvent`.

    Signals: the events, and completion; `EventLogError` if the file cannot be opened or read; `EventLineError`, with
    the number of the line, at a line that is cut off or not an event, after the events before it.
    Cancels: the wait; the file is closed.
    """
    check_file(file, "replay", "readline")
    if pace is not None and not (isinstance(pace, (int, float)) and 0 < pace < math.inf):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"pace must be a number greater than 0, or None for no waits, not {pace!r}.")
    batches = iterate_on_worker(lambda: read_lines(file))
    # the worker reads one batch ahead
    events = batches.pipe(concat_map(lambda some: from_iterable(events_in(some, file_root)), prefetch=1))
    return _as_stream(events if pace is None else _paced(events, pace))


def _check_record(stream: object, file: object, mode: object) -> None:
    if mode not in ("x", "a", "w"):
        raise ConfigurationError(
            f"The mode of record must be 'x' (new), 'a' (append) or 'w' (overwrite), not {mode!r}."
        )
    if isinstance(stream, abc.ObservableBase):
        check_file(file, "record", "write")
        return
    if isinstance(file, abc.ObservableBase):
        hint = "The stream comes first: record(stream, file)."
    elif callable(getattr(stream, "events", None)):
        hint = "Give it the events of the run: record(handle.events(), file)."
    else:
        hint = "Give it agent.stream(...) or handle.events()."
    raise ConfigurationError(f"record takes a stream of events, not {stream!r:.60}. {hint}")


def _as_stream(events: Flow[Event]) -> EventStream:
    return EventStream(lambda sink, scope: attach(events, sink, scope))


def _paced(events: Flow[Event], pace: float) -> Flow[Event]:
    def begin() -> Flow[Event]:
        first: list[tuple[float, float]] = []

        def wait(event: Event) -> Event | abc.ObservableBase[Event]:
            now = asyncio.get_running_loop().time()
            if not first:
                first.append((now, event.timestamp))
            began, timestamp = first[0]
            # from the first event on, so that late timers do not add up
            delay = began + (event.timestamp - timestamp) / pace - now
            return timer(delay).pipe(then(lambda: just(event))) if delay > 0 else event

        return events.pipe(concat_map(wait, prefetch=1))

    return defer(begin)


class _Recorder(OperatorSink):
    """Writes each event and passes it on. The file is closed once: at the end, at an error or at disposal."""

    __slots__ = ("_file", "_last", "_log", "_mode", "_scope", "_seq", "_sink")

    def __init__(self, file: LogFile, mode: WriteMode, sink: Sink[Event], scope: Scope) -> None:
        self._upstream = None
        self.disposed = False
        self._file = file
        self._mode: WriteMode = mode
        self._sink = sink
        self._scope = scope
        self._log: LogWriter | None = None
        self._last: Event | None = None
        """The last event of the outermost run."""
        self._seq = -1

    def start(self, stream: Observable[Event]) -> None:
        try:
            self._log = open_log(self._file, self._mode)
        except EventLogError as error:
            failure = error
        else:
            attach(stream, self, self._scope)
            return
        if isinstance(stream, Flow):
            # no warning beside this error that the run was never begun
            stream.take_over()
        self._sink.on_error(failure)

    def on_next(self, event: Event) -> None:
        log = self._log
        try:
            if not isinstance(event, Event):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigurationError(
                    f"record takes a stream of events, agent.stream(...) or handle.events(), and got {event!r:.80}."
                )
            if log is not None:
                log.write(event)
        except AgentScopeError as error:
            self.dispose()
            self._sink.on_error(error)
            return
        if self._last is None or event.depth <= self._last.depth:
            self._last = event
        self._seq = event.seq
        self._sink.on_next(event)

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        last = self._last
        if not isinstance(last, ErrorEvent) and self._log is not None:
            source = NOWHERE if last is None else last.source
            try:
                self._log.write(stamp(ErrorEvent.of(error), source, self._seq + 1, time.time()))
            except AgentScopeError as failure:
                report_dropped(failure, "recording the error of a run")
        self._close()
        self._sink.on_error(error)

    def on_completed(self) -> None:
        self._upstream = None
        log, self._log = self._log, None
        try:
            if log is not None:
                log.close()
        except EventLogError as error:
            failure = error
        else:
            self._sink.on_completed()
            return
        self._sink.on_error(failure)

    def dispose(self) -> None:
        super().dispose()
        self._close()

    def _close(self) -> None:
        log, self._log = self._log, None
        if log is not None:
            try:
                log.close()
            except EventLogError as error:
                report_dropped(error, "closing a log of events")
