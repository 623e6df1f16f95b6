"""Messages -> the `systemInstruction` and `contents` of a Gemini request. Pure; media files must be read already.

| message         | on the wire                                                                                 |
|-----------------|---------------------------------------------------------------------------------------------|
| system, leading | parts of `systemInstruction`                                                                |
| system, later   | text of the user's content, between <system> tags: the wire has no system role there        |
| user            | parts of a `user` content; the speaker's name before the text if it says more than the role |
| assistant       | parts of a `model` content: text, calls, signed thoughts, media, each with its signature    |
| tool            | `functionResponse` parts, for all calls of a turn one `user` content of their own, in order |

What follows in one role is one content. Every call has its response (`models.wire.pairing`). A call keeps the
id that Gemini gave it, and gets none if it gave none. Media in results are parts of the response with Gemini 3 and
later, else they follow in the user's content.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

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
from agentscope_rx.models.gemini.parts import WirePart, media_parts, response_parts
from agentscope_rx.models.gemini.thinking import SIGNATURE, VENDOR, is_own, spans_of, wire_text, wire_thinking
from agentscope_rx.models.wire.media import MediaBlock
from agentscope_rx.models.wire.pairing import paired
from agentscope_rx.models.wire.speaker_names import SpeakerNames

NO_ID = "no_id"
"""The key of a call's metadata that says that the id is ours: Gemini gave none."""
UNSIGNED = "skip_thought_signature_validator"
"""What Google wants in place of a signature for calls that another model, or a person, made."""


class Content(NamedTuple):
    """One content of the wire. `answers`: it holds the responses to calls, and nothing else."""

    role: str
    parts: list[WirePart]
    answers: bool = False

    def wire(self) -> dict[str, object]:
        """The content as it is sent."""
        return {"role": self.role, "parts": self.parts}


class Conversation(NamedTuple):
    """What is sent of the messages."""

    system: list[WirePart]
    contents: list[Content]


def is_old(model: str) -> bool:
    """Whether the model is from before Gemini 3, which brought signatures that must be there and media in responses."""
    return model.rpartition("/")[2].startswith(("gemini-1", "gemini-2"))


def format_messages(messages: Sequence[Msg], *, old: bool = False) -> Conversation:
    """The wire's system and contents; `InvalidInputError` for what cannot be said."""
    ordered = paired(messages)
    lead = next((i for i, message in enumerate(ordered) if message.role is not MsgRole.SYSTEM), len(ordered))
    system: list[WirePart] = [{"text": text} for message in ordered[:lead] if (text := _system_text(message))]
    writer = _Writer(ordered[lead:], old=old)
    for message in ordered[lead:]:
        writer.add(message)
    return Conversation(system, writer.finished())


class _Writer:
    """The contents so far."""

    __slots__ = ("_contents", "_names", "_old", "_open", "_promoted", "_responses")

    def __init__(self, messages: Sequence[Msg], *, old: bool) -> None:
        self._names = SpeakerNames(messages)
        self._old = old
        self._contents: list[Content] = []
        self._open: dict[str, ToolUseBlock] = {}
        self._responses: dict[str, WirePart] = {}
        self._promoted: list[WirePart] = []

    def add(self, message: Msg) -> None:
        said = [block for block in message.content if not isinstance(block, ToolResultBlock)]
        if message.role is MsgRole.ASSISTANT:
            self._put("model", self._model(message, said))
            self._open |= {call.id: call for call in message.tool_calls}
        for result in message.tool_results:
            self._result(result)
        if message.role is MsgRole.ASSISTANT:
            return
        if said and message.role is MsgRole.TOOL:
            raise InvalidInputError(f"A tool message holds tool results only, not a {said[0].type} block.")
        if message.role is MsgRole.SYSTEM:
            text = _system_text(message)
            self._put("user", [{"text": f"<system>\n{text}\n</system>"}] if text else [])
        else:
            self._put("user", self._user(message, said))

    def finished(self) -> list[Content]:
        self._answer()
        if not self._contents:
            raise InvalidInputError("There is nothing to send: Gemini needs at least one message with content.")
        return self._contents

    def _user(self, message: Msg, said: Sequence[ContentBlock]) -> list[WirePart]:
        parts: list[WirePart] = []
        name = self._names.of(message)
        for block in said:
            if isinstance(block, TextBlock):
                if block.text.strip():
                    parts.append({"text": f"{name}: {block.text}" if name else block.text})
                    name = None
            elif isinstance(block, MediaBlock):
                if name:
                    parts.append({"text": f"{name}:"})
                    name = None
                parts += media_parts(block)
            elif not isinstance(block, ThinkingBlock):
                raise InvalidInputError(f"A {message.role.value} message cannot hold a {block.type} block.")
        return parts

    def _model(self, message: Msg, said: Sequence[ContentBlock]) -> list[WirePart]:
        parts: list[WirePart] = []
        name = self._names.of(message)
        unsigned = not self._old
        for at, block in enumerate(said):
            if isinstance(block, TextBlock):
                after = said[at + 1] if at + 1 < len(said) else None
                pieces = list(wire_text(block.text, spans_of(after))) if block.text else []
                if name and pieces:
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
                self._signatures(block, said[at - 1] if at else None, parts)
        return parts

    def _signatures(self, block: ThinkingBlock, before: ContentBlock | None, parts: list[WirePart]) -> None:
        """The signatures that no text went out with: an empty part's own, and an image's."""
        if spans_of(block) and not (isinstance(before, TextBlock) and before.text):
            parts.append({"text": "", SIGNATURE: block.signature})
        elif is_own(block) and block.metadata.get("media") and isinstance(before, MediaBlock):
            parts[-1][SIGNATURE] = block.signature

    def _result(self, result: ToolResultBlock) -> None:
        response, media = self._response(result, self._open[result.id])
        self._responses[result.id] = response
        if media:
            self._promoted.append({"text": f"Media of the result of {result.name}:"})
        for block in media:
            self._promoted += media_parts(block)

    def _response(self, result: ToolResultBlock, call: ToolUseBlock) -> tuple[WirePart, list[MediaBlock]]:
        response: dict[str, object] = {"name": call.name}
        if call.metadata.get("vendor") != VENDOR or not call.metadata.get(NO_ID):
            response["id"] = call.id
        response["response"] = {"error" if result.is_error else "output": result.text}
        parts: list[WirePart] = []
        left: list[MediaBlock] = []
        for block in result.output:
            if isinstance(block, MediaBlock):
                held = None if self._old else response_parts(block)
                if held is None:
                    left.append(block)
                else:
                    parts += held
        if parts:
            response["parts"] = parts
        return {"functionResponse": response}, left

    def _answer(self) -> None:
        """The responses to the calls of the turn before, in their order; then what could not be said in them."""
        if self._open:
            responses = [self._responses[id] for id in self._open]
            self._contents.append(Content("user", responses, answers=True))
        self._open, self._responses = {}, {}
        promoted, self._promoted = self._promoted, []
        self._append("user", promoted)

    def _put(self, role: str, parts: list[WirePart]) -> None:
        if parts:
            self._answer()
            self._append(role, parts)

    def _append(self, role: str, parts: list[WirePart]) -> None:
        if not parts:
            return
        last = self._contents[-1] if self._contents else None
        if last is not None and last.role == role and not last.answers:
            last.parts.extend(parts)
        else:
            self._contents.append(Content(role, parts))


def _call(block: ToolUseBlock, *, unsigned: bool) -> WirePart:
    # never `raw`: what the model could not write as JSON must not come back to it as its own words
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


def _system_text(message: Msg) -> str:
    other: Iterable[ContentBlock] = (b for b in message.content if not isinstance(b, (TextBlock, ToolResultBlock)))
    for block in other:
        raise InvalidInputError(f"A system message can hold text only, not a {block.type} block.")
    return message.text if message.text.strip() else ""
