"""`ResponseAccumulator`: increments of an answer -> its blocks, in linear time: pieces are joined and parsed once.

Blocks keep the order in which they began. Text and thinking belong together by the number of their block; where the
wire numbers none, all text is one block, whatever thinking or calls came between its pieces (not media: they have their
place), and so is all thinking up to a signature.
Pieces of tool calls belong together by index, and every call has an id of its own, from its first piece on, whatever
the server says: some count from 0 in each answer. Arguments that are no JSON object are told apart from empty ones:
`input_error` says what is wrong, `raw` keeps the text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar, cast
from uuid import uuid4

from agentscope_rx.errors import ProtocolError
from agentscope_rx.messages.blocks import AudioBlock, ContentBlock, TextBlock, ThinkingBlock, ToolUseBlock
from agentscope_rx.messages.frozen import encodable
from agentscope_rx.messages.msg import ChatUsage
from agentscope_rx.messages.sources import Base64Source
from agentscope_rx.models.growing_blocks import (
    MAX_BLOCKS,
    Growing,
    GrowingAudio,
    GrowingCall,
    GrowingText,
    GrowingThinking,
    Whole,
    parse_arguments,
)
from agentscope_rx.models.response import AudioDelta, ChatResponse, ChunkBlock, FinishReason, ToolUseDelta

__all__ = ["Delta", "ResponseAccumulator", "parse_arguments"]

G = TypeVar("G")


class Delta(NamedTuple):
    """What is to be shown of an increment: the piece, and where it was put (see `ChunkEvent.accumulated`)."""

    delta: ContentBlock
    view: Growing[ContentBlock]
    seen: int


class ResponseAccumulator:
    """The answer so far. Feed it every chunk of one stream; ask for `blocks()` at the end.

    `claim` says whether a call may have this id: no other of the conversation has it.
    """

    __slots__ = (
        "_audio",
        "_calls",
        "_claim",
        "_growing",
        "_ids",
        "_last",
        "_own",
        "_parts",
        "_spent",
        "finish_reason",
        "model",
        "queued",
        "raw_finish_reason",
        "response_id",
    )

    def __init__(self, claim: Callable[[str], bool] = bool) -> None:
        self._claim = claim
        self._spent: Sequence[tuple[str | None, ChatUsage]] = ()
        self._own: ChatUsage | None = None
        self.model: str | None = None
        """Who answers, if it is another than the one who was asked first."""
        self.queued = 0.0
        """Seconds waited for the turn, all attempts together."""
        self.reset()

    @property
    def usage(self) -> ChatUsage | None:
        """What the answer and the attempts before it have cost; None if nobody has told."""
        if not self._spent:
            # nearly always: the first attempt is the answer
            return self._own
        told = [usage for _, usage in self.costs]
        return sum(told[1:], told[0])

    @property
    def costs(self) -> Sequence[tuple[str | None, ChatUsage]]:
        """The same, one by one, each with its `model`."""
        return self._spent if self._own is None else [*self._spent, (self.model, self._own)]

    def reset(self) -> None:
        """Forget the content: the attempt that it came from failed. (What it cost was spent.)"""
        self._spent, self._own = self.costs, None
        self._parts: list[Growing[ContentBlock]] = []
        self._growing: dict[tuple[type[ContentBlock], int | None], GrowingText | GrowingThinking] = {}
        self._last: tuple[GrowingText, int | None] | None = None
        self._calls: dict[int, GrowingCall] = {}
        self._audio: GrowingAudio | None = None
        self._ids: set[str] = set()
        self.finish_reason: FinishReason | None = None
        self.raw_finish_reason: str | None = None
        self.response_id: str | None = None

    def feed(self, response: ChatResponse) -> list[Delta]:
        """Take one increment in; gives the pieces to show. Pieces without content are none."""
        if response.usage is not None:
            self._own = response.usage
        if response.finish_reason is not None:
            self.finish_reason = response.finish_reason
            self.raw_finish_reason = response.raw_finish_reason
        if self.response_id is None:
            self.response_id = response.id
        if response.retry is not None or response.wait is not None:
            self._notice(response)
            return []
        content = response.content
        if len(content) == 1:
            # what nearly all increments are: a few more words of the text that is being written
            block, last = content[0], self._last
            if last is not None and type(block) is TextBlock and block.text and last[1] == response.block:
                return [Delta(block, last[0], last[0].add(block))]  # pyright: ignore[reportArgumentType]
        return [piece for block in content if (piece := self._take(block, response.block)) is not None]

    def _notice(self, response: ChatResponse) -> None:
        if response.wait is not None:
            self.queued += response.wait.seconds or 0.0
        if response.retry is not None:
            self.reset()
            self.model = response.retry.model or self.model

    def blocks(self, *, complete: bool = True) -> tuple[ContentBlock, ...]:
        """The whole content. If the answer was cut off (`complete=False`, or by its length), so may its calls be."""
        cut = not complete or self.finish_reason is FinishReason.LENGTH
        last = self._parts[-1] if self._parts else None
        return tuple(
            part.finished(cut=cut, last=part is last) if isinstance(part, GrowingCall) else part.upto(None)
            for part in cast("list[Growing[ContentBlock] | GrowingCall]", self._parts)
        )

    def _take(self, block: ChunkBlock, number: int | None) -> Delta | None:
        if type(block) is TextBlock:
            return self._text(block, number) if block.text else None
        if type(block) is ThinkingBlock:
            return self._thinking(block, number) if block.thinking or block.signature or block.metadata else None
        if type(block) is ToolUseDelta:
            return self._call(block)
        if type(block) is AudioDelta:
            return self._sound(block)
        return self._whole(cast("ContentBlock", block))

    def _text(self, block: TextBlock, number: int | None) -> Delta:
        key = (TextBlock, number)
        text = self._growing.get(key)
        if type(text) is not GrowingText:
            text = self._growing[key] = self._begun(GrowingText())
        self._last = (text, number)
        return self._put(block, text)

    def _thinking(self, block: ThinkingBlock, number: int | None) -> Delta:
        key = (ThinkingBlock, number)
        thought = self._growing.get(key)
        if type(thought) is not GrowingThinking or thought.signed:
            thought = self._growing[key] = self._begun(GrowingThinking())
        return self._put(block, thought)

    def _call(self, delta: ToolUseDelta) -> Delta:
        call = self._calls.get(delta.index)
        if call is None:
            # an id that comes later is passed over: the pieces have been shown, and are found, under this one
            call = self._begun(GrowingCall(self._own_id(delta.id)))
            self._calls[delta.index] = call
        # (the name of an answer is the server's text; a block refuses what cannot be encoded)
        name = call.name or encodable(delta.name or "")
        return self._put(ToolUseBlock(call.id, name, raw=delta.arguments, metadata=delta.metadata), call)

    def _sound(self, delta: AudioDelta) -> Delta:
        # what is heard is what is read beside it: it ends no text
        if self._audio is None:
            self._audio = self._begun(GrowingAudio(delta.media_type))
        return self._put(AudioBlock(Base64Source(delta.media_type, delta.data)), self._audio)

    def _whole(self, block: ContentBlock) -> Delta:
        if isinstance(block, ToolUseBlock):
            id = self._own_id(block.id)
            block = block if id == block.id else replace(block, id=id)
        else:
            # a picture has its place in the text: what follows it is another block
            self._growing.clear()
            self._last = None
        return self._put(block, self._begun(Whole()))

    def _own_id(self, id: str | None) -> str:
        """The id, or a new one: results and approvals are found by a call's id, so no two calls may share it."""
        id = encodable(id) if id else id
        own = id if id and id not in self._ids and self._claim(id) else f"call_{uuid4().hex}"
        self._ids.add(own)
        return own

    def _begun(self, part: G) -> G:
        if len(self._parts) >= MAX_BLOCKS:
            raise ProtocolError(f"The answer has more than {MAX_BLOCKS} blocks.")
        self._parts.append(cast("Growing[ContentBlock]", part))
        return part

    def _put(self, piece: ContentBlock, part: object) -> Delta:
        growing = cast("Growing[ContentBlock]", part)
        return Delta(piece, growing, growing.add(piece))
