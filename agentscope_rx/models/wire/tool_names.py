"""Tool names in the letters that all providers take, there and back.

    get_weather    ->  get_weather                  1 to 64 of a-z, A-Z, 0-9, '_' and '-': unchanged
    math.sqrt      ->  math_sqrt_x1f09a3c2

Other letters become '_', and `_x` with eight hexadecimal digits of the name's SHA-256 is appended, to keep the name
unique. The result depends on the name alone, so that a prompt stays the same with any other tools. A name that already
ends like that is changed as well; so two names become equal only if their digests agree in eight digits, which is a
`ConfigurationError`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.messages import Msg, ToolResultBlock, ToolUseBlock
from agentscope_rx.models.options import GenerateOptions, ToolSchema
from agentscope_rx.models.response import ChatResponse, ToolUseDelta

B = TypeVar("B")

_VALID = re.compile(r"(?!.*_x[0-9a-f]{8}\Z)[a-zA-Z0-9_-]{1,64}")
_INVALID = re.compile(r"[^a-zA-Z0-9_-]+")
_DIGITS = 8


def is_wire_name(name: str) -> bool:
    """True if providers take the name: it is valid, or empty (of a call that was cut off)."""
    return not name or _VALID.fullmatch(name) is not None


def wire_name(name: str) -> str:
    """The name as providers take it."""
    if is_wire_name(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]
    return f"{_INVALID.sub('_', name)[: 64 - _DIGITS - 2]}_x{digest}"


class WireNames:
    """Translates the tool names of one request, and back in its answer."""

    __slots__ = ("_back",)

    def __init__(self, back: dict[str, str]) -> None:
        self._back = back

    @classmethod
    def of(cls, messages: Iterable[Msg], tools: Iterable[ToolSchema]) -> WireNames | None:
        """The translation for these tools and calls; None if no name changes, as nearly always."""
        back: dict[str, str] = {}
        seen: set[str] = set()
        for name in _names(messages, tools):
            if name in seen:
                continue
            seen.add(name)
            wire = wire_name(name)
            if wire != name and back.setdefault(wire, name) != name:
                raise ConfigurationError(
                    f"Tools {back[wire]!r:.80} and {name!r:.80} would be sent under the same name: rename one of them."
                )
        return cls(back) if back else None

    def messages(self, messages: Sequence[Msg]) -> list[Msg]:
        """The messages with wire names."""
        return [
            message.replace(content=[_renamed(block) for block in message.content])
            if any(_changes(block) for block in message.content)
            else message
            for message in messages
        ]

    def tools(self, tools: Sequence[ToolSchema]) -> list[ToolSchema]:
        """The tools with wire names."""
        return [replace(tool, name=wire_name(tool.name)) for tool in tools]

    def options(self, options: GenerateOptions) -> GenerateOptions:
        """The options with the wire name of the tool that must be called."""
        choice = options.tool_choice
        if choice is None or choice.tool is None:
            return options
        return replace(options, tool_choice=replace(choice, tool=wire_name(choice.tool)))

    def back(self, answer: ChatResponse) -> ChatResponse:
        """The increment with the tools' own names."""
        if not any(isinstance(block, (ToolUseDelta, ToolUseBlock)) for block in answer.content):
            return answer
        return replace(
            answer,
            content=tuple(
                replace(block, name=self._back.get(block.name, block.name))
                if isinstance(block, (ToolUseDelta, ToolUseBlock)) and block.name
                else block
                for block in answer.content
            ),
        )


def _names(messages: Iterable[Msg], tools: Iterable[ToolSchema]) -> Iterable[str]:
    for tool in tools:
        yield tool.name
    for message in messages:
        for block in message.content:
            if isinstance(block, (ToolUseBlock, ToolResultBlock)):
                yield block.name


def _changes(block: object) -> bool:
    return isinstance(block, (ToolUseBlock, ToolResultBlock)) and wire_name(block.name) != block.name


def _renamed(block: B) -> B:
    return replace(block, name=wire_name(block.name)) if isinstance(block, (ToolUseBlock, ToolResultBlock)) else block
