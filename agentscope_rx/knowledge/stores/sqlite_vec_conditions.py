"""Conditions (`where`) as SQL of SQLite. They find all that matches, and little else: `Best` decides about the rest.

A document's fields are an object of JSON, so that each value has a type: 1 is not true, and "1" is not 1. A value that
SQLite's JSON cannot hold as it is (an integer of more than 64 bits, NaN, a text with NUL) is null there, and passes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isfinite

from agentscope_rx.errors.text import is_encodable
from agentscope_rx.knowledge.document import Scalar
from agentscope_rx.knowledge.stores.best import loosened
from agentscope_rx.knowledge.where import Between, Condition, Excluding, Prefix, Where

_FIELD = "EXISTS (SELECT 1 FROM json_each(d.fields) AS f WHERE f.key = ? AND (f.type = 'null' OR {}))"
_FIELD_NOT = "NOT EXISTS (SELECT 1 FROM json_each(d.fields) AS f WHERE f.key = ? AND {})"
_OF_CHUNKS = {
    "page": ("CASE WHEN c.page IS NULL THEN 'null' ELSE 'integer' END", "c.page"),
    "section": ("'text'", "c.kind"),
}
_INTEGER = 2**63


class Sql:
    """A condition, with the values of its marks."""

    def __init__(self) -> None:
        self.text: str = ""
        self.values: list[Scalar | bytes] = []


def fields_json(fields: Mapping[str, Scalar]) -> str:
    """The fields as they are stored."""
    return json.dumps({name: value if _holds(value) else None for name, value in fields.items()}, ensure_ascii=False)


def conditions(where: Where | None) -> Sql:
    """The conditions as one expression over the table `chunks AS c`; '' if there are none.

    What is said of documents is asked of documents, which are fewer.
    """
    sql = Sql()
    given = (where or {}).items()
    of_documents = [_condition(sql.values, name, each) for name, each in given if name not in _OF_CHUNKS]
    of_chunks = [_condition(sql.values, name, each) for name, each in given if name in _OF_CHUNKS]
    documents = " AND ".join(each for each in of_documents if each)
    within = f"c.document IN (SELECT d.number FROM documents d WHERE {documents})" if documents else ""  # noqa: S608
    sql.text = " AND ".join(each for each in (within, *of_chunks) if each)
    return sql


def _condition(values: list[Scalar | bytes], name: str, condition: Condition) -> str:
    if not _holds(name):
        return ""
    kind, value = _OF_CHUNKS.get(name, ("f.type", "f.value"))
    asked: list[Scalar] = []
    excluding = isinstance(condition, Excluding)
    test = _test(asked, condition, kind, value)
    if name not in _OF_CHUNKS:
        values += [name, *asked]
        return (_FIELD_NOT if excluding else _FIELD).format(f"({test})")
    values += asked
    return f"NOT ({test})" if excluding else f"({test})"


def _test(asked: list[Scalar], condition: Condition, kind: str, value: str) -> str:
    """The condition of a value and its type."""
    match condition:
        case Between(least, most):
            ends = [(each, sign) for each, sign in ((least, ">="), (most, "<=")) if each is not None]
            tests = [_end(asked, each, sign, kind, value) for each, sign in ends]
            return " AND ".join(tests) or f"{kind} IN ('integer', 'real', 'text')"
        case Prefix(text):
            if not text:
                return f"{kind} = 'text'"
            if not _holds(text):
                return "0"
            asked += [text, len(text), text]
            return f"{kind} = 'text' AND {value} >= ? AND substr({value}, 1, ?) = ?"
        case Excluding(wanted):
            return _any_of(asked, wanted, kind, value, loose=False)
        case str() | int() | float():
            return _any_of(asked, [condition], kind, value)
        case _:
            return _any_of(asked, condition, kind, value)


def _any_of(asked: list[Scalar], wanted: Sequence[Scalar], kind: str, value: str, *, loose: bool = True) -> str:
    exact = [each for each in wanted if _holds(each)]
    tests = [
        f"{kind} = '{'true' if flag else 'false'}'" for flag in (True, False) if any(each is flag for each in exact)
    ]
    if texts := [each for each in exact if isinstance(each, str)]:
        asked += texts
        tests.append(f"{kind} = 'text' AND {value} IN ({_marks(texts)})")
    if integers := [each for each in exact if isinstance(each, int) and not isinstance(each, bool)]:
        asked += integers
        tests.append(f"{kind} IN ('integer', 'real') AND {value} IN ({_marks(integers)})")
    # SQLite reads a float from JSON to within its last digit: what is excluded must not be taken for its neighbour
    for each in wanted if loose else ():
        # (an integer of more than 64 bits may be equal to a float)
        if isinstance(each, float) or not (isinstance(each, str) or _holds(each)):
            asked += [loosened(each, ">="), loosened(each, "<=")]
            tests.append(f"{kind} IN ('integer', 'real') AND {value} BETWEEN ? AND ?")
    return " OR ".join(f"({each})" for each in tests) or "0"


def _marks(values: Sequence[Scalar]) -> str:
    return ", ".join("?" * len(values))


def _end(asked: list[Scalar], end: float | str, sign: str, kind: str, value: str) -> str:
    if isinstance(end, bool) or end != end:
        return "0"
    if isinstance(end, str):
        if not _holds(end):
            return f"{kind} = 'text'"
        asked.append(end)
        return f"{kind} = 'text' AND {value} {sign} ?"
    asked.append(loosened(end, sign))
    return f"{kind} IN ('integer', 'real') AND {value} {sign} ?"


def _holds(value: Scalar) -> bool:
    """True for what SQLite's JSON holds as it is."""
    if isinstance(value, str):
        return "\0" not in value and is_encodable(value)
    if isinstance(value, float):
        return isfinite(value)
    return -_INTEGER <= value < _INTEGER
