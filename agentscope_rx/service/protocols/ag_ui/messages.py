"""Messages of AG-UI, read and written.

| AG-UI               | message                                                                         |
|---------------------|---------------------------------------------------------------------------------|
| user                | role USER, with the same id; parts are text, images, audio, videos and files    |
| assistant           | role ASSISTANT, with the same id: text, then a call for each of its `toolCalls` |
| tool                | role TOOL with one result; a failure if it has an `error`                       |
| system, developer   | no message: see `conversing`                                                    |
| reasoning, activity | no message                                                                      |

A file that only a provider knows (a `file` source) is left out with a warning, as the protocol asks.
"""

from __future__ import annotations

import logging
import mimetypes
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from ag_ui.core import (
    AssistantMessage,
    AudioPart,
    ContentPart,
    DataSource,
    DocumentPart,
    FunctionCall,
    ImagePart,
    Message,
    TextPart,
    ToolCall,
    ToolMessage,
    UrlSource,
    UserMessage,
    VideoPart,
)

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.events.blocks.content import DataContent, arguments_of, data_of
from agentscope_rx.messages import (
    TRANSIENT,
    AudioBlock,
    Base64Source,
    ContentBlock,
    FileBlock,
    ImageBlock,
    Msg,
    MsgRole,
    OutputBlock,
    TextBlock,
    ToolResultBlock,
    ToolResultKind,
    ToolUseBlock,
    URLSource,
    VideoBlock,
)
from agentscope_rx.models.accumulate import parse_arguments

Content = str | Sequence[ContentPart]
_log = logging.getLogger("agentscope_rx")


# --- reading ----------------------------------------------------------------------------------------------------------


def user_message(message: UserMessage) -> Msg:
    """The message of a user."""
    return Msg(message.name or "user", blocks_of(message.content), MsgRole.USER, id=message.id)


def history_of(messages: Iterable[Message], agent: str) -> list[Msg]:
    """The conversation that a client shows, as this agent's; `InvalidInputError` for a result without its call."""
    names: dict[str, str] = {}
    found: list[Msg] = []
    for message in messages:
        if isinstance(message, UserMessage):
            found.append(user_message(message))
        elif isinstance(message, AssistantMessage):
            calls = [_call(call) for call in message.tool_calls or ()]
            names.update({call.id: call.name for call in calls})
            text = [TextBlock(message.content)] if message.content else []
            if text or calls:
                found.append(Msg(agent, [*text, *calls], MsgRole.ASSISTANT, id=message.id))
        elif isinstance(message, ToolMessage):
            found.append(tool_message(message, names.get(message.tool_call_id)))
    return found


def tool_message(message: ToolMessage, name: str | None) -> Msg:
    """The result of a call of this name; `InvalidInputError` without one."""
    if name is None:
        raise InvalidInputError(
            f"The message {message.id!r:.80} answers {message.tool_call_id!r:.80}, which is no call."
        )
    output = blocks_of(message.content)
    kind = None
    if message.error is not None:
        kind = ToolResultKind.FAILED
        output = (TextBlock(f"Error: {message.error}"), *output)
    return Msg("tool", ToolResultBlock(message.tool_call_id, name, output, kind), MsgRole.TOOL, id=message.id)


def blocks_of(content: Content) -> tuple[OutputBlock, ...]:
    """The blocks of a text or of parts."""
    if isinstance(content, str):
        return (TextBlock(content),)
    return tuple([block for block in map(_block, content) if block is not None])


def _block(part: ContentPart) -> OutputBlock | None:
    if isinstance(part, TextPart):
        return TextBlock(part.text)
    source = part.source
    if isinstance(source, DataSource):
        own = Base64Source(source.mime_type, source.value)
    elif isinstance(source, UrlSource):
        own = URLSource(source.value)
    else:
        _log.warning("AG-UI: left out a part with the file %.60r, which only its provider can read", source.value)
        return None
    if isinstance(part, ImagePart):
        return ImageBlock(own)
    if isinstance(part, AudioPart):
        return AudioBlock(own)
    return VideoBlock(own) if isinstance(part, VideoPart) else FileBlock(own)


def _call(call: ToolCall) -> ToolUseBlock:
    raw = call.function.arguments
    arguments, error = parse_arguments(raw)
    if error is not None:
        return ToolUseBlock(call.id, call.function.name, {}, raw, error)
    return ToolUseBlock(call.id, call.function.name, arguments)


# --- writing ----------------------------------------------------------------------------------------------------------


def shown_messages(message: Msg, prefix: str = "", subagent: str | None = None) -> list[Message]:
    """The message as clients hold it; none if it is not for them. `prefix` stands before the ids of calls."""
    if message.role is MsgRole.SYSTEM or TRANSIENT in message.marks:
        return []
    if message.role is MsgRole.USER:
        content = _content(message.content)
        return [UserMessage(id=message.id, content=content, subagent_run_id=subagent)]
    made: list[Message] = []
    calls = [
        ToolCall(id=prefix + call.id, function=FunctionCall(name=call.name, arguments=arguments_of(call)))
        for call in message.tool_calls
    ]
    text = text_of(message)
    if text or calls:
        made.append(
            AssistantMessage(id=message.id, content=text or None, tool_calls=calls or None, subagent_run_id=subagent)
        )
    for place, result in enumerate(_results(message)):
        made.append(
            ToolMessage(
                id=result_id(message, place),
                tool_call_id=prefix + result.id,
                content=content_of(result),
                error=result.text if result.is_error else None,
                subagent_run_id=subagent,
            )
        )
    return made


def shown_ids(message: Msg) -> list[str]:
    """The ids of `shown_messages`, without making these."""
    if message.role is MsgRole.SYSTEM or TRANSIENT in message.marks:
        return []
    if message.role is MsgRole.USER:
        return [message.id]
    own = [message.id] if message.tool_calls or text_of(message) else []
    return own + [result_id(message, place) for place in range(len(_results(message)))]


def _results(message: Msg) -> list[ToolResultBlock]:
    """The results, without the placeholders of calls that wait."""
    return [each for each in message.tool_results if each.kind is None or not each.kind.waits]


def text_of(message: Msg) -> str:
    """The text of a message, as its pieces were shown."""
    return "".join([block.text for block in message.content if isinstance(block, TextBlock)])


def result_id(message: Msg, place: int) -> str:
    """The id of a result as a message: that of the message that holds it, if it is the only one."""
    return message.id if place == 0 else f"{message.id}:{place}"


def content_of(result: ToolResultBlock) -> str | list[ContentPart]:
    """The output of a call: text, or parts if it has media."""
    return _content(result.output)


def _content(blocks: Sequence[ContentBlock]) -> str | list[ContentPart]:
    media = [block for block in blocks if isinstance(block, (ImageBlock, AudioBlock, VideoBlock, FileBlock))]
    texts = [block for block in blocks if isinstance(block, TextBlock)]
    if not media:
        return "\n".join([block.text for block in texts])
    return [part for block in blocks for part in _parts(block)]


_MEDIA: Mapping[str, type[ImagePart | AudioPart | VideoPart | DocumentPart]] = {
    "image": ImagePart,
    "audio": AudioPart,
    "video": VideoPart,
    "file": DocumentPart,
}


def _parts(block: ContentBlock) -> list[ContentPart]:
    if isinstance(block, TextBlock):
        return [TextPart(text=block.text)]
    if not isinstance(block, (ImageBlock, AudioBlock, VideoBlock, FileBlock)):
        return []
    made: list[ContentPart] = []
    for each in data_of(block):
        source = media_source(each.media_type, each.data, each.url)
        made.append(_MEDIA[_kind(block, each.media_type)](source=source))
    return made


def _kind(block: DataContent, media_type: str) -> Literal["image", "audio", "video", "file"]:
    # the frames of a video are images
    return "image" if block.type == "video" and media_type.startswith("image/") else block.type


def media_source(media_type: str, data: str | None, url: str | None) -> DataSource | UrlSource:
    """The source of a media part."""
    if data is not None:
        return DataSource(value=data, mime_type=media_type)
    known = media_type if mimetypes.guess_extension(media_type) else None
    return UrlSource(value=url or "", mime_type=known)
