"""`PartialMessage`: the message that a model is writing, from its chunk events alone."""

from __future__ import annotations

from typing import cast

from agentscope_rx.events._times import iso
from agentscope_rx.events.chunk_event import ChunkEvent
from agentscope_rx.messages.blocks import AudioBlock, ContentBlock, TextBlock, ThinkingBlock, ToolUseBlock
from agentscope_rx.messages.msg import Msg, MsgRole
from agentscope_rx.messages.sources import Base64Source
from agentscope_rx.models.accumulate import AudioBuilder, BlockBuilder, block_builder

_Key = tuple[type[ContentBlock], str]


class PartialMessage:
    """A message in progress. Each event costs O(1); `message()` joins the pieces.

    Events that were read from JSON do not show where a text of a message ends and the next begins. So all of its text
    is one block, as are all thoughts up to a signature; media in between begin new ones. Arguments of a call that is
    not whole are in `raw`.
    """

    __slots__ = ("_agent", "_begun", "_counts", "_open", "_parts", "id")

    def __init__(self, first: ChunkEvent) -> None:
        self.id: str = first.message_id
        self._agent = first.agent
        self._begun = first.timestamp
        self._parts: list[BlockBuilder[ContentBlock] | ContentBlock] = []
        self._counts: list[int] = []
        self._open: dict[_Key, int] = {}
        """By kind of block, and by id for calls: the index of the part that further pieces go to."""

    def add(self, event: ChunkEvent) -> None:
        """Add the piece of one event, or the whole block in an event with accumulated content."""
        if event.snapshot is not None:
            self._put(event.snapshot)
        elif event.delta is not None:
            self._join(event.delta)

    def message(self) -> Msg:
        """The message so far."""
        parts = zip(self._parts, self._counts, strict=True)
        content = [part.upto(count) if isinstance(part, BlockBuilder) else part for part, count in parts]
        # chunks without an id are not those of a run
        return Msg(self._agent, content, MsgRole.ASSISTANT, id=self.id or "partial", timestamp=iso(self._begun))

    def _join(self, piece: ContentBlock) -> None:
        key = _key(piece)
        index = self._open.get(key, -1) if _is_piece(piece) else -1
        builder = self._parts[index] if index >= 0 else None
        if not isinstance(builder, BlockBuilder):
            builder = _builder(piece)
            index = self._begin(piece, builder)
        self._counts[index] = builder.add(piece)
        if isinstance(piece, ThinkingBlock) and piece.signature:
            del self._open[key]

    def _put(self, whole: ContentBlock) -> None:
        """Replace the block that this one continues."""
        index = self._open.get(_key(whole), -1)
        if index >= 0 and _continues(whole, self._parts[index]):
            self._parts[index] = whole
        else:
            self._begin(whole, whole)

    def _begin(self, piece: ContentBlock, part: BlockBuilder[ContentBlock] | ContentBlock) -> int:
        if _is_piece(piece) or isinstance(piece, ToolUseBlock):
            self._open[_key(piece)] = len(self._parts)
        else:
            self._open.clear()
        self._parts.append(part)
        self._counts.append(0)
        return len(self._parts) - 1


def _key(block: ContentBlock) -> _Key:
    return type(block), block.id if isinstance(block, ToolUseBlock) else ""


def _builder(first: ContentBlock) -> BlockBuilder[ContentBlock]:
    if isinstance(first, AudioBlock) and isinstance(first.source, Base64Source):
        return cast("BlockBuilder[ContentBlock]", AudioBuilder(first.source.media_type))
    return block_builder(first)


def _is_piece(block: ContentBlock) -> bool:
    """True if it may be a piece of a block; False if it is a whole one."""
    if isinstance(block, AudioBlock):
        return isinstance(block.source, Base64Source)
    return isinstance(block, (TextBlock, ThinkingBlock)) or (isinstance(block, ToolUseBlock) and block.raw is not None)


def _continues(whole: ContentBlock, part: object) -> bool:
    if isinstance(whole, TextBlock):
        return isinstance(part, TextBlock) and whole.text.startswith(part.text)
    if isinstance(whole, ThinkingBlock):
        return isinstance(part, ThinkingBlock) and whole.thinking.startswith(part.thinking)
    return type(whole) is type(part)
