"""What `OpenAIResponsesModel` sends is what the official SDK puts on the wire for the same conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, NamedTuple

import openai
import pytest

from agentscope_rx.messages import (
    Base64Source,
    FileBlock,
    ImageBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    URLSource,
)
from agentscope_rx.models import ExecutionConfig, GenerateOptions, OpenAIResponsesModel, ToolChoice, ToolSchema
from agentscope_rx.models.openai.responses.items import REASONING
from agentscope_rx.models.wire.pairing import NO_RESULT
from tests.models.conftest import Asked, Loopback, Reply, loopback

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
EMPTY = {"type": "object", "properties": {}}
WEATHER = ToolSchema("weather", "The weather.", CITY)
CLOCK = ToolSchema("clock", "The time.", EMPTY)
STRICT = ToolSchema("weather", "The weather.", CITY, strict=True)
W_WEATHER = {"type": "function", "name": "weather", "description": "The weather.", "parameters": CITY, "strict": False}
W_CLOCK = {"type": "function", "name": "clock", "description": "The time.", "parameters": EMPTY, "strict": False}
CALL = ToolUseBlock("c1", "weather", {"city": "北京"})
SECOND = ToolUseBlock("c2", "clock")
W_CALL = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city":"北京"}'}
W_SECOND = {"type": "function_call", "call_id": "c2", "name": "clock", "arguments": "{}"}
TOLD = ToolResultBlock("c1", "weather", "sunny")  # pyright: ignore
W_TOLD = {"type": "function_call_output", "call_id": "c1", "output": "sunny"}
PNG = Base64Source("image/png", "iVBORw==")
W_PNG = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,iVBORw=="}
PDF = Base64Source("application/pdf", "JVBERi0=")
SUMMARY = [{"type": "summary_text", "text": "hm"}]
THOUGHT = ThinkingBlock("hm", "secret", {REASONING: {"id": "rs_1", "summary": SUMMARY}})
W_THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": SUMMARY, "encrypted_content": "secret"}
SHAPE = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
JSON_SCHEMA = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SHAPE, "strict": True}}
HI = [Msg.user("hi")]
W_HI = [{"role": "user", "content": "hi"}]
ENCRYPTED = {"include": ["reasoning.encrypted_content"]}


class Case(NamedTuple):
    """One conversation, in our words and in the SDK's."""

    ours: dict[str, Any]
    theirs: dict[str, Any]


def made(*messages: Msg, **given: Any) -> dict[str, Any]:
    return {"messages": list(messages) or HI, **given}


def sent(*items: dict[str, Any], **given: Any) -> dict[str, Any]:
    return {"input": list(items) or W_HI, "store": False, **given}


def with_options(**given: Any) -> dict[str, Any]:
    return made(options=GenerateOptions(**given))


def with_tools(*tools: ToolSchema, **given: Any) -> dict[str, Any]:
    return made(tools=tools, options=GenerateOptions(**given))


def said(role: str, content: object) -> dict[str, Any]:
    return {"role": role, "content": content}


def text(words: str) -> dict[str, Any]:
    return {"type": "input_text", "text": words}


CASES: dict[str, Case] = {
    "a word": Case(made(), sent()),
    "a word, as a stream": Case(made(stream=True), sent(stream=True)),
    "instructions and turns": Case(
        made(Msg.system("be kind"), Msg.system("be brief"), Msg.user("a"), Msg.assistant("b"), Msg.user("c")),
        sent(said("user", "a"), said("assistant", "b"), said("user", "c"), instructions="be kind\n\nbe brief"),
    ),
    "a system message in between": Case(
        made(Msg.user("a"), Msg.system("now in French")), sent(said("user", "a"), said("system", "now in French"))
    ),
    "named speakers": Case(
        made(Msg.user("a", name="Alice"), Msg.assistant("b", name="Bob")),
        sent(said("user", "Alice: a"), said("assistant", "b")),
    ),
    "text of every script": Case(made(Msg.user('"q" \\ 北京 🙂\n')), sent(said("user", '"q" \\ 北京 🙂\n'))),
    "an image by address": Case(
        made(Msg.user([TextBlock("see"), ImageBlock(URLSource("https://example.com/a.png"))])),
        sent(
            said(
                "user",
                [text("see"), {"type": "input_image", "detail": "auto", "image_url": "https://example.com/a.png"}],
            )
        ),
    ),
    "an image as data, between words": Case(
        made(Msg.user([TextBlock("a"), ImageBlock(PNG), TextBlock("b")])),
        sent(said("user", [text("a"), W_PNG, text("b")])),
    ),
    "a document as data": Case(
        made(Msg.user([FileBlock(PDF, name="lease.pdf"), TextBlock("read")])),
        sent(
            said(
                "user",
                [
                    {
                        "type": "input_file",
                        "filename": "lease.pdf",
                        "file_data": "data:application/pdf;base64,JVBERi0=",
                    },
                    text("read"),
                ],
            )
        ),
    ),
    "a document by address": Case(
        made(Msg.user(FileBlock(URLSource("https://example.com/a.pdf")))),
        sent(said("user", [{"type": "input_file", "file_url": "https://example.com/a.pdf"}])),
    ),
    "tools": Case(made(tools=[WEATHER, CLOCK]), sent(tools=[W_WEATHER, W_CLOCK])),
    "a strict tool": Case(made(tools=[STRICT]), sent(tools=[{**W_WEATHER, "strict": True}])),
    "a call and its result": Case(
        made(Msg.user("?"), Msg.assistant(CALL), Msg.tool(TOLD), tools=[WEATHER]),
        sent(said("user", "?"), W_CALL, W_TOLD, tools=[W_WEATHER]),
    ),
    "words with parallel calls": Case(
        made(
            Msg.user("?"),
            Msg.assistant([TextBlock("let me see"), CALL, SECOND]),
            Msg.tool([TOLD, ToolResultBlock("c2", "clock", "noon")]),  # pyright: ignore
        ),
        sent(
            said("user", "?"),
            said("assistant", "let me see"),
            W_CALL,
            W_SECOND,
            W_TOLD,
            {"type": "function_call_output", "call_id": "c2", "output": "noon"},
        ),
    ),
    "a result of several texts": Case(
        made(Msg.assistant(CALL), Msg.tool(ToolResultBlock("c1", "weather", (TextBlock("a"), TextBlock("b"))))),
        sent(W_CALL, {**W_TOLD, "output": "a\nb"}),
    ),
    "a result with an image and a document": Case(
        made(
            Msg.assistant(CALL),
            Msg.tool(
                ToolResultBlock(
                    "c1",
                    "weather",
                    (TextBlock("map"), ImageBlock(PNG), FileBlock(URLSource("https://example.com/a.pdf"))),
                )
            ),
        ),
        sent(
            W_CALL,
            {**W_TOLD, "output": [text("map"), W_PNG, {"type": "input_file", "file_url": "https://example.com/a.pdf"}]},
        ),
    ),
    "a call without a result": Case(
        made(Msg.assistant(CALL), Msg.user("well?")),
        sent(W_CALL, {**W_TOLD, "output": NO_RESULT}, said("user", "well?")),
    ),
    "an image that the assistant made": Case(
        made(Msg.assistant([TextBlock("here"), ImageBlock(PNG)]), Msg.user("bigger")),
        sent(
            said("assistant", "here"),
            said("user", [text("Media of the assistant's message:"), W_PNG]),
            said("user", "bigger"),
        ),
    ),
    "thinking of this API goes back before its calls": Case(
        made(Msg.user("?"), Msg.assistant([THOUGHT, CALL]), Msg.tool(TOLD), model="o4-mini"),
        sent(said("user", "?"), W_THOUGHT, W_CALL, W_TOLD, **ENCRYPTED, model="o4-mini"),
    ),
    "thinking between calls keeps its place": Case(
        made(Msg.assistant([THOUGHT, CALL, TextBlock("and"), THOUGHT, SECOND]), model="gpt-5-mini"),
        sent(
            W_THOUGHT,
            W_CALL,
            said("assistant", "and"),
            W_THOUGHT,
            W_SECOND,
            {**W_TOLD, "output": NO_RESULT},
            {"type": "function_call_output", "call_id": "c2", "output": NO_RESULT},
            **ENCRYPTED,
            model="gpt-5-mini",
        ),
    ),
    "thinking of others, or that led to nothing, does not": Case(
        made(Msg.assistant([ThinkingBlock("other's"), TextBlock("a"), THOUGHT]), Msg.user("b")),
        sent(said("assistant", "a"), said("user", "b")),
    ),
    "thinking that the server keeps": Case(
        made(
            Msg.assistant([ThinkingBlock("", "rs_2", {REASONING: {"id": "rs_2", "summary": []}}), CALL]),
            model="o3",
            store=True,
        ),
        sent(
            {"type": "reasoning", "id": "rs_2", "summary": []},
            W_CALL,
            {**W_TOLD, "output": NO_RESULT},
            model="o3",
            store=True,
        ),
    ),
    "effort and a summary": Case(
        made(options=GenerateOptions(reasoning_effort="low"), model="gpt-5", summary="auto"),
        sent(reasoning={"effort": "low", "summary": "auto"}, **ENCRYPTED, model="gpt-5"),
    ),
    "the choice is left to it": Case(
        with_tools(WEATHER, tool_choice=ToolChoice("auto")), sent(tools=[W_WEATHER], tool_choice="auto")
    ),
    "no call": Case(with_tools(WEATHER, tool_choice=ToolChoice("none")), sent(tools=[W_WEATHER], tool_choice="none")),
    "some call": Case(
        with_tools(WEATHER, tool_choice=ToolChoice("required")), sent(tools=[W_WEATHER], tool_choice="required")
    ),
    "this call": Case(
        with_tools(WEATHER, CLOCK, tool_choice=ToolChoice.specific("clock")),
        sent(tools=[W_WEATHER, W_CLOCK], tool_choice={"type": "function", "name": "clock"}),
    ),
    "one call at a time": Case(
        with_tools(WEATHER, parallel_tool_calls=False), sent(tools=[W_WEATHER], parallel_tool_calls=False)
    ),
    "sampling and a limit": Case(
        with_options(temperature=0.0, top_p=0.5, max_tokens=100),
        sent(temperature=0.0, top_p=0.5, max_output_tokens=100),
    ),
    "any JSON": Case(
        with_options(response_format={"type": "json_object"}), sent(text={"format": {"type": "json_object"}})
    ),
    "JSON of a shape": Case(
        with_options(response_format=JSON_SCHEMA),
        sent(text={"format": {"type": "json_schema", "name": "answer", "schema": SHAPE, "strict": True}}),
    ),
    "what the options do not know": Case(
        with_options(
            response_format={"type": "json_object"},
            additional_body_params={
                "prompt_cache_key": "k",
                "truncation": "auto",
                "text": {"verbosity": "low"},
                "metadata": {"a": "b"},
            },
        ),
        sent(
            prompt_cache_key="k",
            truncation="auto",
            text={"format": {"type": "json_object"}, "verbosity": "low"},
            metadata={"a": "b"},
        ),
    ),
    "a conversation that the server keeps": Case(
        with_options(additional_body_params={"previous_response_id": "resp_1", "store": True}),
        sent(previous_response_id="resp_1", store=True),
    ),
    "headers and query of one's own": Case(
        with_options(additional_headers={"X-Trace": "7"}, additional_query_params={"region": "eu"}),
        sent(extra_headers={"X-Trace": "7"}, extra_query={"region": "eu"}),
    ),
}

MESSAGE = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "."}]}
WHOLE = {"id": "resp_1", "object": "response", "status": "completed", "output": [MESSAGE]}


@pytest.fixture(scope="module")
def server() -> Iterator[Loopback]:
    async def answer(reply: Reply) -> None:
        if not reply.asked.body.get("stream"):
            reply.json(200, WHOLE)
            return
        reply.start()
        done = '{"type": "response.completed", "sequence_number": 1, "response": {"status": "completed", "output": []}}'
        reply.send_bytes(f"event: response.completed\ndata: {done}\n\n".encode())
        reply.end()

    with loopback(answer) as running:
        yield running


def ours(server: Loopback, given: dict[str, Any], base_url: str | None = None, **more: Any) -> Asked:
    settings = {name: given[name] for name in ("summary", "store") if name in given}
    model = OpenAIResponsesModel(
        given.get("model", "gpt-4.1"),
        api_key="k",
        base_url=base_url or server.url,
        stream=given.get("stream", False),
        execution_config=ExecutionConfig(max_attempts=1),
        **settings,
        **more,
    )
    model.stream(given["messages"], given.get("tools", ()), given.get("options")).run()
    return server.asked[-1]


def theirs(server: Loopback, given: dict[str, Any], client: openai.AsyncOpenAI | None = None) -> Asked:
    async def ask() -> None:
        async with client or openai.AsyncOpenAI(api_key="k", base_url=server.url, max_retries=0) as sdk:
            answer: Any = await sdk.responses.create(**{"model": "gpt-4.1", **given})
            if given.get("stream"):
                async for _ in answer:
                    pass

    asyncio.run(ask())
    return server.asked[-1]


def compare(mine: Asked, sdks: Asked) -> None:
    mine.body.setdefault("stream", False)
    sdks.body.setdefault("stream", False)
    assert mine.body == sdks.body
    assert mine.target == sdks.target
    for header in ("authorization", "api-key", "content-type", "x-trace"):
        assert mine.headers.get(header) == sdks.headers.get(header)


@pytest.mark.parametrize("name", CASES)
def test_the_request_is_that_of_the_sdk(server: Loopback, name: str) -> None:
    case = CASES[name]
    compare(ours(server, case.ours), theirs(server, case.theirs))


def test_a_deployment_at_azure_is_asked_as_the_sdk_asks_it(server: Loopback) -> None:
    endpoint = server.url.removesuffix("/v1")
    client = openai.AsyncAzureOpenAI(api_key="k", azure_endpoint=endpoint, api_version="2025-03-01-preview")
    mine = ours(server, made(), f"{endpoint}?api-version=2025-03-01-preview", profile="azure")
    compare(mine, theirs(server, sent(), client))
    assert mine.target == "/openai/responses?api-version=2025-03-01-preview"
