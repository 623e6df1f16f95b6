"""Converts what a tool returns into what a model reads: one raw value becomes one result.

| raw value                                         | output                                                      |
|---------------------------------------------------|-------------------------------------------------------------|
| `str`                                             | the text as it is                                           |
| `None`                                            | "Done.": a model needs to see that it worked                |
| a text, image, audio, video or file block         | the block                                                   |
| `bytes` of an image, sound, video or PDF          | the block, if their beginning says what they are            |
| other `bytes`                                     | an error that says what to return                           |
| a PIL image, a matplotlib figure, ...             | an image (see `tools.results.media`)                        |
| a list or tuple with any of these in it           | each element's output in order                              |
| `Msg`                                             | its text and media                                          |
| `ToolResultBlock`                                 | itself, with the call's id and name                         |
| numbers, dicts, lists, dataclasses, pydantic, ... | compact JSON; what JSON writes as a string (a date) is text |
| a value that JSON cannot write                    | `str(value)`                                                |
| more than `MAX_DEPTH` levels of lists and dicts   | an error that says so                                       |

A path is text: a tool that wants its file read does so itself, with `Base64Source.of_file`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from enum import Enum
from typing import cast

from pydantic_core import PydanticSerializationError, to_json

from agentscope_rx.errors import ToolError
from agentscope_rx.frozen_values import unchecked
from agentscope_rx.messages import (
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
from agentscope_rx.messages.frozen import MAX_DEPTH, deeper
from agentscope_rx.tools.results.media import PLAIN, can_be_drawn, drawn, media_block, media_type

DONE = (TextBlock("Done."),)
"""The output of a tool that worked and returned None."""

_BLOCKS = (TextBlock, ImageBlock, AudioBlock, VideoBlock, FileBlock)
_BYTES = (bytes, bytearray, memoryview)
_result = unchecked(ToolResultBlock)
"""The names are those of a call, and the output is blocks: nothing to check."""
_ascii = unchecked(TextBlock)
"""Only a text with other characters is checked."""


def result_of(call: ToolUseBlock, value: object) -> ToolResultBlock:
    """The result of `call` for a raw value; `ToolError` for bytes and blocks that are no output."""
    if type(value) is str:
        return _result(call.id, call.name, (_ascii(value) if value.isascii() else TextBlock(value),))
    if isinstance(value, ToolResultBlock):
        return replace(value, id=call.id, name=call.name)
    return _result(call.id, call.name, output_of(value))


def output_of(value: object) -> tuple[OutputBlock, ...]:
    """The blocks for a raw value."""
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
    if isinstance(value, _BYTES):
        return (_media(bytes(cast("bytes", value))),)
    if isinstance(value, (ThinkingBlock, ToolUseBlock)):
        raise ToolError(f"A tool can return text, images, audio, video and files, not a {type(value).__name__}.")
    if isinstance(value, (list, tuple)):
        elements = cast("tuple[object, ...]", value)
        if any(_is_media(each) for each in elements if type(each) not in PLAIN):
            if deeper(elements, MAX_DEPTH):
                raise _too_deep()
            return tuple(block for each in elements for block in output_of(each))
    elif can_be_drawn(value) and (picture := drawn(value)) is not None:
        return (picture,)
    return (TextBlock(_text(cast("object", value))),)


def _is_media(value: object) -> bool:
    """True if a list with this value in it is a list of outputs, and not data."""
    if isinstance(value, _BYTES):
        return media_type(bytes(cast("bytes", value)[:64])) is not None
    return isinstance(value, _BLOCKS) or can_be_drawn(value)


def _media(data: bytes) -> OutputBlock:
    block = media_block(data)
    if block is None:
        raise ToolError(
            "The tool returned bytes, which a model cannot read. Return text (such as data.decode()), or a block that "
            "says what they are, such as ImageBlock(Base64Source.of(data, 'image/png'))."
        )
    return block


def _text(value: object) -> str:
    try:
        text = to_json(value, fallback=_plain, inf_nan_mode="strings", bytes_mode="base64").decode()
        is_json = True
    except (PydanticSerializationError, ValueError, TypeError, RecursionError):
        text, is_json = _str(value), False
    if text.count("{") + text.count("[") > MAX_DEPTH and deeper(value, MAX_DEPTH):
        raise _too_deep()
    return json.loads(text) if is_json and text.startswith('"') else text


def _str(value: object) -> str:
    try:
        return str(value)
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> ToolError:
    return ToolError(
        f"The tool returned a value that is nested more than {MAX_DEPTH} levels deep. Return a flatter one, or "
        "the part that matters."
    )


def _plain(value: object) -> object:
    """A value of a type that pydantic cannot write, in a type that it can."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[object, object]", value))
    if isinstance(value, Set):
        return list(cast("Iterable[object]", value))
    return str(value)
