"""What a person is shown of a message: `name: text`, and nothing that a terminal would obey."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from agentscope_rx.messages import Msg, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock

_DIRECTIONS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def shown(messages: Sequence[Msg]) -> str:
    """The messages, a line or more each; those that say nothing to a person are left out."""
    return "".join(f"{_one(message.name, text)}\n" for message in messages if (text := _said(message)))


def _said(message: Msg) -> str:
    unsaid = (ThinkingBlock, ToolUseBlock, ToolResultBlock)
    parts = [
        block.text if isinstance(block, TextBlock) else f"[{block.type}]"
        for block in message.content
        if not isinstance(block, unsaid)
    ]
    return "\n".join(part for part in parts if part)


def _one(name: str, text: str) -> str:
    # further lines are set in: none of them can pass for another speaker's
    lines = cleaned(f"{name}: {text}").split("\n")
    return "\n  ".join(lines)


def cleaned(text: str) -> str:
    """The text with control characters, and marks that turn the direction of writing, as visible escapes."""
    if text.isprintable():
        return text
    return "".join(f"\\u{ord(char):04x}" if _is_control(char) else char for char in text.replace("\r\n", "\n"))


def _is_control(char: str) -> bool:
    if char in "\n\t":
        return False
    return unicodedata.category(char) == "Cc" or unicodedata.bidirectional(char) in _DIRECTIONS
