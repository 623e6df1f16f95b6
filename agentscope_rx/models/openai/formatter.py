"""Turns -> the `messages` of a Chat Completions request. Pure; media files must be read already.

| turn      | on the wire                                                                                           |
|-----------|-------------------------------------------------------------------------------------------------------|
| system    | `system` with its text                                                                                |
| user      | `user`: text as a string; with media, parts in their order                                            |
| assistant | `assistant`: text, `tool_calls` with the arguments encoded from `input`; thinking as the profile says |
| tool      | `tool` with the text of the result                                                                    |

A message whose metadata has `cache_control` is marked where the server's cache takes marks, and only there: others
cache on their own. Last, the messages are changed for servers with quirks:

| quirk                | change                                                                                    |
|----------------------|-------------------------------------------------------------------------------------------|
| `user_required`      | a conversation without a user message ends in an empty one                                |
| `no_user_after_tool` | a user message right after a tool's follows one of the assistant's that acknowledges it   |
| `ids_of_nine`        | an id of a call that is not nine letters and digits is replaced, in call and result alike |
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence
from functools import cache
from typing import cast

from agentscope_rx.messages import Msg, MsgRole, TextBlock, ThinkingBlock, ToolUseBlock
from agentscope_rx.models.openai.parts import media_part
from agentscope_rx.models.openai.profile import Profile, Quirk
from agentscope_rx.models.openai.profiles import OPENAI
from agentscope_rx.models.openai.reasoning import DETAILS
from agentscope_rx.models.wire.chat_turns import (
    CACHE,
    Turn,
    TurnRules,
    all_formed,
    all_media,
    cache_mark,
    no_media,
    turns_of,
)
from agentscope_rx.models.wire.json_codec import arguments_text
from agentscope_rx.models.wire.pieces import Piece, Pieces

WireMessage = dict[str, object]

_NOT_IN_NAMES = re.compile(r"[\s<|\\/>]+")
MAX_NAME = 64
ANSWERED = "(The tools have answered.)"
_NINE = re.compile(r"[a-zA-Z0-9]{9}")


def format_messages(messages: Sequence[Msg], profile: Profile = OPENAI) -> list[WireMessage]:
    """The wire's messages, in order."""
    turns = turns_of(messages, _rules(profile.names, profile.quirks))
    made = Pieces([wire for wire in all_formed(turns, _piece, profile) if wire is not None])
    return with_quirks(made, profile.quirks) if profile.quirks else made


@cache
def _rules(names: bool, quirks: frozenset[Quirk]) -> TurnRules:
    return TurnRules(
        wire_id=id_of_nine if "ids_of_nine" in quirks else str,
        names=names,
        result_media=all_media if "media_in_results" in quirks else no_media,
    )


def _piece(turn: Turn, profile: Profile) -> WireMessage | None:
    wire = _message(turn, profile)
    return None if wire is None else Piece(_renamed(wire) if "ids_of_nine" in profile.quirks else wire)


def wire_name(author: str, role: MsgRole) -> str | None:
    """The speaker's name in the letters that the wire allows; None if it is the name of the role."""
    if author == role.value:
        return None
    name = _NOT_IN_NAMES.sub("_", author.strip())[:MAX_NAME]
    return name or None


def _message(turn: Turn, profile: Profile) -> WireMessage | None:
    if turn.result is not None:
        return {"role": "tool", "tool_call_id": turn.result.id, "content": _content(turn, profile)}
    wire: WireMessage = {"role": turn.role.value, "content": _content(turn, profile)}
    if turn.role is MsgRole.ASSISTANT:
        wire["content"] = wire["content"] or None
        if calls := turn.calls:
            wire["tool_calls"] = [_call(call, profile) for call in calls]
        if profile.reasoning == "always" or (profile.reasoning == "calls" and calls):
            wire |= _thinking(turn, profile)
        if len(wire) == 2 and wire["content"] is None:
            return None
    if profile.cache_marks and (mark := cache_mark(turn.metadata)) is not None:
        _mark(wire, mark)
    if profile.names and turn.author is not None and (name := wire_name(turn.author, turn.role)):
        wire["name"] = name
    return wire


def _content(turn: Turn, profile: Profile) -> object:
    if not turn.media:
        return turn.text
    return [
        {"type": "text", "text": block.text} if isinstance(block, TextBlock) else media_part(block, profile)
        for block in turn.content
    ]


def _call(block: ToolUseBlock, profile: Profile) -> WireMessage:
    # never `raw`: text of the model that is not JSON must not come back to it as its own
    function = {"name": block.name, "arguments": arguments_text(block)}
    call: WireMessage = {"id": block.id, "type": "function", "function": function}
    extra = block.metadata.get("extra_content")
    if extra and profile.extras:
        call["extra_content"] = extra
    return call


def _thinking(turn: Turn, profile: Profile) -> WireMessage:
    field = profile.reasoning_field
    fields = _reasoning(turn.thinking, field)
    # a server that refuses calls without thinking takes empty thinking for those of another model
    return fields or ({field: ""} if profile.reasoning == "calls" else {})


def _mark(wire: WireMessage, mark: object) -> None:
    """Put a cache mark on the last part of a message; a text becomes a part to carry it."""
    content = wire.get("content")
    if isinstance(content, str) and content:
        wire["content"] = content = [{"type": "text", "text": content}]
    if isinstance(content, list):
        parts = cast("list[WireMessage]", content)
        parts[-1] = {**parts[-1], CACHE: mark}


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


def with_quirks(messages: Sequence[WireMessage], quirks: Collection[str]) -> list[WireMessage]:
    """The messages in the order that a server with these quirks takes."""
    made = Pieces(messages)
    if "no_user_after_tool" in quirks:
        made = _separated(made)
    if "user_required" in quirks and not any(message["role"] == "user" for message in made):
        made.append({"role": "user", "content": ""})
    return made


def id_of_nine(id: str) -> str:
    """The id if it is nine letters and digits, else nine that stand for it, always the same."""
    return id if _NINE.fullmatch(id) else hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[:9]


def _renamed(message: WireMessage) -> WireMessage:
    if "tool_call_id" in message:
        return {**message, "tool_call_id": id_of_nine(cast("str", message["tool_call_id"]))}
    if "tool_calls" not in message:
        return message
    calls = cast("Sequence[WireMessage]", message["tool_calls"])
    return {**message, "tool_calls": [{**call, "id": id_of_nine(cast("str", call["id"]))} for call in calls]}


def _separated(messages: Sequence[WireMessage]) -> Pieces[WireMessage]:
    made: Pieces[WireMessage] = Pieces()
    for message in messages:
        if message["role"] == "user" and made and made[-1]["role"] == "tool":
            made.append({"role": "assistant", "content": ANSWERED})
        made.append(message)
    return made
