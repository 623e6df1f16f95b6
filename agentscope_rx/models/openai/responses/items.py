"""Messages -> instructions and input items of a Responses request. Pure; media files must be read already.

| message                     | on the wire                                                                           |
|-----------------------------|---------------------------------------------------------------------------------------|
| system, at the beginning    | `instructions`                                                                        |
| system, later               | a `system` message where it stands                                                    |
| user                        | a `user` message: text as a string; with media, parts in order                        |
| assistant, in its own order | thinking as `reasoning` items; text as `assistant` messages; calls as `function_call` |
| result                      | `function_call_output`: its text, or parts if there are images or files in it         |

Calls and results are put together by `models.wire.pairing`.
Thinking goes back if it came from this API: encrypted, or kept at the server. It stands before what it led to; thinking
that led to nothing is left out, because the API refuses it. Media of an assistant follow in a user message. What cannot
be said is `InvalidInputError`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    Msg,
    MsgRole,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agentscope_rx.models.openai.parts import data_of, url_of
from agentscope_rx.models.wire.json_codec import arguments_text
from agentscope_rx.models.wire.media import MediaBlock
from agentscope_rx.models.wire.pairing import paired
from agentscope_rx.models.wire.speaker_names import SpeakerNames

Item = dict[str, object]

REASONING = "reasoning_item"
"""The key of a thinking block's metadata under which its item is kept, without what is encrypted: the signature."""


def input_of(messages: Sequence[Msg], *, stored: bool = False) -> tuple[str | None, list[Item]]:
    """Instructions and input items, in order. `stored`: the server keeps its items, and knows thinking by its id."""
    conversation = _Conversation(SpeakerNames(messages), stored)
    instructions: list[str] = []
    for message in paired(messages):
        if message.role is MsgRole.SYSTEM and not conversation.items:
            instructions += [text] if (text := _system_text(message)) else []
        else:
            conversation.add(message)
    conversation.promote()
    return "\n\n".join(instructions) or None, conversation.items


class _Conversation:
    """The items so far, and the media that wait for the end of a run of results."""

    __slots__ = ("_names", "_promoted", "_stored", "items")

    def __init__(self, names: SpeakerNames, stored: bool) -> None:
        self._names = names
        self._stored = stored
        self._promoted: list[Item] = []
        self.items: list[Item] = []

    def add(self, message: Msg) -> None:
        said = [block for block in message.content if not isinstance(block, ToolResultBlock)]
        if message.role is MsgRole.ASSISTANT:
            self._assistant(message, said)
            return
        self._results(message.tool_results)
        said = [block for block in said if not isinstance(block, ThinkingBlock)]
        if said and message.role is MsgRole.TOOL:
            raise InvalidInputError(f"A tool message holds tool results only, not a {said[0].type} block.")
        if said:
            self.promote()
            self._system_or_user(message, said)

    def promote(self) -> None:
        """Send the media that wait, as a user message."""
        if self._promoted:
            self.items.append({"role": "user", "content": self._promoted})
            self._promoted = []

    def _system_or_user(self, message: Msg, said: Sequence[ContentBlock]) -> None:
        if message.role is MsgRole.SYSTEM:
            content: object = _system_text(message)
        elif all(isinstance(block, TextBlock) for block in said):
            content = self._spoken(message) + message.text if message.text else ""
        else:
            name = self._spoken(message).rstrip()
            content = [_part(block) for block in ([TextBlock(name)] if name else []) + [*said]]
        if content:
            self.items.append({"role": message.role.value, "content": content})

    def _assistant(self, message: Msg, said: Sequence[ContentBlock]) -> None:
        waiting: list[Item] = []
        spoken = self._spoken(message)
        media: list[ContentBlock] = []
        for block in said:
            if isinstance(block, ThinkingBlock):
                waiting += _reasoning(block, stored=self._stored)
            elif isinstance(block, MediaBlock):
                media.append(block)
            elif not isinstance(block, TextBlock) or block.text:
                self.promote()
                self.items += [*waiting, _said(block, spoken)]
                waiting = []
        if media:
            self._promoted.append(_text("Media of the assistant's message:"))
            self._promoted += [_part(block) for block in media]

    def _results(self, results: Sequence[ToolResultBlock]) -> None:
        for result in results:
            plain = all(isinstance(block, TextBlock) for block in result.output)
            self.items.append(_output(result.id, result.text if plain else [_part(block) for block in result.output]))

    def _spoken(self, message: Msg) -> str:
        """Who speaks: there is no field for it."""
        name = self._names.of(message)
        return f"{name}: " if name else ""


def _system_text(message: Msg) -> str:
    other = next((block for block in message.content if not isinstance(block, (TextBlock, ThinkingBlock))), None)
    if other is not None:
        raise InvalidInputError(f"A system message can hold text only, not a {other.type} block.")
    return message.text


def _said(block: ContentBlock, spoken: str) -> Item:
    """What an assistant said or called."""
    if isinstance(block, TextBlock):
        return {"role": "assistant", "content": spoken + block.text}
    if isinstance(block, ToolUseBlock):
        # never `raw`: what the model could not write as JSON must not come back to it as its own words
        arguments = arguments_text(block)
        return {"type": "function_call", "call_id": block.id, "name": block.name, "arguments": arguments}
    raise InvalidInputError(f"An assistant message cannot hold a {block.type} block.")


def _output(id: str, output: object) -> Item:
    return {"type": "function_call_output", "call_id": id, "output": output}


def _reasoning(block: ThinkingBlock, *, stored: bool) -> list[Item]:
    """The item that the thinking came in; none for another API's, or for one that the server has not kept."""
    kept = block.metadata.get(REASONING)
    if not isinstance(kept, Mapping):
        return []
    item: Item = {"type": "reasoning", **cast("Mapping[str, object]", kept)}
    if block.signature and block.signature != item.get("id"):
        item["encrypted_content"] = block.signature
    return [item] if stored or "encrypted_content" in item else []


def _part(block: ContentBlock) -> Item:
    """A part of a user's message, or of a result."""
    match block:
        case TextBlock():
            return _text(block.text)
        case ImageBlock():
            return {"type": "input_image", "detail": "auto", "image_url": url_of(block.source)}
        case FileBlock():
            return _file(block)
        case _:
            raise InvalidInputError(
                f"The Responses API takes text, images and files, not a {block.type} block. Send what is said in it as "
                "text, frames of a video as ImageBlocks, or audio with OpenAIChatModel and a model that hears."
            )


def _file(block: FileBlock) -> Item:
    url = url_of(block.source)
    if not url.startswith("data:"):
        return {"type": "input_file", "file_url": url}
    data = data_of(block.source, "A file", "application/pdf")
    return {"type": "input_file", "filename": block.name or "file", "file_data": data}


def _text(text: str) -> Item:
    return {"type": "input_text", "text": text}
