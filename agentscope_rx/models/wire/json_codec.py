"""JSON of the wire, for all providers: encoding, typed access that says what is wrong, characters cut in two."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import cast

from agentscope_rx.errors import InvalidInputError, ProtocolError
from agentscope_rx.messages.blocks import ToolUseBlock
from agentscope_rx.messages.frozen import MAX_DEPTH, deeper, encodable
from agentscope_rx.messages.sources import URLSource
from agentscope_rx.models.wire.json_size import MAX_ARGUMENT_VALUES, larger, load_json, shown_json

JsonObject = Mapping[str, object]

_SHOWN = 500

MAX_ITEMS = 65_536
"""How many objects a list of the wire may hold, and `MAX_NUMBER`, how far a count may go."""

MAX_NUMBER = 2**53

NO_RESULT = "There is no result of this call yet."
"""What stands for the result of another agent's call that is still open: providers refuse a call without one."""


def malformed(what: str, found: object) -> ProtocolError:
    """The error for what the wire format does not allow; it keeps the offending part, cut."""
    body = encodable(found if isinstance(found, str) else shown_json(found))
    return ProtocolError(
        f"This answer is not what the wire format allows: {what}. Found: {body[:120]}", body=body[:_SHOWN]
    )


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
    if len(items) > MAX_ITEMS:
        raise malformed(f"{name!r} has more than {MAX_ITEMS} items", f"{len(items)} items")
    for item in items:
        if not isinstance(item, Mapping):
            raise malformed(f"{name!r} must be a list of objects", item)
    return cast("list[JsonObject]", items)


def address(url: str, found: object) -> URLSource:
    """The address that a server names; `ProtocolError` for a path, which would be one of this machine."""
    try:
        return URLSource(url)
    except InvalidInputError:
        raise malformed("media must be at an address such as https: or data:, not in a local file", found) from None


def integer(fields: JsonObject, name: str) -> int:
    """The number under `name`; 0 if there is none."""
    value = fields.get(name)
    if value is None:
        return 0
    if isinstance(value, int) and not isinstance(value, bool) and -MAX_NUMBER <= value <= MAX_NUMBER:
        return value
    if isinstance(value, float) and value.is_integer() and -MAX_NUMBER <= value <= MAX_NUMBER:
        return int(value)
    raise malformed(f"{name!r} must be a whole number", value)


def name_in(fields: JsonObject, name: str) -> str | None:
    """The id or name under `name`, in characters that can be written again; None if there is none."""
    value = text_in(fields, name)
    return encodable(value) if value else None


def proof_in(fields: JsonObject, name: str) -> str | None:
    """The signature under `name`, which goes back letter by letter; None if there is none."""
    value = text_in(fields, name)
    if value and not value.isascii():
        raise malformed(f"{name!r} must be ASCII", value)
    return value or None


def writable(value: object) -> object:
    """The JSON value, if it can be written again: no NaN, no half characters, not too large; else `ProtocolError`."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise malformed(f"a part cannot be kept ({error})", str(type(value))) from error
    if text.count("{") + text.count("[") > MAX_DEPTH and deeper(value, MAX_DEPTH):
        raise malformed(f"a part is nested more than {MAX_DEPTH} levels deep", text)
    if text.count(",") + text.count("{") + text.count("[") > MAX_ARGUMENT_VALUES and larger(value, MAX_ARGUMENT_VALUES):
        raise malformed(f"a part holds more than {MAX_ARGUMENT_VALUES:,} values", text)
    whole = encodable(text)
    return value if whole is text else json.loads(whole)


def encode_json(value: object) -> str:
    """JSON text of a value that a message or option holds; `InvalidInputError` if it has none."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"This cannot be sent as JSON: {error}") from error


def decode_json(text: str) -> object:
    """The JSON value in a piece of the wire, as `load_json` reads it; `ProtocolError` if it is none."""
    try:
        return load_json(text)
    except (ValueError, RecursionError) as error:
        raise malformed(f"it is not JSON ({error})", text) from error


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, object]", value))
    raise TypeError(f"{type(value).__name__} is not a JSON value")


class Pieces:
    """Joins characters that a server has cut in two: `\\ud83d` at the end of a piece waits for the next piece."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    @property
    def at_rest(self) -> bool:
        """Whether nothing is held back."""
        return not self._held

    def take(self, piece: str) -> str:
        """The piece with what was held back before it, and without half a character at its end."""
        if not piece or (piece.isascii() and not self._held):
            return piece
        piece, self._held = self._held + piece, ""
        if "\ud800" <= piece[-1] <= "\udbff":
            piece, self._held = piece[:-1], piece[-1]
        return encodable(piece)

    def rest(self) -> str:
        """What is still held back when nothing follows."""
        held, self._held = self._held, ""
        return encodable(held)


def arguments_text(call: ToolUseBlock) -> str:
    """The arguments of a call as JSON text: the model's own, if that says what `input` says.

    So what providers have cached of the prompt is found again. Never `raw`: what could not be read must not come back.
    """
    text = encode_json(call.input)
    return call.raw_input if call.raw_input is not None and _canonical(call.raw_input) == text else text


@lru_cache(1024)
def _canonical(text: str) -> str | None:
    """The text as the engine would write it; None if it is no JSON."""
    try:
        return encode_json(json.loads(text))
    except (ValueError, RecursionError, InvalidInputError):
        return None
