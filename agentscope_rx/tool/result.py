"""What a tool returns, as what a model reads: one raw value becomes one result.

| raw value                                         | output                                                      |
|---------------------------------------------------|-------------------------------------------------------------|
| `str`                                             | the text as it is                                           |
| `None`                                            | "Done.": a model needs to see that it worked                |
| a text, image, audio or video block               | the block                                                   |
| a list or tuple with such a block in it           | each element's output in order                              |
| `Msg`                                             | its text and media                                          |
| `ToolResultBlock`                                 | itself, with the call's id and name                         |
| numbers, dicts, lists, dataclasses, pydantic, ... | compact JSON; what JSON writes as a string (a date) is text |
| what JSON cannot write                            | `str(value)`                                                |
| `bytes`                                           | an error that says to return a block                        |
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from enum import Enum
from typing import cast

from pydantic_core import PydanticSerializationError, to_json

from agentscope_rx.errors import ToolError
from agentscope_rx.message import (
    AudioBlock,
    FileBlock,
    ImageBlock,
    Msg,
    OutputBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    VideoBlock,
)

DONE = (TextBlock("Done."),)
"""The output of a tool that worked and has nothing to say."""

_BLOCKS = (TextBlock, ImageBlock, AudioBlock, VideoBlock, FileBlock)


def result_of(call: ToolUseBlock, value: object) -> ToolResultBlock:
    """The result of `call` that a raw value stands for; `ToolError` for bytes and blocks that are no output."""
    if isinstance(value, ToolResultBlock):
        return replace(value, id=call.id, name=call.name)
    return ToolResultBlock(call.id, call.name, output_of(value))


def output_of(value: object) -> tuple[OutputBlock, ...]:
    """The blocks that a raw value stands for."""
    if type(value) is str:
        return (TextBlock(value),)
    if value is None:
        return DONE
    if isinstance(value, _BLOCKS):
        return (value,)
    if isinstance(value, Enum):
        return output_of(value.value)
    if isinstance(value, str):
        return (TextBlock(str.__str__(value)),)
    if isinstance(value, Msg):
        return tuple(block for block in value.content if isinstance(block, _BLOCKS)) or DONE
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise ToolError(
            "The tool returned bytes, which a model cannot read. Return text, or a block that says what they are, "
            "such as ImageBlock(Base64Source.of(data, 'image/png'))."
        )
    if isinstance(value, (ThinkingBlock, ToolUseBlock)):
        raise ToolError(f"A tool gives text, images, audio, video and files, not a {type(value).__name__}.")
    if isinstance(value, (list, tuple)):
        elements = cast("tuple[object, ...]", value)
        if any(isinstance(each, _BLOCKS) for each in elements):
            return tuple(block for each in elements for block in output_of(each))
    return (TextBlock(_text(cast("object", value))),)


def _text(value: object) -> str:
    try:
        text = to_json(value, fallback=_plain, inf_nan_mode="strings", bytes_mode="base64").decode()
    except (PydanticSerializationError, ValueError, TypeError, RecursionError):
        return str(value)
    return json.loads(text) if text.startswith('"') else text


def _plain(value: object) -> object:
    """What pydantic does not know, as something that it does."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[object, object]", value))
    if isinstance(value, Set):
        return list(cast("Iterable[object]", value))
    return str(value)
