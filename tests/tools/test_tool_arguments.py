"""Validation as a model sees it, and as the function gets it."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest
from calling import events, result
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator

from agentscope_rx.messages import ToolResultKind
from agentscope_rx.reactive import Flow, just
from agentscope_rx.tools import FunctionTool, InvalidArgumentsError, Tool


class Stop(BaseModel):
    name: str
    days: list[int] = []

    @field_validator("name")
    @classmethod
    def named(cls, value: str) -> str:
        if not value:
            raise ValueError("a stop needs a name")
        return value


def travel(city: str, stops: list[Stop], unit: Literal["C", "F"] = "C", limit: Annotated[int, Field(ge=1)] = 10) -> str:
    """Plans a journey."""
    return f"{city} {stops} {unit} {limit}"


def told(**input: object) -> list[str]:
    block = result(travel, **input)
    assert block.kind is ToolResultKind.INVALID_ARGUMENTS
    first, *problems, last = block.text.splitlines()
    assert first == "Error: Invalid arguments for tool 'travel':"
    assert last == "Correct the arguments and call the tool again."
    return problems


@pytest.mark.parametrize(
    ("input", "problems"),
    [
        (
            {},
            ["- city: is required and was not given", "- stops: is required and was not given"],
        ),
        (
            {"city": 3, "stops": []},
            ["- city: Input should be a valid string; given 3"],
        ),
        (
            {"city": "Bonn", "stops": [], "unti": "C", "zzz": 1},
            [
                "- unti: is not an argument of this tool; did you mean 'unit'?",
                "- zzz: is not an argument of this tool; it takes city, stops, unit, limit",
            ],
        ),
        (
            {"city": "Bonn", "stops": [{"name": "Köln", "days": [1, "two"]}, {"days": 3}, {"name": ""}]},
            [
                "- stops[0].days[1]: Input should be a valid integer, unable to parse string as an integer; "
                'given "two"',
                "- stops[1].name: is required and was not given",
                "- stops[1].days: Input should be a valid list; given 3",
                '- stops[2].name: a stop needs a name; given ""',
            ],
        ),
        (
            {"city": "Bonn", "stops": [], "unit": "K", "limit": 0},
            [
                "- unit: Input should be 'C' or 'F'; given \"K\"",
                "- limit: Input should be greater than or equal to 1; given 0",
            ],
        ),
        (
            {"city": {"name": "x" * 200}, "stops": []},
            [f'- city: Input should be a valid string; given {{"name":"{"x" * 88}...'],
        ),
    ],
)
def test_one_line_a_problem(input: dict[str, object], problems: list[str]):
    assert told(**input) == problems


def test_many_problems_are_cut():
    problems = told(city="Bonn", stops=[{"name": i} for i in range(50)])
    assert len(problems) == 11
    assert problems[-1] == "- and 40 more problems"


def test_branches_of_a_union_do_not_show_in_the_path():
    def either(x: int | Stop): ...

    assert [line.partition(":")[0] for line in result(either, x={"days": 1}).text.splitlines()[1:-1]] == [
        "- x",
        "- x.name",
        "- x.days",
    ]


def test_the_function_is_not_called_with_what_it_refuses():
    calls: list[int] = []

    def count(x: int):
        calls.append(x)

    assert len(events(count, x="many")) == 1
    assert calls == []


def test_null_for_an_argument_with_a_default_means_not_given():
    def search(query: str, limit: int = 5, after: int | None = 7) -> list[object]:
        return [query, limit, after]

    assert result(search, query="q", limit=None).text == '["q",5,7]'
    assert result(search, query="q", after=None).text == '["q",5,null]'
    # for what has no default it is an error, and the nulls that are fine are not among the problems
    lines = result(search, query=None, limit=None).text.splitlines()
    assert lines[1:-1] == ["- query: Input should be a valid string; given null"]


def test_values_come_in_the_types_of_the_annotations():
    seen: list[object] = []

    def note(day: datetime.date, tags: set[str], stop: Stop, many: tuple[int, ...] = ()):
        seen.extend([day, tags, stop, many])

    assert not result(note, day="2024-02-29", tags=["a", "a"], stop={"name": "Ulm"}).is_error
    assert seen == [datetime.date(2024, 2, 29), {"a"}, Stop(name="Ulm"), ()]


def test_a_tool_cannot_change_the_arguments_of_its_call():
    given = {"a": [1], "b": {"c": [2]}}

    def spoil(data: Any, typed: dict[str, Any]):
        data.append(3)
        typed["c"].append(4)

    assert not result(spoil, data=given["a"], typed=given["b"]).is_error
    assert given == {"a": [1], "b": {"c": [2]}}


def test_positional_only_parameters_are_filled_in_order():
    def place(a: int, b: int = 2, c: int = 3, /, d: int = 4) -> list[int]:
        return [a, b, c, d]

    assert result(place, a=1, c=7, d=8).text == "[1,2,7,8]"


def test_a_tool_may_refuse_arguments_itself():
    def divide(x: int, y: int) -> float:
        if y == 0:
            raise InvalidArgumentsError("divide", ["y: must not be 0"])
        return x / y

    block = result(divide, x=1, y=0)
    assert block.kind is ToolResultKind.INVALID_ARGUMENTS
    assert "- y: must not be 0" in block.text
    assert block.metadata["error_type"] == "InvalidArgumentsError"


class Plain(Tool):
    """A tool that comes with a schema of its own."""

    name = "plain"
    parameters = {"type": "object", "properties": {"x": {}}, "required": ["x"], "additionalProperties": False}

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        return just(arguments["x"])


def test_a_tool_with_its_own_schema_checks_names_only():
    assert result(Plain(), x=5).text == "5"
    assert result(Plain(), y=5).text.splitlines()[1:3] == [
        "- x: is required and was not given",
        "- y: is not an argument of this tool; it takes x",
    ]


def test_a_validator_that_breaks_is_a_failure_of_the_tool():
    class Broken(Plain):
        def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
            raise RuntimeError("no rules")

    assert result(Broken(), x=1).text == "Error: RuntimeError: no rules"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def everything(a: int, b: str, c: list[Stop] = [], d: dict[str, int] | None = None, e: float | bool = 1.0): ...  # noqa: B006


EVERYTHING = FunctionTool(everything)


@given(st.dictionaries(st.sampled_from(["a", "b", "c", "d", "e", "f"]) | st.text(), json_values))
def test_law_any_json_is_either_taken_or_refused_with_problems(arguments: dict[str, object]):
    try:
        values = EVERYTHING.validate(arguments)
        problems = ()
    except InvalidArgumentsError as error:
        values, problems = {}, error.problems
    assert bool(problems) != ({"a", "b"} <= set(values) <= {"a", "b", "c", "d", "e"})
