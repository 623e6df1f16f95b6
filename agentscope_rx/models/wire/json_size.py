"""`load_json`: JSON of the wire, where neither a short text becomes a large value nor depth an error.

`[[],[],[]...` takes three bytes of text for each list and some seventy of memory. A text of many megabytes is counted
before it is read: what is larger than a document of numbers or words would be, is refused.
"""

from __future__ import annotations

import json
import re
from typing import cast

from agentscope_rx.messages.frozen import MAX_DEPTH

MAX_VALUES = 1_000_000
"""How many values a document may hold whatever its length; beyond, one for each `TEXT_PER_VALUE` characters."""

TEXT_PER_VALUE = 16

WIRE_DEPTH = 2 * MAX_DEPTH
"""How deep one piece of the wire may be nested: arguments as deep as they may be, and what is around them."""


MAX_ARGUMENT_VALUES = 20_000
"""How many values arguments may hold, all levels together: each is copied and checked some times, on the loop. Text is
one value, however long."""


def load_json(text: str) -> object:
    """The value, with null in the place of what is nested deeper than `WIRE_DEPTH`.

    `ValueError` if there is none, or it would take many times the text's memory. A parser that recurses would fail at
    the whole. Arguments that are cut here are still too deep for any tool: the model gets to hear that, while the rest
    of the answer can be read.
    """
    if len(text) > MAX_VALUES:
        values = text.count(",") + text.count("[") + text.count("{")
        if values > max(MAX_VALUES, len(text) // TEXT_PER_VALUE):
            raise ValueError(f"a document of {len(text)} characters may not hold {values} values")
    # most pieces are too short to be that deep
    if len(text) > 2 * WIRE_DEPTH and text.count("{") + text.count("[") > WIRE_DEPTH:
        text = _cut_at(WIRE_DEPTH, text)
    return json.loads(text)


def larger(value: object, count: int) -> bool:
    """Whether containers hold more than so many values, all levels together; looks no further than that."""
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, (dict, list)):
            inner = cast("dict[str, object]", here).values() if isinstance(here, dict) else cast("list[object]", here)
            count -= len(inner)
            if count < 0:
                return True
            waiting += inner
    return False


def shown_json(value: object) -> str:
    """The value as JSON, for an error to show; never an error itself, however deep or odd the value is."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return f"<{type(value).__name__}>"


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
"""A string (one that is not closed goes on to the end, so that the search stays linear) or a bracket."""


def _cut_at(levels: int, text: str) -> str:
    """The JSON text, with null in the place of what is nested deeper."""
    kept: list[str] = []
    level = start = 0
    for token in _TOKEN.finditer(text):
        if token[0] in "{[":
            if level == levels:
                kept += [text[start : token.start()], "null"]
            level += 1
        elif token[0] in "}]":
            level -= 1
            if level == levels:
                start = token.end()
    if not kept:
        return text
    if level <= levels:
        kept.append(text[start:])
    return "".join(kept)
