"""JSON of the wire: encoding, decoding, typed access to fields, and characters that a server cuts in two."""

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
"""The most objects in a list of the wire."""

MAX_NUMBER = 2**53
"""The largest count on the wire."""

NOT_ALLOWED = "This answer is not what the wire format allows: "
"""How a message of `malformed` begins."""


def malformed(what: str, found: object) -> ProtocolError:
    """The error for an answer that breaks the wire format; it keeps the beginning of the offending part."""
    body = encodable(found if isinstance(found, str) else shown_json(found))
    return ProtocolError(f"{NOT_ALLOWED}{what}. Found: {body[:120]}", body=body[:_SHOWN])


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
    # (the type first: most values are dicts, and asking an abstract class costs more than the rest)
    if type(value) is dict or isinstance(value, Mapping):
        return value  # pyright: ignore[reportUnknownVariableType]
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
        if type(item) is not dict and not isinstance(item, Mapping):
            raise malformed(f"{name!r} must be a list of objects", item)
    return cast("list[JsonObject]", items)


def address(url: str, found: object) -> URLSource:
    """The address that a server sends; `ProtocolError` for a path, which would name a file of this machine."""
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
    """The id or name under `name`, in characters that can be encoded again; None if there is none."""
    value = text_in(fields, name)
    return encodable(value) if value else None


def proof_in(fields: JsonObject, name: str) -> str | None:
    """The signature under `name`, which must go back unchanged; None if there is none."""
    value = text_in(fields, name)
    if value and not value.isascii():
        raise malformed(f"{name!r} must be ASCII", value)
    return value or None


def writable(value: object) -> object:
    """The JSON value in a form that can be encoded again; `ProtocolError` for NaN and for values that are too large."""
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
    """The JSON text of a value of a message or an option; `InvalidInputError` if it has none."""
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"This cannot be sent as JSON: {error}") from error


def decode_json(text: str) -> object:
    """The JSON value of a piece of the wire, as `load_json` reads it; `ProtocolError` for other text."""
    try:
        return load_json(text)
    except (ValueError, RecursionError) as error:
        raise malformed(f"it is not JSON ({error})", text) from error


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, object]", value))
    raise TypeError(f"{type(value).__name__} is not a JSON value")


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)


class Pieces:
    """Joins characters that a server has cut in two: `\\ud83d` at the end of a piece waits for the next piece."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    @property
    def at_rest(self) -> bool:
        """True if nothing is held back."""
        return not self._held

    def take(self, piece: str) -> str:
        """The piece, after the half character held back before, and without a half character at its end."""
        if not piece or (piece.isascii() and not self._held):
            return piece
        piece, self._held = self._held + piece, ""
        if "\ud800" <= piece[-1] <= "\udbff":
            piece, self._held = piece[:-1], piece[-1]
        return encodable(piece)

    def rest(self) -> str:
        """The half character still held back at the end, replaced."""
        held, self._held = self._held, ""
        return encodable(held)


def arguments_text(call: ToolUseBlock) -> str:
    """The arguments of a call as JSON text: the model's own text if it means the same as `input`.

    The model's own text keeps the prompt equal to the one in the provider's cache. `raw` is never sent: text that is no
    JSON must not come back.
    """
    text = encode_json(call.input)
    return call.raw_input if call.raw_input is not None and _canonical(call.raw_input) == text else text


@lru_cache(1024)
def _canonical(text: str) -> str | None:
    """The text as the engine encodes its value; None if it is no JSON."""
    try:
        return encode_json(json.loads(text))
    except (ValueError, RecursionError, InvalidInputError):
        return None
