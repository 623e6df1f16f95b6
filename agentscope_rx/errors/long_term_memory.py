"""Errors of long-term memories."""

from __future__ import annotations

from agentscope_rx.errors.base import AgentScopeError


class LongTermMemoryError(AgentScopeError):
    """A long-term memory could not record or retrieve."""


class LongTermMemoryStorageError(LongTermMemoryError):
    """The database `file` could not be read or written; `__cause__` is its error. Nothing was changed."""

    def __init__(self, file: str, reason: str, *, retryable: bool = False) -> None:
        super().__init__(f"The long-term memory {file} could not be used: {reason}. Nothing was changed.")
        self.file = file
        self.retryable = retryable


class LongTermMemoryFormatError(LongTermMemoryError):
    """The database `file` is of another program, or of a newer version of the library; nothing was changed."""

    def __init__(self, file: str, what: str) -> None:
        super().__init__(f"{file} is no long-term memory that this version can use: {what} Nothing was changed.")
        self.file = file


class LongTermMemoryServiceError(LongTermMemoryError):
    """The service refused a request, could not be reached, or answered something else; `status` if it gave one."""

    def __init__(self, service: str, what: str, *, status: int | None = None, retryable: bool = False) -> None:
        super().__init__(f"{service}: {what}")
        self.service = service
        self.status = status
        self.retryable = retryable


class DistillationError(LongTermMemoryError):
    """The model gave no usable facts; the messages were stored as they are. `problems` has one line an attempt."""

    def __init__(self, what: str, problems: tuple[str, ...]) -> None:
        super().__init__(f"{what} The model's answers: {'; '.join(problems)}")
        self.problems = problems
