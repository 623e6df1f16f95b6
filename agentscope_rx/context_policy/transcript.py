"""`transcript`: messages as text for a model that summarises them, in parts of a given size.

    user (Ann): Where is the key?
    assistant: I look.
      calls look {"room": "hall"}
    tool:
      result of look: a hall with ... (12,345 characters left out) ... and a door

Results, arguments and texts are cut in the middle; pictures, sounds and files are named. What a model has thought is
left out. A text cannot speak as another: if a later line of it begins like a line of a speaker, all are indented.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from agentscope_rx.context_policy.summary import TAGS
from agentscope_rx.messages import ContentBlock, Msg, MsgRole, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from agentscope_rx.models.wire.json_codec import encode_json

RESULT: Final = 2_000
"""Characters of a result, or of the arguments of a call, that the model reads."""
TEXT: Final = 8_000
"""Characters of another text."""

_SPEAKS: Final = re.compile(rf"\s*(?:{'|'.join(MsgRole)})\s*[(:]", re.IGNORECASE)
"""The beginning of a line of a speaker."""


def cut(text: str, most: int) -> str:
    """The text, or its head and tail with the number of characters between them."""
    if len(text) <= most:
        return text
    head = most * 2 // 3
    tail = most - head
    return f"{text[:head]} ... ({len(text) - most:,} characters left out) ... {text[len(text) - tail :]}"


def line_of(message: Msg, result_chars: int, text_chars: int) -> str:
    """One message as text; '' if there is nothing in it."""
    parts = [part for block in message.content if (part := _part(block, result_chars, text_chars))]
    if not parts:
        return ""
    name = " ".join(message.name.split())
    who = message.role.value if name == message.role.value else f"{message.role.value} ({name})"
    return TAGS.escaped(f"{who}: " + "\n  ".join(parts))


def transcript(
    messages: Sequence[Msg],
    size: Callable[[str], int],
    most: int,
    *,
    result_chars: int = RESULT,
    text_chars: int = TEXT,
) -> list[str]:
    """The messages as text, in parts of at most the size `most`."""
    parts: list[list[str]] = []
    left = 0
    for message in messages:
        line = line_of(message, result_chars, text_chars)
        if not line:
            continue
        while (own := size(line)) > most and len(line) > 100:
            line = cut(line, len(line) // 2)
        if not parts or own > left:
            parts.append([])
            left = most
        parts[-1].append(line)
        left -= own
    return ["\n".join(each) for each in parts]


def _part(block: ContentBlock, result_chars: int, text_chars: int) -> str:
    if isinstance(block, TextBlock):
        return _guarded(cut(block.text.strip(), text_chars))
    if isinstance(block, ThinkingBlock):
        return ""
    if isinstance(block, ToolUseBlock):
        return f"calls {block.name} {_guarded(cut(block.raw or encode_json(block.input), result_chars))}"
    if isinstance(block, ToolResultBlock):
        what = f"result of {block.name}" + (f" ({block.kind.value})" if block.kind is not None else "")
        output = [_part(each, result_chars, result_chars) for each in block.output]
        return f"{what}: " + "\n  ".join(each for each in output if each)
    return f"({block.type}, not shown here)"


def _guarded(text: str) -> str:
    lines = text.splitlines()
    return "\n    ".join(lines) if any(map(_SPEAKS.match, lines[1:])) else text
