"""Errors of memories, and of what makes conversations smaller."""

from __future__ import annotations

from agentscope_rx.errors.base import AgentScopeError


class MemoryConflictError(AgentScopeError):
    """Another writer has changed the stored conversation `key`; nothing was written, and nothing will be.

    The memory still shows its own state of the conversation. `reload()` takes over the stored one.
    """

    def __init__(self, key: str, expected: int, found: int | None) -> None:
        stored = "it was deleted" if found is None else f"version {found} is stored"
        super().__init__(
            f"Conversation {key!r} was not changed: version {expected} was expected, and {stored}, so another writer "
            "has changed it. Nothing was written. Two processes must not run one conversation at once; call reload() "
            "to take over what is stored, and repeat the change."
        )
        self.key = key
        self.expected = expected
        self.found = found


class CompactionError(AgentScopeError):
    """A step of a compaction, `step`, could not make the conversation smaller; nothing was changed."""

    def __init__(self, step: str, reason: str) -> None:
        super().__init__(f"The conversation was not made smaller by {step!r}: {reason}")
        self.step = step
        self.reason = reason
