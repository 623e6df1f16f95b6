"""`partial_value`: reads a JSON value that is still being written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

from pydantic_core import from_json

from agentscope_rx.messages.blocks import ContentBlock, TextBlock, ToolUseBlock

_FENCE = re.compile(r"\s*+```[ \t]*+\w*+[ \t]*+\n")


def partial_value(block: ContentBlock | None, field: str | None = None) -> object:
    """The value in a call's arguments, or in an answer's text, as far as it has come; None if there is none yet.

    `field` is the field of the object that holds the value; None if the object is the value.
    """
    if isinstance(block, ToolUseBlock):
        value = dict(block.input) if block.raw is None else _read(block.raw)
    elif isinstance(block, TextBlock):
        fence = _FENCE.match(block.text)
        value = _read(block.text if fence is None else block.text[fence.end() :])
    else:
        return None
    if not isinstance(value, Mapping):
        return None
    fields = cast("Mapping[str, object]", value)
    return fields if field is None else fields.get(field)


def _read(text: str) -> object:
    if not text.lstrip().startswith("{"):
        return None
    try:
        return from_json(text, allow_partial="trailing-strings")
    except ValueError:
        # invalid, or followed by the end of a fence; only the whole text is checked
        return None
