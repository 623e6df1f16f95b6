"""`Gather`: increments of an answer -> its blocks. Linear: pieces are listed, joined once, arguments parsed once.

Blocks keep the order in which they began. Text and thinking pieces continue the block before if it is of their kind;
a thinking block ends with its signature. Pieces of tool calls belong together by index. Arguments that are no JSON
object are told apart from empty ones: `input_error` says what is wrong, `raw` keeps the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple, cast
from uuid import uuid4

from agentscope_rx.message.block import ContentBlock, TextBlock, ThinkingBlock, ToolUseBlock
from agentscope_rx.message.usage import ChatUsage
from agentscope_rx.model.response import ChatResponse, FinishReason, ToolUseDelta


class Piece(NamedTuple):
    """What is to be shown of an increment: the piece, and where it was put (see `ChunkEvent.accumulated`)."""

    delta: ContentBlock
    view: _Text | _Thinking | _Call | _Whole
    seen: int


class Gather:
    """The answer so far. Feed it every chunk of one stream; ask for `blocks()` at the end."""

    __slots__ = ("_calls", "_parts", "finish_reason", "raw_finish_reason", "response_id", "usage")

    def __init__(self) -> None:
        self.usage: ChatUsage | None = None
        self.reset()

    def reset(self) -> None:
        """Forget the content: the attempt that it came from was discarded."""
        self._parts: list[_Text | _Thinking | _Call | _Whole] = []
        self._calls: dict[int, _Call] = {}
        self.finish_reason: FinishReason | None = None
        self.raw_finish_reason: str | None = None
        self.response_id: str | None = None

    def feed(self, response: ChatResponse) -> Iterator[Piece]:
        """Take one increment in; gives the pieces to show."""
        if response.usage is not None:
            self.usage = response.usage
        if response.finish_reason is not None:
            self.finish_reason = response.finish_reason
            self.raw_finish_reason = response.raw_finish_reason
        if response.id is not None:
            self.response_id = response.id
        for block in response.content:
            if type(block) is TextBlock:
                if block.text:
                    yield self._text(block)
            elif type(block) is ThinkingBlock:
                yield self._thinking(block)
            elif type(block) is ToolUseDelta:
                yield self._call(block)
            else:
                whole = _Whole(cast("ContentBlock", block))
                self._parts.append(whole)
                yield Piece(whole.block, whole, 1)

    def blocks(self, *, complete: bool = True) -> tuple[ContentBlock, ...]:
        """The whole content. If the stream was cut off (`complete=False`), so may its last arguments be."""
        return tuple(part.upto(None, complete=complete) for part in self._parts)

    def _text(self, block: TextBlock) -> Piece:
        last = self._parts[-1] if self._parts else None
        if type(last) is not _Text:
            last = _Text()
            self._parts.append(last)
        last.pieces.append(block.text)
        return Piece(block, last, len(last.pieces))

    def _thinking(self, block: ThinkingBlock) -> Piece:
        last = self._parts[-1] if self._parts else None
        if type(last) is not _Thinking or last.signature is not None:
            last = _Thinking()
            self._parts.append(last)
        last.pieces.append(block.thinking)
        last.signature = block.signature or last.signature
        last.metadata.update(block.metadata)
        return Piece(block, last, len(last.pieces))

    def _call(self, delta: ToolUseDelta) -> Piece:
        call = self._calls.get(delta.index)
        if call is None:
            taken = any(other.id == delta.id for other in self._calls.values())
            # a result is found by its call's id: two calls of one answer must not share it
            call = _Call(delta.id if delta.id and not taken else f"call_{uuid4().hex}")
            self._calls[delta.index] = call
            self._parts.append(call)
        call.name = call.name or delta.name or ""
        call.metadata.update(delta.metadata)
        call.pieces.append(delta.arguments)
        return Piece(ToolUseBlock(call.id, call.name, raw=delta.arguments), call, len(call.pieces))


class _Text:
    __slots__ = ("pieces",)

    def __init__(self) -> None:
        self.pieces: list[str] = []

    def upto(self, count: int | None, complete: bool = True) -> TextBlock:
        return TextBlock("".join(self.pieces[:count]))


class _Thinking:
    __slots__ = ("metadata", "pieces", "signature")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.signature: str | None = None
        self.metadata: dict[str, object] = {}

    def upto(self, count: int | None, complete: bool = True) -> ThinkingBlock:
        return ThinkingBlock("".join(self.pieces[:count]), self.signature, self.metadata)


class _Call:
    __slots__ = ("id", "metadata", "name", "pieces")

    def __init__(self, id: str) -> None:
        self.id = id
        self.name = ""
        self.pieces: list[str] = []
        self.metadata: dict[str, object] = {}

    def upto(self, count: int | None, complete: bool = True) -> ToolUseBlock:
        raw = "".join(self.pieces[:count])
        if count is not None:
            return ToolUseBlock(self.id, self.name, raw=raw, metadata=self.metadata)
        arguments, error = parse_arguments(raw)
        if error is not None and not complete:
            error = f"the answer was cut off before the arguments were complete ({error})"
        kept = raw if error is not None else None
        return ToolUseBlock(self.id, self.name, arguments, kept, error, self.metadata)


class _Whole:
    __slots__ = ("block",)

    def __init__(self, block: ContentBlock) -> None:
        self.block = block

    def upto(self, count: int | None, complete: bool = True) -> ContentBlock:
        return self.block


def parse_arguments(raw: str) -> tuple[dict[str, object], str | None]:
    """A call's arguments, and what is wrong with the text if they cannot be read. No text is no arguments."""
    if not raw.strip():
        return {}, None
    try:
        value: object = json.loads(raw)
    except (ValueError, RecursionError) as error:
        return {}, f"not valid JSON: {error}"
    if not isinstance(value, dict):
        return {}, f"a JSON object was expected, not {type(value).__name__}"
    return cast("dict[str, object]", value), None
