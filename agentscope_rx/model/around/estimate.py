"""How many tokens a question has, roughly: a quarter of its bytes, and a round number for each picture or sound."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentscope_rx.message import TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from agentscope_rx.message.msg import Msg
from agentscope_rx.model.options import ToolSchema

BYTES = 4.0
"""Of UTF-8 for each token: four letters of English, a little more than one of Chinese."""
MEDIUM = 1000.0
"""Tokens of a picture, a sound, a document: the order of magnitude."""
ENVELOPE = 4.0
"""Tokens around a message."""


def estimated_tokens(messages: Sequence[Msg], tools: Sequence[ToolSchema]) -> float:
    """Good to a factor of two for words; for limits, where the usage that the answer tells puts it right."""
    said = sum(ENVELOPE + _blocks(message.content) for message in messages)
    return said + sum(_bytes(tool.name, tool.description, tool.parameters) for tool in tools)


def _blocks(blocks: Iterable[object]) -> float:
    tokens = 0.0
    for block in blocks:
        if isinstance(block, TextBlock):
            tokens += _bytes(block.text)
        elif isinstance(block, ThinkingBlock):
            tokens += _bytes(block.thinking)
        elif isinstance(block, ToolUseBlock):
            tokens += _bytes(block.name, block.input)
        elif isinstance(block, ToolResultBlock):
            tokens += _blocks(block.output)
        else:
            tokens += MEDIUM
    return tokens


def _bytes(*parts: object) -> float:
    return sum(len(str(part).encode(errors="replace")) for part in parts) / BYTES
