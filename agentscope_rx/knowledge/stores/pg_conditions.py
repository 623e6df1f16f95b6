"""Conditions (`where`) as SQL of PostgreSQL. They find all that matches; `Best` drops the little that does not.

A document's fields are an object of `jsonb`, so that each value has a type. A value that it cannot hold as it is (NaN,
a text with NUL) is null there, and passes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isfinite

from agentscope_rx.errors.text import is_encodable
from agentscope_rx.knowledge.document import Scalar
from agentscope_rx.knowledge.stores.best import loosened
from agentscope_rx.knowledge.where import Between, Condition, Excluding, Prefix, Where

_OF_CHUNKS = {"page": "to_jsonb(c.page)", "section": "to_jsonb(c.kind)"}
_EXACT = 2**53
"""Integers below it are floats of the same value."""


class Arguments:
    """The values of a statement, each with its mark."""

    def __init__(self, *values: object) -> None:
        self.values: list[object] = list(values)

    def mark(self, value: object) -> str:
        """The mark of a value, which is added."""
        self.values.append(value)
        return f"${len(self.values)}"


def fields_json(fields: Mapping[str, Scalar]) -> str:
    """The fields as they are stored."""
    return json.dumps({name: value if _holds(value) else None for name, value in fields.items() if _holds(name)})


def conditions(where: Where | None, arguments: Arguments) -> str:
    """The conditions as one expression over the tables of documents `d` and chunks `c`; '' if there are none."""
    parts = [_condition(arguments, name, each) for name, each in (where or {}).items()]
    return " AND ".join(each for each in parts if each)


def _condition(arguments: Arguments, name: str, condition: Condition) -> str:
    if not _holds(name):
        return ""
    given = len(arguments.values)
    value = _OF_CHUNKS.get(name) or f"(d.fields -> {arguments.mark(name)}::text)"
    excluding = isinstance(condition, Excluding)
    test = _test(arguments, condition, value)
    if not test:
        # (a value without a mark is an error)
        del arguments.values[given:]
        return ""
    return f"NOT COALESCE({test}, false)" if excluding else f"COALESCE(jsonb_typeof({value}) = 'null' OR {test}, false)"


def _test(arguments: Arguments, condition: Condition, value: str) -> str:
    """The condition of a value; '' if it excludes nothing."""
    text = f"({value} #>> '{{}}')"
    match condition:
        case Between(least, most):
            ends = [(each, sign) for each, sign in ((least, ">="), (most, "<=")) if each is not None]
            tests = [_end(arguments, end, sign, value) for end, sign in ends]
            return " AND ".join(f"({each})" for each in tests) or f"jsonb_typeof({value}) IN ('number', 'string')"
        case Prefix(start):
            if not _holds(start):
                return "false"
            return f"jsonb_typeof({value}) = 'string' AND starts_with({text}, {arguments.mark(start)}::text)"
        case Excluding(wanted):
            return _any_of(arguments, wanted, value, loose=False)
        case str() | int() | float():
            return _any_of(arguments, [condition], value) or "false"
        case _:
            return _any_of(arguments, condition, value) or "false"


def _any_of(arguments: Arguments, wanted: Sequence[Scalar], value: str, *, loose: bool = True) -> str:
    exact = [each for each in wanted if _holds(each) and _is_exact(each)]
    tests = [f"{value} = ANY({arguments.mark([json.dumps(each) for each in exact])}::text[]::jsonb[])"] if exact else []
    # numbers are decimal there: what is excluded must not be taken for its neighbour
    for each in wanted if loose else ():
        if isinstance(each, (int, float)) and not _is_exact(each):
            tests.append(" AND ".join(f"({_end(arguments, each, sign, value)})" for sign in (">=", "<=")))
    return f"({' OR '.join(tests)})" if tests else ""


def _end(arguments: Arguments, end: float | str, sign: str, value: str) -> str:
    if isinstance(end, bool) or end != end:
        return "false"
    if isinstance(end, str):
        test = f"({value} #>> '{{}}') COLLATE \"C\" {sign} {arguments.mark(end)}::text" if _holds(end) else "true"
        return f"jsonb_typeof({value}) = 'string' AND {test}"
    limit = loosened(end, sign)
    test = f"{value}::numeric {sign} {arguments.mark(repr(limit))}::text::numeric" if isfinite(limit) else "true"
    # (the order of AND is not certain, and a text is no number)
    return f"CASE WHEN jsonb_typeof({value}) = 'number' THEN {test} ELSE false END"


def _is_exact(value: Scalar) -> bool:
    """True for what is equal in `jsonb` if it is equal in Python."""
    return isinstance(value, (str, bool)) or (abs(value) < _EXACT and value == int(value))


def _holds(value: Scalar) -> bool:
    """True for what `jsonb` holds as it is."""
    if isinstance(value, str):
        return "\0" not in value and is_encodable(value)
    return not isinstance(value, float) or isfinite(value)
