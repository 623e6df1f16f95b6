"""`ResponseAccumulator`: increments of an answer -> its blocks, in linear time: pieces are joined and parsed once.

    builder = block_builder(TextBlock(""))
    builder.add(TextBlock("Hel")) == 1; builder.add(TextBlock("lo")) == 2
    builder.upto(1) == TextBlock("Hel"); builder.upto(None) == TextBlock("Hello")

Blocks keep the order in which they began. Text and thinking are joined by the number of their block. Where the wire
numbers no blocks, all text is one block, even if thinking or calls came between its pieces; media in between start a
new one. All thinking up to a signature is one block.
Pieces of tool calls are joined by index. Every call has a unique id from its first piece on: some servers count from 0
in each answer. Arguments that are not a JSON object differ from empty ones: `input_error` holds the reason, `raw` the
text.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar, cast
from uuid import uuid4

from reactivex import Observable

from agentscope_rx.errors import ProtocolError
from agentscope_rx.messages.blocks import AudioBlock, ContentBlock, TextBlock, ThinkingBlock, ToolUseBlock
from agentscope_rx.messages.frozen import EMPTY, MAX_DEPTH, deeper, encodable
from agentscope_rx.messages.msg import ChatUsage
from agentscope_rx.messages.sources import Base64Source
from agentscope_rx.models.response import AudioDelta, ChatResponse, ChunkBlock, FinishReason, ToolUseDelta
from agentscope_rx.models.wire.json_codec import encode_json
from agentscope_rx.models.wire.json_size import MAX_ARGUMENT_VALUES, larger
from agentscope_rx.reactive import Flow, defer, flat_map_iterable, flow, just, then

B = TypeVar("B", bound=ContentBlock)
G = TypeVar("G")

MAX_BLOCKS = 16_384
"""The maximum number of blocks (texts, thoughts, tool calls, pictures) in one answer."""


class BlockBuilder(ABC, Generic[B]):
    """A block in progress. Pieces are only ever added, so `upto(n)` gives the same block whenever it is called."""

    __slots__ = ()

    @abstractmethod
    def add(self, piece: B) -> int:
        """Add the next piece; returns the number of pieces so far."""

    @abstractmethod
    def upto(self, count: int | None) -> B:
        """The block after `count` pieces; None for the finished block."""


class TextBuilder(BlockBuilder[TextBlock]):
    """A text in progress."""

    __slots__ = ("pieces",)

    def __init__(self) -> None:
        self.pieces: list[str] = []
        """The pieces so far, to which only `add` and `ResponseAccumulator.continued` append."""

    def add(self, piece: TextBlock) -> int:
        self.pieces.append(piece.text)
        return len(self.pieces)

    def upto(self, count: int | None) -> TextBlock:
        return TextBlock("".join(self.pieces[:count]))


class ThinkingBuilder(BlockBuilder[ThinkingBlock]):
    """Thinking in progress; its signature ends it."""

    __slots__ = ("_metadata", "_pieces", "_signed_at", "signature")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._metadata = _Metadata()
        self._signed_at = 0
        self.signature: str | None = None

    @property
    def signed(self) -> bool:
        """True once the signature has arrived."""
        return self.signature is not None

    def add(self, piece: ThinkingBlock) -> int:
        self._pieces.append(piece.thinking)
        count = len(self._pieces)
        if piece.signature:
            self.signature = piece.signature
            self._signed_at = count
        self._metadata.add(piece.metadata, count)
        return count

    def upto(self, count: int | None) -> ThinkingBlock:
        signature = self.signature if count is None or count >= self._signed_at else None
        return ThinkingBlock("".join(self._pieces[:count]), signature, self._metadata.upto(count))


class ToolCallBuilder(BlockBuilder[ToolUseBlock]):
    """A tool call in progress, under one id from its first piece on. `raw` of a piece continues the arguments."""

    __slots__ = ("_metadata", "_named_at", "_pieces", "id", "name")

    def __init__(self, id: str) -> None:
        self.id: str = id
        self.name: str = ""
        """The tool's name; '' until it arrives."""
        self._named_at = 0
        self._pieces: list[str] = []
        self._metadata: _Metadata | None = None

    def add(self, piece: ToolUseBlock) -> int:
        self._pieces.append(piece.raw or "")
        count = len(self._pieces)
        if piece.name and not self.name:
            self.name = piece.name
            self._named_at = count
        if piece.metadata:
            self._metadata = self._metadata or _Metadata()
            self._metadata.add(piece.metadata, count)
        return count

    def upto(self, count: int | None) -> ToolUseBlock:
        if count is None:
            return self.finished()
        name = self.name if count >= self._named_at else ""
        metadata = EMPTY if self._metadata is None else self._metadata.upto(count)
        return ToolUseBlock(self.id, name, raw="".join(self._pieces[:count]), metadata=metadata)

    def finished(self, *, cut: bool = False, last: bool = False) -> ToolUseBlock:
        """The call with its arguments parsed. `cut`: the answer broke off; `last`: this is the answer's last block."""
        raw = "".join(self._pieces)
        arguments, error = parse_arguments(raw)
        if cut and error is not None:
            error = f"the answer was cut off before the arguments were complete ({error})"
        elif cut and last and not raw.strip():
            # the call may have none, or they were lost: to run it would be a guess
            error = "the answer was cut off before any arguments came"
        kept = raw if error is not None else None
        own = raw if error is None and raw and _written_otherwise(raw, arguments) else None
        metadata = EMPTY if self._metadata is None else self._metadata.upto(None)
        return ToolUseBlock(self.id, self.name, arguments, kept, error, metadata, raw_input=own)


class AudioBuilder(BlockBuilder[AudioBlock]):
    """Audio in progress; each piece is base64 of whole bytes."""

    __slots__ = ("_media_type", "_pieces")

    def __init__(self, media_type: str) -> None:
        self._media_type = media_type
        self._pieces: list[str] = []

    def add(self, piece: AudioBlock) -> int:
        self._pieces.append(cast("Base64Source", piece.source).data)
        return len(self._pieces)

    def upto(self, count: int | None) -> AudioBlock:
        # each piece may end in padding
        data = b"".join(b64decode(piece) for piece in self._pieces[:count])
        return AudioBlock(Base64Source(self._media_type, b64encode(data).decode()))


class WholeBlock(BlockBuilder[ContentBlock]):
    """A block that arrives in one piece; another piece replaces it."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces: list[ContentBlock] = []

    def add(self, piece: ContentBlock) -> int:
        self._pieces.append(piece)
        return len(self._pieces)

    def upto(self, count: int | None) -> ContentBlock:
        return self._pieces[-1 if count is None else count - 1]


def block_builder(first: ContentBlock) -> BlockBuilder[ContentBlock]:
    """An empty builder for the block that begins with this piece."""
    if isinstance(first, TextBlock):
        builder = TextBuilder()
    elif isinstance(first, ThinkingBlock):
        builder = ThinkingBuilder()
    elif isinstance(first, ToolUseBlock) and first.raw is not None:
        builder = ToolCallBuilder(first.id)
    else:
        builder = WholeBlock()
    return cast("BlockBuilder[ContentBlock]", builder)


class _Metadata:
    """Metadata by the number of the piece that it arrived with. (Usually there is none.)"""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces: list[tuple[int, Mapping[str, object]]] = []

    def add(self, metadata: Mapping[str, object], count: int) -> None:
        if metadata:
            self._pieces.append((count, metadata))

    def upto(self, count: int | None) -> Mapping[str, object]:
        merged: dict[str, object] = {}
        for number, metadata in self._pieces:
            if count is None or number <= count:
                merged.update(metadata)
        return merged


class Delta(NamedTuple):
    """One piece for display, with the block that it was added to (see `ChunkEvent.accumulated`)."""

    delta: ContentBlock
    view: BlockBuilder[ContentBlock]
    seen: int


class ResponseAccumulator:
    """The answer so far. Feed it every chunk of one stream, then call `blocks()`.

    `claim(id)` is True if a call may have this id, which must be unique in the conversation.
    """

    __slots__ = (
        "_audio",
        "_builders",
        "_calls",
        "_claim",
        "_failed_costs",
        "_ids",
        "_last",
        "_parts",
        "_usage",
        "finish_reason",
        "model",
        "queued",
        "raw_finish_reason",
        "response_id",
    )

    def __init__(self, claim: Callable[[str], bool] = bool) -> None:
        self._claim = claim
        self._failed_costs: Sequence[tuple[str | None, ChatUsage]] = ()
        self._usage: ChatUsage | None = None
        self.model: str | None = None
        """The model that answers, if it is not the first one asked."""
        self.queued: float = 0.0
        """Seconds spent waiting for a rate limit, all attempts together."""
        self._begin_attempt()

    @property
    def usage(self) -> ChatUsage | None:
        """The cost of the answer and of the failed attempts before it; None if none was reported."""
        if not self._failed_costs:
            # nearly always: the first attempt is the answer
            return self._usage
        usages = [usage for _, usage in self.costs]
        return sum(usages[1:], usages[0])

    @property
    def costs(self) -> Sequence[tuple[str | None, ChatUsage]]:
        """The cost of each attempt, with its `model`."""
        return self._failed_costs if self._usage is None else [*self._failed_costs, (self.model, self._usage)]

    @property
    def begun(self) -> bool:
        """True if there is any content."""
        return bool(self._parts)

    def reset(self) -> None:
        """Discard the content of a failed attempt. Its cost is kept."""
        self._failed_costs, self._usage = self.costs, None
        self._begin_attempt()

    def _begin_attempt(self) -> None:
        self._parts: list[BlockBuilder[ContentBlock]] = []
        self._builders: dict[tuple[type[ContentBlock], int | None], TextBuilder | ThinkingBuilder] = {}
        self._last: tuple[TextBuilder, int | None] | None = None
        self._calls: dict[int, ToolCallBuilder] = {}
        self._audio: AudioBuilder | None = None
        self._ids: set[str] = set()
        self.finish_reason: FinishReason | None = None
        self.raw_finish_reason: str | None = None
        self.response_id: str | None = None

    def feed(self, response: ChatResponse) -> list[Delta]:
        """Add one increment; returns the pieces to display. Empty pieces are left out."""
        if response.usage is not None:
            self._usage = response.usage
        if response.finish_reason is not None:
            self.finish_reason = response.finish_reason
            self.raw_finish_reason = response.raw_finish_reason
        if self.response_id is None:
            self.response_id = response.id
        if response.retry is not None or response.wait is not None:
            self._notice(response)
            return []
        pieces: list[Delta] = []
        for block in response.content:
            piece = self._add(block, response.block)
            if piece is not None:
                pieces.append(piece)
        return pieces

    def continued(self, response: ChatResponse) -> TextBuilder | None:
        """Add an increment that is nothing but more text for the last block, and return that; else None.

        It is `feed` for nearly every increment, without the list. The number of pieces is `len(builder.pieces)`.
        """
        last, content = self._last, response.content
        if (
            last is None
            or len(content) != 1
            or response.usage is not None
            or response.finish_reason is not None
            or response.retry is not None
            or response.wait is not None
            or (response.id is not None and self.response_id is None)
            or last[1] != response.block
        ):
            return None
        block = content[0]
        if type(block) is not TextBlock or not block.text:
            return None
        last[0].pieces.append(block.text)
        return last[0]

    def _notice(self, response: ChatResponse) -> None:
        if response.wait is not None:
            self.queued += response.wait.seconds or 0.0
        if response.retry is not None:
            self.reset()
            self.model = response.retry.model or self.model

    def blocks(self, *, complete: bool = True) -> tuple[ContentBlock, ...]:
        """All content. Calls of an answer that was cut off (`complete=False`, or by its length) may be incomplete."""
        cut = not complete or self.finish_reason is FinishReason.LENGTH
        finished: list[ContentBlock] = []
        left = len(self._parts)
        for part in self._parts:
            left -= 1
            whole = part.finished(cut=cut, last=not left) if type(part) is ToolCallBuilder else part.upto(None)
            finished.append(whole)
        return tuple(finished)

    def _add(self, block: ChunkBlock, number: int | None) -> Delta | None:
        if type(block) is TextBlock:
            return self._add_text(block, number) if block.text else None
        if type(block) is ThinkingBlock:
            return self._add_thinking(block, number) if block.thinking or block.signature or block.metadata else None
        if type(block) is ToolUseDelta:
            return self._add_call(block)
        if type(block) is AudioDelta:
            return self._add_audio(block)
        return self._add_whole(cast("ContentBlock", block))

    def _add_text(self, block: TextBlock, number: int | None) -> Delta:
        key = (TextBlock, number)
        text = self._builders.get(key)
        if type(text) is not TextBuilder:
            text = self._builders[key] = self._begin(TextBuilder())
        self._last = (text, number)
        return self._put(block, text)

    def _add_thinking(self, block: ThinkingBlock, number: int | None) -> Delta:
        key = (ThinkingBlock, number)
        thinking = self._builders.get(key)
        if type(thinking) is not ThinkingBuilder or thinking.signed:
            thinking = self._builders[key] = self._begin(ThinkingBuilder())
        return self._put(block, thinking)

    def _add_call(self, delta: ToolUseDelta) -> Delta:
        call = self._calls.get(delta.index)
        if call is None:
            # an id that arrives later is ignored: pieces were displayed under this one already
            call = self._begin(ToolCallBuilder(self._unique_id(delta.id)))
            self._calls[delta.index] = call
        # (the server may send text that cannot be encoded, which a block refuses)
        name = call.name or delta.name or ""
        if not name.isascii():
            name = encodable(name)
        return self._put(ToolUseBlock(call.id, name, raw=delta.arguments, metadata=delta.metadata), call)

    def _add_audio(self, delta: AudioDelta) -> Delta:
        # audio is the spoken form of the text beside it, so it does not end that text
        if self._audio is None:
            self._audio = self._begin(AudioBuilder(delta.media_type))
        return self._put(AudioBlock(Base64Source(delta.media_type, delta.data)), self._audio)

    def _add_whole(self, block: ContentBlock) -> Delta:
        if isinstance(block, ToolUseBlock):
            id = self._unique_id(block.id)
            block = block if id == block.id else replace(block, id=id)
        else:
            # a picture stands at its place in the text: text after it is another block
            self._builders.clear()
            self._last = None
        return self._put(block, self._begin(WholeBlock()))

    def _unique_id(self, id: str | None) -> str:
        """The id, or a new one if it is taken: results and approvals are matched to calls by id."""
        if id and not id.isascii():
            id = encodable(id)
        unique = id if id and id not in self._ids and self._claim(id) else f"call_{uuid4().hex}"
        self._ids.add(unique)
        return unique

    def _begin(self, part: G) -> G:
        if len(self._parts) >= MAX_BLOCKS:
            raise ProtocolError(f"The answer has more than {MAX_BLOCKS} blocks.")
        self._parts.append(part)  # pyright: ignore[reportArgumentType]
        return part

    def _put(self, piece: ContentBlock, part: BlockBuilder[Any]) -> Delta:
        return Delta(piece, part, part.add(piece))


def accumulated(responses: Observable[ChatResponse]) -> Flow[ResponseAccumulator]:
    """The whole answer of a model, for those who show none of it before.

    Signals: one `ResponseAccumulator` when the answer is complete, completion; the error of the model.
    Cancels: the model call.
    """

    def begin() -> Flow[ResponseAccumulator]:
        accumulator = ResponseAccumulator()
        return flow(responses).pipe(flat_map_iterable(accumulator.feed), then(lambda: just(accumulator)))

    return defer(begin)


def parse_arguments(raw: str) -> tuple[dict[str, object], str | None]:
    """A call's arguments, and the reason if they cannot be parsed. An empty text, or null, means no arguments."""
    if not raw.strip():
        return {}, None
    try:
        value: object = _decoded(raw.strip(" \t\n\r"), raw)
    except (ValueError, RecursionError) as error:
        return {}, f"not valid JSON: {error}"
    if value is None:
        return {}, None
    if len(raw) > MAX_DEPTH:
        # (shorter arguments have neither so many levels nor so many values)
        opened = raw.count("{") + raw.count("[")
        if opened > MAX_DEPTH and deeper(value, MAX_DEPTH):
            return {}, f"nested more than {MAX_DEPTH} levels deep"
        if opened + raw.count(",") > MAX_ARGUMENT_VALUES and larger(value, MAX_ARGUMENT_VALUES):
            return {}, f"they hold more than {MAX_ARGUMENT_VALUES:,} values"
    if not isinstance(value, dict):
        return {}, f"a JSON object was expected, not {type(value).__name__}"
    return value, None  # pyright: ignore[reportUnknownVariableType]


def _decoded(text: str, raw: str) -> object:
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        value, end = None, -1
    # what is no JSON, or more than one value, is decoded once more for the error, which names the place in `raw`
    return value if end == len(text) else _STRICT.decode(raw)


def _written_otherwise(raw: str, arguments: Mapping[str, object]) -> bool:
    """True if the engine would write these arguments in another way than the model has."""
    # a space behind the first key tells it without writing them
    colon = raw.find('":')
    spaced = colon > 0 and raw[colon - 1] != "\\" and raw[colon + 2 : colon + 3] == " "
    return spaced or raw != encode_json(arguments)


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large a number")
    return number


_STRICT = json.JSONDecoder(parse_constant=_reject_constant, parse_float=_finite)
"""Rejects Python's extensions of JSON (NaN, Infinity): no request or file could be written with them again."""

_scan: Callable[[str, int], tuple[object, int]] = _STRICT.scan_once  # pyright: ignore
"""One value that begins at this place, and the place behind it."""
