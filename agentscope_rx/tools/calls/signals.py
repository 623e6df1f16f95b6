"""What a call signals: progress and retries as they come, and last its one result."""

from __future__ import annotations

from dataclasses import dataclass

from agentscope_rx.messages import OutputBlock, ToolResultBlock, ToolUseBlock


@dataclass(frozen=True, slots=True)
class ToolBegun:
    """A call that has limits to keep begins, after `queued` seconds of waiting; other calls begin without a word."""

    call: ToolUseBlock
    queued: float


@dataclass(frozen=True, slots=True)
class ToolChunk:
    """Progress of a call, to be shown; the result follows. `emitted`: by the context, so it is no value of the tool."""

    call: ToolUseBlock
    output: tuple[OutputBlock, ...]
    emitted: bool = False


@dataclass(frozen=True, slots=True)
class ToolRetry:
    """Attempt `number` of a call failed; the next begins in `delay` seconds. `discarded`: its chunks do not count."""

    call: ToolUseBlock
    number: int
    delay: float
    error: Exception
    discarded: bool


@dataclass(frozen=True, slots=True)
class ToolNested:
    """Something that a run inside the call says: an event of a sub-agent."""

    call: ToolUseBlock
    event: object


ToolEvent = ToolBegun | ToolChunk | ToolRetry | ToolNested | ToolResultBlock
"""What a call signals: that it begins if it might have waited, progress, and last its one result."""
