"""What `OllamaChatModel` sends is what the official SDK puts on the wire for the same conversation.

Three things are the SDK's own and left out of the comparison: it sends `tools: []` where there are none and drops
empty texts, which says the same; and it knows no ids of calls, which newer servers do. What it drops of a tool's schema
(all but type, items, description and enum) has a test of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from agentscope_rx.messages import (
    Base64Source,
    ImageBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    URLSource,
)
from agentscope_rx.models import GenerateOptions, OllamaChatModel, ToolChoice, ToolSchema
from tests.models.conftest import Asked, Loopback, loopback

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "Which."}},
    "required": ["city"],
}
WEATHER = ToolSchema("weather", "The weather.", CITY)
CLOCK = ToolSchema("clock", "The time.", {"type": "object", "properties": {}})
WIRE_WEATHER = {"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": CITY}}
WIRE_CLOCK = {
    "type": "function",
    "function": {"name": "clock", "description": "The time.", "parameters": {"type": "object", "properties": {}}},
}
CALL = ToolUseBlock("c1", "weather", {"city": "北京"})
WIRE_CALL = {"function": {"name": "weather", "arguments": {"city": "北京"}}}
TOLD = {"role": "tool", "tool_name": "weather", "content": "sunny"}
PNG = Base64Source("image/png", "iVBORw==")
SHAPE = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}
HI = [Msg.user("hi")]
WIRE_HI = [{"role": "user", "content": "hi"}]


def made(*messages: Msg, **given: Any) -> dict[str, Any]:
    return {"messages": list(messages) or HI, **given}


def sent(messages: list[Any] | None = None, **given: Any) -> dict[str, Any]:
    return {"messages": messages or WIRE_HI, **given}


def options(**given: Any) -> dict[str, Any]:
    return {"options": GenerateOptions(**given)}


def extra(**given: Any) -> dict[str, Any]:
    return options(additional_body_params=given)


def said(role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


class Case(NamedTuple):
    ours: dict[str, Any]
    theirs: dict[str, Any]


CASES: dict[str, Case] = {
    "a word": Case(made(), sent()),
    "a word, as a stream": Case(made(stream=True), sent(stream=True)),
    "system and turns": Case(
        made(Msg.system("be kind"), Msg.user("a"), Msg.assistant("b"), Msg.user("c")),
        sent([said("system", "be kind"), said("user", "a"), said("assistant", "b"), said("user", "c")]),
    ),
    "thinking sent back": Case(
        made(Msg.user("a"), Msg.assistant([ThinkingBlock("hm"), TextBlock("b")]), Msg.user("c")),
        sent([said("user", "a"), said("assistant", "b", thinking="hm"), said("user", "c")]),
    ),
    "sampling": Case(
        made(**options(temperature=0.1, top_p=0.5, top_k=7, seed=4)),
        sent(options={"temperature": 0.1, "top_p": 0.5, "top_k": 7, "seed": 4}),
    ),
    "at most so many tokens": Case(made(**options(max_tokens=9)), sent(options={"num_predict": 9})),
    "penalties": Case(
        made(**options(presence_penalty=1.0, frequency_penalty=0.5)),
        sent(options={"presence_penalty": 1.0, "frequency_penalty": 0.5}),
    ),
    "stop": Case(made(**options(stop=["a", "b"])), sent(options={"stop": ["a", "b"]})),
    "the size of the context": Case(made(**extra(num_ctx=8192)), sent(options={"num_ctx": 8192})),
    "options by their own name": Case(
        made(**options(temperature=0.1, additional_body_params={"options": {"num_ctx": 1, "min_p": 0.1}})),
        sent(options={"temperature": 0.1, "num_ctx": 1, "min_p": 0.1}),
    ),
    "an option over another": Case(
        made(**options(temperature=0.1, additional_body_params={"temperature": 0.9, "num_gpu": 1})),
        sent(options={"temperature": 0.9, "num_gpu": 1}),
    ),
    "tools": Case(made(tools=[WEATHER, CLOCK]), sent(tools=[WIRE_WEATHER, WIRE_CLOCK])),
    "tool choice auto": Case(
        made(tools=[WEATHER], **options(tool_choice=ToolChoice("auto"))), sent(tools=[WIRE_WEATHER])
    ),
    "tool choice none": Case(made(tools=[WEATHER], **options(tool_choice=ToolChoice("none"))), sent()),
    "parallel calls": Case(made(tools=[WEATHER], **options(parallel_tool_calls=True)), sent(tools=[WIRE_WEATHER])),
    "a call and its result": Case(
        made(Msg.user("a"), Msg.assistant([CALL]), Msg.tool(ToolResultBlock.of(CALL, "sunny")), tools=[WEATHER]),
        sent([said("user", "a"), said("assistant", "", tool_calls=[WIRE_CALL]), TOLD], tools=[WIRE_WEATHER]),
    ),
    "words, thoughts and two calls": Case(
        made(
            Msg.user("a"),
            Msg.assistant([ThinkingBlock("hm"), TextBlock("let me see"), CALL, ToolUseBlock("c2", "clock", {"x": 1})]),
            Msg.tool([ToolResultBlock.of(CALL, "sunny"), ToolResultBlock("c2", "clock", "noon")]),
            Msg.user("thanks"),
        ),
        sent(
            [
                said("user", "a"),
                said(
                    "assistant",
                    "let me see",
                    thinking="hm",
                    tool_calls=[WIRE_CALL, {"function": {"name": "clock", "arguments": {"x": 1}}}],
                ),
                TOLD,
                {"role": "tool", "tool_name": "clock", "content": "noon"},
                said("user", "thanks"),
            ]
        ),
    ),
    "json": Case(made(**options(response_format={"type": "json_object"})), sent(format="json")),
    "a shape": Case(
        made(**options(response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": SHAPE}})),
        sent(format=SHAPE),
    ),
    "thinking on": Case(made(think=True), sent(think=True)),
    "thinking off": Case(made(think=False), sent(think=False)),
    "thinking a little": Case(made(think="low"), sent(think="low")),
    "effort for one call": Case(made(think=True, **options(reasoning_effort="high")), sent(think="high")),
    "no effort for one call": Case(made(think=True, **options(reasoning_effort="none")), sent(think=False)),
    "kept for ten minutes": Case(made(keep_alive="10m"), sent(keep_alive="10m")),
    "kept for ever": Case(made(keep_alive=-1), sent(keep_alive=-1)),
    "unloaded at once": Case(made(keep_alive=0), sent(keep_alive=0)),
    "a picture": Case(
        made(Msg.user([TextBlock("what?"), ImageBlock(PNG)])), sent([said("user", "what?", images=["iVBORw=="])])
    ),
    "pictures without words": Case(
        made(Msg.user([ImageBlock(PNG), ImageBlock(URLSource("data:image/png;base64,iVBORw=="))])),
        sent([said("user", "", images=["iVBORw==", "iVBORw=="])]),
    ),
    "logprobs": Case(made(**extra(logprobs=True, top_logprobs=3)), sent(logprobs=True, top_logprobs=3)),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Loopback]:
    async def answer(reply: Any) -> None:
        reply.json(200, {"model": "m", "message": {"role": "assistant", "content": "ok"}, "done": True})

    with loopback(answer) as server:
        yield server


@pytest.fixture(scope="module")
def sdk(server: Loopback) -> Iterator[Callable[[dict[str, Any]], Asked]]:
    """Runs a conversation through the SDK and gives what the server read."""
    ollama = pytest.importorskip("ollama")

    def run(given: dict[str, Any]) -> Asked:
        answer = client.chat(model="m", **given)
        if given.get("stream"):
            assert list(answer)
        return server.asked[-1]

    with ollama.Client(host=server.url.removesuffix("/v1"), headers={"authorization": "Bearer k"}) as client:
        yield run


def ours(case: Case, server: Loopback) -> Any:
    given = {"stream": False, **case.ours}
    messages, tools = given.pop("messages"), given.pop("tools", ())
    asked = given.pop("options", GenerateOptions())
    model = OllamaChatModel("m", base_url=server.url.removesuffix("/v1"), api_key="k", **given)
    return model.exchange(messages, tools, asked).request


def common(body: dict[str, Any]) -> dict[str, Any]:
    """What both can say."""
    body = {name: value for name, value in body.items() if not (name == "tools" and value == [])}
    for message in body["messages"]:
        message.pop("tool_call_id", None)
        if not message.get("content"):
            message.pop("content", None)
        for call in message.get("tool_calls", ()):
            call.pop("id", None)
    return body


@pytest.mark.parametrize("name", CASES)
def test_the_body_is_that_of_the_official_sdk(
    name: str, sdk: Callable[[dict[str, Any]], Asked], server: Loopback
) -> None:
    case = CASES[name]
    theirs = sdk(case.theirs)
    request = ours(case, server)
    assert common(json.loads(request.body)) == common(theirs.body)
    assert request.url.endswith(theirs.target)
    assert request.headers["authorization"] == theirs.headers["authorization"]


def test_a_schema_goes_out_whole(sdk: Callable[[dict[str, Any]], Asked], server: Loopback) -> None:
    city = {"type": "string", "minLength": 2, "default": "Bern"}
    schema = {"type": "object", "properties": {"city": city}, "required": []}
    tool = {"type": "function", "function": {"name": "f", "description": "d", "parameters": schema}}
    theirs = sdk({"messages": WIRE_HI, "tools": [tool]}).body["tools"][0]
    mine = json.loads(ours(Case(made(tools=[ToolSchema("f", "d", schema)]), {}), server).body)["tools"][0]
    assert mine == tool
    assert theirs["function"]["parameters"]["properties"] == {"city": {"type": "string"}}


def test_calls_and_results_name_each_other_by_id(server: Loopback) -> None:
    case = Case(made(Msg.assistant([CALL]), Msg.tool(ToolResultBlock.of(CALL, "sunny"))), {})
    call, result = json.loads(ours(case, server).body)["messages"]
    assert call["tool_calls"][0]["id"] == result["tool_call_id"] == "c1"


def test_a_host_means_the_server_that_the_sdk_makes_of_it() -> None:
    """The table is the SDK's own: the examples of its `_parse_host`."""
    import doctest
    import sys

    pytest.importorskip("ollama")
    (table,) = doctest.DocTestFinder(recurse=False).find(sys.modules["ollama._client"]._parse_host)
    assert len(table.examples) > 20
    for example in table.examples:
        host = eval(example.source.partition("(")[2].rstrip().removesuffix(")"))
        request = OllamaChatModel("m", base_url=host, api_key="").exchange(HI, (), GenerateOptions()).request
        assert request.url == f"{eval(example.want)}/api/chat"
