"""A run's events in the wire format of server-sent events (WHATWG HTML, section 9.2), and the bytes of a response.

    id: 7
    event: reasoning_chunk
    data: {"type":"reasoning_chunk","run_id":"...","seq":7,...}
    <blank line>

Events are sent as they come; heartbeats are sent between them, by the loop's clock:

    events      --a--b-----------c--|
    heartbeats  ------!------!------!        every `heartbeat` seconds, also while events come
    bytes       --a--b!------!---c--|

A heartbeat that falls due while the client does not read is sent when it reads again; those due after it are skipped.
It reads nothing from the log, so it is no demand for the run's next event.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from typing import Protocol

from agentscope_rx.agent.handle.event_log import LoggedEvent
from agentscope_rx.errors.text import encode_json
from agentscope_rx.events import ErrorEvent
from agentscope_rx.service.runs.followed import EventReader

HEARTBEAT = b":\n"
"""A comment: clients skip it, proxies see that the connection lives. Without a blank line: some clients dispatch an
empty event at each of those."""

_LINE_ENDS = re.compile(r"\r\n|\r|\n")


class EventEncoder(Protocol):
    """The form that a protocol gives the events of a run, for one client. Each method may return no bytes."""

    def encode(self, logged: LoggedEvent) -> bytes:
        """The bytes of the next event."""
        ...

    def fail(self, error: Exception) -> bytes:
        """The bytes for an error that the log ends with, or that encoding the next event has raised."""
        ...

    def close(self) -> bytes:
        """The bytes after the run's last event."""
        ...


class OwnFormat:
    """Our own events as they are: the default `EventEncoder`."""

    __slots__ = ()

    def encode(self, logged: LoggedEvent) -> bytes:
        """The event with its number, from which a client can resume."""
        return frame(logged)

    def fail(self, error: Exception) -> bytes:
        """An `error` event without an id, because a client cannot resume after it."""
        return encode_frame(ErrorEvent.type, ErrorEvent.of(error).to_json())

    def close(self) -> bytes:
        """Nothing: the run's last event says how it ended."""
        return b""


def frame(logged: LoggedEvent) -> bytes:
    """The bytes of a logged event. They are made for each client from the JSON that all share: a copy, no encoding."""
    event = logged.event
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.type.encode(), logged.json)


def encode_frame(event: str, data: str) -> bytes:
    """The bytes of a server-sent event with this JSON as data. It has no id, so the client keeps its last one."""
    lines = "".join(f"data: {line}\n" for line in _LINE_ENDS.split(data))
    return encode_json(f"event: {event}\n{lines}\n")


def retry_hint(seconds: float) -> bytes:
    """The time that a client should wait before it connects again; a line of the event that follows."""
    return f"retry: {round(seconds * 1000)}\n".encode()


async def body(
    reader: EventReader,
    *,
    encoder: EventEncoder | None = None,
    heartbeat: float | None = None,
    retry: float | None = None,
    refuse: bool = False,
) -> AsyncGenerator[bytes]:
    """Yields whole events and comments; ends after the run's last event. Reads the next event only on demand.

    An error is the last thing that is sent. With `refuse` one before the first bytes is raised, because the response
    can still have a status for it.
    """
    encoder = encoder or OwnFormat()
    loop = asyncio.get_running_loop()
    started = False
    beat = None if heartbeat is None else loop.time() + heartbeat
    while True:
        if beat is not None and heartbeat is not None and loop.time() >= beat:
            yield _first(HEARTBEAT, started, retry)
            started = True
            beat = loop.time() + heartbeat
        try:
            more = await wait_for_event(reader, beat)
            # an event of `agent.start()` is written as JSON only now, and may have no JSON form
            chunk = encoder.encode(reader.take()) if reader.waiting else b""
            if not more:
                chunk = encoder.close()
        except Exception as error:
            if refuse and not started:
                raise
            chunk, more = encoder.fail(error), False
        if chunk:
            yield _first(chunk, started, retry)
            started = True
        if not more:
            return


def _first(chunk: bytes, started: bool, retry: float | None) -> bytes:
    return chunk if started or retry is None else retry_hint(retry) + chunk


async def wait_for_event(reader: EventReader, until: float | None) -> bool:
    """True when there is an event, or when the loop's clock reaches `until`; False at the end of the log."""
    if reader.waiting:
        return True
    limit = asyncio.timeout_at(until)
    try:
        async with limit:
            return await reader.wait()
    except TimeoutError:
        # the run may have failed with a TimeoutError of its own
        if not limit.expired():
            raise
        return True
