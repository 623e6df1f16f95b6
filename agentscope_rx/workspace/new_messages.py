"""`NewMessages`: the messages of a conversation that are not noted yet. Each is given once, in batches.

The last message that was noted is a state of the conversation. It moves on when a batch is noted, so a failed or
interrupted record is made up for by the next one. Where it is unknown, the marks of the daily files tell.

| the state                                           | new is                                           |
|-----------------------------------------------------|--------------------------------------------------|
| names a message of the conversation                 | what is behind it                                |
| names one that is gone (cleared, another branch)    | what this call has added                         |
| there is none                                       | the newest `FIRST` messages                      |
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, cast

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.events import EventSource, PostCallEvent
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import HIDDEN, ContentBlock, Msg, MsgRole, TextBlock, ToolResultBlock, ToolUseBlock
from agentscope_rx.models.wire.speaker_names import AS_IT_IS
from agentscope_rx.parts import Part
from agentscope_rx.workspace.daily_log import mark_of
from agentscope_rx.workspace.nested import without_instructions

FIRST: Final = 100
"""The messages of a conversation that is noted for the first time."""
BATCH: Final = 24_000
"""Characters that one question to the model holds, but for a longer message."""
TEXT: Final = 4000
"""Characters of a user's or an assistant's text that the model reads."""
RESULT: Final = 1000
"""Characters of a tool's result that the model reads."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages in a short form, and the id of the last message of the conversation that they go through to."""

    messages: tuple[Msg, ...]
    through: str


def _dump(through: str) -> object:
    return {"through": through}


def _read(saved: object) -> str:
    through = cast("dict[str, object]", saved).get("through") if isinstance(saved, dict) else None
    if not isinstance(through, str):
        raise InvalidInputError(f"This is no state of memory files: {saved!r:.60}.")
    return through


class NewMessages:
    """The states of all conversations that one hook serves."""

    def __init__(self, name: str) -> None:
        self._part: Part[str] = Part(name, 1, "", dump=_dump, read=_read)

    def of(self, event: PostCallEvent, marks: Collection[str]) -> Iterator[Batch]:
        """The new messages at the end of this call; `marks` are those of the daily files."""
        through = self._part.get(event.source)
        history = event.history
        start = _start(history, through, marks, event.input)
        batch: list[Msg] = []
        size = 0
        for message in [event.message if each.id == event.message.id else each for each in history[start:]]:
            short = _short(message)
            if short is not None:
                batch.append(short)
                size += sum(_length(block) for block in short.content)
            if batch and size >= BATCH:
                yield Batch(tuple(batch), message.id)
                batch, size = [], 0
        if history and start < len(history):
            yield Batch(tuple(batch), history[-1].id)

    def advance(self, source: EventSource, before: str, through: str) -> None:
        """Everything up to this message is noted; not if the state has changed since `before` was read."""
        self._part.change(source, lambda state: (through if state == before else state, None))

    def state(self, source: EventSource) -> str:
        """The last message that is noted; "" if there is none."""
        return self._part.get(source)


def _start(history: Sequence[Msg], through: str, marks: Collection[str], given: Sequence[Msg]) -> int:
    """The index of the first new message."""
    first = 0 if through else max(0, len(history) - FIRST)
    inputs = {message.id for message in given}
    begin = len(history)
    for index in range(len(history) - 1, first - 1, -1):
        message = history[index]
        if message.id == through or (marks and mark_of(message.id) in marks):
            return index + 1
        if message.id in inputs:
            begin = index
    return begin if through else first


def _short(message: Msg) -> Msg | None:
    """The message as the model reads it; None if it says nothing that could be noted."""
    if message.role is MsgRole.SYSTEM or message.metadata.get(AS_IT_IS) or HIDDEN in message.marks:
        return None
    content: list[ContentBlock] = []
    for block in message.content:
        if isinstance(block, TextBlock) and block.text.strip():
            content.append(TextBlock(_cut(block.text, TEXT)))
        elif isinstance(block, ToolResultBlock):
            own = without_instructions(block)
            content.append(own.replace(output=_cut(own.text, RESULT)))
        elif isinstance(block, ToolUseBlock):
            content.append(ToolUseBlock(block.id, block.name, {}))
    return message.replace(content=content) if content else None


def _length(block: ContentBlock) -> int:
    return len(block.text) if isinstance(block, TextBlock | ToolResultBlock) else 50


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]} ... ({len(text) - limit} more characters)"
