"""`Followed`: what a response can send: a `LiveRun`, a `RelayedRun`, or the runs of a conversation."""

from __future__ import annotations

from typing import Any, Protocol

from agentscope_rx.agent.handle.event_log import LoggedEvent
from agentscope_rx.reactive.replay_log import LogStatistics


class EventReader(Protocol):
    """Reads logged events, one at a time; a cancelled `wait` loses nothing."""

    @property
    def waiting(self) -> int:
        """The number of events that can be read without waiting."""
        ...

    async def wait(self) -> bool:
        """True when there is an event to read, False at the end; raises the error of a failed run."""
        ...

    def take(self) -> LoggedEvent:
        """The next event; `wait()` must have returned True."""
        ...


class Followed(Protocol):
    """What a response sends: a `LiveRun`, or what can be followed as one."""

    def follow(self, after: int | None = None) -> EventReader:
        """A reader of the events after number `after`, or of all. Pass it to `leave` in the end."""
        ...

    # (the reader is its own)
    async def leave(self, reader: Any) -> None:
        """Close the reader."""
        ...

    def ended_at(self, after: int | None) -> bool:
        """True if nothing follows the event of number `after`."""
        ...

    def statistics(self) -> LogStatistics:
        """The numbers of emitted and kept events."""
        ...
