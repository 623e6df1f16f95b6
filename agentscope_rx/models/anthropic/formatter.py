"""Messages -> the `system` and `messages` of a Messages request. Pure; media files must be read already.

| message         | on the wire                                                                               |
|-----------------|-------------------------------------------------------------------------------------------|
| system, leading | blocks of the top-level `system`                                                          |
| system, later   | text of the user's turn, between <system> tags: most models take no system turn there     |
| user            | text, images, documents; the speaker's name before the text if it says more than the role |
| assistant       | text, calls, signed thinking and redacted thinking, in their order                        |
| tool            | `tool_result` blocks with their images and documents, first in the user's turn            |

Turns alternate: what follows in one role is one turn. Every call has its result in the next turn
(`models.wire.pairing`). Media in an assistant's message follow in the user's turn. Blank text
is left out, and so is thinking at the end of a turn and white space at the end of the conversation: the API refuses
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, cast

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import (
    ContentBlock,
    Msg,
    MsgRole,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agentscope_rx.models.anthropic.parts import WirePart, media_parts, text_part
from agentscope_rx.models.anthropic.thinking import VENDOR, wire_thinking
from agentscope_rx.models.wire.media import MediaBlock
from agentscope_rx.models.wire.pairing import paired
from agentscope_rx.models.wire.speaker_names import SpeakerNames

_NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")
THOUGHTS = ("thinking", "redacted_thinking")
CACHE = "cache_control"
"""The key of a message's metadata that asks for a cache mark at its end: True, or the mark as the wire has it."""
CALL_FIELDS = ("caller", "toolset_name")
"""What a call's metadata keeps of its wire form beside id, name and input."""


class Turn(NamedTuple):
    """One message of the wire."""

    role: str
    content: list[WirePart]


class Conversation(NamedTuple):
    """What is sent of the messages."""

    system: list[WirePart]
    turns: list[Turn]


def format_messages(messages: Sequence[Msg]) -> Conversation:
    """The wire's system and turns; `InvalidInputError` for what cannot be said."""
    ordered = paired(messages, wire_id)
    lead = next((i for i, message in enumerate(ordered) if message.role is not MsgRole.SYSTEM), len(ordered))
    writer = _Writer(ordered[lead:])
    for message in ordered[:lead]:
        writer.lead(message)
    for message in ordered[lead:]:
        writer.add(message)
    return Conversation(writer.system, writer.finished())


def wire_id(id: str) -> str:
    """A call's id in the letters that the API takes: calls of other providers may be part of a conversation."""
    return _NOT_IN_IDS.sub("_", id)


class _Writer:
    """The turns so far."""

    __slots__ = ("_calls", "_names", "_promoted", "_turns", "system")

    def __init__(self, messages: Sequence[Msg]) -> None:
        self._names = SpeakerNames(messages)
        self._calls: dict[str, ToolUseBlock] = {}
        self._promoted: list[WirePart] = []
        self._turns: list[Turn] = []
        self.system: list[WirePart] = []

    def lead(self, message: Msg) -> None:
        if text := _system_text(message):
            self.system.append(text_part(text))
            _mark(self.system, message)

    def add(self, message: Msg) -> None:
        results = message.tool_results
        said = [block for block in message.content if not isinstance(block, ToolResultBlock)]
        if message.role is MsgRole.ASSISTANT:
            self._assistant(message, said)
            return
        self._results(message, results)
        if said and message.role is MsgRole.TOOL:
            raise InvalidInputError(f"A tool message holds tool results only, not a {said[0].type} block.")
        if message.role is MsgRole.SYSTEM:
            text = _system_text(message)
            self._put("user", [text_part(f"<system>\n{text}\n</system>")] if text else [], message)
        elif said:
            self._put("user", self._user(message, said), message)

    def finished(self) -> list[Turn]:
        self._promote()
        self._close()
        if not self._turns:
            raise InvalidInputError("There is nothing to send: Anthropic needs at least one message with content.")
        last = self._turns[-1]
        if last.role == "assistant" and last.content[-1]["type"] == "text":
            last.content[-1]["text"] = cast("str", last.content[-1]["text"]).rstrip()
        return self._turns

    def _user(self, message: Msg, said: Sequence[ContentBlock]) -> list[WirePart]:
        parts: list[WirePart] = []
        name = self._names.of(message)
        for block in said:
            if isinstance(block, TextBlock):
                if block.text.strip():
                    parts.append(text_part(f"{name}: {block.text}" if name else block.text))
                    name = None
            elif isinstance(block, MediaBlock):
                if name:
                    parts.append(text_part(f"{name}:"))
                    name = None
                parts += media_parts(block)
            elif not isinstance(block, ThinkingBlock):
                raise InvalidInputError(f"A {message.role.value} message cannot hold a {block.type} block.")
        return parts

    def _assistant(self, message: Msg, said: Sequence[ContentBlock]) -> None:
        parts: list[WirePart] = []
        name = self._names.of(message)
        for block in said:
            if isinstance(block, ThinkingBlock):
                parts += wire_thinking(block)
            elif isinstance(block, ToolUseBlock):
                self._calls[block.id] = block
                parts.append(_call(block))
            elif isinstance(block, TextBlock) and block.text.strip():
                parts.append(text_part(f"{name}: {block.text}" if name else block.text))
                name = None
        self._put("assistant", parts, message)
        media = [block for block in said if isinstance(block, MediaBlock)]
        if media:
            self._promoted.append(text_part("Media of the assistant's message:"))
            self._promoted += [part for block in media for part in media_parts(block)]

    def _results(self, message: Msg, results: Iterable[ToolResultBlock]) -> None:
        for result in results:
            self._put("user", [_result(result, self._calls.pop(result.id))], message)

    def _put(self, role: str, parts: list[WirePart], message: Msg | None = None) -> None:
        """Add to the turn of this role, or begin one; results stand before everything else."""
        if not parts:
            return
        if parts[0]["type"] != "tool_result":
            self._promote()
        self._append(role, parts)
        if message is not None:
            _mark(parts, message)

    def _promote(self) -> None:
        promoted, self._promoted = self._promoted, []
        if promoted:
            self._append("user", promoted)

    def _append(self, role: str, parts: list[WirePart]) -> None:
        if self._turns and self._turns[-1].role != role:
            self._close()
        if not self._turns or self._turns[-1].role != role:
            self._turns.append(Turn(role, []))
        content = self._turns[-1].content
        if parts[0]["type"] == "tool_result":
            at = sum(part["type"] == "tool_result" for part in content)
            content[at:at] = parts
        else:
            content += parts

    def _close(self) -> None:
        """The last turn is over: thinking at its end is left out, and the turn too if nothing else is in it."""
        if not self._turns:
            return
        content = self._turns[-1].content
        while content and content[-1]["type"] in THOUGHTS:
            content.pop()
        if not content:
            self._turns.pop()


def _system_text(message: Msg) -> str:
    other = next((block for block in message.content if not isinstance(block, (TextBlock, ToolResultBlock))), None)
    if other is not None:
        raise InvalidInputError(f"A system message can hold text only, not a {other.type} block.")
    return message.text if message.text.strip() else ""


def _call(block: ToolUseBlock) -> WirePart:
    # never `raw`: what the model could not write as JSON must not come back to it as its own words
    call: WirePart = {"type": "tool_use", "id": wire_id(block.id), "name": block.name, "input": block.input}
    return {**call, **_own_fields(block, *CALL_FIELDS)}


def _result(result: ToolResultBlock, call: ToolUseBlock) -> WirePart:
    part: WirePart = {"type": "tool_result", "tool_use_id": wire_id(result.id)}
    content = _output(result.output)
    if content:
        part["content"] = content
    if result.is_error:
        part["is_error"] = True
    return {**part, **_own_fields(call, "toolset_name")}


def _own_fields(call: ToolUseBlock, *names: str) -> Mapping[str, object]:
    if call.metadata.get("vendor") != VENDOR:
        return {}
    return {name: call.metadata[name] for name in names if name in call.metadata}


def _output(output: Iterable[ContentBlock]) -> list[WirePart]:
    parts: list[WirePart] = []
    for block in output:
        if isinstance(block, MediaBlock):
            parts += media_parts(block)
        elif isinstance(block, TextBlock) and block.text.strip():
            parts.append(text_part(block.text))
    return parts


def _mark(parts: Sequence[WirePart], message: Msg) -> None:
    """Put the cache mark that a message asks for on its last part that can have one."""
    asked = message.metadata.get(CACHE)
    if not asked:
        return
    part = last_markable(parts)
    if part is not None:
        part["cache_control"] = asked if isinstance(asked, Mapping) else EPHEMERAL


def last_markable(parts: Sequence[WirePart]) -> WirePart | None:
    """The last part that may carry a cache mark: thinking may not."""
    return next((part for part in reversed(parts) if part["type"] not in THOUGHTS), None)


EPHEMERAL: Mapping[str, object] = {"type": "ephemeral"}
