"""Schema tables: what a signature and a docstring say to a model, and what cannot become a tool."""

from __future__ import annotations

import datetime
import enum
import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, Optional

import pytest
from pydantic import BaseModel, Field
from typing_extensions import Doc, TypedDict

from agentscope_rx.errors import ToolDefinitionError
from agentscope_rx.tools import FunctionTool, Toolkit, tool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Person(TypedDict):
    name: str
    age: NotRequired[int]


class Node(BaseModel):
    """A node of a tree."""

    title: str
    children: list[Node] = []


def schema(function: Callable[..., object]) -> dict[str, Any]:
    return dict(FunctionTool(function).parameters)


def properties(function: Callable[..., object]) -> dict[str, Any]:
    return schema(function)["properties"]


def test_simple_signature_as_a_whole():
    def weather(city: str, unit: Literal["C", "F"] = "C") -> str:
        """Current weather of a city.

        Asks the nearest station.

        Args:
            city: Its name in English.
        """
        return city + unit

    made = FunctionTool(weather)
    assert made.name == "weather"
    assert made.description == "Current weather of a city.\n\nAsks the nearest station."
    assert made.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Its name in English."},
            "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    assert list(made.parameters) == ["type", "properties", "required", "additionalProperties"]


INTEGER = {"type": "integer"}


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (int, INTEGER),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (Any, {}),
        (object, {}),
        (Optional[int], {"anyOf": [INTEGER, {"type": "null"}]}),  # noqa: UP045
        (int | str, {"anyOf": [INTEGER, {"type": "string"}]}),
        (list[int], {"type": "array", "items": INTEGER}),
        (dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (datetime.date, {"type": "string", "format": "date"}),
        (Annotated[int, Field(ge=1, le=9)], {"type": "integer", "minimum": 1, "maximum": 9}),
    ],
)
def test_type_as_schema(annotation: object, expected: dict[str, object]):
    def function(x):
        return x

    function.__annotations__ = {"x": annotation}
    assert properties(function)["x"] == expected


def test_named_types_go_to_defs_without_titles():
    def draw(colour: Colour, point: Point, person: Person, node: Node): ...

    made = schema(draw)
    assert made["properties"] == {
        "colour": {"$ref": "#/$defs/Colour"},
        "point": {"$ref": "#/$defs/Point"},
        "person": {"$ref": "#/$defs/Person"},
        "node": {"$ref": "#/$defs/Node"},
    }
    assert made["$defs"]["Colour"] == {"type": "string", "enum": ["red", "blue"]}
    assert made["$defs"]["Point"]["required"] == ["x"]
    assert made["$defs"]["Person"]["properties"] == {"name": {"type": "string"}, "age": INTEGER}
    assert made["$defs"]["Node"]["properties"]["title"] == {"type": "string"}
    assert "title" not in made["$defs"]["Node"]
    assert made["$defs"]["Node"]["description"] == "A node of a tree."


def test_defaults_are_shown_unless_json_cannot_write_them():
    def paint(colour: Colour = Colour.RED, text: str = None, lock: object = threading.Lock()): ...  # noqa: RUF013  # pyright: ignore

    made = schema(paint)
    assert "required" not in made
    assert made["properties"]["colour"] == {"$ref": "#/$defs/Colour", "default": "red"}
    assert made["properties"]["text"] == {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
    assert made["properties"]["lock"] == {}


def test_pydantic_fields_as_default_and_reserved_names():
    def odd(
        x: int = Field(3, ge=1, description="three"),
        items: list[int] = Field(default_factory=list),
        schema: str = "",
        model_config: str = "",
        _private: int = 0,
    ): ...

    made = FunctionTool(odd)
    assert properties(odd)["x"] == {"type": "integer", "minimum": 1, "default": 3, "description": "three"}
    assert list(properties(odd)) == ["x", "items", "schema", "model_config", "_private"]
    # Python has no default for these two, so pydantic's is passed
    assert made.validate({"schema": "s"}) == {"x": 3, "items": [], "schema": "s"}


def google(x: int, y: int):
    """Adds.

    Args:
        x (int): The first.
        y: The second,
            on two lines.

    Returns:
        The sum.
    """


def numpy(x: int, y: int):
    """Adds.

    Parameters
    ----------
    x : int
        The first.
    y : int
        The second,
        on two lines.
    """


def rest(x: int, y: int):
    """Adds.

    :param x: The first.
    :param y: The second,
        on two lines.
    :returns: The sum.
    """


@pytest.mark.parametrize("function", [google, numpy, rest])
def test_docstring_styles(function: Callable[..., object]):
    made = FunctionTool(function)
    assert made.description == "Adds."
    assert properties(function)["x"]["description"] == "The first."
    assert properties(function)["y"]["description"] == "The second,\non two lines."


def test_description_comes_from_annotated_before_the_docstring():
    def find(
        a: Annotated[int, Field(description="field")], b: Annotated[int, "text"], c: Annotated[int, Doc("doc")], d: int
    ):
        """Finds.

        Args:
            a: no
            b: no
            c: no
            d: docstring
        """

    assert [each["description"] for each in properties(find).values()] == ["field", "text", "doc", "docstring"]


def test_without_docstring_the_name_in_words_describes():
    def get_all_names(): ...

    assert FunctionTool(get_all_names).description == "Get all names."
    assert FunctionTool(get_all_names, description="Other.").description == "Other."


def test_local_types_resolve_under_future_annotations():
    class Local(BaseModel):
        a: int

    @tool
    def inner(it: Local): ...

    class Holder:
        class Nested(BaseModel):
            b: int

        @tool
        def method(self, it: Nested, other: Local): ...

    assert "Local" in schema(inner)["$defs"]
    assert set(schema(Holder().method)["$defs"]) == {"Nested", "Local"}


def test_local_types_resolve_after_their_scope_is_gone():
    def scope() -> Callable[..., object]:
        class Local(BaseModel):
            a: int

        def late(it: Local):
            return Local

        return late

    assert "Local" in schema(scope())["$defs"]


def decorated(function: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(function)
    def wrapper(*args: object, **kwargs: object) -> object:
        return function(*args, **kwargs)

    return wrapper


def test_a_docstring_of_no_known_style_is_the_description():
    def odd(x: int):
        """Does: this

        and that -- :param
        """

    assert FunctionTool(odd).description == "Does: this\n\nand that -- :param"


def three(a: int, b: int, c: int = 3): ...


class Adder:
    """Adds two numbers."""

    def __call__(self, x: int, y: int) -> int:
        return x + y

    def method(self, x: int): ...


@pytest.mark.parametrize(
    ("function", "name", "names"),
    [
        (three, "three", ["a", "b", "c"]),
        (functools.partial(three, 1), "three", ["b", "c"]),
        (functools.partial(functools.partial(three, 1), b=2), "three", ["c"]),
        (decorated(three), "three", ["a", "b", "c"]),
        (Adder(), "adder", ["x", "y"]),
        (Adder().method, "method", ["x"]),
    ],
    ids=["function", "partial", "partial of partial", "wrapped", "callable object", "bound method"],
)
def test_signature_of_every_kind_of_callable(function: Callable[..., object], name: str, names: list[str]):
    made = FunctionTool(function)
    assert (made.name, list(properties(function))) == (name, names)


def test_a_callable_object_is_described_by_its_class():
    assert FunctionTool(Adder()).description == "Adds two numbers."


def unannotated(x): ...
def var_positional(*items: int): ...
def var_keyword(**options: int): ...
def unknown_type(x: DoesNotExist): ...  # noqa: F821  # pyright: ignore
def no_json(x: threading.Thread): ...
def no_json_schema(x: Callable[[int], int]): ...


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (unannotated, "Parameter 'x' of tool 'unannotated' has no annotation. Add one, such as x: str"),
        (var_positional, r"takes \*items.*such as items: list\[str\]"),
        (var_keyword, r"takes \*\*options.*such as options: dict\[str, str\]"),
        (unknown_type, "annotation 'DoesNotExist' of parameter 'x' .* not under `if TYPE_CHECKING`"),
        (no_json, "Parameter 'x' of tool 'no_json' has a type without a JSON form.*Thread"),
        (no_json_schema, "Parameter 'x' .* without a JSON form.*Callable"),
        (len, "'len' is a builtin without annotations. Wrap it in a function"),
        (Adder, "Adder is a class.*Pass an instance"),
        (lambda: 1, "lambda has no name"),
        (3, "3 cannot be called"),
    ],
)
def test_what_cannot_be_a_tool_says_what_to_change(function: Callable[..., object], says: str):
    with pytest.raises(ToolDefinitionError, match=says):
        tool(function)


@pytest.mark.parametrize(
    ("name", "better"), [("get weather!", "get_weather"), ("", "my_tool"), ("x" * 65, "x" * 64), ("größe", "gr_e")]
)
def test_name_that_providers_refuse_comes_with_one_they_accept(name: str, better: str):
    with pytest.raises(ToolDefinitionError, match=f"name='{better}'") as caught:
        tool(name=name)(three)
    assert caught.value.tool == name


def test_lambda_with_a_name_and_no_parameters_is_a_tool():
    toolkit = Toolkit([tool(name="answer")(lambda: 42)])
    assert toolkit.names == ("answer",)
