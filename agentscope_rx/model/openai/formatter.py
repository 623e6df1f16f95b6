"""Messages, tools and options -> the body of a Chat Completions request. Pure; media files must be read already.

| message   | on the wire                                                                                         |
|-----------|-----------------------------------------------------------------------------------------------------|
| system    | `system` with its text                                                                              |
| user      | `user`: text as a string; with media, parts in their order                                          |
| assistant | `assistant`: text, `tool_calls` with the arguments encoded from `input`; no thinking unless wanted  |
| tool      | one `tool` message for each result, wherever a ToolResultBlock stands; one that says so for a call  |
|           | that has none, such as another agent's that waits for approval                                      |

The wire takes no media in tool and assistant messages: they follow in a user message, after the run of tool messages
that must not be interrupted. A message with nothing to say is left out. What cannot be said is `InvalidInputError`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.message import (
    ContentBlock,
    Msg,
    MsgRole,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    results_first,
)
from agentscope_rx.model.media import MediaBlock
from agentscope_rx.model.openai.parts import media_part
from agentscope_rx.model.openai.reasoning import DETAILS
from agentscope_rx.model.wire import NO_RESULT, encode_json

WireMessage = dict[str, object]

_NOT_IN_NAMES = re.compile(r"[\s<|\\/>]+")
MAX_NAME = 64


@dataclass(frozen=True, slots=True)
class Dialect:
    """What the server at the other end takes beyond, or instead of, OpenAI's own schema.

    `official` is OpenAI itself, which refuses fields that it does not know; `reasoning` sends thinking back.
    """

    official: bool = True
    reasoning: bool = False


def format_messages(messages: Sequence[Msg], dialect: Dialect) -> list[WireMessage]:
    """The wire's messages, in order; what came between calls and their results comes after them."""
    answered = {result.id for message in messages for result in message.tool_results}
    formatted = _Conversation(dialect, answered)
    for message in results_first(messages):
        formatted.add(message)
    formatted.promote()
    return formatted.wire


def wire_name(message: Msg) -> str | None:
    """The speaker's name as the wire allows it; None if it says no more than the role does."""
    if message.name == message.role.value:
        return None
    name = _NOT_IN_NAMES.sub("_", message.name.strip())[:MAX_NAME]
    return name or None


class _Conversation:
    """The wire's messages so far, and the media that wait for the end of a run of tool messages."""

    __slots__ = ("_answered", "_dialect", "_promoted", "wire")

    def __init__(self, dialect: Dialect, answered: Collection[str]) -> None:
        self._dialect = dialect
        self._answered = answered
        self._promoted: list[WireMessage] = []
        self.wire: list[WireMessage] = []

    def add(self, message: Msg) -> None:
        results = message.tool_results
        said = [block for block in message.content if not isinstance(block, (ToolResultBlock, ThinkingBlock))]
        # an assistant's calls come before their results; anyone else's results answer what was called before
        if message.role is MsgRole.ASSISTANT:
            self._assistant(message, said)
            self._results(results)
            return
        self._results(results)
        if said and message.role is MsgRole.TOOL:
            raise InvalidInputError(f"A tool message holds tool results only, not a {said[0].type} block.")
        if said:
            self.promote()
            self._system_or_user(message, said)

    def promote(self) -> None:
        """Send the media that wait, as a user message."""
        if self._promoted:
            self.wire.append({"role": "user", "content": self._promoted})
            self._promoted = []

    def _system_or_user(self, message: Msg, said: Sequence[ContentBlock]) -> None:
        role = message.role.value
        media = [block for block in said if not isinstance(block, TextBlock)]
        if not media:
            content: object = message.text
        elif message.role is MsgRole.SYSTEM:
            raise InvalidInputError(f"A system message can hold text only, not a {media[0].type} block.")
        else:
            content = [self._part(block, role) for block in said]
        if content:
            self._append(message, {"role": role, "content": content})

    def _assistant(self, message: Msg, said: Sequence[ContentBlock]) -> None:
        text = message.text
        wire: WireMessage = {"role": "assistant", "content": text or None}
        calls = [self._call(block) for block in said if isinstance(block, ToolUseBlock)]
        if calls:
            wire["tool_calls"] = calls
        if self._dialect.reasoning:
            wire |= _reasoning(message.blocks(ThinkingBlock))
        if len(wire) > 2 or text:
            self.promote()
            self._append(message, wire)
        for call in message.tool_calls:
            if call.id not in self._answered:
                self.wire.append({"role": "tool", "tool_call_id": call.id, "content": NO_RESULT})
        self._put_off([block for block in said if isinstance(block, MediaBlock)], "Media of the assistant's message:")

    def _results(self, results: Iterable[ToolResultBlock]) -> None:
        for result in results:
            self.wire.append({"role": "tool", "tool_call_id": result.id, "content": _result_text(result)})
            media = [block for block in result.output if isinstance(block, MediaBlock)]
            self._put_off(media, f"Media of the result of {result.name} ({result.id}):")

    def _put_off(self, media: Sequence[MediaBlock], title: str) -> None:
        if media:
            self._promoted.append({"type": "text", "text": title})
            self._promoted += [media_part(block, official=self._dialect.official) for block in media]

    def _part(self, block: ContentBlock, role: str) -> WireMessage:
        if isinstance(block, TextBlock):
            return {"type": "text", "text": block.text}
        if isinstance(block, MediaBlock):
            return media_part(block, official=self._dialect.official)
        raise InvalidInputError(f"A {role} message cannot hold a {block.type} block.")

    def _call(self, block: ToolUseBlock) -> WireMessage:
        # never `raw`: what the model could not write as JSON must not come back to it as its own words
        function = {"name": block.name, "arguments": encode_json(block.input)}
        call: WireMessage = {"id": block.id, "type": "function", "function": function}
        extra = block.metadata.get("extra_content")
        if extra and not self._dialect.official:
            call["extra_content"] = extra
        return call

    def _append(self, message: Msg, wire: WireMessage) -> None:
        name = wire_name(message)
        self.wire.append({**wire, "name": name} if name else wire)


def _result_text(result: ToolResultBlock) -> str:
    if not result.text and any(isinstance(block, MediaBlock) for block in result.output):
        return "(The result is the media in the next user message.)"
    return result.text


def _reasoning(thoughts: Sequence[ThinkingBlock]) -> WireMessage:
    details = [
        item
        for block in thoughts
        if isinstance(kept := block.metadata.get(DETAILS), (list, tuple))
        for item in cast("Sequence[object]", kept)
    ]
    if details:
        return {DETAILS: details}
    text = "".join(block.thinking for block in thoughts)
    return {"reasoning_content": text} if text else {}
