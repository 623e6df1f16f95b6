"""Turns -> instructions and input items of a Responses request. Pure; media files must be read already.

| turn                     | on the wire                                                                           |
|--------------------------|---------------------------------------------------------------------------------------|
| system, at the beginning | `instructions`                                                                        |
| system, later            | a `system` message where it stands                                                    |
| user                     | a `user` message: text as a string; with media, parts in order                        |
| assistant, in its order  | thinking as `reasoning` items; text as `assistant` messages; calls as `function_call` |
| tool                     | `function_call_output`: its text, or parts if it has images or files                  |

Thinking goes back if it came from this API: encrypted, or kept at the server. It stands before the text or call that
follows it. The API refuses thinking that nothing follows, so that is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
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
    ToolUseBlock,
)
from agentscope_rx.models.openai.parts import data_of, url_of
from agentscope_rx.models.wire.chat_turns import Turn, TurnRules, all_formed, all_media, split_system, turns_of
from agentscope_rx.models.wire.json_codec import arguments_text
from agentscope_rx.models.wire.pieces import Piece, Pieces

Item = dict[str, object]

REASONING = "reasoning_item"
"""The key of a thinking block's metadata under which its item is kept. Its encrypted part is the block's signature."""

_RULES = TurnRules(result_media=all_media)


def input_of(messages: Sequence[Msg], *, stored: bool = False) -> tuple[str | None, list[Item]]:
    """Instructions and input items, in order. `stored`: the server keeps its items, and knows thinking by its id."""
    lead, rest = split_system(turns_of(messages, _RULES))
    items: Pieces[Item] = Pieces(chain.from_iterable(all_formed(rest, _pieces, stored)))
    return "\n\n".join(turn.text for turn in lead) or None, items


def _pieces(turn: Turn, stored: bool) -> tuple[Piece, ...]:
    if turn.role is MsgRole.ASSISTANT:
        return tuple([Piece(item) for item in _assistant(turn, stored=stored)])
    content = _content(turn)
    if turn.result is not None:
        return (Piece({"type": "function_call_output", "call_id": turn.result.id, "output": content}),)
    return (Piece({"role": turn.role.value, "content": content}),)


def _content(turn: Turn) -> object:
    return [_part(block) for block in turn.content] if turn.media else turn.text


def _assistant(turn: Turn, *, stored: bool) -> list[Item]:
    items: list[Item] = []
    thinking: list[Item] = []
    for block in turn.named:
        if isinstance(block, ThinkingBlock):
            thinking += _reasoning(block, stored=stored)
        else:
            items += [*thinking, _text_or_call(block)]
            thinking = []
    return items


def _text_or_call(block: ContentBlock) -> Item:
    if isinstance(block, TextBlock):
        return {"role": "assistant", "content": block.text}
    assert isinstance(block, ToolUseBlock)
    # never `raw`: text of the model that is not JSON must not come back to it as its own
    arguments = arguments_text(block)
    return {"type": "function_call", "call_id": block.id, "name": block.name, "arguments": arguments}


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
            return {"type": "input_text", "text": block.text}
        case ImageBlock():
            return {"type": "input_image", "detail": "auto", "image_url": url_of(block.source)}
        case FileBlock():
            return _file(block)
        case _:
            raise InvalidInputError(
                f"The Responses API takes text, images and files, not a {block.type} block. Send a transcript as "
                "text, frames of a video as ImageBlocks, or audio with OpenAIChatModel and a model that takes it."
            )


def _file(block: FileBlock) -> Item:
    url = url_of(block.source)
    if not url.startswith("data:"):
        return {"type": "input_file", "file_url": url}
    data = data_of(block.source, "A file", "application/pdf")
    return {"type": "input_file", "filename": block.name or "file", "file_data": data}
