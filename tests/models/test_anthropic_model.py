"""`AnthropicChatModel` against a real server: under whose name it asks, what it refuses, what it makes of failures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentscope_rx import ReActAgent
from agentscope_rx.errors import (
    AuthenticationError,
    BadRequestError,
    ConfigurationError,
    ContextOverflowError,
    InvalidInputError,
    ModelConnectionError,
    ModelTimeoutError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProtocolError,
    RateLimitError,
    ServerError,
    UnsupportedOptionError,
)
from agentscope_rx.messages import (
    AudioBlock,
    Base64Source,
    FileBlock,
    FileSource,
    ImageBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    URLSource,
    VideoBlock,
)
from agentscope_rx.models import (
    AnthropicChatModel,
    ChatResponse,
    ExecutionConfig,
    GenerateOptions,
    ToolChoice,
    ToolSchema,
)
from agentscope_rx.models.anthropic.endpoint import endpoint_of
from agentscope_rx.models.anthropic.formatter import format_messages
from agentscope_rx.models.anthropic.output_schema import output_schema
from agentscope_rx.models.anthropic.request import AnthropicSettings, format_request, version_for
from tests.models.test_anthropic_parser import ANSWER, call, started, stopped, text, thinking

Serve = Callable[..., Any]
ASK = [Msg.user("hi")]
ONCE = ExecutionConfig(max_attempts=1)
HELLO = [started(input_tokens=3), *text(0, "Hel", "lo"), stopped(), {"type": "message_stop"}]
TOOL = ToolSchema("weather", "", {"type": "object", "properties": {}})


def model(server: Any, **given: Any) -> AnthropicChatModel:
    return AnthropicChatModel(
        "claude-sonnet-5", **{"api_key": "k", "base_url": server.url, "execution_config": ONCE, **given}
    )


async def collect(source: Any) -> list[ChatResponse]:
    return [value async for value in source]


def said(chunks: list[ChatResponse]) -> str:
    return "".join(block.text for chunk in chunks for block in chunk.content if isinstance(block, TextBlock))


def stream(reply: Any, *events: Any) -> None:
    reply.start()
    for event in events:
        reply.send_bytes(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())


async def hello(reply: Any) -> None:
    stream(reply, *HELLO)
    reply.end()


def body(options: GenerateOptions | None = None, tools: Any = (), **settings: Any) -> dict[str, Any]:
    return format_request(
        "claude-sonnet-5", ASK, tools, options or GenerateOptions(), AnthropicSettings(**settings), stream=False
    )


# --- under whose name ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "url"),
    [
        (None, "https://api.anthropic.com/v1/messages"),
        ("https://host", "https://host/v1/messages"),
        ("https://host/v1/", "https://host/v1/messages"),
        ("https://host/anthropic", "https://host/anthropic/v1/messages"),
        ("https://host/v1/messages?a=1", "https://host/v1/messages?a=1&b=2"),
    ],
)
def test_where_requests_go(base: str | None, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    assert endpoint_of(base, "k", None).url_with({"b": "2"} if "?" in url else {}) == url


def test_the_environment_names_server_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigurationError, match="ANTHROPIC_API_KEY"):
        AnthropicChatModel("m")
    with pytest.raises(ConfigurationError, match="not both"):
        AnthropicChatModel("m", api_key="a", auth_token="b")
    with pytest.raises(ConfigurationError, match="copied whole"):
        AnthropicChatModel("m", api_key="a\nb")
    for wrong in ("ftp://x", "nothing", "http://[", "http://"):
        with pytest.raises(ConfigurationError, match="base_url"):
            AnthropicChatModel("m", api_key="k", base_url=wrong)
    assert AnthropicChatModel("m", base_url="http://localhost:1").endpoint.api_key is None
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "t")
    assert endpoint_of(None, None, None).headers_with({})["authorization"] == "Bearer t"
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://localhost:2")
    assert endpoint_of(None, None, None).headers_with({}) == {"x-api-key": "k"}
    assert "k" not in repr(AnthropicChatModel("m").endpoint).replace("api_key", "")


def test_headers_and_query_of_a_request(serve: Serve) -> None:
    server = serve(hello)
    given = model(server, betas=["a-1", "b-2"])
    options = GenerateOptions(additional_headers={"X-Mine": "1"}, additional_query_params={"q": "1"})
    assert said(asyncio.run(collect(given.stream(ASK, options=options)))) == "Hello"
    (asked,) = server.asked
    assert asked.target == "/v1/messages?q=1"
    assert asked.headers["anthropic-beta"] == "a-1,b-2"
    assert asked.headers["anthropic-version"] == "2023-06-01"
    assert (asked.headers["x-api-key"], asked.headers["x-mine"]) == ("k", "1")


@pytest.mark.parametrize(
    ("settings", "options", "version"),
    [
        ({}, {}, "2026-10-21"),
        ({}, {"temperature": 0.5}, "2023-06-01"),
        ({"official": False}, {}, "2023-06-01"),
        ({"version": "2023-06-01"}, {}, "2023-06-01"),
    ],
)
def test_the_newest_version_that_has_all_options(settings: Any, options: Any, version: str) -> None:
    assert version_for(GenerateOptions(**options), AnthropicSettings(**settings)) == version


# --- what it refuses, and what it makes fit ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "settings", "why"),
    [
        ({"seed": 1}, {}, "no seed"),
        ({"frequency_penalty": 1.0}, {}, "no frequency_penalty"),
        ({"temperature": 0.5}, {"version": "2026-10-21"}, "no temperature"),
        ({"reasoning_effort": "huge"}, {}, "low, medium"),
        ({"thinking_budget": 100}, {}, "1024"),
        ({"thinking_budget": 2000, "max_tokens": 2000}, {}, "more than the thinking budget"),
        ({"thinking_budget": 2000, "temperature": 0.5}, {}, "temperature is 1"),
        ({"thinking_budget": 2000, "top_k": 5}, {}, "no top_k"),
        ({"reasoning_effort": "low", "top_p": 0.5}, {}, "top_p is 0.95"),
        ({"tool_choice": ToolChoice("required")}, {}, "no tools"),
        ({"response_format": {"type": "json_object"}}, {}, "json_schema"),
    ],
)
def test_options_that_the_api_does_not_take(options: dict[str, Any], settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        body(GenerateOptions(**options), **settings)


def test_what_is_refused_at_once() -> None:
    with pytest.raises(UnsupportedOptionError) as caught:
        AnthropicChatModel("m", api_key="k", options=GenerateOptions(seed=1))
    assert caught.value.option == "seed"
    with pytest.raises(ConfigurationError, match="not among the tools: weather"):
        body(GenerateOptions(tool_choice=ToolChoice.specific("clock")), [TOOL])
    for schema in ({"description": "anything"}, {"type": "object", "additionalProperties": {"type": "string"}}):
        with pytest.raises(ConfigurationError, match="tool mode"):
            output_schema(schema)


def test_a_forced_call_is_asked_for_without_thinking() -> None:
    options = GenerateOptions(thinking_budget=2000, tool_choice=ToolChoice("required"), temperature=0.3)
    sent = body(options, [TOOL])
    assert "thinking" not in sent
    assert sent["temperature"] == 0.3


def test_calls_begun_without_thinking_are_ended_without_it() -> None:
    calls = ToolUseBlock("c", "weather")
    options = GenerateOptions(thinking_budget=2000)

    def asked(*begun: Any) -> dict[str, Any]:
        messages = [*ASK, Msg.assistant([*begun, calls]), Msg.tool(ToolResultBlock.of(calls, "sunny"))]
        return format_request("claude-sonnet-4-5", messages, [TOOL], options, AnthropicSettings(), stream=False)

    assert "thinking" not in asked(TextBlock("I look."))
    assert "thinking" in asked(ThinkingBlock("hm", "SIG"))
    adaptive = AnthropicSettings(thinking={"type": "adaptive"})
    messages = [*ASK, Msg.assistant([calls]), Msg.tool(ToolResultBlock.of(calls, "sunny"))]
    assert "thinking" in format_request("m", messages, [TOOL], GenerateOptions(), adaptive, stream=False)


def test_interleaved_thinking_may_be_longer_than_the_answer() -> None:
    sent = body(GenerateOptions(thinking_budget=8000, max_tokens=2000), betas=("interleaved-thinking-2025-05-14",))
    assert (sent["max_tokens"], sent["thinking"]) == (2000, {"type": "enabled", "budget_tokens": 8000})


def test_effort_without_adaptive_thinking() -> None:
    given = format_request(
        "claude-opus-4-5", ASK, (), GenerateOptions(reasoning_effort="low"), AnthropicSettings(), stream=False
    )
    assert given["output_config"] == {"effort": "low"}
    assert "thinking" not in given
    assert body(GenerateOptions(reasoning_effort="none"))["thinking"] == {"type": "disabled"}


def test_body_params_are_over_everything() -> None:
    options = GenerateOptions(max_tokens=5, additional_body_params={"max_tokens": None, "service_tier": "auto"})
    sent = body(options)
    assert "max_tokens" not in sent
    assert sent["service_tier"] == "auto"


@pytest.mark.parametrize(
    ("blocks", "why"),
    [
        ([AudioBlock(Base64Source("audio/wav", "aGk="))], "transcript"),
        ([VideoBlock(URLSource("https://example.com/v.mp4"))], "frames"),
        ([ImageBlock(Base64Source("image/tiff", "aGk="))], "convert"),
        ([FileBlock(Base64Source("application/zip", "aGk="))], "PDF or text"),
        ([FileBlock(Base64Source("text/plain", "/w=="))], "UTF-8"),
        ([ImageBlock(FileSource("cat.png"))], "read_files"),
        ([ImageBlock(URLSource("data:image/png;base64,"))], "no data"),
        ([ToolUseBlock("c", "f")], "cannot hold a tool_use"),
        ([], "nothing to send"),
    ],
)
def test_content_that_the_api_does_not_take(blocks: Any, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        format_messages([Msg.user(blocks)])
    with pytest.raises(InvalidInputError, match="text only"):
        format_messages([Msg.system([ImageBlock(Base64Source("image/png", "aGk="))]), Msg.user("hi")])
    with pytest.raises(InvalidInputError, match="results only"):
        format_messages([Msg("t", "words", "tool")])


def test_a_result_without_its_call_is_sent_as_text() -> None:
    result = ToolResultBlock("c9", "weather", (TextBlock("sunny"),))
    (turn,) = format_messages([Msg.tool(result), Msg.user("so?")]).turns
    assert [part["text"] for part in turn.content] == [
        "Result of weather (c9), whose call is not in this conversation:", "sunny", "so?",
    ]  # fmt: skip


def test_marks_of_the_cache() -> None:
    marked = [Msg("user", f"{n}", "user", metadata={"cache_control": True}) for n in range(5)]
    with pytest.raises(InvalidInputError, match="takes 4"):
        format_request("m", marked, (), GenerateOptions(), AnthropicSettings(), stream=False)
    sent = format_request("m", marked[:3], [TOOL], GenerateOptions(), AnthropicSettings(cache="auto"), stream=False)
    messages: Any = sent["messages"]
    tools: Any = sent["tools"]
    assert sum("cache_control" in part for turn in messages for part in turn["content"]) == 3
    assert "cache_control" in tools[0]
    thought = Msg.assistant([TextBlock("b"), ThinkingBlock("t", "S"), ToolUseBlock("c", "weather")])
    caching = AnthropicSettings(cache="auto")
    sent = format_request("m", [*ASK, thought], [TOOL], GenerateOptions(), caching, stream=False)
    messages = sent["messages"]
    assert messages[-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}


def test_which_models_hold_to_a_shape() -> None:
    assert "native" in AnthropicChatModel("claude-sonnet-4-5", api_key="k").output_modes
    assert "native" not in AnthropicChatModel("claude-3-7-sonnet-latest", api_key="k").output_modes
    assert "native" not in AnthropicChatModel("m", base_url="http://localhost:1").output_modes
    assert "native" in AnthropicChatModel("m", base_url="http://localhost:1", native_output=True).output_modes


# --- what comes back -------------------------------------------------------------------------------------------------


def test_a_server_that_keeps_the_connection_open(serve: Serve) -> None:
    async def open_end(reply: Any) -> None:
        stream(reply, *HELLO)
        await reply.until_client_leaves()

    assert said(asyncio.run(collect(model(serve(open_end)).stream(ASK)))) == "Hello"


def test_in_one_piece(serve: Serve) -> None:
    async def whole(reply: Any) -> None:
        content = [{"type": "text", "text": "Hello"}]
        reply.json(200, {"id": "m", "type": "message", "content": content, "stop_reason": "end_turn", "usage": {}})

    server = serve(whole)
    assert said(asyncio.run(collect(model(server, stream=False).stream(ASK)))) == "Hello"
    assert said(asyncio.run(collect(model(server).stream(ASK)))) == "Hello"
    assert [asked.body["stream"] for asked in server.asked] == [False, True]


def test_local_files_are_read(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-")
    server = serve(hello)
    block = FileBlock(FileSource(tmp_path / "a.pdf"))
    asyncio.run(collect(model(server).stream([Msg.user([block])])))
    (part,) = server.asked[0].body["messages"][0]["content"]
    assert (part["title"], part["source"]["media_type"]) == ("a.pdf", "application/pdf")


@pytest.mark.parametrize(
    ("status", "kind", "message", "error"),
    [
        (400, "invalid_request_error", "max_tokens: Field required", BadRequestError),
        (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", ContextOverflowError),
        (
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 1 + 2 > 2",
            ContextOverflowError,
        ),
        (401, "authentication_error", "invalid x-api-key", AuthenticationError),
        (403, "permission_error", "no", PermissionDeniedError),
        (404, "not_found_error", "model: claude-9", NotFoundError),
        (429, "rate_limit_error", "slow down", RateLimitError),
        (500, "api_error", "Internal server error", ServerError),
        (529, "overloaded_error", "Overloaded", OverloadedError),
    ],
)
def test_statuses(serve: Serve, status: int, kind: str, message: str, error: type[Any]) -> None:
    async def fail(reply: Any) -> None:
        told = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
        reply.json(status, told, **{"request-id": "req_1", "retry-after": "7"})

    with pytest.raises(error) as caught:
        asyncio.run(collect(model(serve(fail)).stream(ASK)))
    raised = caught.value
    assert (raised.status, raised.code, raised.request_id, raised.retry_after) == (status, kind, "req_1", 7.0)
    assert message in str(raised)
    assert (raised.model, raised.provider) == ("claude-sonnet-5", "anthropic")
    assert raised.retryable == (status in (429, 500, 529))


def test_an_overloaded_server_is_asked_again(serve: Serve) -> None:
    async def second_time(reply: Any) -> None:
        if len(reply.server.asked) == 1:
            reply.json(529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
        else:
            await hello(reply)

    config = ExecutionConfig(max_attempts=2, initial_backoff=0.0)
    chunks = asyncio.run(collect(model(serve(second_time), execution_config=config).stream(ASK)))
    assert chunks[0].retry is not None
    assert isinstance(chunks[0].retry.error, OverloadedError)
    assert said(chunks) == "Hello"


def test_only_an_error_before_the_first_word_is_retried(serve: Serve) -> None:
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}

    async def early(reply: Any) -> None:
        stream(
            reply,
            started(input_tokens=1),
            {"type": "ping"},
            *((overloaded,) if len(reply.server.asked) == 1 else HELLO),
        )
        reply.end()

    async def late(reply: Any) -> None:
        stream(reply, *HELLO[:3], overloaded)
        reply.end()

    config = ExecutionConfig(max_attempts=3, initial_backoff=0.0)
    assert said(asyncio.run(collect(model(serve(early), execution_config=config).stream(ASK)))) == "Hello"
    server = serve(late)
    with pytest.raises(OverloadedError):
        asyncio.run(collect(model(server, execution_config=config).stream(ASK)))
    assert len(server.asked) == 1


def test_a_connection_that_breaks_off(serve: Serve) -> None:
    async def broken(reply: Any) -> None:
        stream(reply, *ANSWER[:6])
        await reply.writer.drain()
        reply.abort()

    with pytest.raises(ModelConnectionError):
        asyncio.run(collect(model(serve(broken)).stream(ASK)))


def test_a_web_page(serve: Serve) -> None:
    async def page(reply: Any) -> None:
        reply.whole(200, b"<html>", **{"content-type": "text/html"})

    with pytest.raises(ProtocolError, match="base_url"):
        asyncio.run(collect(model(serve(page)).stream(ASK)))


def test_silence_has_its_deadline(serve: Serve) -> None:
    async def silent(reply: Any) -> None:
        stream(reply, *HELLO[:3])
        await reply.until_client_leaves()

    server = serve(silent)
    config = ExecutionConfig(max_attempts=1, idle_timeout=0.05)
    with pytest.raises(ModelTimeoutError):
        asyncio.run(collect(model(server, execution_config=config).stream(ASK)))
    assert server.left.wait(10)


def test_disposal_closes_the_response(serve: Serve) -> None:
    async def slow(reply: Any) -> None:
        stream(reply, *HELLO[:3])
        await reply.until_client_leaves()

    server = serve(slow)

    async def first() -> ChatResponse:
        async with model(server).stream(ASK) as chunks:
            async for chunk in chunks:
                return chunk
        raise AssertionError

    assert said([asyncio.run(first())]) == "Hel"
    assert server.left.wait(10)


def test_an_agent_with_a_tool_sends_its_signed_thinking_back(serve: Serve) -> None:
    async def two_rounds(reply: Any) -> None:
        if len(reply.server.asked) == 1:
            events = [started(), *thinking(0, "SIG", "I look."), *call(1, "toolu_1", "weather", '{"city": "Köln"}')]
            stream(reply, *events, stopped("tool_use"), {"type": "message_stop"})
            reply.end()
        else:
            await hello(reply)

    def weather(city: str) -> str:
        """The weather.

        Args:
            city: Where.
        """
        return f"sunny in {city}"

    async def ask(agent: ReActAgent) -> Msg:
        return await agent.call(Msg.user("Weather in Köln?"))

    server = serve(two_rounds)
    agent = ReActAgent("Friday", model(server), "Be kind.", tools=[weather])
    reply = asyncio.run(ask(agent))
    assert reply.text == "Hello"
    first, second = (asked.body for asked in server.asked)
    assert first["system"] == [{"type": "text", "text": "Be kind."}]
    assert second["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "I look.", "signature": "SIG"},
                {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Köln"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": [{"type": "text", "text": "sunny in Köln"}],
                }
            ],
        },
    ]
