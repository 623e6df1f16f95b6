"""`Piece`: an object of a request's body that is encoded once, for as long as it is kept.

    body = {"model": "m", "messages": Pieces([Piece(role="user", content="hi"), ...])}
    body_text(body)         the same text as `encode_json(body)`; of each piece it is made once

A conversation grows by a few messages in each turn, and the whole of it is sent again. So encoding costs as much as the
new messages, not as much as all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar, cast

from agentscope_rx.messages.frozen import FrozenDict
from agentscope_rx.models.wire.json_codec import encode_json

T = TypeVar("T")

MAX_KEPT: Final = 256 * 1024
"""The most characters of JSON that a piece keeps. A picture is encoded anew: its text would take its memory twice."""


class Piece(FrozenDict):
    """A part of a body, read-only, because another request may send it again."""

    __slots__ = ("text",)

    def __init__(self, fields: Mapping[str, object] | Iterable[tuple[str, object]] = ()) -> None:
        super().__init__(fields)
        self.text: str | None = None

    def __reduce__(self) -> tuple[type[Piece], tuple[dict[str, object]]]:
        return (Piece, (dict(self),))

    def json(self) -> str:
        """The JSON text of the piece."""
        text = self.text
        if text is None:
            text = encode_json(self)
            if len(text) <= MAX_KEPT:
                self.text = text
        return text


class Pieces(list[T]):
    """A list of a body that holds pieces, or objects with pieces in them."""

    __slots__ = ()


class Envelope(dict[str, object]):
    """An object of a body that has `Pieces` among its values."""

    __slots__ = ()


def body_text(value: object) -> str:
    """The JSON text of a body, as `encode_json` writes it; `InvalidInputError` if it has none."""
    kind = type(value)
    if kind is Piece:
        return cast("Piece", value).json()
    if kind is Pieces:
        return f"[{','.join(_texts(cast('Pieces[object]', value)))}]"
    return _object_text(cast("Envelope", value)) if kind is Envelope else encode_json(value)


def _texts(values: Pieces[object]) -> list[str]:
    texts: list[str] = []
    for value in values:
        # (no call for a piece that was sent before: a long conversation has many)
        text = value.text if type(value) is Piece else body_text(value)
        texts.append(text if text is not None else body_text(value))
    return texts


def _object_text(fields: Envelope) -> str:
    if not all(type(name) is str for name in fields):
        # json has its own rules for other keys
        return encode_json(fields)
    return f"{{{','.join([f'{encode_json(name)}:{body_text(value)}' for name, value in fields.items()])}}}"
