"""`Citation`: the place in a document that a reply refers to. `citations_of` reads those of a message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages.frozen import check_encodable
from agentscope_rx.messages.msg import Msg

CITATIONS: Final = "citations"
"""The key in a reply's metadata for its citations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A passage that was retrieved: `chunk` of `document` in the knowledge base `base`.

    `number` is the number that the model saw, and writes as `[1]`. `start` and `end` are characters of the text that
    was read from the document; `page` counts from 1 (of slides and sheets, too) and is None where there are none.
    `score` orders the passages of one retrieval.
    """

    number: int
    base: str
    document: str
    title: str = ""
    chunk: int = 0
    page: int | None = None
    headings: tuple[str, ...] = ()
    start: int = 0
    end: int = 0
    score: float = 0.0

    def __post_init__(self) -> None:
        for text in (self.base, self.document, self.title, *self.headings):
            check_encodable(text, "Citation")

    def to_dict(self) -> dict[str, object]:
        """Plain JSON, as it is in the metadata of a reply; None and empty texts are left out."""
        every = {name: getattr(self, name) for name in self.__slots__}
        return {
            name: list(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value
            for name, value in every.items()
            if value is not None and value not in ("", ())
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> Citation:
        """The citation from the result of `to_dict`; `TypeError` or `AttributeError` for other values."""
        headings = tuple(cast("list[str]", values.get("headings", ())))
        return cls(**{**values, "headings": headings})  # pyright: ignore[reportArgumentType]


def citations_of(message: Msg) -> tuple[Citation, ...]:
    """The citations of a reply, in order of their numbers; () if it has none."""
    found = message.metadata.get(CITATIONS, ())
    try:
        return tuple(Citation.from_dict(cast("Mapping[str, object]", each)) for each in found)
    except (TypeError, AttributeError) as error:
        raise InvalidInputError(f"metadata[{CITATIONS!r}] of this message has no citations: {error}") from error
