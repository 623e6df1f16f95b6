"""What may be asked for, how the model sees it, and how its answer is read."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator
from typing_extensions import TypedDict

from agentscope_rx.agent.structured_output import Reminder, StructuredOutput
from agentscope_rx.agent.structured_output.config import output_of
from agentscope_rx.errors import ConfigurationError, ToolDefinitionError
from agentscope_rx.messages.structured import adapter_of, read_json
from agentscope_rx.models.openai.strict import strict_schema
from agentscope_rx.tools import InvalidArgumentsError
from agentscope_rx.tools.schemas.check import SchemaCheck


class Unit(enum.Enum):
    C = "celsius"
    F = "fahrenheit"


class Day(BaseModel):
    """One day."""

    date: datetime.date
    degrees: float
    unit: Unit = Unit.C


class Forecast(BaseModel):
    city: str
    days: list[Day]
    note: str | None = None
    confidence: int = Field(5, ge=0, le=10)


@dataclass
class Point:
    x: int
    y: int = 0


class Pair(TypedDict):
    left: str
    right: str


class Node(BaseModel):
    name: str
    children: list[Node] = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str]


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]

FORECAST = {"city": "Rome", "days": [{"date": "2026-01-02", "degrees": 7}]}
FLAT = [(Forecast, FORECAST), (Point, {"x": 1}), (Pair, {"left": "a", "right": "b"}), (dict[str, int], {"a": 1})]
WRAPPED = [
    (int, 3), (str, "x"), (bool, False), (float, 2.5), (list[int], [1, 2]), (list[Forecast], [FORECAST]),
    (Literal["yes", "no"], "no"), (Unit, "celsius"), (int | None, None), (Forecast | str, FORECAST),
    (Pet, {"kind": "dog", "tricks": []}), (Node, {"name": "a", "children": [{"name": "b"}]}),
    (datetime.date, "2026-01-02"), (tuple[int, str], [1, "a"]), (Annotated[int, Field(ge=3)], 3),
]  # fmt: skip


def read(asked: object, given: dict[str, object]) -> object:
    shape = StructuredOutput(asked).shape
    return shape.value(shape.read(given, "generate_response"))


def problems(asked: object, given: dict[str, object]) -> tuple[str, ...]:
    with pytest.raises(InvalidArgumentsError) as caught:
        read(asked, given)
    return caught.value.problems


@pytest.mark.parametrize(("asked", "value"), FLAT)
def test_an_object_is_asked_for_flat(asked: object, value: dict[str, object]):
    shape = StructuredOutput(asked).shape
    assert shape.field is None
    assert shape.schema["type"] == "object"
    assert read(asked, value) == value
    assert not SchemaCheck(shape.schema).problems(value)


@pytest.mark.parametrize(("asked", "value"), WRAPPED)
def test_anything_else_is_asked_for_in_the_field_response(asked: object, value: object):
    shape = StructuredOutput(asked).shape
    assert shape.field == "response"
    assert list(shape.schema["properties"]) == ["response"]  # pyright: ignore
    assert shape.schema["required"] == ["response"]
    assert read(asked, {"response": value}) == value
    assert not SchemaCheck(shape.schema).problems({"response": value})
    # and only there
    assert problems(asked, {"answer": value})


@pytest.mark.spec("case 69")
def test_definitions_stand_at_the_root():
    """java-core.md §22.4 case 69: `$defs` are hoisted, so that `#/$defs/X` resolves."""
    schema = StructuredOutput(list[Forecast]).shape.schema
    assert set(schema["$defs"]) == {"Forecast", "Day", "Unit"}  # pyright: ignore
    hoisted = StructuredOutput(
        {"type": "array", "items": {"$ref": "#/definitions/N"}, "definitions": {"N": {"type": "integer"}}}
    ).shape
    assert hoisted.schema["properties"] == {"response": {"type": "array", "items": {"$ref": "#/definitions/N"}}}
    assert hoisted.value(hoisted.read({"response": [1]}, "x")) == [1]
    with pytest.raises(InvalidArgumentsError, match=r"response\[0\]: 'a' is not of type 'integer'"):
        hoisted.read({"response": ["a"]}, "x")


def test_a_reference_to_the_root_of_a_dict_schema_moves_with_it():
    shape = StructuredOutput({"type": "array", "items": {"$ref": "#"}}).shape
    assert shape.value(shape.read({"response": [[], [[]]]}, "x")) == [[], [[]]]
    with pytest.raises(InvalidArgumentsError, match=r"response\[0\]\[0\]: 1 is not of type 'array'"):
        shape.read({"response": [[1]]}, "x")


@pytest.mark.spec("case 68")
def test_a_complex_nested_schema_as_a_dict():
    """java-core.md §22.4 case 68."""
    schema = {
        "type": "object",
        "properties": {
            "people": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
                    },
                    "required": ["name"],
                    "additionalProperties": False,
                },
            }
        },
        "required": ["people"],
    }
    value = {"people": [{"name": "Ann", "tags": ["a"]}]}
    assert read(schema, value) == value
    assert problems(schema, {"people": [{"nam": "Ann", "tags": ["c"]}]}) == (
        "people[0].name: is required and was not given",
        "people[0].nam: is not an argument of this tool; did you mean 'name'?",
        "people[0].tags[0]: 'c' is not one of ['a', 'b']",
    )
    assert problems(schema, {"people": []}) == ("people: [] should be non-empty",)


def test_json_is_read_strictly():
    assert problems(Forecast, {"city": 3, "days": [{"date": "soon", "degrees": "7"}], "confidence": 11}) == (
        "city: Input should be a valid string; given 3",
        'days[0].date: Input should be a valid date in the format YYYY-MM-DD, input is too short; given "soon"',
        'days[0].degrees: Input should be a valid number; given "7"',
        "confidence: Input should be less than or equal to 10; given 11",
    )
    assert problems(int, {"response": True}) == ("response: Input should be a valid integer; given true",)


def test_an_invalid_null_for_an_optional_field_is_left_out():
    assert read(Forecast, {**FORECAST, "confidence": None, "note": None}) == {**FORECAST, "note": None}
    assert read(list[Point], {"response": [{"x": 1, "y": None}]}) == [{"x": 1}]
    assert problems(Point, {"x": None}) == ("x: Input should be a valid integer; given null",)


def test_validators_of_the_type_have_their_say():
    class Even(BaseModel):
        number: int

        @field_validator("number")
        @classmethod
        def check(cls, number: int) -> int:
            if number % 2:
                raise ValueError("must be even")
            return number

    assert problems(Even, {"number": 3}) == ("number: must be even; given 3",)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (3, "Did you mean int?"), ("Forecast", "a type or a JSON schema"), ([int], "Did you mean list?"),
        (Point(1), "Did you mean Point?"), (print, "not <built-in"), (lambda: 1, "a type or a JSON schema"),
        (Any, "allows anything"), (object, "allows anything"), (Callable[[], int], "cannot be asked of a model"),
        ({}, "no JSON schema"), ({"name": str}, "pydantic model"), ({"name": "str"}, "has none of its keywords"),
        ({"type": "text"}, "is not one of array, boolean"), ({"properties": {"a": {"$ref": "#/$defs/A"}}}, "refers"),
        ({"$dynamicRef": "#x"}, "refers"), ({"pattern": "("}, "pattern"),
        ({"type": "array", "items": 3}, "not of type 'object'"), (type("Plain", (), {}), "cannot be asked of a model"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_for_is_refused_at_once(given: object, text: str):
    with pytest.raises(ConfigurationError) as caught:
        output_of(given)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    "options", [{"mode": "json"}, {"on_failure": None}, {"reminder": "often"}, {"max_retries": -1}, {"description": 3}]
)
def test_options_are_checked(options: dict[str, Any]):
    with pytest.raises(ConfigurationError):
        StructuredOutput(int, **options)
    with pytest.raises(ToolDefinitionError):
        StructuredOutput(int, name="give me")


def test_output_of_takes_what_it_is_given():
    assert output_of(None) is None
    asked = StructuredOutput(int, reminder="prompt")
    assert output_of(asked) is asked
    assert asked.reminder is Reminder.PROMPT
    assert output_of(int) == StructuredOutput(int)


def test_equal_types_of_another_order_keep_their_order():
    one, other = StructuredOutput(int | str).shape, StructuredOutput(str | int).shape
    assert one.schema != other.schema
    assert adapter_of(Forecast) is adapter_of(Forecast)


@given(st.builds(Forecast, city=st.text(), days=st.lists(st.builds(Day, degrees=st.floats(-90, 60)), max_size=3)))
def test_what_a_type_writes_it_reads(value: Forecast):
    """Also in the form that OpenAI's strict mode holds the model to: nulls for what is not given."""
    shape = StructuredOutput(Forecast).shape
    plain = value.model_dump(mode="json", exclude_defaults=True)
    found = shape.value(shape.read(plain, "x"))
    assert found == plain
    assert read_json(adapter_of(Forecast), found) == value
    nulls = {**dict.fromkeys(Forecast.model_fields), **plain}
    strict = strict_schema(shape.schema)
    assert strict is not None
    full = {**nulls, "days": [{"unit": None, **day} for day in plain["days"]]}
    assert not SchemaCheck(strict).problems(full)
    assert read_json(adapter_of(Forecast), shape.value(shape.read(full, "x"))) == value
