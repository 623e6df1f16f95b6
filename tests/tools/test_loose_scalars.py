"""Loose scalars: one rule for function tools, JSON schemas and models, at every depth; nulls that say nothing, too."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal, cast

import pytest
from calling import use
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import Tool as Listed
from pydantic import BaseModel, ConfigDict, Field

from agentscope_rx import Tool, Toolkit, tool
from agentscope_rx.messages import ToolResultBlock, ToolResultKind
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.reactive import Flow, just
from agentscope_rx.tools import ExternalTool, InvalidArgumentsError, tool_from_schema
from agentscope_rx.tools.function_tool import FunctionTool
from agentscope_rx.tools.mcp.tool import McpTool

TYPES = {"integer": int, "number": float, "boolean": bool, "string": str}
REFUSED = object()


class ByClass(Tool):
    """A tool that says its schema itself."""

    name = "by_class"

    def __init__(self, parameters: Mapping[str, object]) -> None:
        self.parameters = parameters

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        return just("ok")


def schema(kind: str, *, nested: bool) -> dict[str, Any]:
    inner: dict[str, Any] = {"type": "object", "properties": {"x": {"type": kind}}, "required": ["x"]}
    return {"type": "object", "properties": {"of": {"type": "array", "items": inner}}} if nested else inner


def forms(kind: str, *, nested: bool) -> list[Tool]:
    """Tools of one parameter of this type, of all kinds; `nested`: in objects in a list."""
    of = TYPES[kind]
    if nested:

        class Inner(BaseModel):
            x: of  # pyright: ignore[reportInvalidTypeForm]

        def function(of: Any) -> str:
            return "ok"

        function.__annotations__["of"] = list[Inner]
    else:

        def function(x: Any) -> str:
            return "ok"

        function.__annotations__["x"] = of
    described = schema(kind, nested=nested)

    listed = Listed(name="remote", input_schema=described)
    return [
        FunctionTool(function),
        tool_from_schema(ToolSchema("foreign", "", described), lambda **given: "ok"),
        ByClass(described),
        ExternalTool("external", "", described),
        McpTool(cast("Any", None), listed),
    ]


def outcome(tool: Tool, value: object, *, nested: bool) -> object:
    try:
        valid = tool.validate({"of": [{"x": value}]} if nested else {"x": value})
    except InvalidArgumentsError:
        return REFUSED
    if not nested:
        return valid["x"]
    item: Any = valid["of"][0]  # pyright: ignore
    return item.x if isinstance(item, BaseModel) else item["x"]


VALUES = [
    *(5, 5.0, 5.5, "5", "5.0", "5.5", " 5 ", "-7", "1e3", "five", "", "nan", "NaN", "inf", "-Infinity", "1e999", "0x5"),
    *(
        True,
        False,
        0,
        1,
        2,
        0.0,
        1.0,
        "true",
        "True",
        "FALSE",
        "yes",
        "off",
        "1",
        "0",
        "2",
        "maybe",
        [],
        {},
        [1],
        2**70,
    ),
]
EXPECTED: dict[str, list[tuple[object, object]]] = {
    "integer": [(5, 5), (5.0, 5), ("5", 5), ("5.0", 5), (5.5, REFUSED), ("5.5", REFUSED), (True, REFUSED)],
    "number": [(5.5, 5.5), ("5.5", 5.5), ("1e3", 1000.0), (True, REFUSED), ("nan", REFUSED), ("1e999", REFUSED)],
    "boolean": [(True, True), (0, False), (1, True), ("true", True), ("no", False), (2, REFUSED), ("maybe", REFUSED)],
    "string": [("5", "5"), (5, REFUSED), (True, REFUSED)],
}


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("kind", TYPES)
def test_every_kind_of_tool_reads_scalars_by_the_table(kind: str, nested: bool):
    for made in forms(kind, nested=nested):
        for value, wanted in EXPECTED[kind]:
            found = outcome(made, value, nested=nested)
            assert (found, type(found)) == (wanted, type(wanted)), (made, value)


@given(
    kind=st.sampled_from(list(TYPES)),
    nested=st.booleans(),
    value=st.one_of(
        st.sampled_from(VALUES),
        st.booleans(),
        st.integers(-(10**6), 10**6),
        st.floats(-1e6, 1e6),
        st.integers(-99, 99).map(str),
        st.floats(-99, 99).map(str),
        st.text("0123456789.-+e_ tfn", max_size=5),
    ),
)
def test_law_all_kinds_of_tools_read_alike(kind: str, nested: bool, value: object):
    first, *others = [outcome(each, value, nested=nested) for each in forms(kind, nested=nested)]
    for other in others:
        assert other == first and isinstance(other, bool) == isinstance(first, bool)
        if kind == "integer":
            assert type(other) is type(first)


def test_what_fits_stays_as_it_is():
    either = {"type": "object", "properties": {
        "a": {"type": ["integer", "string"]}, "b": {"anyOf": [{"type": "integer"}, {"type": "number"}]},
        "c": {}, "d": {"enum": ["5", 1]}, "e": {"type": "integer"},
        "f": {"allOf": [{"type": "integer"}, {"minimum": 1}]},
    }}  # fmt: skip
    made = ByClass(either)
    given = {"a": "5", "b": 5.0, "c": "5", "d": "5"}
    assert made.validate({**given, "e": "5", "f": "7"}) == {**given, "e": 5, "f": 7}
    valid = made.validate({**given, "e": 5.0})
    assert type(valid["e"]) is int and type(valid["b"]) is float
    with pytest.raises(InvalidArgumentsError):
        made.validate({"d": "1"})

    def same(a: int | str, b: int | float, d: Literal["5", 1] = 1) -> str:
        return "ok"

    function = FunctionTool(same)
    assert function.validate({"a": "5", "b": 5.0, "d": "5"}) == {"a": "5", "b": 5.0, "d": "5"}
    for wrong in ({"a": True, "b": 1}, {"a": 1, "b": True}, {"a": 1, "b": 1, "d": True}, {"a": 1, "b": 1, "d": "1"}):
        with pytest.raises(InvalidArgumentsError):
            function.validate(wrong)


def test_a_strict_type_stays_strict_beneath_models_too():
    class Strict(BaseModel):
        model_config = ConfigDict(strict=True)
        days: int

    class Loose(BaseModel):
        days: int

    def f(
        loose: Loose | None = None,
        strict: Strict | None = None,
        exact: Annotated[int, Field(strict=True)] = 1,
        many: dict[str, list[int]] | None = None,
    ) -> str:
        return "ok"

    made = FunctionTool(f)
    assert made.validate({"loose": {"days": "3"}})["loose"] == Loose(days=3)
    for wrong in ({"strict": {"days": "3"}}, {"exact": "1"}):
        with pytest.raises(InvalidArgumentsError):
            made.validate(wrong)
    with pytest.raises(InvalidArgumentsError) as error:
        made.validate({"loose": {"days": True}, "many": {"a": [1, True]}})
    assert error.value.problems == (
        "loose.days: Input should be an integer, not a truth value; given true",
        "many.a[1]: Input should be an integer, not a truth value; given true",
    )


def test_the_model_is_told():
    def f(days: int, price: float = 1.0) -> str:
        return "ok"

    block = Toolkit([f]).call(use("f", days=True, price="nan")).run()
    assert isinstance(block, ToolResultBlock) and block.kind is ToolResultKind.INVALID_ARGUMENTS
    assert "days: Input should be an integer, not a truth value; given true" in block.text
    assert "price: Input should be a number that is finite; given 'nan'" in block.text


def test_unpacked_and_extended_tools_keep_the_rule():
    class Request(BaseModel):
        days: int

    @tool(unpack=True)
    def book(request: Request) -> str:
        return f"{request.days}"

    def plain() -> str:
        return "ok"

    extended = Toolkit()
    extended.register(plain, extend=Request)
    for toolkit, name in ((Toolkit([book]), "book"), (extended, "plain")):
        good, bad = toolkit.call(use(name, days="5")).run(), toolkit.call(use(name, days=True)).run()
        assert isinstance(good, ToolResultBlock) and isinstance(bad, ToolResultBlock)
        assert good.kind is None and bad.kind is ToolResultKind.INVALID_ARGUMENTS


# --- nulls ----------------------------------------------------------------------------------------------------------

NULLS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"type": "string"},
        "deep": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"x": {"type": "integer"}, "y": {"type": ["string", "null"]}, "z": {"type": "integer"}},
                "required": ["z"],
            },
        },
    },
}


@pytest.mark.parametrize("made", [ByClass(NULLS), ExternalTool("e", "", NULLS), tool_from_schema(
    ToolSchema("f", "", NULLS), lambda **given: "ok")], ids=["class", "external", "handler"])  # fmt: skip
def test_a_null_that_says_nothing_is_not_given_at_every_depth(made: Tool):
    many = [{"x": None, "y": None, "z": "3"} for _ in range(200)]
    assert made.validate({"a": None, "deep": many}) == {"deep": [{"y": None, "z": 3}] * 200}
    with pytest.raises(InvalidArgumentsError, match=r"deep\[0\].z: is required and was not given"):
        made.validate({"deep": [{"z": None}]})
    with pytest.raises(InvalidArgumentsError):
        made.validate({"deep": [None]})


def test_reading_a_hostile_schema_ends():
    doubling: dict[str, Any] = {f"r{n}": {"anyOf": [{"$ref": f"#/$defs/r{n + 1}"}] * 2} for n in range(10)}
    doubling["r10"] = {"type": "integer"}
    made = ByClass({"type": "object", "properties": {"x": {"type": "array", "items": {"$ref": "#/$defs/r0"}}},
                    "$defs": doubling})  # fmt: skip
    begun = time.thread_time()
    for each in ("5", None, "x", 5.0):
        with suppress(InvalidArgumentsError):
            made.validate({"x": [each] * 5_000, "y": "5"})
    assert time.thread_time() - begun < 5
