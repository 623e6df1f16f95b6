"""The items of the Responses API, read as the messages of Chat Completions and written from an answer.

| input item                                   | read as                                     |
|----------------------------------------------|---------------------------------------------|
| a text                                       | a message of the user                       |
| `message`, or `role` and `content`           | a message with that role                    |
| `function_call`, `function_call_output`      | a call, and its result                      |
| `reasoning`                                  | nothing: it is the model's own              |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import Msg, MsgRole, ToolResultBlock, ToolUseBlock
from agentscope_rx.models.openai.history import messages_from_openai

JsonObject = Mapping[str, object]

_PARTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}


def messages_of(input: str | Sequence[JsonObject], pending: Sequence[ToolUseBlock]) -> list[Msg]:
    """The messages of an input; `pending` are the calls of the stored conversation that wait for results."""
    if isinstance(input, str):
        return [Msg.user(input)]
    waiting = {call.id: call for call in pending}
    wires: list[JsonObject] = []
    answers: list[ToolResultBlock] = []
    for place, item in enumerate(input):
        kind = item.get("type", "message")
        id = item.get("call_id")
        if kind == "function_call_output" and isinstance(id, str) and id in waiting:
            answers.append(_result(waiting[id], item, place))
        elif kind != "reasoning":
            wires.append(_wire(item, kind, place))
    return [*([Msg.tool(answers)] if answers else ()), *messages_from_openai(wires)]


def _result(call: ToolUseBlock, item: JsonObject, place: int) -> ToolResultBlock:
    wire = {"role": "tool", "tool_call_id": call.id, "content": _content(item.get("output"), place)}
    asked = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": "{}"}}
    read = messages_from_openai([{"role": "assistant", "content": None, "tool_calls": [asked]}, wire])
    return read[1].tool_results[0]


def _wire(item: JsonObject, kind: object, place: int) -> JsonObject:
    if kind == "message":
        return {"role": item.get("role"), "content": _content(item.get("content"), place)}
    if kind == "function_call":
        function = {"name": item.get("name"), "arguments": item.get("arguments")}
        call = {"id": item.get("call_id"), "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    if kind == "function_call_output":
        return {"role": "tool", "tool_call_id": item.get("call_id"), "content": _content(item.get("output"), place)}
    raise InvalidInputError(f"input[{place}] has the type {kind!r:.60}, which an agent cannot read.")


def _content(content: object, place: int) -> object:
    if not isinstance(content, list):
        return content
    return [_part(part, place) for part in cast("list[object]", content)]


def _part(part: object, place: int) -> object:
    if not isinstance(part, Mapping):
        raise InvalidInputError(f"input[{place}] has a part that is no object.")
    given = cast("JsonObject", part)
    kind = given.get("type")
    if isinstance(kind, str) and kind in _PARTS:
        return {"type": "text", "text": given.get(_PARTS[kind])}
    if kind == "input_image":
        return {"type": "image_url", "image_url": {"url": given.get("image_url")}}
    if kind == "input_file":
        named = {name: given[name] for name in ("filename", "file_data", "file_id") if name in given}
        return {"type": "file", "file": named}
    raise InvalidInputError(f"input[{place}] has a part of type {kind!r:.60}, which an agent cannot read.")


def message_item(id: str, text: str, status: str) -> dict[str, object]:
    """A message of the answer."""
    content = [] if status == "in_progress" else [text_part(text)]
    return {"id": id, "type": "message", "role": "assistant", "status": status, "content": content}


def text_part(text: str) -> dict[str, object]:
    """The part of a message that holds its text."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def reasoning_item(id: str, text: str, status: str) -> dict[str, object]:
    """The reasoning of the answer."""
    content = [] if status == "in_progress" else [{"type": "reasoning_text", "text": text}]
    return {"id": id, "type": "reasoning", "summary": [], "content": content, "status": status}


def call_item(id: str, call: ToolUseBlock, arguments: str, status: str) -> dict[str, object]:
    """A call of a tool of the client."""
    return {
        "id": id,
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": arguments,
        "status": status,
    }


def own_messages(messages: Sequence[Msg], name: str) -> list[Msg]:
    """The messages, with those of the assistant as this agent's: only its own calls take results."""
    return [each.replace(name=name) if each.role is MsgRole.ASSISTANT else each for each in messages]
