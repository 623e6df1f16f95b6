"""Errors of events as JSON: their versions, and the files that hold them."""

from __future__ import annotations

from agentscope_rx.errors.base import AgentScopeError, InvalidInputError


class EventVersionError(InvalidInputError):
    """An event was written by a newer release: `version` is the version of its JSON, `newest` the newest known one."""

    def __init__(self, version: int, newest: int) -> None:
        super().__init__(
            f"This event has version {version} of the events' JSON, and this release reads versions up to {newest}. "
            "It was written by a newer release: update agentscope-rx."
        )
        self.version = version
        self.newest = newest


class EventLogError(AgentScopeError):
    """A log of events could not be opened, written or read; `file` names it. Its cause is the system's error."""

    def __init__(self, message: str, *, file: str) -> None:
        super().__init__(message)
        self.file = file


class EventLineError(EventLogError):
    """Line number `line` of a log is not an event, or is cut off. Its cause is the fault."""

    def __init__(self, message: str, *, file: str, line: int) -> None:
        super().__init__(message, file=file)
        self.line = line
