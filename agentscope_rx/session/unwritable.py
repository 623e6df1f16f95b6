"""Where in a value lies what JSON has no form for: looked for only once writing has failed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, cast

MAX_DEPTH = 200
"""How deep values may be nested: well within what every JSON reader takes, at any depth of the stack."""


class Unwritable(NamedTuple):
    """A place, such as `.peers[3]`, and what is wrong there."""

    path: str
    reason: str


def find_unwritable(value: object) -> Unwritable | None:
    """The first place in the value that cannot be written, if there is one."""
    for path, found, level in _walk(value):
        if level > MAX_DEPTH:
            return _deep(path)
        if reason := _reason(found):
            return Unwritable(path, reason)
    return None


def too_deep(value: object) -> Unwritable | None:
    """The first place in the value that is nested deeper than `MAX_DEPTH`."""
    return next((_deep(path) for path, _, level in _walk(value) if level > MAX_DEPTH), None)


def _deep(path: str) -> Unwritable:
    shown = path if len(path) <= 100 else f"{path[:100]}..."
    return Unwritable(shown, f"it is nested more than {MAX_DEPTH} levels deep, or contains itself")


def _walk(value: object) -> Iterator[tuple[str, object, int]]:
    """Each part of the value with its path and level, in order; goes one level deeper than allowed, no further."""
    waiting: list[tuple[str, object, int]] = [("", value, 0)]
    while waiting:
        path, found, level = waiting.pop()
        yield path, found, level
        if level > MAX_DEPTH:
            continue
        if isinstance(found, dict):
            items = cast("dict[object, object]", found).items()
            waiting += reversed([(f"{path}{_step(key)}", each, level + 1) for key, each in items])
        elif isinstance(found, (list, tuple)):
            each_item = enumerate(cast("list[object]", found))
            waiting += reversed([(f"{path}[{index}]", each, level + 1) for index, each in each_item])


def _step(key: object) -> str:
    if isinstance(key, str) and key.isidentifier():
        return f".{key}"
    return f"[{key!r:.60}]"


def _reason(value: object) -> str | None:
    if isinstance(value, dict):
        for key in cast("dict[object, object]", value):
            if not (key is None or isinstance(key, (str, int, float))):
                return f"its key {key!r:.60} is no text"
            if isinstance(key, float) and not math.isfinite(key):
                return f"JSON has no number {key!r}, which is one of its keys"
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return f"JSON has no number {value!r}"
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            int.__repr__(value)
        except ValueError as error:
            return str(error)
    if value is None or isinstance(value, (str, int, float, list, tuple)):
        return None
    return f"JSON has no form for {type(value).__name__}"
