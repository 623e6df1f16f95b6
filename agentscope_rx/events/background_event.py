"""`BackgroundEvent`: a tool call that goes on in the background has begun, has been moved there, or has ended.

    PreActing(c)  Background(c, "started")  PostActing(c: a handle) ...  Background(c, "completed")  Input(the result)

The events of the work itself have a path of their own: that of the run, the id of the call, the id of the job.
"""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, Literal

from agentscope_rx.events.base import Event, register
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages.blocks import ToolResultBlock, ToolUseBlock
from agentscope_rx.messages.frozen import check_encodable

JobState = Literal["started", "promoted", "completed", "failed", "stopped", "in_doubt"]
"""What a `BackgroundEvent` reports. "promoted": the call took longer than its time in the foreground. "in_doubt": its
process has ended, and may have done the work or not."""


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundEvent(Event):
    """Work in the background has reached `state`. `result` is its result, once it has ended.

    `job` is the id of the work, as in the tools for background work; `tool_use` is the call that began it. `elapsed`
    counts seconds from the beginning of the call.
    """

    type: ClassVar[str] = "background"

    job: str = ""
    tool_use: ToolUseBlock = field(default_factory=lambda: ToolUseBlock("", ""))
    state: JobState = "started"
    result: ToolResultBlock | None = None
    elapsed: float = 0.0

    def __post_init__(self) -> None:
        check_encodable(self.job, "BackgroundEvent.job")
