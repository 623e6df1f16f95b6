"""Content of messages in the JSON of AgentScope 2: data blocks, calls and results."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from agentscope_rx.events._times import iso
from agentscope_rx.events.blocks.values import Json, ToolResultState
from agentscope_rx.messages.blocks import (
    AudioBlock,
    FileBlock,
    ImageBlock,
    TextBlock,
    ToolResultBlock,
    ToolResultKind,
    ToolUseBlock,
    VideoBlock,
)
from agentscope_rx.messages.sources import Base64Source, FileSource, FramesSource, URLSource
from agentscope_rx.models.wire.json_codec import encode_json
from agentscope_rx.tools.background import BACKGROUND

DataContent = ImageBlock | AudioBlock | VideoBlock | FileBlock

_UNKNOWN = {"image": "image/*", "audio": "audio/*", "video": "video/*", "file": "application/octet-stream"}


class BlockData(NamedTuple):
    """The content of a data block: either `data`, in base64, or `url`."""

    media_type: str
    data: str | None
    url: str | None
    name: str | None = None


def data_of(block: DataContent) -> Iterator[BlockData]:
    """The content of the block; each frame of a video that is given as frames."""
    source = block.source
    for each in source.frames if isinstance(source, FramesSource) else (source,):
        yield _data_of(each, block)


def _data_of(source: URLSource | Base64Source | FileSource, block: DataContent) -> BlockData:
    name = block.name if isinstance(block, FileBlock) else None
    if isinstance(source, Base64Source):
        return BlockData(source.media_type, source.data, None, name)
    # a local file is named, not read: its reader may be another machine
    place = source.url if isinstance(source, URLSource) else Path(source.path).absolute().as_uri()
    guessed = mimetypes.guess_type(place.partition("?")[0])[0]
    return BlockData(guessed or _UNKNOWN[block.type], None, place, name)


def arguments_of(call: ToolUseBlock) -> str:
    """The arguments as JSON text: the model's own text of them where it is kept."""
    return call.raw or call.raw_input or encode_json(call.input)


def call_block(call: ToolUseBlock, state: str, at: float) -> Json:
    """The call as a `ToolCallBlock`."""
    about = {"type": "tool_call", "id": call.id, "name": call.name, "input": arguments_of(call)}
    return {**about, "state": state, "suggested_rules": [], "created_at": iso(at), "finished_at": None}


def result_block(result: ToolResultBlock, at: float) -> Json:
    """The result as a `ToolResultBlock`."""
    about = {"type": "tool_result", "id": result.id, "name": result.name, "output": output_blocks(result, at)}
    times = {"created_at": iso(at), "finished_at": iso(at)}
    return {**about, "state": state_of(result), "metadata": dict(result.metadata), **times}


def output_blocks(result: ToolResultBlock, at: float) -> list[Json]:
    """The output as `TextBlock`s and `DataBlock`s."""
    blocks: list[Json] = []
    times = {"created_at": iso(at), "finished_at": iso(at)}
    for block in result.output:
        if isinstance(block, TextBlock):
            blocks.append({"type": "text", "text": block.text, "id": f"{result.id}:{len(blocks)}", **times})
            continue
        for data in data_of(block):
            source: Json = {"type": "url", "url": data.url, "media_type": data.media_type}
            if data.data is not None:
                source = {"type": "base64", "data": data.data, "media_type": data.media_type}
            blocks.append(
                {"type": "data", "id": f"{result.id}:{len(blocks)}", "source": source, "name": data.name, **times}
            )
    return blocks


_STATES: dict[ToolResultKind, ToolResultState] = {
    ToolResultKind.INTERRUPTED: "interrupted",
    ToolResultKind.REJECTED: "denied",
}


def state_of(result: ToolResultBlock) -> ToolResultState:
    """How the call has ended."""
    if isinstance(result.metadata.get(BACKGROUND), Mapping):
        # the handle of work that goes on
        return "running"
    return "success" if result.kind is None else _STATES.get(result.kind, "error")
