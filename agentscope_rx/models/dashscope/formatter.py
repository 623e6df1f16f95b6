"""Turns -> the `input.messages` of a DashScope request. Pure; media files must be read already.

| turn      | text endpoint                                   | multimodal endpoint            |
|-----------|-------------------------------------------------|--------------------------------|
| system    | `content`: text                                 | `content`: a part of text      |
| user      | `content`: text; media are `InvalidInputError`  | `content`: parts, in order     |
| assistant | `content`: text or "", `tool_calls`             | `content`: parts, `tool_calls` |
| tool      | `content`: text, with `tool_call_id` and `name` | the same, with a part of text  |

| block      | part                                                             |
|------------|------------------------------------------------------------------|
| TextBlock  | `{text}`                                                         |
| ImageBlock | `{image, min_pixels, max_pixels}`                                |
| AudioBlock | `{audio}`                                                        |
| VideoBlock | `{video, fps, max_frames, min_pixels, max_pixels, total_pixels}` |
| FileBlock  | none: `InvalidInputError`                                        |

A source is sent as its web address, its `oss://` address, or a base64 data URL; frames as a list of these. The cache
mark that a message's metadata asks for stands on its last part; a text becomes a part to carry it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import (
    AudioBlock,
    Base64Source,
    FileBlock,
    FramesSource,
    ImageBlock,
    Source,
    TextBlock,
    ToolUseBlock,
    URLSource,
    VideoBlock,
)
from agentscope_rx.models.dashscope.endpoint import Kind
from agentscope_rx.models.wire.chat_turns import CACHE, Turn, all_formed, cache_mark
from agentscope_rx.models.wire.json_codec import arguments_text
from agentscope_rx.models.wire.media import MediaBlock, address_of, sources_of
from agentscope_rx.models.wire.pieces import Piece, Pieces

WireMessage = dict[str, object]
WirePart = dict[str, object]

_PIXELS = ("min_pixels", "max_pixels")
_VIDEO = ("fps", "max_frames", "min_pixels", "max_pixels", "total_pixels")


def has_media(turns: Sequence[Turn]) -> bool:
    """True if there is any image, audio or video."""
    return any(turn.media for turn in turns)


def has_uploads(turns: Sequence[Turn]) -> bool:
    """True if any of the media is a file that was uploaded to the vendor's own storage."""
    sources = (source for turn in turns for block in turn.media for source in sources_of(block))
    return any(isinstance(source, URLSource) and source.url.startswith("oss://") for source in sources)


def format_turns(turns: Sequence[Turn], kind: Kind, *, reasoning: bool = False) -> list[WireMessage]:
    """The wire's messages for this endpoint, in order; `reasoning` sends earlier thinking back."""
    return Pieces(all_formed(turns, _message, _variant(kind, reasoning)))


@cache
def _variant(kind: Kind, reasoning: bool) -> tuple[Kind, bool]:
    # the same object for the same arguments, because turns keep their form for it
    return kind, reasoning


def _message(turn: Turn, variant: tuple[Kind, bool]) -> Piece:
    kind, reasoning = variant
    wire: WireMessage = {"role": turn.role.value, "content": _content(turn, kind)}
    if calls := turn.calls:
        wire["tool_calls"] = [_call(call) for call in calls]
    if turn.result is not None:
        wire |= {"tool_call_id": turn.result.id, "name": turn.result.name}
    if reasoning and turn.thinking:
        wire["reasoning_content"] = "".join(block.thinking for block in turn.thinking)
    return Piece(wire)


def _content(turn: Turn, kind: Kind) -> object:
    mark = cache_mark(turn.metadata)
    if kind == "text":
        if turn.media:
            raise InvalidInputError(
                f"The text endpoint takes no {turn.media[0].type}: use endpoint='multimodal' (or 'auto'), and a model "
                "that takes media."
            )
        return turn.text if mark is None else [{"text": turn.text, CACHE: mark}]
    parts = [_part(block) for block in turn.content] or [{"text": ""}]
    if mark is not None:
        parts[-1] |= {CACHE: mark}
    return parts


def _part(block: TextBlock | MediaBlock) -> WirePart:
    if isinstance(block, TextBlock):
        return {"text": block.text}
    return _media_part(block)


def _media_part(block: MediaBlock) -> WirePart:
    match block:
        case ImageBlock():
            return {"image": _address(block.source), **_hints(block, _PIXELS)}
        case AudioBlock():
            return {"audio": _address(block.source)}
        case VideoBlock():
            return {"video": _video(block.source), **_hints(block, _VIDEO)}
        case FileBlock():
            raise InvalidInputError(
                "DashScope takes no files in messages. Give the file's text, or its pages as images; for qwen-long "
                "upload it and name it in a system message as 'fileid://...'."
            )


def _hints(block: ImageBlock | VideoBlock, names: Sequence[str]) -> WirePart:
    return {name: value for name in names if (value := getattr(block, name)) is not None}


def _video(source: Source | FramesSource) -> object:
    return [_address(frame) for frame in source.frames] if isinstance(source, FramesSource) else _address(source)


def _address(source: Source) -> str:
    if isinstance(source, Base64Source):
        return f"data:{source.media_type};base64,{source.data}"
    return address_of(source)


def _call(block: ToolUseBlock) -> WireMessage:
    # never `raw`: text of the model that is not JSON must not come back to it as its own
    function = {"name": block.name, "arguments": arguments_text(block)}
    return {"id": block.id, "type": "function", "function": function}
