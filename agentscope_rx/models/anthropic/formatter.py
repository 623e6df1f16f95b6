"""Turns -> the `system` and `messages` of a Messages request. Pure; media files must be read already.

| turn            | on the wire                                                                           |
|-----------------|---------------------------------------------------------------------------------------|
| system, leading | blocks of the top-level `system`                                                      |
| system, later   | text of the user's turn, between <system> tags: most models take no system turn there |
| user            | text, images, documents                                                               |
| assistant       | text, calls, signed thinking and redacted thinking, in their order                    |
| tool            | a `tool_result` block with its images and documents, in the user's turn               |

The API takes alternating turns, so consecutive turns of one role become one. It refuses blank text, thinking at the end
of a turn, and white space at the end of the conversation: all three are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import ContentBlock, Msg, MsgRole, TextBlock, ThinkingBlock, ToolUseBlock
from agentscope_rx.models.anthropic.parts import VENDOR, WirePart, media_parts, text_part, wire_thinking
from agentscope_rx.models.wire.chat_turns import (
    CACHE,
    NOTHING,
    Turn,
    TurnRules,
    all_media,
    cache_mark,
    formed,
    split_system,
    turns_of,
)
from agentscope_rx.models.wire.media import MediaBlock
from agentscope_rx.models.wire.pieces import Envelope, Piece, Pieces

_NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")
THOUGHTS = ("thinking", "redacted_thinking")
CALL_FIELDS = ("caller", "toolset_name")
"""The fields of a call, beside id, name and input, that its metadata keeps."""


class WireTurn(NamedTuple):
    """One message of the wire."""

    role: str
    content: Pieces[WirePart]

    def wire(self) -> Envelope:
        """The message as it is sent."""
        return Envelope(role=self.role, content=self.content)


class WireConversation(NamedTuple):
    """The system blocks and the messages of a request."""

    system: Pieces[WirePart]
    turns: list[WireTurn]


def format_messages(messages: Sequence[Msg]) -> WireConversation:
    """The wire's system and turns; `InvalidInputError` for content that the API does not take."""
    lead, rest = split_system(turns_of(messages, _RULES))
    system: Pieces[WirePart] = Pieces([formed(turn, _lead, "lead") for turn in lead])
    made: list[WireTurn] = []
    for turn in rest:
        if parts := formed(turn, _pieces, "turn"):
            _append(made, "assistant" if turn.role is MsgRole.ASSISTANT else "user", parts)
    _trim(made)
    if not made:
        raise InvalidInputError(NOTHING)
    last = made[-1]
    if last.role == "assistant" and last.content[-1]["type"] == "text":
        part = last.content[-1]
        last.content[-1] = {**part, "text": cast("str", part["text"]).rstrip()}
    return WireConversation(system, made)


def wire_id(id: str) -> str:
    """A call's id in the letters that the API takes: calls of other providers may be part of a conversation."""
    return _NOT_IN_IDS.sub("_", id)


_RULES = TurnRules(wire_id=wire_id, blank=(), result_media=all_media)


def _lead(turn: Turn, _: str) -> Piece:
    """The block of a system turn at the beginning."""
    return _marked([text_part(turn.text)], turn)[0]


def _pieces(turn: Turn, _: str) -> Sequence[Piece]:
    """The parts of any other turn."""
    return _marked(_turn_parts(turn), turn)


def _turn_parts(turn: Turn) -> list[WirePart]:
    if turn.role is MsgRole.TOOL:
        return [_result(turn)]
    if turn.role is MsgRole.SYSTEM:
        return [text_part(f"<system>\n{turn.text}\n</system>")]
    return [part for block in turn.named for part in _parts(block)]


def _parts(block: ContentBlock) -> list[WirePart]:
    if isinstance(block, TextBlock):
        return [text_part(block.text)]
    if isinstance(block, MediaBlock):
        return media_parts(block)
    if isinstance(block, ThinkingBlock):
        return list(wire_thinking(block))
    assert isinstance(block, ToolUseBlock)
    # never `raw`: text of the model that is not JSON must not come back to it as its own
    call: WirePart = {"type": "tool_use", "id": wire_id(block.id), "name": block.name, "input": block.input}
    return [{**call, **_own_fields(block, *CALL_FIELDS)}]


def _result(turn: Turn) -> WirePart:
    assert turn.result is not None
    assert turn.call is not None
    part: WirePart = {"type": "tool_result", "tool_use_id": wire_id(turn.result.id)}
    if content := [part for block in turn.blocks for part in _parts(block)]:
        part["content"] = content
    if turn.result.is_error:
        part["is_error"] = True
    return {**part, **_own_fields(turn.call, "toolset_name")}


def _append(made: list[WireTurn], role: str, parts: Sequence[WirePart]) -> None:
    """Add to the last turn if it has this role, else begin one."""
    if made and made[-1].role != role:
        _trim(made)
    if made and made[-1].role == role:
        made[-1].content.extend(parts)
    else:
        made.append(WireTurn(role, Pieces(parts)))


def _trim(made: list[WireTurn]) -> None:
    """Take the thinking off the end of the last turn, and the turn if it holds nothing else."""
    if not made:
        return
    content = made[-1].content
    while content and content[-1]["type"] in THOUGHTS:
        content.pop()
    if not content:
        made.pop()


def _own_fields(call: ToolUseBlock, *names: str) -> Mapping[str, object]:
    if call.metadata.get("vendor") != VENDOR:
        return {}
    return {name: call.metadata[name] for name in names if name in call.metadata}


def _marked(parts: list[WirePart], turn: Turn) -> tuple[Piece, ...]:
    """The parts, with the cache mark that a message asks for on the last one that can have one."""
    if turn.metadata and (mark := cache_mark(turn.metadata)) is not None and (at := last_markable(parts)) is not None:
        parts[at] = {**parts[at], CACHE: mark}
    return tuple([Piece(part) for part in parts])


def last_markable(parts: Sequence[WirePart]) -> int | None:
    """The place of the last part that may carry a cache mark: thinking may not."""
    return next((at for at in reversed(range(len(parts))) if parts[at]["type"] not in THOUGHTS), None)
