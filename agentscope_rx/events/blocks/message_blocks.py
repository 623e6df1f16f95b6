"""`MessageBlocks`: the blocks of one message, from its chunks and then from the message itself.

Chunks are a preview, the message of the Post event is what counts. If it has blocks that no chunk has shown, they are
shown then; a text that was cut or changed at the end has its final `text` in its end event; and a message that differs
in another way follows as a whole, as `message_replaced`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Literal

from agentscope_rx.events.blocks.content import BlockData, arguments_of, data_of
from agentscope_rx.events.blocks.values import (
    BlockEvent,
    CustomEvent,
    DataBlockDeltaEvent,
    DataBlockEndEvent,
    DataBlockStartEvent,
    TextBlockDeltaEvent,
    TextBlockEndEvent,
    TextBlockStartEvent,
    ThinkingBlockDeltaEvent,
    ThinkingBlockEndEvent,
    ThinkingBlockStartEvent,
    ToolCallDeltaEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)
from agentscope_rx.messages.blocks import (
    AudioBlock,
    ContentBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agentscope_rx.messages.msg import Msg

Make = Callable[..., Any]
"""Makes an event of this kind, with what all events of the run have in common."""

_Kind = Literal["text", "thinking", "data", "call"]


class _Shown:
    """A block as it was shown."""

    __slots__ = ("id", "kind", "name", "open", "pieces")

    def __init__(self, kind: _Kind, id: str, name: str = "") -> None:
        self.kind = kind
        self.id = id
        self.name = name
        self.pieces: list[str] = []
        self.open = True

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class MessageBlocks:
    """The blocks of one message so far. `id` is the message's."""

    __slots__ = ("_calls", "_make", "_shown", "id")

    def __init__(self, id: str, make: Make) -> None:
        self.id: str = id
        self._make = make
        self._shown: list[_Shown] = []
        self._calls: dict[str, _Shown] = {}

    def add(self, piece: ContentBlock) -> Iterator[BlockEvent]:
        """Show the next piece of the message."""
        if isinstance(piece, TextBlock):
            yield from self._text("text", piece.text)
        elif isinstance(piece, ThinkingBlock):
            yield from self._text("thinking", piece.thinking)
            if piece.signature:
                # it ends this thought; the next piece is of another one
                yield from self._end_open()
        elif isinstance(piece, ToolUseBlock):
            if piece.raw is None:
                # a whole call
                yield from self.replace(piece)
            else:
                yield from self._call(piece, piece.raw)
        elif not isinstance(piece, ToolResultBlock):
            for data in data_of(piece):
                yield from self._data(data, joins=isinstance(piece, AudioBlock))

    def replace(self, whole: ContentBlock) -> Iterator[BlockEvent]:
        """Show what is new of a block that comes as a whole each time."""
        last = self._shown[-1] if self._shown else None
        if isinstance(whole, ToolUseBlock):
            known = self._calls.get(whole.id)
            yield from self._call(whole, _new_part(known, arguments_of(whole) if whole.raw is None else whole.raw))
        elif isinstance(whole, (TextBlock, ThinkingBlock)):
            text = whole.text if isinstance(whole, TextBlock) else whole.thinking
            kind: _Kind = "text" if isinstance(whole, TextBlock) else "thinking"
            same = last is not None and last.kind == kind and last.open and text.startswith(last.text)
            if not same:
                yield from self._end_open()
            yield from self._text(kind, _new_part(last if same else None, text))
        else:
            yield from self.add(whole)

    def discard(self) -> Iterator[BlockEvent]:
        """End what is open: the attempt that wrote it is void."""
        yield from self._end_open(calls=True)
        if self._shown:
            yield self._make(CustomEvent, name="message_discarded", value={"message_id": self.id})

    def finish(self, message: Msg) -> Iterator[BlockEvent]:
        """End what is open, and show what the message has besides."""
        content = _merged(message.content)
        last = self._shown[-1] if self._shown else None
        final = content[len(self._shown) - 1] if 0 < len(self._shown) <= len(content) else None
        if last is not None and last.open and last.kind == "text" and isinstance(final, TextBlock):
            text = final.text if final.text != last.text else None
            if text is not None:
                last.pieces = [text]
            yield self._ended(last, text)
        yield from self._end_open(calls=True)
        if not all(map(_is_same, self._shown, content)) or len(self._shown) > len(content):
            yield self._make(CustomEvent, name="message_replaced", value={"message": message.to_dict()})
            return
        for block in content[len(self._shown) :]:
            yield from self.replace(block)
        yield from self._end_open(calls=True)

    def _text(self, kind: _Kind, text: str) -> Iterator[BlockEvent]:
        if not text:
            return
        shown = self._shown[-1] if self._shown else None
        start, delta = _STARTS_OF_TEXT[kind]
        if shown is None or shown.kind != kind or not shown.open:
            yield from self._end_open()
            shown = self._begin(kind)
            yield self._make(start, block_id=shown.id)
        shown.pieces.append(text)
        yield self._make(delta, block_id=shown.id, delta=text)

    def _call(self, call: ToolUseBlock, arguments: str) -> Iterator[BlockEvent]:
        shown = self._calls.get(call.id)
        if shown is None:
            yield from self._end_open()
            shown = self._calls[call.id] = self._begin("call", call.id, call.name)
            yield self._make(ToolCallStartEvent, tool_call_id=call.id, tool_call_name=call.name)
        if arguments:
            shown.pieces.append(arguments)
            yield self._make(ToolCallDeltaEvent, tool_call_id=call.id, delta=arguments)

    def _data(self, data: BlockData, *, joins: bool) -> Iterator[BlockEvent]:
        shown = self._shown[-1] if self._shown else None
        if shown is None or not (joins and shown.kind == "data" and shown.open and shown.name == data.media_type):
            yield from self._end_open()
            shown = self._begin("data", name=data.media_type)
            yield self._make(DataBlockStartEvent, block_id=shown.id, media_type=data.media_type, name=data.name)
        yield self._make(
            DataBlockDeltaEvent, block_id=shown.id, media_type=data.media_type, data=data.data, url=data.url
        )
        if not joins:
            yield self._ended(shown)

    def _begin(self, kind: _Kind, id: str = "", name: str = "") -> _Shown:
        shown = _Shown(kind, id or f"{self.id}:{len(self._shown)}", name)
        self._shown.append(shown)
        return shown

    def _end_open(self, *, calls: bool = False) -> Iterator[BlockEvent]:
        """End the block before; the pieces of several calls may come mixed, so these end with the message."""
        if self._shown and self._shown[-1].open and self._shown[-1].kind != "call":
            yield self._ended(self._shown[-1])
        if calls:
            for each in self._calls.values():
                if each.open:
                    yield self._ended(each)

    def _ended(self, shown: _Shown, text: str | None = None) -> BlockEvent:
        shown.open = False
        if shown.kind == "text":
            return self._make(TextBlockEndEvent, block_id=shown.id, text=text)
        if shown.kind == "thinking":
            return self._make(ThinkingBlockEndEvent, block_id=shown.id)
        if shown.kind == "call":
            return self._make(ToolCallEndEvent, tool_call_id=shown.id)
        return self._make(DataBlockEndEvent, block_id=shown.id)


_STARTS_OF_TEXT: dict[_Kind, tuple[type[BlockEvent], type[BlockEvent]]] = {
    "text": (TextBlockStartEvent, TextBlockDeltaEvent),
    "thinking": (ThinkingBlockStartEvent, ThinkingBlockDeltaEvent),
}


def _new_part(shown: _Shown | None, text: str) -> str:
    """What is not shown yet; '' if something else was, which the end of the message tells."""
    if shown is None:
        return text
    return text[len(shown.text) :] if text.startswith(shown.text) else ""


def _merged(content: tuple[ContentBlock, ...]) -> list[ContentBlock]:
    """The blocks of the message; texts in a row are one, as chunks do not show where one ends and the next begins."""
    merged: list[ContentBlock] = []
    for block in content:
        last = merged[-1] if merged else None
        if isinstance(block, TextBlock) and isinstance(last, TextBlock):
            merged[-1] = TextBlock(last.text + block.text)
        elif isinstance(block, ThinkingBlock) and isinstance(last, ThinkingBlock) and not last.signature:
            merged[-1] = ThinkingBlock(last.thinking + block.thinking, block.signature)
        elif not isinstance(block, ToolResultBlock) and not _is_empty(block):
            merged.append(block)
    return merged


def _is_empty(block: ContentBlock) -> bool:
    return (isinstance(block, TextBlock) and not block.text) or (
        isinstance(block, ThinkingBlock) and not block.thinking
    )


def _is_same(shown: _Shown, block: ContentBlock) -> bool:
    if isinstance(block, TextBlock):
        return shown.kind == "text" and shown.text == block.text
    if isinstance(block, ThinkingBlock):
        return shown.kind == "thinking" and shown.text == block.thinking
    if isinstance(block, ToolUseBlock):
        return shown.kind == "call" and shown.id == block.id and shown.name == block.name and _has(shown, block)
    return shown.kind == "data"


def _has(shown: _Shown, call: ToolUseBlock) -> bool:
    """True if the arguments were shown as they are."""
    if call.raw is not None:
        return shown.text == call.raw
    try:
        return json.loads(shown.text or "{}") == call.input
    except ValueError:
        return False
