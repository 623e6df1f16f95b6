"""Messages of A2A as the input of a run, and what a run asks for as parts.

A task that needs input shows each waiting call as a data part, and the next message of the task answers it by one:

    {"type": "approval", "call_id": "1", "name": "delete", "input": {...}, "text": "..."}
        {"type": "approve", "call_id": "1"}         "input" replaces the arguments
        {"type": "reject", "call_id": "1", "reason": "..."}
    {"type": "result", "call_id": "2", "name": "pick", "input": {...}, "text": "..."}
        {"type": "result", "call_id": "2", "output": "..."}

If one call waits, a message of text answers it, too: it is the result, or for an approval the word approve or reject.
Other text passes the calls by: they do not run.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import cast

from a2a.types import Message, Part, Role
from google.protobuf.struct_pb2 import Struct

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import (
    ApprovalAnswer,
    Approve,
    AudioBlock,
    Base64Source,
    ContentBlock,
    FileBlock,
    ImageBlock,
    Msg,
    Reject,
    TextBlock,
    ToolResultBlock,
    ToolResultKind,
    ToolUseBlock,
    URLSource,
    VideoBlock,
)
from agentscope_rx.service.protocols.a2a.wire import plain, value_of

Waiting = Mapping[str, tuple[ToolUseBlock, ToolResultKind | None, str]]
"""The calls that wait, by id: each with the kind and the text of its placeholder."""


def input_of(message: Message, waiting: Waiting) -> list[Msg | ApprovalAnswer]:
    """The input of the run: answers to the calls that wait, then the rest of the message."""
    answers: list[Msg | ApprovalAnswer] = []
    results: list[ToolResultBlock] = []
    rest: list[ContentBlock] = []
    for part in message.parts:
        given: object = plain(part.data) if part.HasField("data") else None
        if waiting and isinstance(given, dict) and "call_id" in given:
            answer = _answer(cast("dict[str, object]", given), waiting)
            results.append(answer) if isinstance(answer, ToolResultBlock) else answers.append(answer)
        else:
            rest.append(_block(part, cast("object", given)))
    if len(waiting) == 1 and not answers and not results:
        [(call, kind, _)] = waiting.values()
        text = "".join(each.text for each in rest if isinstance(each, TextBlock))
        if kind is ToolResultKind.SUSPENDED:
            return [Msg.tool([ToolResultBlock(call.id, call.name, (TextBlock(text),))])]
        word = text.strip().lower()
        if word in ("approve", "reject"):
            return [Approve(call) if word == "approve" else Reject(call)]
    if results:
        answers.append(Msg.tool(results))
    if rest:
        answers.append(Msg.user(rest))
    if not answers:
        raise InvalidInputError("The message has no parts.")
    return answers


def waiting_in(reply: Msg) -> Waiting:
    """The calls of this reply that wait for the client."""
    shown = {result.id: result for result in reply.tool_results}
    return {
        call.id: (
            call,
            shown[call.id].kind if call.id in shown else None,
            shown[call.id].text if call.id in shown else "",
        )
        for call in reply.pending_calls
    }


def question_of(waiting: Waiting) -> list[Part]:
    """What a task asks for: in words, and as a data part for each call."""
    parts: list[Part] = []
    for call, kind, text in waiting.values():
        asked = "result" if kind is ToolResultKind.SUSPENDED else "approval"
        words = f"The call {call.name} waits for {'its result' if asked == 'result' else 'an approval'}."
        data = {
            "type": asked,
            "call_id": call.id,
            "name": call.name,
            "input": json.loads(_json(call.input)),
            "text": text,
        }
        parts += [Part(text=words), Part(data=value_of(data))]
    return parts


def message_of(parts: Sequence[Part], id: str, context_id: str, task_id: str) -> Message:
    """A message of the agent."""
    return Message(message_id=id, context_id=context_id, task_id=task_id, role=Role.ROLE_AGENT, parts=parts)


def metadata_of(values: Mapping[str, object]) -> Struct:
    """Plain values as metadata."""
    made = Struct()
    made.update(dict(values))  # pyright: ignore[reportArgumentType]
    return made


def _answer(given: Mapping[str, object], waiting: Waiting) -> ApprovalAnswer | ToolResultBlock:
    id = given["call_id"]
    if not isinstance(id, str) or id not in waiting:
        raise InvalidInputError(f"No call {id!r:.80} waits. There are: {', '.join(map(repr, waiting)):.300}.")
    call, kind, _ = waiting[id]
    match given.get("type"):
        case "approve" if kind is not ToolResultKind.SUSPENDED:
            return Approve(call, cast("dict[str, object] | None", given.get("input")))
        case "reject" if kind is not ToolResultKind.SUSPENDED:
            return Reject(call, cast("str", given.get("reason") or ""))
        case "result" if kind is not ToolResultKind.APPROVAL_REQUIRED:
            output = given.get("output")
            return ToolResultBlock(id, call.name, (TextBlock(output if isinstance(output, str) else _json(output)),))
        case other:
            raise InvalidInputError(f"{other!r:.60} is no answer to the call {id!r:.80}.")


def _block(part: Part, given: object) -> ContentBlock:
    if part.HasField("text"):
        return TextBlock(part.text)
    if part.HasField("data"):
        return TextBlock(_json(given))
    kind = part.media_type or "application/octet-stream"
    if part.HasField("raw"):
        source: Base64Source | URLSource = Base64Source(kind, base64.b64encode(part.raw).decode())
    elif part.HasField("url"):
        source = URLSource(part.url)
    else:
        raise InvalidInputError("A part has neither text, data, raw nor url.")
    match kind.partition("/")[0]:
        case "image":
            return ImageBlock(source)
        case "audio":
            return AudioBlock(source)
        case "video":
            return VideoBlock(source)
        case _:
            return FileBlock(source, part.filename or None)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, object]", value))
    return list(cast("Sequence[object]", value))
