"""`RelayedRun`: a run of another process, read from the pages that its owner writes. See `RunRelay`."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TypedDict, cast

from agentscope_rx.agent.handle.event_log import LoggedEvent
from agentscope_rx.errors import EventsGoneError
from agentscope_rx.events import event_from_json
from agentscope_rx.reactive.replay_log import LogStatistics
from agentscope_rx.service.failure import RunLostError
from agentscope_rx.session import Session

HEAD = "head"
PAGES_AT_ONCE = 8


class Head(TypedDict):
    """What the owner writes of a run beside its events."""

    conversation: str | None
    first: int
    """The number of the first page that is kept, and of the next one that will be written."""
    next: int
    dropped: int
    """The number of the last event that was dropped, and of the last one that was written; -1 for none."""
    last: int
    ended: bool
    beat: int
    """Grows with each write."""
    at: float
    """When it was written, in seconds since the epoch."""


def run_key(run_id: str) -> str:
    """The session's key of a run."""
    return f"run/{run_id}"


def page_name(number: int) -> str:
    """The name of a page in the run's session."""
    return f"page/{number}"


class RelayedRun:
    """A run that is live in another process, or has ended there a short time ago; followed as a `LiveRun` is."""

    __slots__ = ("_head", "_interval", "_session", "_ttl", "id")

    def __init__(self, session: Session, run_id: str, head: Head, interval: float, ttl: float) -> None:
        self.id: str = run_id
        self._session = session
        self._head = head
        self._interval = interval
        self._ttl = ttl

    @property
    def ended(self) -> bool:
        """True if the run had ended when it was found."""
        return self._head["ended"]

    def follow(self, after: int | None = None) -> RelayReader:
        """A reader of the events after number `after`, or of all; `EventsGoneError` if one of them was dropped."""
        dropped = self._head["dropped"]
        if dropped >= 0 and (after is None or after < dropped):
            raise EventsGoneError(self.id, after, dropped + 1)
        return RelayReader(
            self._session, self.id, self._head, -1 if after is None else after, self._interval, self._ttl
        )

    async def leave(self, reader: RelayReader) -> None:
        """Close the reader; the run goes on."""
        reader.close()

    def ended_at(self, after: int | None) -> bool:
        """True if the run has ended with the event of number `after`."""
        return self.ended and after is not None and after == self._head["last"]

    def statistics(self) -> LogStatistics:
        """Nothing is kept in this process."""
        return LogStatistics(self._head["last"] + 1, 0, 0, 0, 0, 0, self.ended)


class RelayReader:
    """One reader of a run's pages. It slows nobody: what it has not read is dropped at some time."""

    __slots__ = ("_after", "_beat", "_closed", "_events", "_interval", "_next", "_run_id", "_seen", "_session", "_ttl")

    def __init__(self, session: Session, run_id: str, head: Head, after: int, interval: float, ttl: float) -> None:
        self._session = session
        self._run_id = run_id
        self._after = after
        self._interval = interval
        self._ttl = ttl
        self._next = head["first"]
        self._beat = -1
        self._seen: float | None = None
        self._events: deque[LoggedEvent] = deque()
        self._closed = False

    @property
    def waiting(self) -> int:
        """The number of events that can be read without waiting."""
        return len(self._events)

    async def wait(self) -> bool:
        """True when there is an event, False at the end.

        `EventsGoneError` if pages were dropped that it has not read, `RunLostError` if the owner gives no sign of life.
        """
        while not self._closed:
            if self._events:
                return True
            head = cast("Head | None", await self._session.load(run_key(self._run_id), HEAD))
            if head is None:
                raise RunLostError(self._run_id)
            if self._next < head["next"]:
                await self._read(head)
            elif head["ended"]:
                return False
            else:
                self._check_alive(head)
                await asyncio.sleep(self._interval)
        return False

    def take(self) -> LoggedEvent:
        """The next event; `wait()` must have returned True."""
        return self._events.popleft()

    def close(self) -> None:
        """Stop reading."""
        self._closed = True

    async def _read(self, head: Head) -> None:
        end = min(self._next + PAGES_AT_ONCE, head["next"])
        names = [page_name(number) for number in range(self._next, end)]
        pages = (await self._session.load_all(run_key(self._run_id), names)).values
        if len(pages) < len(names):
            raise EventsGoneError(self._run_id, self._after, head["dropped"] + 1)
        read: list[LoggedEvent] = []
        for name in names:
            for seq, text in cast("list[tuple[int, str]]", pages[name]):
                if seq > self._after:
                    read.append(LoggedEvent(event_from_json(text), text.encode()))
                    self._after = seq
        self._next = end
        self._events.extend(read)

    def _check_alive(self, head: Head) -> None:
        now = asyncio.get_running_loop().time()
        if self._seen is None or head["beat"] != self._beat:
            self._beat, self._seen = head["beat"], now
        elif now - self._seen > self._ttl:
            raise RunLostError(self._run_id)
