"""Messages, tools and options -> the body of a Chat Completions request. Pure; media files must be read already.

| message   | on the wire                                                                                           |
|-----------|-------------------------------------------------------------------------------------------------------|
| system    | `system` with its text                                                                                |
| user      | `user`: text as a string; with media, parts in their order                                            |
| assistant | `assistant`: text, `tool_calls` with the arguments encoded from `input`; thinking as the profile says |
| tool      | one `tool` message for each result; calls and results are put together by `models.wire.pairing`       |

The wire takes no media in tool and assistant messages: they follow in a user message, after the run of tool messages
that must not be interrupted. A message with nothing to say is left out. A message whose metadata has `cache_control`
(True, or the mark itself) is marked where the server's cache takes marks, and only there: others keep what they like.
What a profile's quirks ask for is put in last, by `models.openai.compat`. What cannot be said is `InvalidInputError`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import (
    AudioBlock,
    ContentBlock,
    Msg,
    MsgRole,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agentscope_rx.models.openai.compat import id_of_nine, with_quirks
from agentscope_rx.models.openai.parts import media_part
from agentscope_rx.models.openai.profile import Profile
from agentscope_rx.models.openai.profiles import OPENAI
from agentscope_rx.models.openai.reasoning import DETAILS
from agentscope_rx.models.wire.json_codec import arguments_text
from agentscope_rx.models.wire.media import MediaBlock
from agentscope_rx.models.wire.pairing import paired
from agentscope_rx.models.wire.speaker_names import SpeakerNames

WireMessage = dict[str, object]

_NOT_IN_NAMES = re.compile(r"[\s<|\\/>]+")
MAX_NAME = 64


CACHE = "cache_control"
"""The key of a message's metadata that asks for a cache mark at its end: True, or the mark as the wire has it."""


def format_messages(messages: Sequence[Msg], profile: Profile = OPENAI) -> list[WireMessage]:
    """The wire's messages, in order; what came between calls and their results comes after them."""
    ordered = paired(messages, id_of_nine if "ids_of_nine" in profile.quirks else str)
    formatted = _Conversation(profile, None if profile.names else SpeakerNames(messages))
    for message in ordered:
        formatted.add(message)
    formatted.promote()
    return with_quirks(formatted.wire, profile.quirks)


def wire_name(message: Msg) -> str | None:
    """The speaker's name as the wire allows it; None if it says no more than the role does."""
    if message.name == message.role.value:
        return None
    name = _NOT_IN_NAMES.sub("_", message.name.strip())[:MAX_NAME]
    return name or None


class _Conversation:
    """The wire's messages so far, and the media that wait for the end of a run of tool messages."""

    __slots__ = ("_names", "_profile", "_promoted", "wire")

    def __init__(self, profile: Profile, names: SpeakerNames | None) -> None:
        self._profile = profile
        self._names = names
        self._promoted: list[WireMessage] = []
        self.wire: list[WireMessage] = []

    def add(self, message: Msg) -> None:
        results = message.tool_results
        said = [block for block in message.content if not isinstance(block, (ToolResultBlock, ThinkingBlock))]
        if message.role is MsgRole.ASSISTANT:
            self._assistant(message, said)
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
        spoken = self._spoken(message)
        if not media:
            content: object = spoken + message.text if message.text else ""
        elif message.role is MsgRole.SYSTEM:
            raise InvalidInputError(f"A system message can hold text only, not a {media[0].type} block.")
        else:
            content = [self._part(block, role) for block in ([TextBlock(spoken.rstrip())] if spoken else []) + [*said]]
        if content:
            self._append(message, {"role": role, "content": content})

    def _assistant(self, message: Msg, said: Sequence[ContentBlock]) -> None:
        text = self._spoken(message) + message.text if message.text else ""
        wire: WireMessage = {"role": "assistant", "content": text or None}
        calls = [self._call(block) for block in said if isinstance(block, ToolUseBlock)]
        if calls:
            wire["tool_calls"] = calls
        wire |= self._thinking(message.blocks(ThinkingBlock), calls=bool(calls))
        if len(wire) > 2 or text:
            self.promote()
            self._append(message, wire)
        # what the model has said aloud stands beside it in words
        heard = bool(text)
        media = [b for b in said if isinstance(b, MediaBlock) and not (heard and isinstance(b, AudioBlock))]
        self._put_off(media, "Media of the assistant's message:")

    def _results(self, results: Iterable[ToolResultBlock]) -> None:
        for result in results:
            media = [block for block in result.output if isinstance(block, MediaBlock)]
            content: object = _result_text(result)
            if media and "media_in_results" in self._profile.quirks:
                content = [self._part(block, "tool") for block in result.output]
                media = []
            self.wire.append({"role": "tool", "tool_call_id": result.id, "content": content})
            self._put_off(media, f"Media of the result of {result.name} ({result.id}):")

    def _put_off(self, media: Sequence[MediaBlock], title: str) -> None:
        if media:
            self._promoted.append({"type": "text", "text": title})
            self._promoted += [media_part(block, self._profile) for block in media]

    def _part(self, block: ContentBlock, role: str) -> WireMessage:
        if isinstance(block, TextBlock):
            return {"type": "text", "text": block.text}
        if isinstance(block, MediaBlock):
            return media_part(block, self._profile)
        raise InvalidInputError(f"A {role} message cannot hold a {block.type} block.")

    def _call(self, block: ToolUseBlock) -> WireMessage:
        # never `raw`: what the model could not write as JSON must not come back to it as its own words
        function = {"name": block.name, "arguments": arguments_text(block)}
        call: WireMessage = {"id": block.id, "type": "function", "function": function}
        extra = block.metadata.get("extra_content")
        if extra and self._profile.extras:
            call["extra_content"] = extra
        return call

    def _append(self, message: Msg, wire: WireMessage) -> None:
        name = wire_name(message) if self._names is None else None
        asked = message.metadata.get(CACHE) if self._profile.cache_marks else None
        if asked:
            _mark(wire, asked)
        self.wire.append({**wire, "name": name} if name else wire)

    def _spoken(self, message: Msg) -> str:
        """Who speaks, where there is no field for it."""
        name = self._names.of(message) if self._names is not None else None
        return f"{name}: " if name else ""

    def _thinking(self, thoughts: Sequence[ThinkingBlock], *, calls: bool) -> WireMessage:
        wanted = self._profile.reasoning
        if wanted == "never" or (wanted == "calls" and not calls):
            return {}
        field = self._profile.reasoning_field
        fields = _reasoning(thoughts, field)
        # where calls without their thinking are refused, one that had none (another model's) has an empty one
        return fields or ({field: ""} if wanted == "calls" else {})


def _mark(wire: WireMessage, asked: object) -> None:
    """Put a cache mark on the last part of a message, which must be a part for it."""
    content = wire.get("content")
    if isinstance(content, str) and content:
        wire["content"] = content = [{"type": "text", "text": content}]
    if isinstance(content, list):
        parts = cast("list[WireMessage]", content)
        parts[-1] = {**parts[-1], CACHE: asked if isinstance(asked, Mapping) else {"type": "ephemeral"}}


def _result_text(result: ToolResultBlock) -> str:
    if not result.text and any(isinstance(block, MediaBlock) for block in result.output):
        return "(The result is the media in the next user message.)"
    return result.text


def _reasoning(thoughts: Sequence[ThinkingBlock], field: str) -> WireMessage:
    details = [
        item
        for block in thoughts
        if isinstance(kept := block.metadata.get(DETAILS), (list, tuple))
        for item in cast("Sequence[object]", kept)
    ]
    if details:
        return {DETAILS: details}
    text = "".join(block.thinking for block in thoughts)
    return {field: text} if text else {}
