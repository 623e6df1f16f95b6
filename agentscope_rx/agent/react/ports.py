"""`ReActCore`: the agent as seen by the stages of a ReAct run. `ReActAgent` has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agentscope_rx.agent.run import Run, Stage
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.options import ExecutionConfig, GenerateOptions


class ReActCore(Protocol):
    """A ReAct agent, as its stages see it. The methods are documented at `ReActAgent`."""

    name: str
    model: ChatModel
    max_iters: int
    generate_options: GenerateOptions
    tool_execution_config: ExecutionConfig | None
    repeat_tool_choice: bool

    @property
    def interrupt_grace(self) -> float: ...

    @property
    def discards_partial(self) -> bool: ...

    def reasoning(self, run: Run, *, sent_back: bool = False) -> Stage: ...

    def acting(self, run: Run, calls: Sequence[ToolUseBlock]) -> Stage: ...

    def summarizing(self, run: Run, which: str | None = None) -> Stage: ...

    def end_interrupted(self, run: Run) -> Stage: ...

    def end_limited(self, run: Run, which: str, limit: float) -> Stage: ...
