"""What `AnthropicChatModel` sends is what the official SDK puts on the wire for the same conversation.

The SDK takes content as a string or as blocks; it is given blocks here, which say the same. It sends the newest version
of the API, which has no sampling: those conversations go through `extra_body` and are compared but for the header.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, NamedTuple

import anthropic
import pytest
from anthropic import transform_schema

from agentscope_rx.messages import (
    Base64Source,
    FileBlock,
    FramesSource,
    ImageBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolResultKind,
    ToolUseBlock,
    URLSource,
    VideoBlock,
)
from agentscope_rx.models import AnthropicChatModel, ExecutionConfig, GenerateOptions, ToolChoice, ToolSchema
from agentscope_rx.models.anthropic.request import MAX_TOKENS
from tests.models.conftest import Asked, Loopback, Reply, loopback

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "Which."}, "days": {"type": "integer", "minimum": 1}},
    "required": ["city"],
}
EMPTY = {"type": "object", "properties": {}}
WEATHER = ToolSchema("weather", "The weather.", CITY)
CLOCK = ToolSchema("clock", "The time.", EMPTY)
W_WEATHER = {"name": "weather", "description": "The weather.", "input_schema": CITY}
W_CLOCK = {"name": "clock", "description": "The time.", "input_schema": EMPTY}
CALL = ToolUseBlock("toolu_1", "weather", {"city": "北京"})
SECOND = ToolUseBlock("toolu_2", "clock")
W_CALL = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "北京"}}
W_SECOND = {"type": "tool_use", "id": "toolu_2", "name": "clock", "input": {}}
PNG = Base64Source("image/png", "iVBORw==")
W_PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}}
PDF = Base64Source("application/pdf", "JVBERi0=")
WEB = URLSource("https://example.com/cat.jpg")
W_WEB = {"type": "image", "source": {"type": "url", "url": "https://example.com/cat.jpg"}}
SHAPE = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
EPHEMERAL = {"type": "ephemeral"}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
SEARCHED = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "cats"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
]
KEPT = ThinkingBlock("", None, {"vendor": "anthropic", "blocks": SEARCHED})
REDACTED = ThinkingBlock("", "ENCRYPTED", {"vendor": "anthropic", "redacted": True})


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def turn(role: str, *content: Any) -> dict[str, Any]:
    return {"role": role, "content": [words(part) if isinstance(part, str) else part for part in content]}


def result(id: str, *content: Any, **more: Any) -> dict[str, Any]:
    parts = [words(part) if isinstance(part, str) else part for part in content]
    return {"type": "tool_result", "tool_use_id": id, **({"content": parts} if parts else {}), **more}


class Case(NamedTuple):
    messages: list[Msg]
    theirs: dict[str, Any]
    options: GenerateOptions | None = None
    tools: tuple[ToolSchema, ...] = ()
    model: dict[str, Any] = {}


def case(
    ours: list[Msg] | None = None,
    turns: list[Any] | None = None,
    options: dict[str, Any] | None = None,
    tools: tuple[ToolSchema, ...] = (),
    model: dict[str, Any] | None = None,
    **theirs: Any,
) -> Case:
    wire = {"messages": turns or [turn("user", "hi")], "max_tokens": MAX_TOKENS, **theirs}
    return Case(ours or [Msg.user("hi")], wire, GenerateOptions(**options) if options else None, tools, model or {})


ASKED = Msg.user("Weather?")
CALLED = Msg.assistant([TextBlock("Let me see."), CALL])
BOTH = Msg.assistant([CALL, SECOND])
SUNNY = ToolResultBlock.of(CALL, "sunny")
NOON = ToolResultBlock.of(SECOND, "noon")
TOOLS = (WEATHER, CLOCK)
W_TOOLS = [W_WEATHER, W_CLOCK]

CASES: dict[str, Case] = {
    "a word": case(),
    "a word, streamed": case(model={"stream": True}, stream=True),
    "system": case([Msg.system("be kind"), Msg.user("hi")], system=[words("be kind")]),
    "two system messages": case([Msg.system("a"), Msg.system("b"), Msg.user("hi")], system=[words("a"), words("b")]),
    "turns": case(
        [Msg.user("a"), Msg.assistant("b"), Msg.user("c")],
        [turn("user", "a"), turn("assistant", "b"), turn("user", "c")],
    ),
    "a later system message": case(
        [Msg.user("a"), Msg.assistant("b"), Msg.system("now in French"), Msg.user("c")],
        [turn("user", "a"), turn("assistant", "b"), turn("user", "<system>\nnow in French\n</system>", "c")],
    ),
    "messages of one role are one turn": case(
        [Msg.user("a"), Msg.user("b"), Msg.assistant("c"), Msg.assistant("d"), Msg.user("e")],
        [turn("user", "a", "b"), turn("assistant", "c", "d"), turn("user", "e")],
    ),
    "blank texts are left out": case(
        [Msg.user([TextBlock(""), TextBlock(" \n"), TextBlock("a")]), Msg.assistant(""), Msg.user("b")],
        [turn("user", "a", "b")],
    ),
    "white space at the very end": case(
        [Msg.user("a"), Msg.assistant("The answer is \n")], [turn("user", "a"), turn("assistant", "The answer is")]
    ),
    "names": case([Msg.user("hi", name="Alice")], [turn("user", "Alice: hi")]),
    "several assistants": case(
        [Msg.user("a"), Msg.assistant("b", name="Bob"), Msg.user("c"), Msg.assistant("d", name="Eve"), Msg.user("e")],
        [
            turn("user", "a"),
            turn("assistant", "Bob: b"),
            turn("user", "c"),
            turn("assistant", "Eve: d"),
            turn("user", "e"),
        ],
    ),
    "image": case([Msg.user([TextBlock("what?"), ImageBlock(PNG)])], [turn("user", "what?", W_PNG)]),
    "image at an address": case([Msg.user([ImageBlock(WEB)])], [turn("user", W_WEB)]),
    "image as data": case([Msg.user([ImageBlock(URLSource("data:image/png;base64,iVBORw=="))])], [turn("user", W_PNG)]),
    "frames of a video": case(
        [Msg.user([VideoBlock(FramesSource((PNG, WEB)))])],
        [turn("user", W_PNG, W_WEB)],
    ),
    "PDF": case(
        [Msg.user([FileBlock(PDF, "a.pdf")])],
        [
            turn(
                "user",
                {
                    "type": "document",
                    "title": "a.pdf",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
                },
            )
        ],
    ),
    "PDF at an address": case(
        [Msg.user([FileBlock(URLSource("https://example.com/a.pdf"))])],
        [turn("user", {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}})],
    ),
    "text file": case(
        [Msg.user([FileBlock(Base64Source.of("día".encode(), "text/csv"), "d.csv")])],
        [
            turn(
                "user",
                {
                    "type": "document",
                    "title": "d.csv",
                    "source": {"type": "text", "media_type": "text/plain", "data": "día"},
                },
            )
        ],
    ),
    "tools": case(tools=TOOLS, tools_=W_TOOLS),
    "strict tool": case(
        tools=(ToolSchema("weather", "The weather.", SHAPE, strict=True),),
        tools_=[{"name": "weather", "description": "The weather.", "input_schema": SHAPE, "strict": True}],
    ),
    "choice auto": case(
        options={"tool_choice": ToolChoice("auto")}, tools=TOOLS, tools_=W_TOOLS, tool_choice={"type": "auto"}
    ),
    "choice none": case(
        options={"tool_choice": ToolChoice("none")}, tools=TOOLS, tools_=W_TOOLS, tool_choice={"type": "none"}
    ),
    "choice required": case(
        options={"tool_choice": ToolChoice("required")}, tools=TOOLS, tools_=W_TOOLS, tool_choice={"type": "any"}
    ),
    "choice of one": case(
        options={"tool_choice": ToolChoice.specific("clock")},
        tools=TOOLS,
        tools_=W_TOOLS,
        tool_choice={"type": "tool", "name": "clock"},
    ),
    "one call at a time": case(
        options={"parallel_tool_calls": False},
        tools=TOOLS,
        tools_=W_TOOLS,
        tool_choice={"type": "auto", "disable_parallel_tool_use": True},
    ),
    "exactly one call": case(
        options={"parallel_tool_calls": False, "tool_choice": ToolChoice("required")},
        tools=TOOLS,
        tools_=W_TOOLS,
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
    ),
    "call and result": case(
        [ASKED, CALLED, Msg.tool(SUNNY)],
        [turn("user", "Weather?"), turn("assistant", "Let me see.", W_CALL), turn("user", result("toolu_1", "sunny"))],
        tools=TOOLS,
        tools_=W_TOOLS,
    ),
    "parallel calls, results first": case(
        [ASKED, BOTH, Msg.tool(SUNNY), Msg.user("hurry"), Msg.tool(NOON)],
        [
            turn("user", "Weather?"),
            turn("assistant", W_CALL, W_SECOND),
            turn("user", result("toolu_1", "sunny"), result("toolu_2", "noon"), "hurry"),
        ],
        tools=TOOLS,
        tools_=W_TOOLS,
    ),
    "failed call": case(
        [ASKED, CALLED, Msg.tool(ToolResultBlock.error(CALL, ToolResultKind.FAILED, "no network"))],
        [
            turn("user", "Weather?"),
            turn("assistant", "Let me see.", W_CALL),
            turn("user", result("toolu_1", "Error: no network", is_error=True)),
        ],
        tools=TOOLS,
        tools_=W_TOOLS,
    ),
    "result with image": case(
        [ASKED, CALLED, Msg.tool(ToolResultBlock.of(CALL, [TextBlock("look"), ImageBlock(PNG)]))],
        [
            turn("user", "Weather?"),
            turn("assistant", "Let me see.", W_CALL),
            turn("user", result("toolu_1", "look", W_PNG)),
        ],
        tools=TOOLS,
        tools_=W_TOOLS,
    ),
    "empty result": case(
        [ASKED, CALLED, Msg.tool(ToolResultBlock.of(CALL, ""))],
        [turn("user", "Weather?"), turn("assistant", "Let me see.", W_CALL), turn("user", result("toolu_1"))],
        tools=TOOLS,
        tools_=W_TOOLS,
    ),
    "call without result": case(
        [ASKED, CALLED, Msg.user("never mind")],
        [
            turn("user", "Weather?"),
            turn("assistant", "Let me see.", W_CALL),
            turn("user", result("toolu_1", "There is no result of this call yet."), "never mind"),
        ],
        tools=TOOLS,
        tools_=W_TOOLS,
    ),
    "calls, and no tools any more": case(
        [ASKED, CALLED, Msg.tool(SUNNY), Msg.user("sum up")],
        [
            turn("user", "Weather?"),
            turn("assistant", "Let me see.", W_CALL),
            turn("user", result("toolu_1", "sunny"), "sum up"),
        ],
        tools_=[{"name": "weather", "input_schema": {"type": "object"}}],
        tool_choice={"type": "none"},
    ),
    "calls of another provider": case(
        [
            ASKED,
            Msg.assistant([ToolUseBlock("functions.clock:0", "clock")]),
            Msg.tool(ToolResultBlock("functions.clock:0", "clock", (TextBlock("noon"),))),
        ],
        [
            turn("user", "Weather?"),
            turn("assistant", {**W_SECOND, "id": "functions_clock_0"}),
            turn("user", result("functions_clock_0", "noon")),
        ],
        tools=TOOLS,
        tools_=W_TOOLS,
    ),
    "picture by the assistant": case(
        [Msg.user("draw"), Msg.assistant([TextBlock("here"), ImageBlock(PNG)]), Msg.user("nicer")],
        [
            turn("user", "draw"),
            turn("assistant", "here"),
            turn("user", "Media of the assistant's message:", W_PNG, "nicer"),
        ],
    ),
    "thinking": case(options={"thinking_budget": 2000}, thinking={"type": "enabled", "budget_tokens": 2000}, more=2000),
    "thinking off": case(options={"thinking_budget": 0}, thinking={"type": "disabled"}),
    "thinking shown or not": case(
        model={"thinking": {"type": "adaptive", "display": "omitted"}},
        thinking={"type": "adaptive", "display": "omitted"},
    ),
    "effort": case(
        options={"reasoning_effort": "high"}, thinking={"type": "adaptive"}, output_config={"effort": "high"}
    ),
    "signed thinking goes back, in order": case(
        [
            ASKED,
            Msg.assistant([ThinkingBlock("hm", "SIG1"), REDACTED, TextBlock("Let me see."), CALL]),
            Msg.tool(SUNNY),
            Msg.assistant([ThinkingBlock("ah", "SIG2", {"vendor": "anthropic"}), SECOND]),
            Msg.tool(NOON),
        ],
        [
            turn("user", "Weather?"),
            turn(
                "assistant",
                {"type": "thinking", "thinking": "hm", "signature": "SIG1"},
                {"type": "redacted_thinking", "data": "ENCRYPTED"},
                "Let me see.",
                W_CALL,
            ),
            turn("user", result("toolu_1", "sunny")),
            turn("assistant", {"type": "thinking", "thinking": "ah", "signature": "SIG2"}, W_SECOND),
            turn("user", result("toolu_2", "noon")),
        ],
        tools=TOOLS,
        tools_=W_TOOLS,
    ),
    "thinking that cannot go back": case(
        [
            Msg.user("a"),
            Msg.assistant(
                [ThinkingBlock("cut off"), ThinkingBlock("theirs", "S", {"vendor": "gemini"}), TextBlock("b")]
            ),
            Msg.assistant([ThinkingBlock("at the end", "S")]),
            Msg.user("c"),
        ],
        [turn("user", "a"), turn("assistant", "b"), turn("user", "c")],
    ),
    "tools of the server": case(
        [Msg.user("cats?"), Msg.assistant([TextBlock("I search."), KEPT, TextBlock("Found.")]), Msg.user("more")],
        [turn("user", "cats?"), turn("assistant", "I search.", *SEARCHED, "Found."), turn("user", "more")],
        model={"server_tools": [SEARCH]},
        tools_=[SEARCH],
    ),
    "shape": case(
        options={"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SHAPE}}},
        output_config={"format": {"type": "json_schema", "schema": SHAPE}},
    ),
    "tokens and stops": case(
        options={"max_tokens": 99, "stop": ["END", "STOP"]}, max_tokens=99, stop_sequences=["END", "STOP"]
    ),
    "sampling": case(
        options={"temperature": 0.2, "top_p": 0.9, "top_k": 5},
        extra_body={"temperature": 0.2, "top_p": 0.9, "top_k": 5},
        model={"version": "2023-06-01"},
    ),
    "user id": case(options={"additional_body_params": {"metadata": {"user_id": "u-1"}}}, metadata={"user_id": "u-1"}),
    "cache": case(
        [Msg.system("be kind"), Msg.user("a"), Msg.assistant("b"), Msg.user("c")],
        [turn("user", "a"), turn("assistant", "b"), turn("user", {**words("c"), "cache_control": EPHEMERAL})],
        model={"cache": "auto"},
        tools=TOOLS,
        tools_=[W_WEATHER, {**W_CLOCK, "cache_control": EPHEMERAL}],
        system=[{**words("be kind"), "cache_control": EPHEMERAL}],
    ),
    "cache for an hour, and a mark of one's own": case(
        [
            Msg("user", "a", "user", metadata={"cache_control": {"type": "ephemeral"}}),
            Msg.assistant("b"),
            Msg.user("c"),
        ],
        [
            turn("user", {**words("a"), "cache_control": EPHEMERAL}),
            turn("assistant", "b"),
            turn("user", {**words("c"), "cache_control": {"type": "ephemeral", "ttl": "1h"}}),
        ],
        model={"cache": "1h"},
    ),
}

WHOLE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-5",
    "content": [{"type": "text", "text": "Hi"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
STREAM = [
    {"type": "message_start", "message": {**WHOLE, "content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
]


async def answer(reply: Reply) -> None:
    if reply.asked.body.get("stream"):
        reply.start()
        for event in STREAM:
            reply.send_bytes(f"event: {event['type']}\n".encode())
            reply.send(event)
        reply.end()
    else:
        reply.json(200, WHOLE)


@pytest.fixture(scope="module")
def server() -> Iterator[Loopback]:
    with loopback(answer) as running:
        yield running


def theirs(server: Loopback, given: dict[str, Any]) -> Asked:
    wire = dict(given)
    if "tools_" in wire:
        wire["tools"] = wire.pop("tools_")
    wire["max_tokens"] += wire.pop("more", 0)
    with anthropic.Anthropic(api_key="k", base_url=server.url.removesuffix("/v1"), max_retries=0) as client:
        answered = client.messages.create(model="claude-sonnet-5", **wire)
        if wire.get("stream"):
            for _ in answered:
                pass
    return server.asked[-1]


def ours(server: Loopback, given: Case) -> Asked:
    model = AnthropicChatModel(
        "claude-sonnet-5",
        **{
            "api_key": "k",
            "base_url": server.url,
            "stream": False,
            "version": "2026-10-21",
            "execution_config": ExecutionConfig(max_attempts=1),
            **given.model,
        },
    )

    async def ask() -> None:
        async for _ in model.stream(given.messages, given.tools, given.options):
            pass

    asyncio.run(ask())
    return server.asked[-1]


@pytest.mark.parametrize("name", CASES)
def test_the_wire_is_that_of_the_sdk(server: Loopback, name: str) -> None:
    given = CASES[name]
    own, official = ours(server, given), theirs(server, given.theirs)
    assert {"stream": False, **official.body} == own.body
    assert official.target == own.target
    if "version" not in given.model:
        assert official.headers["anthropic-version"] == own.headers["anthropic-version"]


SCHEMAS: dict[str, dict[str, Any]] = {
    "bounds": {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 5, "description": "How many."}},
        "required": ["n"],
        "additionalProperties": True,
    },
    "union": {"oneOf": [{"type": "string", "format": "date"}, {"type": "null"}], "default": None, "title": "When"},
    "list": {"type": "array", "items": {"type": "string", "pattern": "^a", "format": "color"}, "minItems": 2},
    "list of one": {"type": "array", "items": {"type": "number"}, "minItems": 1},
    "literals": {"enum": ["a", "b"], "type": "string"},
    "constant": {"const": 3, "type": "integer"},
    "reference": {
        "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node", "description": "x"}}}},
        "$ref": "#/$defs/Node",
    },
    "all of": {"allOf": [{"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}]},
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_of_outputs_are_those_of_the_sdk(name: str) -> None:
    from agentscope_rx.models.anthropic.output_schema import output_schema

    assert output_schema(SCHEMAS[name]) == transform_schema(SCHEMAS[name])
