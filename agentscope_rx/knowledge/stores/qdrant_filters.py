"""Conditions (`where`) as filters of Qdrant. They find all that matches; `Best` drops what does not.

Each chunk has its document's fields: a list of `facts`, such as `["lang","s:en"]`, for conditions of equality, and its
`numbers` for ranges. What Qdrant has no filter for (ranges of texts, most prefixes) is decided afterwards, at the cost
of asking for more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from qdrant_client import models

from agentscope_rx.knowledge.document import Scalar
from agentscope_rx.knowledge.stores.best import loosened
from agentscope_rx.knowledge.where import Between, Condition, Excluding, Prefix, Where

_GREATEST = 1.7e308


def facts_of(fields: Mapping[str, Scalar]) -> list[str]:
    """The facts of a chunk with these fields."""
    id = str(fields.get("document_id", ""))
    folders = [_fact("", id[: place + 1]) for place, each in enumerate(id) if each == "/"]
    return [fact for name, value in fields.items() if (fact := _fact(name, value))] + folders


def numbers_of(fields: Mapping[str, Scalar]) -> dict[str, float]:
    """The numbers of a chunk with these fields."""
    return {
        _key(name): _number(value)
        for name, value in fields.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value == value
    }


def filter_of(where: Where | None, stale: Sequence[str]) -> models.Filter:
    """A filter for the conditions, without the chunks of stale versions."""
    must: list[models.Condition] = []
    must_not: list[models.Condition] = []
    for name, condition in (where or {}).items():
        if isinstance(condition, Excluding):
            if facts := _facts(name, condition.values):
                must_not.append(any_of("facts", facts))
        else:
            must += _conditions(name, condition)
    if stale:
        must_not.append(any_of("version", stale))
    return models.Filter(must=must, must_not=must_not)


def any_of(key: str, values: Sequence[str]) -> models.FieldCondition:
    """The condition that a field has one of these values."""
    return models.FieldCondition(key=key, match=models.MatchAny(any=list(values)))


def _conditions(name: str, condition: Condition) -> list[models.Condition]:
    match condition:
        case Between(least, most):
            ends = [each for each in (least, most) if each is not None]
            if not ends or any(isinstance(each, str) for each in ends):
                return []
            return [_range(name, least, most)]
        case Prefix(text):
            # (with its last folder the beginning of an id is a fact)
            folder = text[: text.rfind("/") + 1] if name == "document_id" else ""
            return [any_of("facts", [_fact("", folder)])] if folder else []
        case Excluding(_):
            return []
        case str() | int() | float():
            return [any_of("facts", _facts(name, [condition]) or ["nothing"])]
        case _:
            return [any_of("facts", _facts(name, condition) or ["nothing"])]


def _range(name: str, least: float | str | None, most: float | str | None) -> models.FieldCondition:
    ends = {
        end: _number(loosened(value, sign))
        for end, value, sign in (("gte", least, ">="), ("lte", most, "<="))
        if isinstance(value, (int, float)) and value == value
    }
    return models.FieldCondition(key=f"numbers.{_key(name)}", range=models.Range(**ends))


def _facts(name: str, values: Sequence[Scalar]) -> list[str]:
    return [fact for value in values if (fact := _fact(name, value))]


def _fact(name: str, value: Scalar) -> str:
    """The same text for values that are equal, another one for others; '' for NaN, which equals nothing."""
    match value:
        case str():
            text = f"s:{value}"
        case bool():
            text = f"b:{int(value)}"
        case float() if value != value:
            return ""
        case float() if not value.is_integer():
            text = f"n:{value!r}"
        case _:
            text = f"n:{int(value)}"
    return json.dumps([name, text])


def _key(name: str) -> str:
    """The name of a field, of letters and digits: Qdrant takes dots and brackets for a path."""
    return name.encode("utf-8", "surrogatepass").hex() or "_"


def _number(value: float) -> float:
    try:
        return max(-_GREATEST, min(_GREATEST, float(value)))
    except OverflowError:
        return _GREATEST if value > 0 else -_GREATEST
