"""`Where`: which documents are searched, by their metadata. Every named condition must hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.knowledge.document import Chunk, Scalar


@dataclass(frozen=True, slots=True)
class Between:
    """Matches a number, or a text in alphabetical order, from `least` to `most`, both included."""

    least: float | str | None = None
    most: float | str | None = None


@dataclass(frozen=True, slots=True)
class Prefix:
    """Matches a text that begins with this one."""

    text: str


@dataclass(frozen=True, slots=True)
class Excluding:
    """Matches every other value than these, and documents that have no value under the name."""

    values: Sequence[Scalar]


Condition: TypeAlias = Scalar | Sequence[Scalar] | Between | Prefix | Excluding
"""A condition on a value of the metadata: the value itself, one of several, a `Between`, `Prefix` or `Excluding`."""
Where: TypeAlias = Mapping[str, Condition]
"""Selects the documents to search by their metadata. Every named condition must hold.

    {"language": "en"}                       equal
    {"kind": ["guide", "reference"]}         one of these
    {"year": Between(2020, 2024)}            both ends belong to it; None is open, and Between() any number or text
    {"document_id": Prefix("docs/")}         begins with
    {"draft": Excluding([True])}             none of these; a document without it is searched

A name that a document does not have fulfils no condition but `Excluding`. Beside the metadata there are `document_id`,
`title` and `media_type`, and of the chunk `page` and `section` (its kind: "text", "table", "code", "image").
"""

MOST_CONDITIONS = 256
"""The conditions of one search: databases take expressions of a limited depth."""
FIELDS = ("document_id", "title", "media_type", "page", "section")
"""What every chunk has, beside the metadata of its document."""


def check_where(where: object) -> Where | None:
    """The conditions; `InvalidInputError` for what is none."""
    if where is None:
        return None
    if not isinstance(where, Mapping):
        raise InvalidInputError(f"where takes conditions by name, such as {{'language': 'en'}}, not {where!r:.60}.")
    given = cast("Mapping[object, object]", where)
    if len(given) > MOST_CONDITIONS:
        raise InvalidInputError(f"where takes at most {MOST_CONDITIONS} conditions, not {len(given):,}.")
    for name, condition in given.items():
        if not isinstance(name, str) or not _is_condition(condition):
            raise InvalidInputError(
                f"where[{name!r:.60}] must be a value, a list of values, Between, Prefix or Excluding, "
                f"not {condition!r:.60}."
            )
    return cast("Where", where)


def matches(chunk: Chunk, where: Where | None) -> bool:
    """True if every condition holds for this chunk."""
    return all(_holds(_value(chunk, name), condition) for name, condition in (where or {}).items())


def _value(chunk: Chunk, name: str) -> Scalar | None:
    document = chunk.document
    match name:
        case "document_id":
            return document.id
        case "title":
            return document.title
        case "media_type":
            return document.media_type
        case "page":
            return chunk.page
        case "section":
            return chunk.kind
        case _:
            return document.metadata.get(name)


def _holds(value: Scalar | None, condition: Condition) -> bool:
    match condition:
        case Excluding(values):
            return value is None or not any(_same(value, each) for each in values)
        case Between(least, most):
            # (what has no place in an order, such as a missing value, is between no ends, not even open ones)
            low, high = (value if least is None else least), (value if most is None else most)
            return _ordered(value, value) and _ordered(low, value) and _ordered(value, high)
        case Prefix(text):
            return isinstance(value, str) and value.startswith(text)
        case str() | int() | float():
            return _same(value, condition)
        case _:
            return any(_same(value, each) for each in condition)


def _same(one: Scalar | None, other: Scalar) -> bool:
    # True is 1 to Python, and a number to no database
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _ordered(low: object, high: object) -> bool:
    if isinstance(low, bool) or isinstance(high, bool):
        return False
    if isinstance(low, str) and isinstance(high, str):
        return low <= high
    return isinstance(low, (int, float)) and isinstance(high, (int, float)) and low <= high


def _is_condition(condition: object) -> bool:
    if isinstance(condition, (str, int, float, Between, Prefix)):
        return True
    values = condition.values if isinstance(condition, Excluding) else condition
    return isinstance(values, (list, tuple, set, frozenset)) and all(
        isinstance(each, (str, int, float)) for each in cast("Sequence[object]", values)
    )
