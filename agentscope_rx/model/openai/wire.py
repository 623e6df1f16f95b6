"""Reading JSON of the wire: typed access that says what is wrong, and characters that were cut in two."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

from agentscope_rx.errors import ProtocolError

JsonObject = Mapping[str, object]

_SHOWN = 500


def malformed(what: str, found: object) -> ProtocolError:
    """The error for what the wire format does not allow; it keeps the offending part, cut."""
    body = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, default=str)
    return ProtocolError(f"This answer is not a Chat Completion: {what}. Found: {body[:120]}", body=body[:_SHOWN])


def text_in(fields: JsonObject, name: str) -> str | None:
    """The text under `name`; None if there is none."""
    value = fields.get(name)
    if value is None or isinstance(value, str):
        return value
    raise malformed(f"{name!r} must be text", value)


def object_in(fields: JsonObject, name: str) -> JsonObject | None:
    """The object under `name`; None if there is none."""
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, Mapping):
        return cast("JsonObject", value)
    raise malformed(f"{name!r} must be an object", value)


def objects_in(fields: JsonObject, name: str) -> list[JsonObject]:
    """The objects in the list under `name`; none if there is no list."""
    value = fields.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise malformed(f"{name!r} must be a list", value)
    items = cast("list[object]", value)
    for item in items:
        if not isinstance(item, Mapping):
            raise malformed(f"{name!r} must be a list of objects", item)
    return cast("list[JsonObject]", items)


def integer(fields: JsonObject, name: str) -> int:
    """The number under `name`; 0 if there is none."""
    value = fields.get(name)
    if value is None:
        return 0
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise malformed(f"{name!r} must be a whole number", value)


class Pieces:
    """Joins characters that a server has cut in two: `\\ud83d` at the end of a piece waits for the next piece."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def take(self, piece: str) -> str:
        """The piece with what was held back before it, and without half a character at its end."""
        if not piece or (piece.isascii() and not self._held):
            return piece
        piece, self._held = self._held + piece, ""
        if "\ud800" <= piece[-1] <= "\udbff":
            piece, self._held = piece[:-1], piece[-1]
        return _joined(piece)

    def rest(self) -> str:
        """What is still held back when nothing follows."""
        held, self._held = self._held, ""
        return _joined(held)


def _joined(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
