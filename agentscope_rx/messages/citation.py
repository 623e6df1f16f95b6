"""`Citation`: the place in a document that a reply refers to. `citations_of` reads those of a message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages.frozen import check_encodable
from agentscope_rx.messages.msg import Msg

CITATIONS: Final = "citations"
"""The key in a reply's metadata for its citations."""
MOST_CITATIONS: Final = 1000
"""The citations of one message. Metadata comes from others, too: a saved message, a pipeline, a caller."""

_WHOLE = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A retrieved passage: `chunk` of `document` in the knowledge base `base`.

    The model saw `number`, and cites it as `[1]`. `start` and `end` are characters of the document's text; `page`
    counts pages, slides or sheets from 1, or is None. `score` orders the passages of one retrieval.
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
        """The citation from the result of `to_dict`; `InvalidInputError` for other values."""
        try:
            headings = tuple(cast("list[str]", values.get("headings", ())))
            found = cls(**{**values, "headings": headings})  # pyright: ignore[reportArgumentType]
        except (TypeError, AttributeError) as error:
            raise InvalidInputError(f"This is no citation: {error}") from error
        _check(found)
        return found


def citations_of(message: Msg) -> tuple[Citation, ...]:
    """The citations of a reply, in order of their numbers; () if it has none.

    `InvalidInputError` if its metadata hold other values in their place.
    """
    found: object = message.metadata.get(CITATIONS, ())
    if not isinstance(found, (list, tuple)):
        raise InvalidInputError(f"metadata[{CITATIONS!r}] of this message must be a list, not {found!r:.60}.")
    given = cast("Sequence[Mapping[str, object]]", found)
    if len(given) > MOST_CITATIONS:
        raise InvalidInputError(
            f"metadata[{CITATIONS!r}] of this message has {len(given):,} entries; at most {MOST_CITATIONS:,} are read."
        )
    try:
        return tuple(map(Citation.from_dict, given))
    except InvalidInputError as error:
        raise InvalidInputError(f"metadata[{CITATIONS!r}] of this message has no citations: {error}") from error


def _check(given: Citation) -> None:
    """`InvalidInputError` for values of other types, which would fail far from here."""
    texts = (given.base, given.document, given.title, *given.headings)
    page = 0 if given.page is None else given.page
    # (a bool is an int to Python; a number of JSON may be NaN, or have a thousand digits)
    right = (
        all(isinstance(each, str) for each in texts)  # pyright: ignore[reportUnnecessaryIsInstance]
        and all(
            type(each) is int and -_WHOLE <= each < _WHOLE
            for each in (given.number, given.chunk, given.start, given.end, page)
        )
        and given.number >= 1
        and (type(given.score) is float or (type(given.score) is int and -_WHOLE <= given.score < _WHOLE))
    )
    if not right:
        raise InvalidInputError("A citation has texts, whole numbers of 64 bits, a number from 1 on and a score.")
