"""The events of a call: progress and retries as they come, and last its one result."""

from __future__ import annotations

from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import OutputBlock, ToolResultBlock, ToolUseBlock


@dataclass(frozen=True, slots=True)
class ToolBegun:
    """A call with limits begins, after `queued` seconds of waiting. Calls without limits do not emit it."""

    call: ToolUseBlock
    queued: float


@dataclass(frozen=True, slots=True)
class ToolChunk:
    """Progress of a call; the result follows.

    `emitted` is True for progress by the context, which is no value of the tool.
    """

    call: ToolUseBlock
    output: tuple[OutputBlock, ...]
    emitted: bool = False


@dataclass(frozen=True, slots=True)
class ToolRetry:
    """Attempt `number` of a call failed; the next begins in `delay` seconds.

    With `discarded` the chunks of the failed attempt do not count.
    """

    call: ToolUseBlock
    number: int
    delay: float
    error: Exception
    discarded: bool


@dataclass(frozen=True, slots=True)
class ToolNested:
    """An event of a run inside the call, such as a sub-agent's."""

    call: ToolUseBlock
    event: object


@dataclass(frozen=True, slots=True)
class ToolNotice:
    """An event of the run itself that the call reports, such as a change of a plan."""

    call: ToolUseBlock
    event: object


ToolEvent = ToolBegun | ToolChunk | ToolRetry | ToolNested | ToolNotice | ToolResultBlock
"""An event of a call: its beginning if it may have waited, progress, and last its one result."""
