"""`@tool`: the function stays a function, a method stays a method, and a type checker sees both."""

from __future__ import annotations

import asyncio
import inspect
import pydoc
from functools import partial
from types import MethodType
from typing import assert_type

import pytest
from calling import result

from agentscope_rx.errors import ToolDefinitionError
from agentscope_rx.models.options import ExecutionConfig, ToolSchema
from agentscope_rx.tools import Tool, Toolkit, tool


@tool
def add(x: int, y: int = 2) -> int:
    """Adds two numbers."""
    return x + y


@tool(name="find", description="Finds.", strict=True, execution_config=ExecutionConfig(timeout=3))
async def search(query: str) -> list[str]:
    """Not this."""
    return [query]


class Counter:
    def __init__(self, start: int) -> None:
        self.value = start

    @tool
    def count(self, by: int = 1) -> int:
        """Counts on."""
        self.value += by
        return self.value

    @tool
    async def later(self, by: int) -> int:
        return self.value + by

    @tool
    @classmethod
    def kind(cls, loud: bool = False) -> str:
        return cls.__name__.upper() if loud else cls.__name__

    @classmethod
    @tool
    def kind_again(cls, loud: bool = False) -> str:
        return cls.__name__

    @tool
    @staticmethod
    def double(x: int) -> int:
        return 2 * x

    @staticmethod
    @tool
    def triple(x: int) -> int:
        return 3 * x


class Special(Counter):
    pass


def test_the_function_is_called_as_before():
    assert_type(add(1), int)
    assert add(1, y=4) == 5
    assert asyncio.run(search("q")) == ["q"]


def test_the_tool_looks_like_the_function():
    assert (add.__name__, add.__doc__, add.__module__) == ("add", "Adds two numbers.", __name__)
    assert str(inspect.signature(add)) == "(x: 'int', y: 'int' = 2) -> 'int'"
    assert "Adds two numbers." in pydoc.render_doc(add)
    assert repr(add) == "<tool add(x, y)>"


class Odd:
    """Has attributes of a tool's names."""

    def __init__(self) -> None:
        self.call = self.validate = self.schema = "mine"

    def __call__(self, x: int) -> int:
        return x


def test_an_object_s_own_attributes_do_not_get_in_the_way():
    made = tool(Odd())
    assert (made.__name__, made.name, result(made, x=3).text) == ("odd", "odd", "3")


def test_a_partial_looks_like_its_function():
    made = tool(partial(add, 1))
    assert (made.__name__, made.__doc__, made()) == ("add", "Adds two numbers.", 3)


def test_the_schema_is_what_was_declared():
    assert isinstance(search, Tool)
    assert search.schema == ToolSchema("find", "Finds.", search.parameters, True)
    assert search.execution_config == ExecutionConfig(timeout=3)
    assert add.strict is None


def test_a_method_is_bound_to_its_object():
    counter, other = Counter(10), Counter(20)
    assert counter.count(by=5) == 15
    assert result(counter.count, by=1).text == "16"
    assert result(other.count).text == "21"
    assert result(counter.later, by=4).text == "20"
    assert repr(counter.count) == "<tool count(by)>"
    assert str(inspect.signature(counter.count)) == "(by: 'int' = 1) -> 'int'"
    assert not Counter.count.bound
    assert Counter.count(counter, 1) == 17


def test_class_and_static_methods_in_either_order():
    toolkit = Toolkit([Special(0)])
    assert toolkit.names == ("count", "later", "kind", "kind_again", "double", "triple")
    assert result(Special(0).kind, loud=True).text == "SPECIAL"
    assert result(Special.kind).text == "Special"
    assert result(Special(0).kind_again).text == "Special"
    assert result(Special(0).double, x=2).text == "4"
    assert result(Counter.triple, x=2).text == "6"
    # pyright does not bind a class method that is decorated again
    assert (Special.kind(), Special(0).double(4)) == ("Special", 8)  # pyright: ignore[reportCallIssue]


def test_what_classmethod_makes_of_a_tool_from_python_3_13_on():
    bound = MethodType(vars(Counter)["kind_again"].__func__, Special)
    assert result(bound).text == "Special"


def test_a_tool_that_is_a_class_attribute_is_no_method():
    class Holder:
        adder = add

    assert Holder().adder is add


def test_a_tool_can_be_made_anew_under_another_name():
    plus = tool(name="plus")(add)
    assert (plus.name, add.name, plus(1)) == ("plus", "add", 3)
    bound = tool(name="tick")(Counter(1).count)
    assert result(bound, by=1).text == "2"


def test_an_unbound_method_is_no_tool_for_a_toolkit():
    with pytest.raises(ToolDefinitionError) as caught:
        Toolkit([Counter.count])
    assert caught.value.tool == "count"


async def typing_of_the_decorator(counter: Counter) -> None:
    """Never called: a type checker reads it."""
    assert_type(add(1, y=2), int)
    assert_type(await search("x"), list[str])
    assert_type(counter.count(by=3), int)
    assert_type(await counter.later(3), int)
    assert_type(Counter.count(counter, 3), int)
    assert_type(Counter.triple(3), int)
    assert_type(counter.triple(3), int)
    add("one")  # pyright: ignore[reportArgumentType]
    counter.count("one")  # pyright: ignore[reportArgumentType]
    counter.triple()  # pyright: ignore[reportCallIssue]
