"""`ActiveMember`: the agent of a round as its stages see it: the member's model and settings in the life of `Handoffs`.

reasoning(ActiveMember, run)  ->  tail(handoffs.acting(run))     the next stage decides anew which member is active
"""

from __future__ import annotations

from collections.abc import Sequence

from agentscope_rx.agent.react.react_agent import ReActAgent
from agentscope_rx.agent.react.stage import ReActCore
from agentscope_rx.agent.run import Run, Stage
from agentscope_rx.memory import TokenWindow
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.options import ExecutionConfig, GenerateOptions
from agentscope_rx.tools.base import InDoubt


class ActiveMember:
    """A member, whose stages lead on to those of the `whole`, which bounds the rounds."""

    __slots__ = (
        "_whole",
        "generate_options",
        "in_doubt",
        "interrupt_grace",
        "max_iters",
        "memory_window",
        "model",
        "name",
        "repeat_tool_choice",
        "tool_execution_config",
    )

    def __init__(self, member: ReActAgent, whole: ReActCore) -> None:
        self._whole = whole
        self.name: str = member.name
        self.model: ChatModel = member.model
        self.max_iters: int = whole.max_iters
        self.generate_options: GenerateOptions = member.generate_options
        self.tool_execution_config: ExecutionConfig | None = member.tool_execution_config
        self.repeat_tool_choice: bool = member.repeat_tool_choice
        self.memory_window: TokenWindow | None = member.memory_window
        self.in_doubt: InDoubt = member.in_doubt
        self.interrupt_grace: float = member.interrupt_grace

    @property
    def discards_partial(self) -> bool:
        return self._whole.discards_partial

    def reasoning(self, run: Run, *, sent_back: bool = False) -> Stage:
        return self._whole.reasoning(run, sent_back=sent_back)

    def acting(self, run: Run, calls: Sequence[ToolUseBlock]) -> Stage:
        return self._whole.acting(run, calls)

    def summarizing(self, run: Run, which: str | None = None) -> Stage:
        return self._whole.summarizing(run, which)

    def end_interrupted(self, run: Run) -> Stage:
        return self._whole.end_interrupted(run)

    def end_limited(self, run: Run, which: str, limit: float) -> Stage:
        return self._whole.end_limited(run, which, limit)
