"""`RuntimeContext(tool_arguments=...)`: over the model's arguments, under fixed presets, for one run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import GenerateReason, ReActAgent, RuntimeContext, ToolContext, Toolkit, tool
from agentscope_rx.agent import AgentTool
from agentscope_rx.errors import InvalidInputError
from agentscope_rx.events import Event
from agentscope_rx.messages import ToolResultKind, ToolUseBlock
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.reactive import concat_map
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from agentscope_rx.tools import tool_from_schema

SEEN: list[dict[str, Any]] = []


@tool
def search(query: str, limit: int = 10, index: str = "all") -> str:
    """Search."""
    SEEN.append({"query": query, "limit": limit, "index": index})
    return "found"


@pytest.fixture(autouse=True)
def fresh() -> None:
    SEEN.clear()


def context(**layers: Mapping[str, object]) -> RuntimeContext:
    return RuntimeContext(tool_arguments=layers)


def friday(*turns: Any, tools: Any = (search,), **options: Any) -> ReActAgent:
    return ReActAgent("Friday", ScriptedModel(*turns), tools=list(tools), **options)


@given(
    sent=st.fixed_dictionaries({}, optional={"query": st.just("m"), "limit": st.just(1), "index": st.just("m")}),
    layer=st.fixed_dictionaries({}, optional={"query": st.just("c"), "limit": st.just(2), "index": st.just("c")}),
    fixed=st.fixed_dictionaries({}, optional={"query": st.just("p"), "limit": st.just(3), "index": st.just("p")}),
)
def test_law_presets_over_the_callers_over_the_models(
    sent: dict[str, Any], layer: dict[str, Any], fixed: dict[str, Any]
):
    SEEN.clear()
    toolkit = Toolkit()
    toolkit.register(search, presets=fixed)
    agent = ReActAgent("Friday", ScriptedModel([call("search", **sent)], "done"), toolkit=toolkit)
    agent.call("hi", context=context(search=layer)).run()
    wanted = {"limit": 10, "index": "all", **sent, **layer, **fixed}
    assert ([wanted] if "query" in wanted else []) == SEEN


def test_it_is_of_one_run_and_in_no_event_or_message():
    agent = friday([call("search", query="tea", limit=99)], "done", [call("search", query="tea")], "done")
    events: list[Event] = []

    def note(event: Event) -> Event:
        events.append(event)
        return event

    agent.stream("hi", context=context(search={"limit": 3, "index": "s3cret"})).pipe(concat_map(note)).run()
    agent.call("hi").run()
    assert [each["limit"] for each in SEEN] == [3, 10]
    assert events and not any("s3cret" in str(each.to_json()) for each in events)
    assert "s3cret" not in str(agent.memory.messages)  # pyright: ignore


def test_the_tool_context_shows_what_the_model_sent():
    @tool
    def look(context: ToolContext, limit: int = 1) -> str:
        return f"{limit} {dict(context.call.input)}"

    agent = friday([call("look", limit=9)], "done", tools=[look])
    agent.call("hi", context=context(look={"limit": "3"})).run()
    (told,) = [each for message in agent.memory.messages for each in message.tool_results]  # pyright: ignore
    assert told.text == "3 {'limit': 9}", "and a value is read as the model's are"


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        ({"serch": {"query": "x"}}, "for a tool 'serch'.*Did you mean 'search'"),
        ({"zzz": {}}, "for a tool 'zzz'.*There are: search"),
        ({"search": {"limt": 3}}, "do not fit tool 'search': limt: is not an argument of this tool; did you mean"),
        ({"search": {"limit": "three"}}, "do not fit tool 'search': limit: Input should be a valid integer"),
        ({"search": {"limit": True}}, "limit: Input should be an integer, not a truth value"),
        ({"foreign": {"x": "five"}}, "do not fit tool 'foreign': x: 'five' is not of type 'integer'"),
    ],
)
def test_what_fits_no_tool_is_an_error_of_the_call(layers: Any, said: str):
    foreign = tool_from_schema(
        ToolSchema("foreign", "", {"type": "object", "properties": {"x": {"type": "integer"}}}), lambda **given: "ok"
    )
    tools = [search, foreign] if "foreign" in layers else [search]
    with pytest.raises(InvalidInputError, match=said):
        friday("done", tools=tools).call("hi", context=RuntimeContext(tool_arguments=layers)).run()


@pytest.mark.parametrize("layers", [{"search": 3}, [1], {1: {}}, {"search": {1: 2}}, "search"])
def test_what_is_no_layer_is_refused_where_it_is_given(layers: Any):
    with pytest.raises(InvalidInputError, match="arguments by tool name"):
        RuntimeContext(tool_arguments=layers)


def test_an_argument_for_a_changed_tool_is_an_unquoted_error():
    toolkit = Toolkit([search])
    block = toolkit.call(
        ToolUseBlock("1", "search", {"query": "x"}),
        context=ToolContext(ToolUseBlock("1", "search"), runtime=context(search={"gone": "s3cret"})),
    ).run()
    assert block.kind is ToolResultKind.FAILED  # pyright: ignore
    assert "has given for 'gone'" in str(block) and "s3cret" not in str(block)


def test_what_the_model_does_wrong_is_still_its_own():
    agent = friday([call("search", quary="x")], "done")
    agent.call("hi", context=context(search={"limit": 3})).run()
    (told,) = [each for message in agent.memory.messages for each in message.tool_results]  # pyright: ignore
    assert told.kind is ToolResultKind.INVALID_ARGUMENTS and "quary" in told.text


def test_approval_is_asked_about_what_will_run():
    @tool(requires_approval=lambda given: given["amount"] > 100)
    def pay(amount: int) -> str:
        return f"paid {amount}"

    asked: list[Any] = []

    def policy(block: ToolUseBlock) -> None:
        asked.append(block.input["amount"])

    toolkit = Toolkit([pay], approval=policy)
    agent = ReActAgent("Friday", ScriptedModel([call("pay", amount=1)], "done"), toolkit=toolkit)
    reply = agent.call("hi", context=context(pay={"amount": 500})).run()
    assert reply.generate_reason is GenerateReason.APPROVAL_REQUIRED and asked == [500]


def test_a_call_that_is_run_elsewhere_is_to_be_run_with_them():
    schema = ToolSchema("pick", "", {"type": "object", "properties": {"folder": {"type": "string"}}})
    agent = friday([call("pick", folder="a")], tools=[schema])
    reply = agent.call("hi", context=context(pick={"folder": "b"})).run()
    (placeholder,) = reply.tool_results
    assert placeholder.metadata["arguments"] == {"folder": "b"}


def test_sub_agents_have_them_too():
    inner = friday([call("search", query="tea")], "done", [call("search", query="tea")], "done")
    outer = ReActAgent("Boss", ScriptedModel([call("call_friday", message="go")], "done"), tools=[inner.as_tool()])
    run_virtual(outer.call("hi", context=context(search={"limit": 4})))
    assert SEEN[-1]["limit"] == 4

    boss = ReActAgent("Boss", ScriptedModel("done"), tools=[inner.as_tool()])
    with pytest.raises(InvalidInputError, match="neither the agent nor its sub-agents"):
        boss.call("hi", context=context(find={})).run()

    late = AgentTool(lambda: inner, name="ask")
    unknown = ReActAgent("Boss", ScriptedModel([call("ask", message="go")], "done"), tools=[late])
    run_virtual(unknown.call("hi", context=context(search={"limit": 5})))
    assert SEEN[-1]["limit"] == 5


def test_tools_of_inactive_groups_count_as_known():
    toolkit = Toolkit()
    toolkit.create_tool_group("more", "More.")
    toolkit.register(search, group="more")
    agent = ReActAgent("Friday", ScriptedModel("done"), toolkit=toolkit)
    assert agent.call("hi", context=context(search={"limit": 1})).run().text == "done"
