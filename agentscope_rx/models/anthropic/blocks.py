"""`OpenBlock`: a content block while it arrives: its start, its deltas, its end."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import cast

from agentscope_rx.messages import TextBlock, ThinkingBlock
from agentscope_rx.models.anthropic.formatter import CALL_FIELDS
from agentscope_rx.models.anthropic.parts import OWN, VENDOR, redacted
from agentscope_rx.models.response import ChunkBlock, ToolUseDelta
from agentscope_rx.models.wire.json_codec import (
    JsonObject,
    Pieces,
    decode_json,
    malformed,
    name_in,
    object_in,
    proof_in,
    text_in,
    writable,
)


class OpenBlock(ABC):
    """A block so far. `kept`: it is not shown, and goes back as it came."""

    __slots__ = ()
    kept = False

    @abstractmethod
    def start(self) -> Iterator[ChunkBlock]:
        """The content of its start."""

    @abstractmethod
    def delta(self, delta: JsonObject) -> Iterator[ChunkBlock]:
        """The content of one delta."""

    def stop(self) -> Iterator[ChunkBlock]:
        """The content held back until its end."""
        yield from ()

    def whole(self) -> JsonObject:
        """The whole block as the wire has it."""
        return {}


def open_block(index: int, block: JsonObject) -> OpenBlock:
    """The block that starts like this."""
    match text_in(block, "type"):
        case "text":
            return _Text(block)
        case "thinking":
            return _Thinking(block)
        case "redacted_thinking":
            return _Redacted(block)
        case "tool_use":
            return _Call(index, block)
        case None | "":
            raise malformed("a block has no type", block)
        case _:
            return _Kept(block)


class _Text(OpenBlock):
    __slots__ = ("_first", "_pieces")

    def __init__(self, block: JsonObject) -> None:
        self._first = block
        self._pieces = Pieces()

    def start(self) -> Iterator[ChunkBlock]:
        return self.delta(self._first)

    def delta(self, delta: JsonObject) -> Iterator[ChunkBlock]:
        text = self._pieces.take(text_in(delta, "text") or "")
        if text:
            yield TextBlock(text)

    def stop(self) -> Iterator[ChunkBlock]:
        if text := self._pieces.rest():
            yield TextBlock(text)


class _Thinking(OpenBlock):
    __slots__ = ("_first", "_pieces", "_signature")

    def __init__(self, block: JsonObject) -> None:
        self._first = block
        self._pieces = Pieces()
        self._signature = ""

    def start(self) -> Iterator[ChunkBlock]:
        return self.delta(self._first)

    def delta(self, delta: JsonObject) -> Iterator[ChunkBlock]:
        self._signature += proof_in(delta, "signature") or ""
        text = self._pieces.take(text_in(delta, "thinking") or "")
        if text:
            yield ThinkingBlock(text)

    def stop(self) -> Iterator[ChunkBlock]:
        text = self._pieces.rest()
        if self._signature:
            yield ThinkingBlock(text, self._signature, OWN)
        elif text:
            yield ThinkingBlock(text)


class _Redacted(OpenBlock):
    __slots__ = ("_data",)

    def __init__(self, block: JsonObject) -> None:
        self._data = proof_in(block, "data") or ""

    def start(self) -> Iterator[ChunkBlock]:
        if self._data:
            yield redacted(self._data)

    def delta(self, delta: JsonObject) -> Iterator[ChunkBlock]:
        yield from ()


class _Call(OpenBlock):
    __slots__ = ("_block", "_empty", "_index", "_pieces")

    def __init__(self, index: int, block: JsonObject) -> None:
        self._index = index
        self._block = block
        self._pieces = Pieces()
        self._empty = True

    def start(self) -> Iterator[ChunkBlock]:
        name = name_in(self._block, "name")
        if not name:
            raise malformed("a tool call has no name", self._block)
        extra = {name: value for name in CALL_FIELDS if (value := self._block.get(name)) is not None}
        direct = extra.get("caller")
        if isinstance(direct, dict) and direct.get("type") == "direct":  # pyright: ignore[reportUnknownMemberType]
            # the default
            del extra["caller"]
        metadata = {"vendor": VENDOR, **cast("JsonObject", writable(extra))} if extra else {}
        yield ToolUseDelta(self._index, name_in(self._block, "id"), name, metadata=metadata)

    def delta(self, delta: JsonObject) -> Iterator[ChunkBlock]:
        piece = self._pieces.take(text_in(delta, "partial_json") or "")
        if piece:
            self._empty = False
            yield ToolUseDelta(self._index, arguments=piece)

    def stop(self) -> Iterator[ChunkBlock]:
        piece = self._pieces.rest()
        given = self._block.get("input")
        if self._empty and not piece and given not in (None, "", {}):
            # an answer in one piece, or a server that sends the arguments whole
            piece = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
        if piece:
            yield ToolUseDelta(self._index, arguments=piece)


class _Kept(OpenBlock):
    __slots__ = ("_block", "_pieces")
    kept = True

    def __init__(self, block: JsonObject) -> None:
        self._block = block
        self._pieces: list[str] = []

    def start(self) -> Iterator[ChunkBlock]:
        yield from ()

    def delta(self, delta: JsonObject) -> Iterator[ChunkBlock]:
        self._pieces.append(text_in(delta, "partial_json") or "")
        yield from ()

    def whole(self) -> JsonObject:
        text = "".join(self._pieces)
        if not text.strip():
            return cast("JsonObject", writable(self._block))
        whole = {**self._block, "input": object_in({"input": decode_json(text)}, "input")}
        return cast("JsonObject", writable(whole))
