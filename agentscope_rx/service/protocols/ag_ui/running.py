"""`ShownRun`: one run as it is shown, the outermost or that of a sub-agent, and what it has left open.

| block event                      | AG-UI                                                                     |
|----------------------------------|---------------------------------------------------------------------------|
| MODEL_CALL_START, MODEL_CALL_END | STEP_STARTED, STEP_FINISHED of "reasoning"                                |
| TOOL_RESULT_START                | STEP_STARTED of "acting", until the next model call or the end            |
| TEXT_BLOCK_*                     | TEXT_MESSAGE_*, with the id of the message; its next text opens it again  |
| THINKING_BLOCK_*                 | REASONING_START, REASONING_MESSAGE_*, REASONING_END, with the block's id  |
| TOOL_CALL_*                      | TOOL_CALL_START, ARGS, END                                                |
| DATA_BLOCK_DELTA                 | CUSTOM "data"                                                             |
| CUSTOM `plan`                    | ACTIVITY_SNAPSHOT "plan"                                                  |
| three other CUSTOM               | CUSTOM of that name: `tool_progress`, `citation`, `background`            |

Within a sub-agent the ids of calls begin with those of the calls around them: `call_2/call_1`, as those of pending
calls do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ag_ui.core import (
    ActivitySnapshotEvent,
    BaseEvent,
    CustomEvent,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentErrorEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)

from agentscope_rx.events import blocks
from agentscope_rx.events.base import Event

_CUSTOM = frozenset({"tool_progress", "citation", "background"})
REASONING, ACTING = "reasoning", "acting"


class ShownRun:
    """What was shown of one run. `id` is the sub-agent's run, None for the outermost one."""

    def __init__(self, first: Event) -> None:
        self.path: tuple[str, ...] = first.path
        self.id: str | None = first.run_id if first.depth else None
        self.prefix: str = "".join([f"{call}/" for call in first.path[1::2]])
        self.agent: str = first.agent
        self.ended: bool = False
        self.calls: dict[str, str | None] = {}
        """The calls that were shown, with the ids of their messages."""
        self.void: bool = False
        """What was shown is not what the messages have; a snapshot is due."""
        self._message: str | None = None
        self._seen = False
        """Something of the message is with the client."""
        self._text: str | None = None
        self._thought: str | None = None
        self._open_calls: dict[str, bool] = {}
        self._step: str | None = None

    @property
    def quiet(self) -> bool:
        """True if no message is being written."""
        return self._message is None

    def around(self, call_id: str, path: tuple[str, ...]) -> bool:
        """True if this run takes place within this call of the run with this path."""
        own = len(path)
        return len(self.path) > own and self.path[:own] == path and self.path[own] == call_id

    def show(self, block: blocks.BlockEvent) -> Iterator[BaseEvent]:
        """The events that this block event is."""
        step = _STEPS.get(type(block))
        if step is not None:
            yield from step(self, block)

    def finish_message(self) -> None:
        """The message is complete."""
        self._message, self._seen = None, False

    def close(self) -> Iterator[BaseEvent]:
        """End what is open."""
        yield from self._end_text()
        yield from self._end_thought()
        for id in list(self._open_calls):
            yield from self._end_call(id)
        yield from self._end_step()
        self.finish_message()

    def cut_off(self) -> Iterator[BaseEvent]:
        """End what is open, and the run of a sub-agent that has not ended itself."""
        yield from self.close()
        if self.id is not None and not self.ended:
            self.ended = True
            yield SubagentErrorEvent(subagent_run_id=self.id, message="The sub-agent was cut off.", code="cancelled")

    def step(self, name: str) -> Iterator[BaseEvent]:
        """Another phase begins."""
        if self._step != name:
            yield from self._end_step()
            self._step = name
            yield StepStartedEvent(step_name=name, subagent_run_id=self.id)

    def _end_step(self) -> Iterator[BaseEvent]:
        if self._step is not None:
            yield StepFinishedEvent(step_name=self._step, subagent_run_id=self.id)
            self._step = None

    def _begin_message(self, block: blocks.BlockEvent, *, seen: bool = True) -> str | None:
        id = block.metadata.get("message_id")
        self._message = id if isinstance(id, str) else None
        self._seen = self._seen or seen
        return self._message

    def _model_start(self, block: blocks.ModelCallStartEvent) -> Iterator[BaseEvent]:
        yield from self.step(REASONING)

    def _model_end(self, block: blocks.ModelCallEndEvent) -> Iterator[BaseEvent]:
        yield from self._end_step()

    def _result_start(self, block: blocks.ToolResultStartEvent) -> Iterator[BaseEvent]:
        yield from self.step(ACTING)

    def _text_start(self, block: blocks.TextBlockStartEvent) -> Iterator[BaseEvent]:
        yield from self._end_text()
        self._text = self._begin_message(block) or block.block_id
        yield TextMessageStartEvent(message_id=self._text, role="assistant", subagent_run_id=self.id)

    def _text_delta(self, block: blocks.TextBlockDeltaEvent) -> Iterator[BaseEvent]:
        if self._text is not None:
            yield TextMessageContentEvent(message_id=self._text, delta=block.delta, subagent_run_id=self.id)

    def _text_end(self, block: blocks.TextBlockEndEvent) -> Iterator[BaseEvent]:
        self.void = self.void or block.text is not None
        yield from self._end_text()

    def _end_text(self) -> Iterator[BaseEvent]:
        if self._text is not None:
            yield TextMessageEndEvent(message_id=self._text, subagent_run_id=self.id)
            self._text = None

    def _thought_start(self, block: blocks.ThinkingBlockStartEvent) -> Iterator[BaseEvent]:
        yield from self._end_thought()
        self._begin_message(block, seen=False)
        id = self._thought = block.block_id
        yield ReasoningStartEvent(message_id=id, subagent_run_id=self.id)
        yield ReasoningMessageStartEvent(message_id=id, role="reasoning", subagent_run_id=self.id)

    def _thought_delta(self, block: blocks.ThinkingBlockDeltaEvent) -> Iterator[BaseEvent]:
        if self._thought is not None:
            yield ReasoningMessageContentEvent(message_id=self._thought, delta=block.delta, subagent_run_id=self.id)

    def _thought_end(self, block: blocks.ThinkingBlockEndEvent) -> Iterator[BaseEvent]:
        yield from self._end_thought()

    def _end_thought(self) -> Iterator[BaseEvent]:
        if self._thought is not None:
            yield ReasoningMessageEndEvent(message_id=self._thought, subagent_run_id=self.id)
            yield ReasoningEndEvent(message_id=self._thought, subagent_run_id=self.id)
            self._thought = None

    def _call_start(self, block: blocks.ToolCallStartEvent) -> Iterator[BaseEvent]:
        id, message = self.prefix + block.tool_call_id, self._begin_message(block)
        self.calls[id] = message
        self._open_calls[id] = False
        yield ToolCallStartEvent(
            tool_call_id=id,
            tool_call_name=block.tool_call_name,
            parent_message_id=message,
            subagent_run_id=self.id,
        )

    def _call_delta(self, block: blocks.ToolCallDeltaEvent) -> Iterator[BaseEvent]:
        id = self.prefix + block.tool_call_id
        if id in self._open_calls:
            self._open_calls[id] = True
            yield ToolCallArgsEvent(tool_call_id=id, delta=block.delta, subagent_run_id=self.id)

    def _call_end(self, block: blocks.ToolCallEndEvent) -> Iterator[BaseEvent]:
        yield from self._end_call(self.prefix + block.tool_call_id)

    def _end_call(self, id: str) -> Iterator[BaseEvent]:
        written = self._open_calls.pop(id, None)
        if written is False:
            # a model that gives no arguments may write nothing, which clients cannot parse
            yield ToolCallArgsEvent(tool_call_id=id, delta="{}", subagent_run_id=self.id)
        if written is not None:
            yield ToolCallEndEvent(tool_call_id=id, subagent_run_id=self.id)

    def _data(self, block: blocks.DataBlockDeltaEvent) -> Iterator[BaseEvent]:
        message = block.metadata.get("message_id")
        value = {"messageId": message, "blockId": block.block_id, "mimeType": block.media_type}
        source = {"data": block.data} if block.data is not None else {"url": block.url}
        yield CustomEvent(name="data", value={**value, **source}, subagent_run_id=self.id)

    def _custom(self, block: blocks.CustomEvent) -> Iterator[BaseEvent]:
        if block.name == "message_discarded":
            self.void = self.void or self._seen
            self.finish_message()
        elif block.name == "message_replaced":
            self.void = True
        elif block.name == "plan":
            name = block.value.get("name", "plan")
            yield ActivitySnapshotEvent(
                message_id=f"{name}:{self.id or ''}{block.reply_id}",
                activity_type="plan",
                content=dict(block.value),
                subagent_run_id=self.id,
            )
        elif block.name in _CUSTOM:
            yield CustomEvent(name=block.name, value=dict(block.value), subagent_run_id=self.id)


_STEPS: dict[type[blocks.BlockEvent], Callable[[ShownRun, Any], Iterator[BaseEvent]]] = {
    blocks.ModelCallStartEvent: ShownRun._model_start,
    blocks.ModelCallEndEvent: ShownRun._model_end,
    blocks.ToolResultStartEvent: ShownRun._result_start,
    blocks.TextBlockStartEvent: ShownRun._text_start,
    blocks.TextBlockDeltaEvent: ShownRun._text_delta,
    blocks.TextBlockEndEvent: ShownRun._text_end,
    blocks.ThinkingBlockStartEvent: ShownRun._thought_start,
    blocks.ThinkingBlockDeltaEvent: ShownRun._thought_delta,
    blocks.ThinkingBlockEndEvent: ShownRun._thought_end,
    blocks.ToolCallStartEvent: ShownRun._call_start,
    blocks.ToolCallDeltaEvent: ShownRun._call_delta,
    blocks.ToolCallEndEvent: ShownRun._call_end,
    blocks.DataBlockDeltaEvent: ShownRun._data,
    blocks.CustomEvent: ShownRun._custom,
}
