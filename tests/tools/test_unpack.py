"""`@tool(unpack=True)`: the fields of the only parameter are the tool's parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, NotRequired, TypeVar

import pytest
from calling import result
from pydantic import BaseModel, ConfigDict, Field, RootModel
from typing_extensions import TypedDict

from agentscope_rx import Inject
from agentscope_rx.errors import ToolDefinitionError
from agentscope_rx.tools import FunctionTool, ToolContext, Toolkit, tool

T = TypeVar("T")


class Guest(BaseModel):
    name: str


class Booking(BaseModel):
    """A booking."""

    hotel: str = Field(description="Which.", validation_alias="hotelName")
    nights: int = Field(1, ge=1)
    guests: list[Guest] = []


@dataclass
class Trip:
    to: str
    days: int = 3
    stops: list[str] = field(default_factory=list)


class Query(TypedDict):
    text: str
    limit: NotRequired[int]


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Box(BaseModel, Generic[T]):
    content: T


class Anything(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int = 1


def book(request: Booking) -> str:
    """Book a room.

    Args:
        request: What to book.
        nights: How long.
        hotelName: Not used: the field says it.
    """
    return repr(request)


def test_the_fields_are_the_parameters():
    made = tool(unpack=True)(book)
    assert made.description == "Book a room."
    assert made.parameters == {
        "type": "object",
        "properties": {
            "hotelName": {"type": "string", "description": "Which."},
            "nights": {"type": "integer", "minimum": 1, "default": 1, "description": "How long."},
            "guests": {"type": "array", "items": {"$ref": "#/$defs/Guest"}, "default": []},
        },
        "required": ["hotelName"],
        "additionalProperties": False,
        "$defs": {"Guest": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
    }
    assert list(made.parameters) == ["type", "properties", "required", "additionalProperties", "$defs"]
    assert result(made, hotelName="Ritz", guests=[{"name": "Ada"}]).text == repr(
        Booking(hotelName="Ritz", guests=[Guest(name="Ada")])  # pyright: ignore
    )
    assert made(Booking(hotelName="Ritz")) == repr(Booking(hotelName="Ritz")), "still the function"  # pyright: ignore


def test_problems_are_told_as_of_any_tool():
    said = result(tool(unpack=True)(book), nights=0, guests=[{"nme": "x"}], hotel="x").text
    assert said.splitlines()[1:-1] == [
        "- hotelName: is required and was not given",
        "- nights: Input should be greater than or equal to 1; given 0",
        "- guests[0].name: is required and was not given",
        "- hotel: is not an argument of this tool; did you mean 'hotelName'?",
    ]


def test_a_null_for_what_may_be_left_out_counts_as_left_out():
    assert "nights=1" in result(tool(unpack=True)(book), hotelName="Ritz", nights=None).text
    assert "- hotelName: Input should be" in result(tool(unpack=True)(book), hotelName=None, nights=None).text


def dataclassed(it: Trip, /) -> str:
    return repr(it)


def typed_dict(it: Query) -> str:
    return repr(it)


def recursive(it: Tree) -> str:
    return repr(it)


def generic(it: Box[int]) -> str:
    return repr(it)


def annotated(
    it: Annotated[Trip, "A trip."], db: Annotated[str, Inject("db")] = "none", *, context: ToolContext
) -> str:
    return f"{it!r} {db} {context.call.id}"


def opened(it: Anything) -> str:
    return repr(it)


def by_default(it: Trip = Trip("home")) -> str:
    return repr(it)


@pytest.mark.parametrize(
    ("function", "given", "expected"),
    [
        (dataclassed, {"to": "Rome"}, repr(Trip("Rome"))),
        (typed_dict, {"text": "x", "limit": "2"}, repr({"text": "x", "limit": 2})),
        (recursive, {"value": 1, "children": [{"value": 2}]}, repr(Tree(value=1, children=[Tree(value=2)]))),
        (generic, {"content": "3"}, repr(Box[int](content=3))),
        (annotated, {"to": "Rome", "days": 1}, f"{Trip('Rome', 1)!r} none 1"),
        (opened, {"b": 2}, repr(Anything(b=2))),  # pyright: ignore
        (by_default, {}, repr(Trip("home"))),
        (by_default, {"to": "Rome"}, repr(Trip("Rome"))),
    ],
)
def test_what_can_be_unpacked(function: Callable[..., object], given: dict[str, object], expected: str):
    made = FunctionTool(function, unpack=True)
    assert result(made, **given).text == expected
    assert "it" not in made.parameters["properties"]  # pyright: ignore


def test_a_recursive_type_and_one_that_takes_any_name():
    tree = FunctionTool(recursive, unpack=True).parameters
    assert tree["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}  # pyright: ignore
    assert "Tree" in tree["$defs"]  # pyright: ignore
    assert FunctionTool(opened, unpack=True).parameters["additionalProperties"] is True


def two(a: Trip, b: Trip): ...
def none(): ...
def plain(a: int): ...
def optional(a: Trip | None): ...


class Many(RootModel[list[int]]): ...


def rooted(a: Many): ...


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (two, r"unpack=True is for a function of one pydantic model, dataclass or TypedDict; 'two' takes \(a, b\)"),
        (none, r"'none' takes \(\)"),
        (plain, r"'plain' takes \(a\)"),
        (optional, "'optional' takes"),
        (rooted, "The parameter of tool 'rooted' has no fields"),
    ],
)
def test_what_cannot_be_unpacked(function: Callable[..., object], says: str):
    with pytest.raises(ToolDefinitionError, match=says):
        FunctionTool(function, unpack=True)


def test_methods_names_and_presets():
    class Desk:
        @tool(unpack=True)
        def book(self, request: Trip) -> str:
            return f"{type(self).__name__} {request!r}"

    assert result(Desk(), to="Rome").text == f"Desk {Trip('Rome')!r}"
    toolkit = Toolkit()
    made = toolkit.register(Desk().book, name="reserve", presets={"days": 9})
    assert list(made.parameters["properties"]) == ["to", "stops"]
    again: Any = FunctionTool(FunctionTool(dataclassed, unpack=True), name="again")
    assert "for tool 'again'" in result(again).text
    assert list(FunctionTool(tool(dataclassed), unpack=True).parameters["properties"]) == ["to", "days", "stops"]  # pyright: ignore
