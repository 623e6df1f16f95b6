"""Turns -> the `systemInstruction` and `contents` of a Gemini request. Pure; media files must be read already.

| turn            | on the wire                                                                              |
|-----------------|------------------------------------------------------------------------------------------|
| system, leading | parts of `systemInstruction`                                                             |
| system, later   | text of the user's content, between <system> tags: the wire has no system role there     |
| user            | parts of a `user` content                                                                |
| assistant       | parts of a `model` content: text, calls, signed thoughts, media, each with its signature |
| tool            | `functionResponse` parts, for all calls of a turn one `user` content, in call order      |

Consecutive turns of one role become one content. A call keeps the id that Gemini gave it, and is sent without one if
Gemini gave none. From Gemini 3 on media in results are parts of the response; before, they follow in a user content.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import (
    ContentBlock,
    Msg,
    MsgRole,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from agentscope_rx.models.gemini.parts import (
    SIGNATURE,
    VENDOR,
    WirePart,
    fits_in_response,
    is_own,
    media_parts,
    response_parts,
    spans_of,
    wire_text,
    wire_thinking,
)
from agentscope_rx.models.wire.chat_turns import NOTHING, Turn, TurnRules, formed, split_system, turns_of
from agentscope_rx.models.wire.media import MediaBlock
from agentscope_rx.models.wire.pieces import Envelope, Piece, Pieces

NO_ID = "no_id"
"""The key of a call's metadata that marks its id as ours: Gemini gave none."""
UNSIGNED = "skip_thought_signature_validator"
"""Google's placeholder for the signature of calls that another model, or a person, made."""

_ASSISTANT = (MsgRole.ASSISTANT,)
_RULES = TurnRules(blank=_ASSISTANT, assistant_media=True, result_media=fits_in_response)
_OLD_RULES = TurnRules(blank=_ASSISTANT, assistant_media=True)


class Content(NamedTuple):
    """One content of the wire. `answers`: it holds the responses to calls, and nothing else."""

    role: str
    parts: Pieces[WirePart]
    answers: bool = False

    def wire(self) -> Envelope:
        """The content as it is sent."""
        return Envelope(role=self.role, parts=self.parts)


class WireConversation(NamedTuple):
    """The system parts and the contents of a request."""

    system: list[WirePart]
    contents: list[Content]


def is_old(model: str) -> bool:
    """True for a model before Gemini 3, which introduced mandatory signatures and media in responses."""
    return model.rpartition("/")[2].startswith(("gemini-1", "gemini-2"))


def format_messages(messages: Sequence[Msg], *, old: bool = False) -> WireConversation:
    """The wire's system and contents; `InvalidInputError` for content that the API does not take."""
    rules = _OLD_RULES if old else _RULES
    lead, rest = split_system(turns_of(messages, rules))
    contents: list[Content] = []
    call_order: list[str] = []
    for answers, run in groupby(rest, key=lambda turn: turn.role is MsgRole.TOOL):
        if answers:
            responses = {turn.result.id: formed(turn, _parts, rules)[0] for turn in run if turn.result is not None}
            contents.append(Content("user", Pieces([responses[id] for id in call_order]), answers=True))
            continue
        for turn in run:
            if turn.role is MsgRole.ASSISTANT:
                call_order = [call.id for call in turn.calls]
            _append(contents, "model" if turn.role is MsgRole.ASSISTANT else "user", formed(turn, _parts, rules))
    if not contents:
        raise InvalidInputError(NOTHING)
    return WireConversation([{"text": turn.text} for turn in lead], contents)


def _parts(turn: Turn, rules: TurnRules) -> tuple[Piece, ...]:
    if turn.result is not None:
        return (Piece(_response(turn)),)
    return tuple([Piece(part) for part in _turn_parts(turn, old=rules is _OLD_RULES)])


def _turn_parts(turn: Turn, *, old: bool) -> list[WirePart]:
    if turn.role is MsgRole.ASSISTANT:
        return _model_parts(turn, unsigned=not old)
    if turn.role is MsgRole.SYSTEM:
        return [{"text": f"<system>\n{turn.text}\n</system>"}]
    parts: list[WirePart] = []
    for block in turn.content:
        if isinstance(block, TextBlock):
            parts.append({"text": block.text})
        else:
            parts += media_parts(block)
    return parts


def _model_parts(turn: Turn, *, unsigned: bool) -> list[WirePart]:
    parts: list[WirePart] = []
    blocks, name = turn.blocks, turn.speaker
    for at, block in enumerate(blocks):
        if isinstance(block, TextBlock):
            after = blocks[at + 1] if at + 1 < len(blocks) else None
            pieces = list(wire_text(block.text, spans_of(after)))
            if name:
                # after the cut: the signatures count characters without the name
                pieces[0]["text"] = f"{name}: {pieces[0]['text']}"
                name = None
            parts += pieces
        elif isinstance(block, ToolUseBlock):
            parts.append(_call(block, unsigned=unsigned))
            unsigned = False
        elif isinstance(block, MediaBlock):
            parts += media_parts(block)
        elif isinstance(block, ThinkingBlock):
            parts += wire_thinking(block)
            _add_signature(block, blocks[at - 1] if at else None, parts)
    return parts


def _add_signature(block: ThinkingBlock, before: ContentBlock | None, parts: list[WirePart]) -> None:
    """Add the signature that no text was sent with: an empty part's own, or an image's."""
    if spans_of(block) and not isinstance(before, TextBlock):
        parts.append({"text": "", SIGNATURE: block.signature})
    elif is_own(block) and block.metadata.get("media") and isinstance(before, MediaBlock):
        parts[-1][SIGNATURE] = block.signature


def _response(turn: Turn) -> WirePart:
    result, call = turn.result, turn.call
    assert result is not None
    assert call is not None
    response: dict[str, object] = {"name": call.name}
    if call.metadata.get("vendor") != VENDOR or not call.metadata.get(NO_ID):
        response["id"] = call.id
    response["response"] = {"error" if result.is_error else "output": turn.text}
    if parts := [part for block in turn.media for part in response_parts(block)]:
        response["parts"] = parts
    return {"functionResponse": response}


def _append(contents: list[Content], role: str, parts: Sequence[WirePart]) -> None:
    """Add to the last content if it has this role and holds no responses, else begin one."""
    if not parts:
        return
    last = contents[-1] if contents else None
    if last is not None and last.role == role and not last.answers:
        last.parts.extend(parts)
    else:
        contents.append(Content(role, Pieces(parts)))


def _call(block: ToolUseBlock, *, unsigned: bool) -> WirePart:
    # never `raw`: text of the model that is not JSON must not come back to it as its own
    call: WirePart = {"name": block.name, "args": block.input}
    part: WirePart = {"functionCall": call}
    own = block.metadata.get("vendor") == VENDOR
    if not (own and block.metadata.get(NO_ID)):
        call["id"] = block.id
    signature = block.metadata.get("signature") if own else None
    if isinstance(signature, str):
        part[SIGNATURE] = signature
    elif unsigned:
        part[SIGNATURE] = UNSIGNED
    return part
