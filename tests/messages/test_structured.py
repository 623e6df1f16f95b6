"""The structured value of a message: typed, plain, through JSON, and errors that say what to do."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from agentscope_rx import Msg
from agentscope_rx.errors import InvalidInputError, NoStructuredOutputError
from agentscope_rx.messages.structured import STRUCTURED


class Day(BaseModel):
    date: datetime.date
    degrees: float = 20.0


@dataclass
class Point:
    x: int
    y: int = 0


def holding(value: object) -> Msg:
    return Msg.assistant("x").replace(metadata={STRUCTURED: value})


def test_a_value_is_read_as_the_type_that_is_asked_for():
    assert holding({"date": "2026-01-02"}).structured(Day) == Day(date=datetime.date(2026, 1, 2))
    assert holding({"x": 1}).structured(Point) == Point(1)
    assert holding([1, 2]).structured(list[int]) == [1, 2]
    assert holding(None).structured(int | None) is None
    assert holding("a").structured(str) == "a"


def test_without_a_type_it_is_plain_json_of_ones_own():
    message = holding({"a": [1, {"b": None}]})
    plain = message.structured()
    assert plain == {"a": [1, {"b": None}]}
    plain["a"].append(2)  # pyright: ignore
    assert message.structured() == {"a": [1, {"b": None}]}
    assert holding(None).structured() is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_json_keeps_it(value: object):
    message = holding(value)
    again = Msg.from_json(message.to_json())
    assert again == message
    assert again.structured() == message.structured()
    assert again.has_structured


def test_a_message_that_holds_none_says_so():
    message = Msg.assistant("It is sunny.")
    assert not message.has_structured
    with pytest.raises(NoStructuredOutputError, match="MODEL_STOP") as caught:
        message.structured(Day)
    assert isinstance(caught.value, LookupError)
    assert caught.value.message_id == message.id


def test_a_value_of_another_type_is_told():
    with pytest.raises(InvalidInputError, match="is no Day"):
        holding({"x": 1}).structured(Day)
    with pytest.raises(InvalidInputError, match=r"is no list\[int\]"):
        holding(["1"]).structured(list[int])
