"""`TokenCounter`: the port. `TextCounter`: what counts text, made to count messages and tools by a vendor's costs.

A message is counted once, as long as it lives: counts are kept beside the very object, weakly. So to count a history
again costs a look-up for each message, and to count what has been added, only that.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from agentscope_rx.messages import (
    ContentBlock,
    FramesSource,
    ImageBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    VideoBlock,
)
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.models.tokens.image_tokens import FlatRule, PictureRule
from agentscope_rx.models.wire.json_codec import encode_json
from agentscope_rx.models.wire.media import MediaBlock


class MessageCounts:
    """A function of a message, worked out once for each as long as it lives."""

    __slots__ = ("_count", "_known")

    def __init__(self, count: Callable[[Msg], int]) -> None:
        self._count = count
        self._known: dict[int, tuple[weakref.ref[Msg], int]] = {}

    def __call__(self, message: Msg) -> int:
        key = id(message)
        known = self._known.get(key)
        # an id may be that of another one that is gone
        if known is not None and known[0]() is message:
            return known[1]
        count = self._count(message)
        self._known[key] = (weakref.ref(message, lambda _: self._known.pop(key, None)), count)
        return count

    def __len__(self) -> int:
        return len(self._known)


@runtime_checkable
class TokenCounter(Protocol):
    """How many tokens of input a request takes."""

    def count(self, messages: Sequence[Msg], tools: Sequence[ToolSchema] = ()) -> int:
        """The tokens of these messages and tools together."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What a vendor takes for what is no text. Sources beside the vendors' own values, in `vendors`.

    `request`, `message`, `name`, `call`, `result` and `tool` are for the marks around each of them, `thinking` says
    whether earlier thinking is sent back; `audio`, `video` and `file` are flat, as their lengths are not known here.
    """

    request: int = 3
    message: int = 4
    name: int = 1
    call: int = 8
    result: int = 4
    tool: int = 8
    thinking: bool = True
    picture: PictureRule = field(default_factory=lambda: FlatRule(1_100))
    audio: int = 1_500
    video: int = 4_000
    file: int = 3_000


class TextCounter:
    """Counts messages and tools by a function that counts text: any tokenizer will do.

    TextCounter(lambda text: len(tokenizer.encode(text)))
    """

    def __init__(self, count_text: Callable[[str], int], costs: Costs | None = None) -> None:
        self.count_text = count_text
        self.costs = costs or Costs()
        self.message = MessageCounts(self._message)
        """The tokens of one message."""
        self._tools: tuple[Sequence[ToolSchema], int] = ((), 0)

    def count(self, messages: Sequence[Msg], tools: Sequence[ToolSchema] = ()) -> int:
        """The tokens of these messages and tools together."""
        return self.costs.request + sum(map(self.message, messages)) + self.tools(tools)

    def tools(self, tools: Sequence[ToolSchema]) -> int:
        """The tokens of the tools' schemas."""
        known, count = self._tools
        if tools is known or (len(tools) == len(known) and all(a is b for a, b in zip(tools, known, strict=True))):
            return count
        count = sum(map(self._tool, tools))
        # the schemas themselves, not the list, which may be changed
        self._tools = (tuple(tools), count)
        return count

    def _tool(self, tool: ToolSchema) -> int:
        described = encode_json({"name": tool.name, "description": tool.description, "parameters": tool.parameters})
        return self.costs.tool + self.count_text(described)

    def _message(self, message: Msg) -> int:
        named = message.name != message.role.value
        name = self.costs.name + self.count_text(message.name) if named else 0
        return self.costs.message + name + sum(map(self._block, message.content))

    def _block(self, block: ContentBlock) -> int:
        match block:
            case TextBlock():
                return self.count_text(block.text)
            case ThinkingBlock():
                return self.count_text(block.thinking) if self.costs.thinking else 0
            case ToolUseBlock():
                return self.costs.call + self.count_text(block.name) + self.count_text(encode_json(block.input))
            case ToolResultBlock():
                return self.costs.result + sum(map(self._block, block.output))
            case _:
                return self._media(block)

    def _media(self, block: MediaBlock) -> int:
        if isinstance(block, ImageBlock):
            return self.costs.picture.of(block.source)
        if isinstance(block, VideoBlock) and isinstance(block.source, FramesSource):
            return sum(map(self.costs.picture.of, block.source.frames))
        return {"audio": self.costs.audio, "video": self.costs.video, "file": self.costs.file}[block.type]
