"""A block that is being written: its pieces are listed as they come, and joined when somebody asks.

    grow = growing(TextBlock(""))
    grow.add(TextBlock("Hel")) == 1; grow.add(TextBlock("lo")) == 2
    grow.upto(1) == TextBlock("Hel"); grow.upto(None) == TextBlock("Hello")

`upto(n)` is what was known after n pieces, whenever it is asked for: pieces are only ever added.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Generic, NoReturn, TypeVar, cast

from agentscope_rx.messages.blocks import AudioBlock, ContentBlock, TextBlock, ThinkingBlock, ToolUseBlock
from agentscope_rx.messages.frozen import MAX_DEPTH, deeper
from agentscope_rx.messages.sources import Base64Source
from agentscope_rx.models.wire.json_codec import encode_json
from agentscope_rx.models.wire.json_size import MAX_ARGUMENT_VALUES, larger

B = TypeVar("B", bound=ContentBlock)

MAX_BLOCKS = 16_384
"""How many blocks (texts, thoughts, tool calls, pictures) one answer may have."""


class Growing(ABC, Generic[B]):
    """A block so far."""

    __slots__ = ()

    @abstractmethod
    def add(self, piece: B) -> int:
        """Take the next piece; gives the number of pieces so far."""

    @abstractmethod
    def upto(self, count: int | None) -> B:
        """The block as it was after `count` pieces; None is all of them, as a finished block."""


class GrowingText(Growing[TextBlock]):
    """Words."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def add(self, piece: TextBlock) -> int:
        self._pieces.append(piece.text)
        return len(self._pieces)

    def upto(self, count: int | None) -> TextBlock:
        return TextBlock("".join(self._pieces[:count]))


class GrowingThinking(Growing[ThinkingBlock]):
    """Thinking; it is over (`signed`) once its signature has come."""

    __slots__ = ("_metadata", "_pieces", "_signed_at", "signature")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._metadata = _Facts()
        self._signed_at = 0
        self.signature: str | None = None

    @property
    def signed(self) -> bool:
        """Whether the signature has come."""
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


class GrowingCall(Growing[ToolUseBlock]):
    """A tool call, under one id from its first piece on. A piece holds the next part of the arguments in `raw`."""

    __slots__ = ("_metadata", "_name", "_named_at", "_pieces", "id")

    def __init__(self, id: str) -> None:
        self.id = id
        self._name = ""
        self._named_at = 0
        self._pieces: list[str] = []
        self._metadata = _Facts()

    @property
    def name(self) -> str:
        """The tool's name; '' until it has come."""
        return self._name

    def add(self, piece: ToolUseBlock) -> int:
        self._pieces.append(piece.raw or "")
        count = len(self._pieces)
        if piece.name and not self._name:
            self._name = piece.name
            self._named_at = count
        self._metadata.add(piece.metadata, count)
        return count

    def upto(self, count: int | None) -> ToolUseBlock:
        if count is None:
            return self.finished()
        name = self._name if count >= self._named_at else ""
        return ToolUseBlock(self.id, name, raw="".join(self._pieces[:count]), metadata=self._metadata.upto(count))

    def finished(self, *, cut: bool = False, last: bool = False) -> ToolUseBlock:
        """The call with its arguments read. `cut`: the answer broke off; `last`: with this very call, perhaps."""
        raw = "".join(self._pieces)
        arguments, error = parse_arguments(raw)
        if cut and error is not None:
            error = f"the answer was cut off before the arguments were complete ({error})"
        elif cut and last and not raw.strip():
            # no arguments, or none yet: to run it would be a guess
            error = "the answer was cut off before any arguments came"
        kept = raw if error is not None else None
        own = None if error is not None or not raw or raw == encode_json(arguments) else raw
        return ToolUseBlock(self.id, self._name, arguments, kept, error, self._metadata.upto(None), raw_input=own)


class GrowingAudio(Growing[AudioBlock]):
    """Sound, as bytes in base64; a piece is some bytes of it."""

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


class Whole(Growing[ContentBlock]):
    """A block that comes in one piece; another piece takes its place."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces: list[ContentBlock] = []

    def add(self, piece: ContentBlock) -> int:
        self._pieces.append(piece)
        return len(self._pieces)

    def upto(self, count: int | None) -> ContentBlock:
        return self._pieces[-1 if count is None else count - 1]


def growing(first: ContentBlock) -> Growing[ContentBlock]:
    """The empty beginning of the block whose first piece this is."""
    if isinstance(first, TextBlock):
        begun = GrowingText()
    elif isinstance(first, ThinkingBlock):
        begun = GrowingThinking()
    elif isinstance(first, ToolUseBlock) and first.raw is not None:
        begun = GrowingCall(first.id)
    else:
        begun = Whole()
    return cast("Growing[ContentBlock]", begun)


class _Facts:
    """Metadata, with when it came. (Usually there is none.)"""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: list[tuple[int, Mapping[str, object]]] = []

    def add(self, metadata: Mapping[str, object], count: int) -> None:
        if metadata:
            self._known.append((count, metadata))

    def upto(self, count: int | None) -> Mapping[str, object]:
        united: dict[str, object] = {}
        for when, metadata in self._known:
            if count is None or when <= count:
                united.update(metadata)
        return united


def parse_arguments(raw: str) -> tuple[dict[str, object], str | None]:
    """A call's arguments, and what is wrong with the text if they cannot be read. No text, or null, is no arguments."""
    if not raw.strip():
        return {}, None
    try:
        value: object = _STRICT.decode(raw)
    except (ValueError, RecursionError) as error:
        return {}, f"not valid JSON: {error}"
    if value is None:
        return {}, None
    if raw.count("{") + raw.count("[") > MAX_DEPTH and deeper(value, MAX_DEPTH):
        return {}, f"nested more than {MAX_DEPTH} levels deep"
    if raw.count(",") + raw.count("{") + raw.count("[") > MAX_ARGUMENT_VALUES and larger(value, MAX_ARGUMENT_VALUES):
        return {}, f"they hold more than {MAX_ARGUMENT_VALUES:,} values"
    if not isinstance(value, dict):
        return {}, f"a JSON object was expected, not {type(value).__name__}"
    return cast("dict[str, object]", value), None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large a number")
    return number


_STRICT = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)
"""What Python's JSON takes beyond the standard (NaN, Infinity) could be written to no request and no file again."""
