"""`Where` as SQL: the same answers as `where.matches`, by the database.

Conditions on a document choose versions (`d`), those on page and section choose chunks (`c`). Values have a kind beside
them (`b`, `n`, `t`), because 1, True and '1' are different values to Python and may not be to SQLite.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.errors.text import is_encodable
from agentscope_rx.knowledge.document import Scalar
from agentscope_rx.knowledge.stores.sqlite.rows import kind_of, storable
from agentscope_rx.knowledge.where import Between, Condition, Excluding, Prefix, Where

MAX_VALUES = 30_000
"""The values of one search's conditions: SQLite takes 32,766 parameters."""

_COLUMNS = {"document_id": "d.id", "title": "d.title", "media_type": "d.media_type"}


class Sql(NamedTuple):
    """A condition and its parameters."""

    text: str
    values: tuple[object, ...] = ()


NEVER = Sql("0")


class Compiled(NamedTuple):
    """Conditions on versions and on chunks; None if there are none."""

    documents: Sql | None
    chunks: Sql | None


def compiled(where: Where | None) -> Compiled:
    """The conditions as SQL."""
    documents: list[Sql] = []
    chunks: list[Sql] = []
    for name, condition in (where or {}).items():
        if name == "page":
            chunks.append(_of_column("c.page", "n", condition, nullable=True))
        elif name == "section":
            chunks.append(_of_column("c.kind", "t", condition))
        elif name in _COLUMNS:
            documents.append(_of_column(_COLUMNS[name], "t", condition))
        else:
            documents.append(_of_metadata(name, condition))
    if sum(len(each.values) for each in (*documents, *chunks)) > MAX_VALUES:
        raise InvalidInputError(f"where has more than {MAX_VALUES:,} values. Search by fewer, or in several searches.")
    return Compiled(_all(documents), _all(chunks))


def next_text(prefix: str) -> str | None:
    """The least text after all that begin with this one; None if there is none."""
    for end in range(len(prefix), 0, -1):
        code = ord(prefix[end - 1])
        if code < 0x10FFFF:
            # (surrogates are no characters of a text)
            return prefix[: end - 1] + chr(0xE000 if code == 0xD7FF else code + 1)
    return None


def _all(conditions: Sequence[Sql]) -> Sql | None:
    if not conditions:
        return None
    return Sql(
        " AND ".join(f"({each.text})" for each in conditions),
        tuple(value for each in conditions for value in each.values),
    )


def _of_column(column: str, kind: str, condition: Condition, *, nullable: bool = False) -> Sql:
    negated = isinstance(condition, Excluding)
    positive: Condition = condition.values if isinstance(condition, Excluding) else condition
    found = _holds(f"'{kind}'", column, positive)
    if negated:
        missing = f"{column} IS NULL OR " if nullable else ""
        return Sql(f"{missing}NOT ({found.text})", found.values)
    return found


def _of_metadata(name: str, condition: Condition) -> Sql:
    negated = isinstance(condition, Excluding)
    positive: Condition = condition.values if isinstance(condition, Excluding) else condition
    found = _holds("m.kind", "m.value", positive) if is_encodable(name) else NEVER
    given = name if is_encodable(name) else ""
    exists = "EXISTS (SELECT 1 FROM kb_metadata m WHERE m.document = d.key AND m.name = ? AND "
    return Sql(f"{'NOT ' if negated else ''}{exists}({found.text}))", (given, *found.values))


def _holds(kind: str, value: str, condition: Condition) -> Sql:
    match condition:
        case Between(least, most):
            return _between(kind, value, least, most)
        case Prefix(text):
            return _prefix(kind, value, text)
        case str() | int() | float():
            return _among(kind, value, [condition])
        case _:
            return _among(kind, value, cast("Sequence[Scalar]", condition))


def _among(kind: str, value: str, values: Sequence[Scalar]) -> Sql:
    parts: list[str] = []
    every: list[object] = []
    for wanted in "bnt":
        given = [storable(each) for each in values if kind_of(each) == wanted and _is_exact(each)]
        if given:
            parts.append(f"({kind} = '{wanted}' AND {value} IN ({', '.join('?' * len(given))}))")
            every += given
    return Sql(" OR ".join(parts), tuple(every)) if parts else NEVER


def _between(kind: str, value: str, least: float | str | None, most: float | str | None) -> Sql:
    bounds = [each for each in (least, most) if each is not None]
    if not bounds:
        return Sql(f"{kind} IN ('n', 't') AND {value} IS NOT NULL")
    kinds = {kind_of(each) for each in bounds}
    if len(kinds) != 1 or kinds == {"b"} or any(each != each for each in bounds):
        return NEVER
    parts, values = [f"{kind} = '{kinds.pop()}'"], list[object]()
    if least is not None:
        parts.append(f"{value} >= ?")
        values.append(_bound(least))
    if most is not None:
        parts.append(f"{value} {'<' if _bound(most) != most and isinstance(most, str) else '<='} ?")
        values.append(_bound(most))
    return Sql(" AND ".join(parts), tuple(values))


def _bound(bound: float | str) -> Scalar:
    """The bound as SQLite compares it. Before a half character there is no text, and so its place is that of U+E000."""
    if isinstance(bound, str) and not is_encodable(bound):
        first = next(place for place, each in enumerate(bound) if "\ud800" <= each <= "\udfff")
        return bound[:first] + "\ue000"
    return storable(bound)


def _prefix(kind: str, value: str, text: str) -> Sql:
    if not is_encodable(text):
        return NEVER
    end = next_text(text)
    if end is None:
        return Sql(f"{kind} = 't' AND {value} >= ?", (text,))
    return Sql(f"{kind} = 't' AND {value} >= ? AND {value} < ?", (text, end))


def _is_exact(value: Scalar) -> bool:
    """True for a value that a row may have: no half characters, not NaN, not a whole number that no float is."""
    return is_encodable(value) if isinstance(value, str) else storable(value) == value
