"""What `OpenAIChatModel` sends is what the official SDK puts on the wire for the same conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, NamedTuple

import openai
import pytest

from agentscope_rx.messages import (
    AudioBlock,
    Base64Source,
    FileBlock,
    ImageBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    URLSource,
    VideoBlock,
)
from agentscope_rx.models import ExecutionConfig, GenerateOptions, OpenAIChatModel, ToolChoice, ToolSchema
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
W_WEATHER = {"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": CITY}}
W_CLOCK = {"type": "function", "function": {"name": "clock", "description": "The time.", "parameters": EMPTY}}
W_STRICT = {"type": "function", "function": {**W_WEATHER["function"], "strict": True}}  # pyright: ignore
CALL = ToolUseBlock("c1", "weather", {"city": "北京"})
SECOND = ToolUseBlock("c2", "clock")
W_CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"北京"}'}}
W_SECOND = {"id": "c2", "type": "function", "function": {"name": "clock", "arguments": "{}"}}
TOLD = ToolResultBlock("c1", "weather", "sunny")  # pyright: ignore
W_TOLD = {"role": "tool", "tool_call_id": "c1", "content": "sunny"}
PNG = Base64Source("image/png", "iVBORw==")
W_PNG = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}
WEB = URLSource("https://example.com/cat.jpg")
W_WEB = {"type": "image_url", "image_url": {"url": "https://example.com/cat.jpg"}}
PDF = Base64Source("application/pdf", "JVBERi0=")
WAV = Base64Source("audio/wav", "UklGRg==")
SHAPE = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
JSON_SCHEMA = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SHAPE, "strict": True}}
HI = [Msg.user("hi")]
W_HI = [{"role": "user", "content": "hi"}]


class Case(NamedTuple):
    """One conversation, in our words and in the SDK's."""

    ours: dict[str, Any]
    theirs: dict[str, Any]


def made(*messages: Msg, **given: Any) -> dict[str, Any]:
    return {"messages": list(messages) or HI, **given}


def sent(*messages: dict[str, Any], **given: Any) -> dict[str, Any]:
    return {"messages": list(messages) or W_HI, **given}


def with_options(**given: Any) -> dict[str, Any]:
    return made(options=GenerateOptions(**given))


def with_tools(*tools: ToolSchema, **given: Any) -> dict[str, Any]:
    return made(tools=tools, options=GenerateOptions(**given))


def said(role: str, content: object, **more: object) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


USAGE: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}

CASES: dict[str, Case] = {
    "a word": Case(made(), sent()),
    "a word, as a stream": Case(made(stream=True), sent(**USAGE)),
    "system and turns": Case(
        made(Msg.system("be kind"), Msg.user("a"), Msg.assistant("b"), Msg.user("c")),
        sent(said("system", "be kind"), said("user", "a"), said("assistant", "b"), said("user", "c")),
    ),
    "named speakers": Case(
        made(Msg.user("a", name="Alice B"), Msg.assistant("b", name="Bob")),
        sent(said("user", "a", name="Alice_B"), said("assistant", "b", name="Bob")),
    ),
    "text of every script": Case(
        made(Msg.user('naïve "quotes" \\ 北京 🙂\n\t')), sent(said("user", 'naïve "quotes" \\ 北京 🙂\n\t'))
    ),
    "an image by address": Case(
        made(Msg.user([TextBlock("see"), ImageBlock(WEB)])),
        sent(said("user", [{"type": "text", "text": "see"}, W_WEB])),
    ),
    "an image as data, between words": Case(
        made(Msg.user([TextBlock("a"), ImageBlock(PNG), TextBlock("b")])),
        sent(said("user", [{"type": "text", "text": "a"}, W_PNG, {"type": "text", "text": "b"}])),
    ),
    "audio": Case(
        made(Msg.user(AudioBlock(WAV))),
        sent(said("user", [{"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}])),
    ),
    "a document": Case(
        made(Msg.user([FileBlock(PDF, name="lease.pdf"), TextBlock("read")])),
        sent(
            said(
                "user",
                [
                    {
                        "type": "file",
                        "file": {"filename": "lease.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
                    },
                    {"type": "text", "text": "read"},
                ],
            )
        ),
    ),
    "tools": Case(made(tools=[WEATHER, CLOCK]), sent(tools=[W_WEATHER, W_CLOCK])),
    "a strict tool": Case(made(tools=[STRICT]), sent(tools=[W_STRICT])),
    "a call and its result": Case(
        made(Msg.user("?"), Msg.assistant(CALL), Msg.tool(TOLD), tools=[WEATHER]),
        sent(said("user", "?"), said("assistant", None, tool_calls=[W_CALL]), W_TOLD, tools=[W_WEATHER]),
    ),
    "words with parallel calls": Case(
        made(
            Msg.user("?"),
            Msg.assistant([TextBlock("let me see"), CALL, SECOND]),
            Msg.tool([TOLD, ToolResultBlock("c2", "clock", "noon")]),  # pyright: ignore
        ),
        sent(
            said("user", "?"),
            said("assistant", "let me see", tool_calls=[W_CALL, W_SECOND]),
            W_TOLD,
            {"role": "tool", "tool_call_id": "c2", "content": "noon"},
        ),
    ),
    "a result of several texts": Case(
        made(Msg.assistant(CALL), Msg.tool(ToolResultBlock("c1", "weather", (TextBlock("a"), TextBlock("b"))))),
        sent(said("assistant", None, tool_calls=[W_CALL]), {"role": "tool", "tool_call_id": "c1", "content": "a\nb"}),
    ),
    "a result with an image": Case(
        made(Msg.assistant(CALL), Msg.tool(ToolResultBlock("c1", "weather", (TextBlock("map"), ImageBlock(PNG))))),
        sent(
            said("assistant", None, tool_calls=[W_CALL]),
            {"role": "tool", "tool_call_id": "c1", "content": "map"},
            said("user", [{"type": "text", "text": "Media of the result of weather (c1):"}, W_PNG]),
        ),
    ),
    "a call without a result": Case(
        made(Msg.assistant(CALL), Msg.user("well?")),
        sent(
            said("assistant", None, tool_calls=[W_CALL]),
            {"role": "tool", "tool_call_id": "c1", "content": NO_RESULT},
            said("user", "well?"),
        ),
    ),
    "thinking does not go back": Case(
        made(Msg.assistant([ThinkingBlock("hm"), TextBlock("a")]), Msg.user("b")),
        sent(said("assistant", "a"), said("user", "b")),
    ),
    "the choice is left to it": Case(
        with_tools(WEATHER, tool_choice=ToolChoice("auto")), sent(tools=[W_WEATHER], tool_choice="auto")
    ),
    "no call": Case(with_tools(WEATHER, tool_choice=ToolChoice("none")), sent(tools=[W_WEATHER], tool_choice="none")),
    "some call": Case(
        with_tools(WEATHER, CLOCK, tool_choice=ToolChoice("required")),
        sent(tools=[W_WEATHER, W_CLOCK], tool_choice="required"),
    ),
    "this call": Case(
        with_tools(WEATHER, tool_choice=ToolChoice.specific("weather")),
        sent(tools=[W_WEATHER], tool_choice={"type": "function", "function": {"name": "weather"}}),
    ),
    "one call at a time": Case(
        with_tools(WEATHER, parallel_tool_calls=False), sent(tools=[W_WEATHER], parallel_tool_calls=False)
    ),
    "sampling": Case(
        with_options(temperature=0.0, top_p=0.5, frequency_penalty=1.0, presence_penalty=-1.0, seed=7),
        sent(temperature=0.0, top_p=0.5, frequency_penalty=1.0, presence_penalty=-1.0, seed=7),
    ),
    "stop": Case(with_options(stop=["END", "\n\n"]), sent(stop=["END", "\n\n"])),
    "a limit": Case(with_options(max_tokens=100), sent(max_completion_tokens=100)),
    "effort": Case(with_options(reasoning_effort="low"), sent(reasoning_effort="low")),
    "any JSON": Case(
        with_options(response_format={"type": "json_object"}), sent(response_format={"type": "json_object"})
    ),
    "JSON of a shape": Case(with_options(response_format=JSON_SCHEMA), sent(response_format=JSON_SCHEMA)),
    "what the options do not know": Case(
        with_options(
            additional_body_params={"prompt_cache_key": "k", "service_tier": "flex", "verbosity": "low", "store": False}
        ),
        sent(prompt_cache_key="k", service_tier="flex", verbosity="low", store=False),
    ),
    "headers and query of one's own": Case(
        with_options(additional_headers={"X-Trace": "7"}, additional_query_params={"region": "eu"}),
        sent(extra_headers={"X-Trace": "7"}, extra_query={"region": "eu"}),
    ),
}

GATEWAYS: dict[str, tuple[str, Case]] = {
    "thinking of calls goes back": (
        "deepseek",
        Case(
            made(Msg.assistant([ThinkingBlock("hm"), TextBlock("a")]), Msg.assistant([ThinkingBlock("so"), CALL])),
            sent(
                said("assistant", "a"),
                said("assistant", None, tool_calls=[W_CALL], reasoning_content="so"),
                {"role": "tool", "tool_call_id": "c1", "content": NO_RESULT},
            ),
        ),
    ),
    "no thinking": (
        "deepseek",
        Case(with_options(thinking_budget=0), sent(extra_body={"thinking": {"type": "disabled"}})),
    ),
    "a budget and top_k": (
        "qwen",
        Case(
            with_options(thinking_budget=500, top_k=20),
            sent(extra_body={"enable_thinking": True, "thinking_budget": 500, "top_k": 20}),
        ),
    ),
    "a video": (
        "qwen",
        Case(
            made(Msg.user(VideoBlock(URLSource("https://example.com/a.mp4")))),
            sent(said("user", [{"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}}])),
        ),
    ),
    "a budget": (
        "openrouter",
        Case(with_options(thinking_budget=99), sent(extra_body={"reasoning": {"max_tokens": 99}})),
    ),
    "the old name of the limit": ("vllm", Case(with_options(max_tokens=9), sent(max_tokens=9))),
    "the new name of the limit": ("groq", Case(with_options(max_tokens=9), sent(max_completion_tokens=9))),
    "a seed under its own name, no stream_options": (
        "mistral",
        Case(made(stream=True, options=GenerateOptions(seed=3)), sent(stream=True, extra_body={"random_seed": 3})),
    ),
    "one tool, forced": (
        "llama.cpp",
        Case(
            with_tools(WEATHER, CLOCK, tool_choice=ToolChoice.specific("clock")),
            sent(tools=[W_CLOCK], tool_choice="required"),
        ),
    ),
}

WHOLE = {"id": "c", "object": "chat.completion", "choices": [{"index": 0, "message": {"content": "."}}]}


@pytest.fixture(scope="module")
def server() -> Iterator[Loopback]:
    async def answer(reply: Reply) -> None:
        if not reply.asked.body.get("stream"):
            reply.json(200, WHOLE)
            return
        reply.start()
        reply.send({"id": "c", "choices": [{"index": 0, "delta": {"content": "."}, "finish_reason": "stop"}]}, "[DONE]")
        reply.end()

    with loopback(answer) as running:
        yield running


def ours(server: Loopback, given: dict[str, Any], base_url: str | None = None, profile: str = "openai") -> Asked:
    model = OpenAIChatModel(
        "gpt",
        api_key="k",
        base_url=base_url or server.url,
        profile=profile,
        stream=given.get("stream", False),
        execution_config=ExecutionConfig(max_attempts=1),
    )
    model.stream(given["messages"], given.get("tools", ()), given.get("options")).run()
    return server.asked[-1]


def theirs(server: Loopback, given: dict[str, Any], client: openai.AsyncOpenAI | None = None) -> Asked:
    async def ask() -> None:
        async with client or openai.AsyncOpenAI(api_key="k", base_url=server.url, max_retries=0) as sdk:
            answer: Any = await sdk.chat.completions.create(model="gpt", **given)
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


@pytest.mark.parametrize("name", GATEWAYS)
def test_the_request_to_a_compatible_server_is_the_sdks(server: Loopback, name: str) -> None:
    profile, case = GATEWAYS[name]
    compare(ours(server, case.ours, profile=profile), theirs(server, case.theirs))


def test_a_deployment_at_azure_is_asked_as_the_sdk_asks_it(server: Loopback) -> None:
    endpoint = server.url.removesuffix("/v1")
    client = openai.AsyncAzureOpenAI(api_key="k", azure_endpoint=endpoint, api_version="2024-10-21", max_retries=0)
    mine = ours(server, made(), f"{endpoint}?api-version=2024-10-21", "azure")
    compare(mine, theirs(server, sent(), client))
    assert mine.target == "/openai/deployments/gpt/chat/completions?api-version=2024-10-21"


def test_the_new_address_of_azure_is_asked_as_the_sdk_asks_it(server: Loopback, monkeypatch: Any) -> None:
    monkeypatch.delenv("OPENAI_API_VERSION", raising=False)
    endpoint = server.url.removesuffix("/v1")
    mine = ours(server, made(), endpoint, "azure")
    client = openai.AsyncOpenAI(api_key="k", base_url=f"{endpoint}/openai/v1/", max_retries=0)
    sdks = theirs(server, sent(), client)
    assert (mine.target, mine.body) == (sdks.target, {**sdks.body, "stream": False})
    assert mine.headers["api-key"] == "k"
