"""The `messages` of a Chat Completions request -> messages: the way back of the formatter. Pure.

| on the wire           | message                                                                                 |
|-----------------------|-----------------------------------------------------------------------------------------|
| `system`, `developer` | role SYSTEM                                                                             |
| `user`                | role USER, with text, images, audio and files                                           |
| `assistant`           | role ASSISTANT: text, or the text of a refusal, then a call for each of its `tool_calls`|
| `tool`                | role TOOL with a result; the name is that of its call                                   |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from agentscope_rx.errors import InvalidInputError, ProtocolError
from agentscope_rx.messages import (
    AudioBlock,
    Base64Source,
    FileBlock,
    ImageBlock,
    Msg,
    MsgRole,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    URLSource,
)
from agentscope_rx.models.accumulate import parse_arguments
from agentscope_rx.models.wire.json_codec import (
    NOT_ALLOWED,
    JsonObject,
    encode_json,
    malformed,
    object_in,
    objects_in,
    text_in,
)

Given = TextBlock | ImageBlock | AudioBlock | FileBlock

ROLES = {
    "system": MsgRole.SYSTEM,
    "developer": MsgRole.SYSTEM,
    "user": MsgRole.USER,
    "assistant": MsgRole.ASSISTANT,
}
FORMS = {"wav": "audio/wav", "mp3": "audio/mpeg"}
LOST = {
    "function_call": "'function_call' is an older form: give 'tool_calls', and results with role 'tool'",
    "audio": "'audio' of an answer cannot be read: give its transcript as 'content'",
}
"""What a message of the assistant may have on the wire, and no message has here."""


def messages_from_openai(messages: Iterable[Mapping[str, object]]) -> list[Msg]:
    """The messages of a conversation that is kept in the format of Chat Completions, for `memory=InMemoryMemory(...)`.

        history = [{"role": "user", "content": "I am Ann."}, {"role": "assistant", "content": "Hello, Ann."}]
        agent = ReActAgent("Friday", model, memory=InMemoryMemory(messages_from_openai(history)))

    Other libraries write this format: AgentScope's `OpenAIChatFormatter().format(...)`, LangChain's
    `convert_to_openai_messages(...)`. Leave the system message out if the agent has a `sys_prompt`. An object of the
    openai package is given as `message.model_dump()`. Arguments that are no JSON are kept, as in an answer of a model:
    `ToolUseBlock.raw` and `input_error`. A message that the format does not allow is an `InvalidInputError`
    that names its place.
    """
    if isinstance(messages, (str, Mapping)) or not hasattr(messages, "__iter__"):
        kind = type(cast("object", messages)).__name__
        raise InvalidInputError(f"messages must be a list of mappings, not {kind}.")
    names: dict[str, str] = {}
    found: list[Msg] = []
    for place, message in enumerate(messages):
        if not isinstance(message, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            advice = " Give message.model_dump()." if hasattr(message, "model_dump") else ""
            raise InvalidInputError(f"messages[{place}] must be a mapping, not {type(message).__name__}.{advice}")
        try:
            found.append(_message(message, names))
        except (InvalidInputError, ProtocolError) as error:
            raise InvalidInputError(f"messages[{place}]: {str(error).removeprefix(NOT_ALLOWED)}") from error
    return found


def _message(message: JsonObject, names: dict[str, str]) -> Msg:
    role = text_in(message, "role")
    if role == "tool":
        return _result(message, names)
    if role not in ROLES:
        raise malformed(f"'role' must be one of {', '.join([*ROLES, 'tool'])}", role)
    if role != "assistant" and message.get("content") is None:
        raise malformed(f"a message of {role} must have 'content'", message)
    content: list[Given | ToolUseBlock] = list(_content(message))
    if role == "assistant":
        if refusal := text_in(message, "refusal"):
            content.append(TextBlock(refusal))
        for name, advice in LOST.items():
            if message.get(name):
                raise malformed(advice, message[name])
        calls = [_call(call) for call in objects_in(message, "tool_calls")]
        names.update({call.id: call.name for call in calls})
        content += calls
    return Msg(text_in(message, "name") or ROLES[role].value, content, ROLES[role])


def _result(message: JsonObject, names: Mapping[str, str]) -> Msg:
    id = text_in(message, "tool_call_id")
    if id is None or id not in names:
        raise malformed("'tool_call_id' must be the id of a call before it", id)
    return Msg.tool(ToolResultBlock(id, names[id], tuple(_content(message))))


def _call(call: JsonObject) -> ToolUseBlock:
    function = object_in(call, "function")
    id, name = text_in(call, "id"), text_in(function or {}, "name")
    if function is None or not id or not name:
        raise malformed("a call must have an 'id' and a 'function' with a 'name'", call)
    raw = text_in(function, "arguments") or ""
    arguments, error = parse_arguments(raw)
    if error is not None:
        return ToolUseBlock(id, name, {}, raw, error)
    return ToolUseBlock(id, name, arguments, raw_input=raw if raw and raw != encode_json(arguments) else None)


def _content(message: JsonObject) -> Iterable[Given]:
    content = message.get("content")
    if isinstance(content, str):
        return [TextBlock(content)] if content else []
    if content is None or isinstance(content, list):
        return [_part(part) for part in objects_in(message, "content")]
    raise malformed("'content' must be text or a list of parts", content)


def _part(part: JsonObject) -> Given:
    kind = text_in(part, "type") or ""
    if kind in {"text", "refusal"}:
        if (text := text_in(part, kind)) is None:
            raise malformed(f"a part of type {kind!r} must have a {kind!r}", part)
        return TextBlock(text)
    fields = object_in(part, kind) or {}
    match kind:
        case "image_url":
            return ImageBlock(_source(text_in(fields, "url")))
        case "input_audio":
            form = FORMS.get(text_in(fields, "format") or "")
            if form is None:
                raise malformed("the 'format' of 'input_audio' must be wav or mp3", part)
            return AudioBlock(Base64Source(form, text_in(fields, "data") or ""))
        case "file":
            if not text_in(fields, "file_data"):
                raise malformed("a file must have its 'file_data': a 'file_id' is known to the provider only", part)
            return FileBlock(_source(text_in(fields, "file_data")), text_in(fields, "filename"))
        case _:
            raise malformed("a part must be text, an image_url, input_audio or a file", part)


def _source(url: str | None) -> URLSource | Base64Source:
    head, comma, data = (url or "").partition(";base64,")
    if comma and head.startswith("data:"):
        return Base64Source(head.removeprefix("data:"), data)
    return URLSource(url or "")
