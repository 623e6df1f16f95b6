"""Tools that others describe: a schema and a handler, dicts of providers, methods of an object, names of any kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Annotated, Any

import pytest
from calling import use

from agentscope_rx import Inject, ReActAgent, RuntimeContext, tool
from agentscope_rx.errors import ConfigurationError, DuplicateToolError, ToolDefinitionError
from agentscope_rx.messages import ToolResultBlock, ToolResultKind
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.reactive import Flow, just
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from agentscope_rx.tools import ExternalTool, Tool, ToolContext, Toolkit, prefixed, schema_of, tool_from_schema

PARAMETERS = {
    "type": "object",
    "properties": {"base": {"type": "number"}, "exp-onent": {"type": "integer"}},
    "required": ["base"],
}
SCHEMA = ToolSchema("math.power", "Power.", PARAMETERS)
OPENAI = {"type": "function", "function": {"name": "math.power", "description": "Power.", "parameters": PARAMETERS}}


def result(toolkit: Toolkit, name: str, /, **input: object) -> ToolResultBlock:
    block = run_virtual(toolkit.call(use(name, **input)))
    assert isinstance(block, ToolResultBlock)
    return block


def power(**arguments: Any) -> Any:
    return arguments["base"] ** arguments.get("exp-onent", 2)


@pytest.mark.parametrize(
    "described",
    [
        SCHEMA,
        OPENAI,
        {"type": "function", **OPENAI["function"]},  # pyright: ignore
        {"name": "math.power", "description": "Power.", "input_schema": PARAMETERS},
        {"name": "math.power", "description": "Power.", "inputSchema": PARAMETERS},
    ],
)
def test_a_schema_and_a_handler_are_a_tool(described: Any):
    made = tool_from_schema(described, power)
    assert made.schema == SCHEMA == schema_of(described)
    toolkit = Toolkit([made])
    assert result(toolkit, "math.power", **{"base": 3, "exp-onent": 3}).text == "27"
    assert result(toolkit, "math.power", base=3).text == "9"
    assert "- base: is required" in result(toolkit, "math.power").text
    assert "not of type 'integer'" in result(toolkit, "math.power", **{"base": 1, "exp-onent": 1.5}).text


def test_handlers_of_all_kinds_take_what_is_injected():
    async def waits(base: float, who: Annotated[str, Inject("user")], context: ToolContext, more=3) -> str:
        return f"{base} {who} {context.call.id} {more}"

    async def streams(**given: Any) -> AsyncIterator[str]:
        yield "one"
        yield f"{given}"

    schema = ToolSchema("x", "", {"type": "object", "properties": {"base": {"type": "number"}}, "required": ["base"]})
    context = ToolContext(use("x"), runtime=RuntimeContext(user="Ada"))
    toolkit = Toolkit([tool_from_schema(schema, waits)])
    assert run_virtual(toolkit.call(use("x", base=1), context=context)).text == "1 Ada 1 3"  # pyright: ignore
    assert result(Toolkit([tool_from_schema(schema, streams)]), "x", base=1).text == "{'base': 1}"


def test_what_is_bound_is_not_the_models():
    made = tool_from_schema(ToolSchema("x", "", {"type": "object", "properties": {"a": {}}}), partial(dict, key="mine"))
    assert result(Toolkit([made]), "x", a=1, key="theirs").text == '{"key":"mine","a":1}'


@pytest.mark.parametrize(
    ("handler", "says"),
    [
        (lambda base: 1, "'exp-onent' of tool 'math.power' is in the schema, but the handler does not take it"),
        (lambda base, other, **more: 1, "'other' of tool 'math.power' is required by the handler"),
        (5, "must be a function, not 5"),
        (tool(name="x")(lambda: 1), "is a tool already"),
    ],
)
def test_a_handler_that_could_not_be_called_is_refused(handler: Any, says: str):
    with pytest.raises(ToolDefinitionError, match=says):
        tool_from_schema(SCHEMA, handler)


@pytest.mark.parametrize(
    ("described", "says"),
    [
        ({}, "does not describe a tool"),
        ({"type": "web_search"}, "does not describe a tool"),
        ({"type": "function", "function": "x"}, "does not describe a tool"),
        ({"name": "x", "description": 5}, "description of tool 'x' must be text"),
        ({"name": "x", "parameters": []}, "parameters of tool 'x' must be a JSON schema"),
        ({"name": "x", "parameters": {"type": "dict"}}, "must be a JSON schema of type object"),
        ({"name": "x", "parameters": {"type": "object", "properties": {"a": {"type": "float"}}}}, "cannot be checked"),
        ({"name": ""}, "cannot name a tool"),
    ],
)
def test_a_dict_that_describes_no_tool_is_refused(described: Any, says: str):
    with pytest.raises(ToolDefinitionError, match=says):
        Toolkit([described])


def test_schemas_among_an_agents_tools_are_run_by_the_caller():
    pick = ToolSchema("pick", "Picks.", {"type": "object", "properties": {"n": {"type": "integer"}}})
    friday = ReActAgent("Friday", ScriptedModel(call("pick", n=None)), tools=[pick, OPENAI])
    assert friday.toolkit.names == ("pick", "math.power")
    (placeholder,) = friday.call("x").run().tool_results
    assert placeholder.kind is ToolResultKind.SUSPENDED


def test_a_suspended_call_hands_out_the_checked_arguments():
    toolkit = Toolkit()
    toolkit.register(ExternalTool("pick", "", PARAMETERS), presets={"exp-onent": 7})
    toolkit.register_schema(OPENAI)
    hidden = result(toolkit, "pick", **{"base": 1, "exp-onent": 9})
    assert hidden.metadata == {"arguments": {"base": 1}}
    assert result(toolkit, "math.power", **{"base": 1, "exp-onent": None}).metadata == {"arguments": {"base": 1}}


class Typed(Tool):
    name = "typed"
    parameters: Mapping[str, object] = PARAMETERS

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        return just(dict(arguments))


def test_the_parameters_of_a_subclass_are_checked():
    toolkit = Toolkit([Typed()])
    assert result(toolkit, "typed", base=1).text == '{"base":1}'
    assert result(toolkit, "typed", base=1, **{"exp-onent": None}).text == '{"base":1}'
    assert "base: 'x' is not of type 'number'" in result(toolkit, "typed", base="x").text

    class Broken(Typed):
        parameters = {"type": "object", "properties": {"a": {"type": "int"}}}

    with pytest.raises(ToolDefinitionError, match="parameters of tool 'typed' cannot be checked"):
        Toolkit([Broken()])


def test_foreign_names_may_be_prefixed_and_numbered():
    toolkit = Toolkit(prefixed("my ", tool_from_schema(SCHEMA, power)))
    toolkit.register(toolkit.get("my math.power"), on_conflict="rename")
    assert toolkit.names == ("my math.power", "my math.power_2")
    with pytest.raises(ToolDefinitionError, match="letters"):
        Toolkit().register(Typed(), name="a.b")


class Service:
    def find(self, name: str) -> str:
        """Find."""
        return f"found {name}"

    @classmethod
    def count(cls) -> int:
        return 3

    @staticmethod
    def twice(n: int) -> int:
        return 2 * n

    @tool(name="marked")
    def mark(self, n: int) -> str:
        return f"marked {n}"

    @property
    def secret(self) -> str:
        raise AssertionError("not touched")

    def _hidden(self) -> None: ...

    def untyped(self, x):
        return x


class More(Service):
    def find(self, name: str) -> str:
        """Find better."""
        return f"better {name}"


def test_the_methods_of_an_object():
    toolkit = Toolkit()
    made = toolkit.register_methods(More(), disable=["untyped"], prefix="s_", presets={"twice": {"n": 4}})
    assert [each.name for each in made] == ["s_find", "s_count", "s_twice", "s_marked"]
    assert result(toolkit, "s_find", name="x").text == "better x"
    assert [result(toolkit, name).text for name in ("s_count", "s_twice")] == ["3", "8"]
    assert result(toolkit, "s_marked", n=1).text == "marked 1"
    assert Toolkit().register_methods(Service(), enable=["find"])[0].description == "Find."


def test_methods_that_cannot_be_tools():
    toolkit = Toolkit()
    with pytest.raises(ToolDefinitionError, match="Parameter 'x' of tool 'untyped' has no annotation"):
        toolkit.register_methods(Service())
    with pytest.raises(ConfigurationError, match="no method 'lost' here"):
        toolkit.register_methods(Service(), enable=["lost"])
    for wrong in (Service, object(), 5):
        with pytest.raises(ToolDefinitionError):
            toolkit.register_methods(wrong)
    toolkit.register_methods(Service(), enable=["find"])
    with pytest.raises(DuplicateToolError):
        toolkit.register_methods(Service(), enable=["count", "find"])
    assert toolkit.names == ("find",)
