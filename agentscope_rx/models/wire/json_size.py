"""`load_json`: JSON of the wire, with bounds on the number and the depth of its values.

`[[],[],[]...` takes three bytes of text for each list, and some seventy of memory. The values of a text of many
megabytes are counted before it is parsed, and more than a document of numbers or words would hold are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import cast

from agentscope_rx.lazy import pattern
from agentscope_rx.messages.frozen import MAX_DEPTH

MAX_VALUES = 1_000_000
"""The values that a document of any length may hold; a longer one may hold one for each `TEXT_PER_VALUE` characters."""

TEXT_PER_VALUE = 16

WIRE_DEPTH = 2 * MAX_DEPTH
"""The depth of one piece of the wire: that of arguments, and as much for the objects around them."""


MAX_ARGUMENT_VALUES = 20_000
"""The values that arguments may hold, all levels together, because each is copied and checked several times on the
loop. Text is one value, however long."""


_scan = cast("Callable[[str, int], tuple[object, int]]", vars(json.JSONDecoder())["scan_once"])
"""What `json.loads` does, without its search for white space, which costs as much as a short piece itself."""


def load_json(text: str) -> object:
    """The value, with null in place of values nested deeper than `WIRE_DEPTH`.

    `ValueError` for text that is no JSON, or whose value would take many times its memory. Python's parser recurses:
    deep text would fail as a whole. Arguments that are cut here are still too deep for any tool: the model receives
    that error, and the rest of the answer can be read.
    """
    if len(text) > MAX_VALUES:
        values = text.count(",") + text.count("[") + text.count("{")
        if values > max(MAX_VALUES, len(text) // TEXT_PER_VALUE):
            raise ValueError(f"a document of {len(text)} characters may not hold {values} values")
    # most pieces are too short to be that deep
    if len(text) > 2 * WIRE_DEPTH and text.count("{") + text.count("[") > WIRE_DEPTH:
        text = _cut_at(WIRE_DEPTH, text)
    try:
        value, end = _scan(text, 0)
        if end == len(text):
            return value
    except StopIteration:
        # no value at the first character
        pass
    # white space around the value, or the error that names the fault
    return json.loads(text)


def larger(value: object, count: int) -> bool:
    """True if containers hold more than `count` values, all levels together; stops counting there."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, (dict, list)):
            inner = cast("dict[str, object]", each).values() if isinstance(each, dict) else cast("list[object]", each)
            count -= len(inner)
            if count < 0:
                return True
            waiting += inner
    return False


def shown_json(value: object) -> str:
    """The value as JSON for an error message; it never raises, however deep or odd the value is."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return f"<{type(value).__name__}>"


_TOKEN = pattern(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
"""A string or a bracket. A string that is not closed extends to the end, so that the search stays linear."""


def _cut_at(levels: int, text: str) -> str:
    """The JSON text, with null in place of values nested deeper."""
    kept: list[str] = []
    level = start = 0
    for token in _TOKEN().finditer(text):
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
