"""Turns -> the `messages` of an Ollama request. Pure; media files must be read already.

| turn      | on the wire                                                                        |
|-----------|------------------------------------------------------------------------------------|
| system    | `content`                                                                          |
| user      | `content`, and `images`: base64 without anything around it                         |
| assistant | `content`, `thinking`, and `tool_calls` with the arguments as an object            |
| tool      | `content`, with `tool_name`, and with `tool_call_id` for the servers that go by it |

Images are sent as data. Audio, video, files and web addresses are an `InvalidInputError`. Images stand beside the text
of their message: their place in it is lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import Base64Source, ImageBlock, Source, ToolUseBlock
from agentscope_rx.models.wire.chat_turns import Turn, all_formed
from agentscope_rx.models.wire.media import MediaBlock, address_of, data_source
from agentscope_rx.models.wire.pieces import Piece, Pieces

WireMessage = dict[str, object]

_INSTEAD = {
    "audio": "Give its transcript as text.",
    "video": "Send some of its frames as ImageBlocks.",
    "file": "Give its text, or its pages as ImageBlocks.",
}


def format_turns(turns: Sequence[Turn]) -> list[WireMessage]:
    """The wire's messages, in order."""
    return Pieces(all_formed(turns, _message, None))


def _message(turn: Turn, _: None) -> Piece:
    wire: WireMessage = {"role": turn.role.value, "content": turn.text}
    if thinking := turn.thinking:
        wire["thinking"] = "".join(block.thinking for block in thinking)
    if media := turn.media:
        wire["images"] = [_image(block) for block in media]
    if calls := turn.calls:
        wire["tool_calls"] = [_call(call) for call in calls]
    if turn.result is not None:
        wire |= {"tool_name": turn.result.name, "tool_call_id": turn.result.id}
    return Piece(wire)


def _call(block: ToolUseBlock) -> WireMessage:
    # never `raw`: text of the model that is not JSON must not come back to it as its own
    return {"id": block.id, "function": {"name": block.name, "arguments": block.input}}


def _image(block: MediaBlock) -> str:
    if not isinstance(block, ImageBlock):
        raise InvalidInputError(f"Ollama takes images only, no {block.type}. {_INSTEAD[block.type]}")
    return _data(block.source)


def _data(source: Source) -> str:
    source = data_source(source)
    if isinstance(source, Base64Source):
        return source.data
    raise InvalidInputError(
        f"Ollama takes images as data, not as addresses ({address_of(source)[:80]}). Fetch it, and use "
        "Base64Source.of(data, 'image/png') or a local file."
    )
