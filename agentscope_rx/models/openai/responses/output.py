"""`Output`: the items of one answer while they arrive; each piece of content is emitted once.

Servers send content two or three times: in pieces, when a part or an item is done, and at the end. Content that came in
pieces is not emitted again; content of which the server sends no pieces is emitted when its item is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from agentscope_rx.messages import Base64Source, ImageBlock, TextBlock, ThinkingBlock
from agentscope_rx.models.openai.responses.items import REASONING
from agentscope_rx.models.response import ChunkBlock, Numbered, ToolUseDelta
from agentscope_rx.models.wire.json_codec import (
    JsonObject,
    Pieces,
    integer,
    malformed,
    name_in,
    objects_in,
    proof_in,
    text_in,
    writable,
)

_PROOF = ("id", "summary", "content")


class Output:
    """The items so far, by their place in the output."""

    __slots__ = ("_items", "_last", "_numbers", "_text", "_thinking", "calls", "refused")

    def __init__(self) -> None:
        self._items: dict[int, _Item] = {}
        self._text = Pieces()
        self._numbers: dict[tuple[int, int], int] = {}
        self._last = 0
        self._thinking = Pieces()
        self.calls: int = 0
        self.refused = False

    def number(self, item: int, part: int) -> int:
        """The number of a part of an item, as a block of the answer."""
        return self._numbers.setdefault((item, part), len(self._numbers))

    def text(self, event: JsonObject) -> Numbered | None:
        """A piece of text."""
        self._at(event).emitted = True
        self._last = self.number(integer(event, "output_index"), integer(event, "content_index"))
        text = self._text.take(text_in(event, "delta") or "")
        return (self._last, TextBlock(text)) if text else None

    def event(self, kind: str, event: JsonObject) -> Iterator[Numbered]:
        """The content of one event; none of events that only frame others."""
        if kind == "response.refusal.delta":
            self.refused = True
            if (piece := self.text(event)) is not None:
                yield piece
        elif kind == "response.output_item.done":
            yield from self.settle(integer(event, "output_index"), _item_of(event))
        else:
            number = self.number(integer(event, "output_index"), 0)
            yield from ((number, piece) for piece in self._piece(kind, event))

    def _piece(self, kind: str, event: JsonObject) -> Iterator[ChunkBlock]:
        if kind in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
            yield from self._thought(event)
        elif kind == "response.function_call_arguments.delta":
            yield from self._at(event).arguments(text_in(event, "delta") or "")
        elif kind == "response.output_item.added":
            item = _item_of(event)
            if item.get("type") == "function_call":
                yield from self._open(integer(event, "output_index"), item)

    def settle(self, index: int, item: JsonObject) -> Iterator[Numbered]:
        """The content of a finished item that has not been emitted yet."""
        known = self._items.setdefault(index, _Item())
        if known.settled:
            return
        known.settled = True
        if item.get("type") == "message":
            yield from self._message(index, known, item)
        else:
            number = self.number(index, 0)
            yield from ((number, piece) for piece in self._settled(index, known, item))

    def _settled(self, index: int, known: _Item, item: JsonObject) -> Iterator[ChunkBlock]:
        kind = item.get("type")
        if kind == "reasoning":
            yield from self._reasoning(known, item)
        elif kind == "function_call":
            yield from self._open(index, item)
            yield from known.rest(text_in(item, "arguments") or "")
        elif kind == "image_generation_call" and (data := proof_in(item, "result")):
            form = name_in(item, "output_format") or "png"
            yield ImageBlock(Base64Source(f"image/{form}", data))

    def end(self) -> tuple[Numbered, ...]:
        """The text held back until the end: half a character."""
        text = self._text.rest()
        return ((self._last, TextBlock(text)),) if text else ()

    def _at(self, event: JsonObject) -> _Item:
        return self._items.setdefault(integer(event, "output_index"), _Item())

    def _thought(self, event: JsonObject) -> Iterator[ThinkingBlock]:
        known = self._at(event)
        part = integer(event, "summary_index")
        gap = "\n\n" if known.emitted and part != known.part else ""
        known.emitted, known.part = True, part
        text = self._thinking.take(gap + (text_in(event, "delta") or ""))
        if text:
            yield ThinkingBlock(text)

    def _message(self, index: int, known: _Item, item: JsonObject) -> Iterator[Numbered]:
        parts = objects_in(item, "content")
        self.refused: bool = self.refused or any(part.get("type") == "refusal" for part in parts)
        if known.emitted:
            return
        for place, part in enumerate(parts):
            text = text_in(part, "text") or text_in(part, "refusal")
            if text:
                self._last = self.number(index, place)
                yield self._last, TextBlock(self._text.take(text))

    def _reasoning(self, known: _Item, item: JsonObject) -> Iterator[ThinkingBlock]:
        text = self._thinking.rest()
        if not known.emitted:
            parts = objects_in(item, "summary") or objects_in(item, "content")
            text += "\n\n".join(text_in(part, "text") or "" for part in parts)
        kept = {name: writable(item[name]) for name in _PROOF if item.get(name) is not None}
        # the signature ends the block: the thinking of another item is a block of its own
        signature = proof_in(item, "encrypted_content") or text_in(item, "id")
        if text or signature:
            yield ThinkingBlock(text, signature, {REASONING: {"summary": [], **kept}})

    def _open(self, index: int, item: JsonObject) -> Iterator[ToolUseDelta]:
        """The first piece of a call: its id and name."""
        known = self._items.setdefault(index, _Item())
        if known.call is not None:
            return
        name = text_in(item, "name")
        if not name:
            raise malformed("a tool call has no name", item)
        known.call = self.calls
        self.calls += 1
        yield ToolUseDelta(known.call, text_in(item, "call_id") or text_in(item, "id"), name)


class _Item:
    """One item: pieces of it have been emitted, it is done, and the number of its call."""

    __slots__ = ("_characters", "_raw", "call", "emitted", "part", "settled")

    def __init__(self) -> None:
        self.emitted = False
        self.settled = False
        self.part = 0
        self.call: int | None = None
        self._characters = Pieces()
        self._raw: list[str] = []

    def arguments(self, text: str) -> Iterator[ToolUseDelta]:
        """A piece of the call's arguments."""
        if self.call is None:
            raise malformed("a piece of a tool call came before the call", text)
        self._raw.append(text)
        text = self._characters.take(text)
        if text:
            yield ToolUseDelta(self.call, arguments=text)

    def rest(self, whole: str) -> Iterator[ToolUseDelta]:
        """The end of the arguments, if the pieces that came are their beginning; else nothing."""
        came = "".join(self._raw)
        if whole.startswith(came) and len(whole) > len(came):
            yield from self.arguments(whole[len(came) :])


def _item_of(event: JsonObject) -> JsonObject:
    item = event.get("item")
    if not isinstance(item, Mapping):
        raise malformed("an event of an item must have the item", event)
    return cast("JsonObject", item)
