"""`GeminiChatModel` against a real server: where it asks, what it refuses, what it makes of failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentscope_rx import ReActAgent
from agentscope_rx.errors import (
    BadRequestError,
    ConfigurationError,
    ContextOverflowError,
    InvalidInputError,
    ModelConnectionError,
    ModelTimeoutError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
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
    ToolResultBlock,
    ToolUseBlock,
)
from agentscope_rx.models import ChatResponse, ExecutionConfig, GeminiChatModel, GenerateOptions, ToolChoice, ToolSchema
from agentscope_rx.models.gemini.endpoint import endpoint_of
from agentscope_rx.models.gemini.formatter import format_messages
from agentscope_rx.models.gemini.request import GeminiSettings, format_request
from tests.models.test_gemini_parser import ANSWER, call, response, text

Serve = Callable[..., Any]
ASK = [Msg.user("hi")]
ONCE = ExecutionConfig(max_attempts=1)
HELLO = [response(text("Hel")), response(text("lo"), reason="STOP", usage={"promptTokenCount": 3})]
TOOL = ToolSchema("weather", "", {"type": "object", "properties": {}})
GOOGLE = "https://generativelanguage.googleapis.com"


def model(server: Any, **given: Any) -> GeminiChatModel:
    made = {"api_key": "k", "base_url": server.url, "execution_config": ONCE, **given}
    return GeminiChatModel("gemini-3-flash-preview", **made)


async def collect(source: Any) -> list[ChatResponse]:
    return [value async for value in source]


def said(chunks: list[ChatResponse]) -> str:
    return "".join(block.text for chunk in chunks for block in chunk.content if isinstance(block, TextBlock))


async def hello(reply: Any) -> None:
    reply.start()
    reply.send(*HELLO)
    reply.end()


def body(options: GenerateOptions | None = None, tools: Any = (), name: str = "gemini-3-flash") -> dict[str, Any]:
    return format_request(name, ASK, tools, options or GenerateOptions(), GeminiSettings())


# --- where it asks, and under whose name -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ({}, f"{GOOGLE}/v1beta/models/m:streamGenerateContent?alt=sse"),
        ({"model": "models/m"}, f"{GOOGLE}/v1beta/models/m:streamGenerateContent?alt=sse"),
        ({"model": "tunedModels/t"}, f"{GOOGLE}/v1beta/tunedModels/t:streamGenerateContent?alt=sse"),
        ({"base_url": f"{GOOGLE}/v1"}, f"{GOOGLE}/v1/models/m:streamGenerateContent?alt=sse"),
        ({"base_url": "http://h/gemini/?a=1"}, "http://h/gemini/v1beta/models/m:streamGenerateContent?a=1&alt=sse"),
        (
            {"project": "p", "location": "eu"},
            "https://eu-aiplatform.googleapis.com/v1beta1/projects/p/locations/eu/publishers/google/models/m"
            ":streamGenerateContent?alt=sse",
        ),
        (
            {"project": "p", "model": "meta/llama"},
            "https://aiplatform.googleapis.com/v1beta1/projects/p/locations/global/publishers/meta/models/llama"
            ":streamGenerateContent?alt=sse",
        ),
    ],
)
def test_where_requests_go(given: dict[str, Any], url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_CLOUD_LOCATION", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    full = {"model": "m", "base_url": None, "api_key": "k", "project": None, "location": None, **given}
    assert endpoint_of(**full).url_with({"alt": "sse"}, ":streamGenerateContent") == url


def test_keys_and_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigurationError, match="GEMINI_API_KEY"):
        GeminiChatModel("m")
    with pytest.raises(ConfigurationError, match="token"):
        GeminiChatModel("m", project="p")
    with pytest.raises(ConfigurationError, match="project"):
        GeminiChatModel("m", api_key="k", location="eu")
    with pytest.raises(ConfigurationError, match="name of a Gemini model"):
        GeminiChatModel("../m", api_key="k")
    monkeypatch.setenv("GOOGLE_API_KEY", "second")
    assert GeminiChatModel("m").endpoint.api_key == "second"
    monkeypatch.setenv("GEMINI_API_KEY", "first")
    assert GeminiChatModel("m").endpoint.api_key == "first"
    # a key of the Developer API is none of Vertex AI's
    assert GeminiChatModel("m", project="p", token="t").endpoint.api_key is None


def test_a_token_is_asked_for_before_each_attempt(serve: Serve) -> None:
    async def second_time(reply: Any) -> None:
        if len(reply.server.asked) == 1:
            reply.json(503, {"error": {"code": 503, "message": "later", "status": "UNAVAILABLE"}})
        else:
            await hello(reply)

    tokens = iter(["t1", "t2"])
    server = serve(second_time)
    given = model(
        server,
        api_key=None,
        project="p",
        token=lambda: next(tokens),
        execution_config=ExecutionConfig(max_attempts=2, initial_backoff=0.0),
    )
    assert said(asyncio.run(collect(given.stream(ASK)))) == "Hello"
    assert [asked.headers["authorization"] for asked in server.asked] == ["Bearer t1", "Bearer t2"]


def test_a_token_that_cannot_be_had(serve: Serve) -> None:
    def token() -> str:
        raise PermissionError("no account")

    server = serve(hello)
    with pytest.raises(PermissionError, match="no account"):
        asyncio.run(collect(model(server, project="p", token=token).stream(ASK)))
    assert server.asked == []
    assert said(asyncio.run(collect(model(server, project="p", token="fixed").stream(ASK)))) == "Hello"


# --- what it refuses, and what it makes fit ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"parallel_tool_calls": False}, "no parallel_tool_calls"),
        ({"reasoning_effort": "huge"}, "minimal, low"),
        ({"reasoning_effort": "low", "thinking_budget": 5}, "not both"),
        ({"thinking_budget": -2}, "-1"),
        ({"tool_choice": ToolChoice("required")}, "no tools"),
        ({"response_format": {"type": "json_schema"}}, "with a schema"),
    ],
)
def test_options_that_the_api_does_not_take(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        body(GenerateOptions(**options))


def test_what_is_refused_at_once() -> None:
    with pytest.raises(UnsupportedOptionError) as caught:
        GeminiChatModel("m", api_key="k", options=GenerateOptions(parallel_tool_calls=False))
    assert caught.value.option == "parallel_tool_calls"
    with pytest.raises(ConfigurationError, match="not among the tools: weather"):
        body(GenerateOptions(tool_choice=ToolChoice.specific("clock")), [TOOL])


def test_body_params_are_united_with_the_config() -> None:
    given = {"generationConfig": {"temperature": None, "candidateCount": 2}, "toolConfig": {"a": 1}, "contents": None}
    sent = body(GenerateOptions(temperature=0.5, top_p=0.1, additional_body_params=given))
    assert sent == {"generationConfig": {"topP": 0.1, "candidateCount": 2}, "toolConfig": {"a": 1}}


@pytest.mark.parametrize(
    ("blocks", "why"),
    [
        ([ImageBlock(FileSource("cat.png"))], "read_files"),
        ([ToolUseBlock("c", "f")], "cannot hold"),
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


def test_results_that_no_response_can_hold() -> None:
    asked = ToolUseBlock("c1", "record")
    sound = AudioBlock(Base64Source("audio/wav", "aGk="))
    messages = [Msg.user("go"), Msg.assistant([asked]), Msg.tool(ToolResultBlock.of(asked, [sound])), Msg.user("so?")]
    contents = format_messages(messages).contents
    assert [(content.role, content.answers) for content in contents[2:]] == [("user", True), ("user", False)]
    assert [next(iter(part)) for part in contents[3].parts] == ["text", "inlineData", "text"]
    orphan = ToolResultBlock("c9", "record", (TextBlock("la"), sound))
    (content,) = format_messages([Msg.tool(orphan)]).contents
    assert [next(iter(part)) for part in content.parts] == ["text", "text", "inlineData"]


def test_which_models_hold_to_a_shape() -> None:
    assert "native" in GeminiChatModel("gemini-3-flash", api_key="k").output_modes
    assert "native" not in GeminiChatModel("models/gemini-2.5-pro", api_key="k").output_modes
    assert "native" in GeminiChatModel("gemini-2.5-pro", api_key="k", native_output=True).output_modes


# --- what comes back -------------------------------------------------------------------------------------------------


def test_streamed_whole_and_as_a_list(serve: Serve) -> None:
    async def any_form(reply: Any) -> None:
        if ":stream" not in reply.asked.target:
            reply.json(200, response(text("Hello"), reason="STOP"))
        elif "alt=sse" in reply.asked.target and "list" not in reply.asked.target:
            await hello(reply)
        else:
            reply.json(200, HELLO)

    server = serve(any_form)
    assert said(asyncio.run(collect(model(server).stream(ASK)))) == "Hello"
    assert said(asyncio.run(collect(model(server, stream=False).stream(ASK)))) == "Hello"
    listed = GenerateOptions(additional_query_params={"list": "1"})
    assert said(asyncio.run(collect(model(server).stream(ASK, options=listed)))) == "Hello"
    assert server.asked[0].headers["x-goog-api-key"] == "k"


def test_local_files_are_read(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-")
    server = serve(hello)
    asyncio.run(collect(model(server).stream([Msg.user([FileBlock(FileSource(tmp_path / "a.pdf"))])])))
    name, part = server.asked[0].body["contents"][0]["parts"]
    assert name == {"text": "File a.pdf:"}
    assert part["inlineData"]["mimeType"] == "application/pdf"


@pytest.mark.parametrize(
    ("status", "kind", "message", "error"),
    [
        (400, "INVALID_ARGUMENT", "Please use a valid role: user, model.", BadRequestError),
        (400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum (1).", ContextOverflowError),
        (403, "PERMISSION_DENIED", "no", PermissionDeniedError),
        (404, "NOT_FOUND", "models/m is not found", NotFoundError),
        (429, "RESOURCE_EXHAUSTED", "quota", RateLimitError),
        (500, "INTERNAL", "oh", ServerError),
        (503, "UNAVAILABLE", "The model is overloaded.", OverloadedError),
    ],
)
def test_statuses(serve: Serve, status: int, kind: str, message: str, error: type[Any]) -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}, {"retryDelay": 5}, 1]

    async def fail(reply: Any) -> None:
        told = {"error": {"code": status, "message": message, "status": kind, "details": details}}
        # where a stream was asked for, errors come in a list
        reply.json(status, [told] if ":stream" in reply.asked.target else told)

    server = serve(fail)
    for stream in (True, False):
        with pytest.raises(error) as caught:
            asyncio.run(collect(model(server, stream=stream).stream(ASK)))
        raised = caught.value
        assert (raised.status, raised.retry_after) == (status, 34.5)
        assert message in str(raised)
        assert (raised.model, raised.provider) == ("gemini-3-flash-preview", "gemini")
        assert raised.retryable == (status in (429, 500, 503))


def test_a_malformed_call_is_tried_again(serve: Serve) -> None:
    async def second_time(reply: Any) -> None:
        if len(reply.server.asked) == 1:
            reply.start()
            reply.send(
                response(reason="MALFORMED_FUNCTION_CALL", finishMessage="print(", usage={"promptTokenCount": 1})
            )
            reply.end()
        else:
            await hello(reply)

    config = ExecutionConfig(max_attempts=2, initial_backoff=0.0)
    chunks = asyncio.run(collect(model(serve(second_time), execution_config=config).stream(ASK)))
    assert chunks[0].retry is not None
    assert said(chunks) == "Hello"


def test_a_connection_that_breaks_off(serve: Serve) -> None:
    async def broken(reply: Any) -> None:
        reply.start()
        reply.send(*ANSWER[:3])
        await reply.writer.drain()
        reply.abort()

    with pytest.raises(ModelConnectionError):
        asyncio.run(collect(model(serve(broken)).stream(ASK)))


def test_silence_has_a_deadline_and_disposal_closes(serve: Serve) -> None:
    async def silent(reply: Any) -> None:
        reply.start()
        reply.send(HELLO[0])
        await reply.until_client_leaves()

    server = serve(silent)
    config = ExecutionConfig(max_attempts=1, idle_timeout=0.05)
    with pytest.raises(ModelTimeoutError):
        asyncio.run(collect(model(server, execution_config=config).stream(ASK)))
    assert server.left.wait(10)
    server.left.clear()

    async def first() -> ChatResponse:
        async with model(server).stream(ASK) as chunks:
            async for chunk in chunks:
                return chunk
        raise AssertionError

    assert said([asyncio.run(first())]) == "Hel"
    assert server.left.wait(10)


def test_an_agent_with_a_tool_sends_its_signatures_back(serve: Serve) -> None:
    async def two_rounds(reply: Any) -> None:
        if len(reply.server.asked) > 1:
            await hello(reply)
            return
        reply.start()
        calls = [call("weather", {"city": "Köln"}, signature="SIG"), call("weather", {"city": "Bonn"})]
        reply.send(response({"text": "hm", "thought": True}), response(*calls, reason="STOP"))
        reply.end()

    def weather(city: str) -> str:
        """The weather.

        Args:
            city: Where.
        """
        return f"sunny in {city}"

    async def ask(agent: ReActAgent) -> Msg:
        return await agent.call(Msg.user("Weather?"))

    server = serve(two_rounds)
    reply = asyncio.run(ask(ReActAgent("Friday", model(server), "Be kind.", tools=[weather])))
    assert reply.text == "Hello"
    first, second = (asked.body for asked in server.asked)
    assert first["systemInstruction"]["parts"] == [{"text": "Be kind."}]
    assert second["contents"][1:] == [
        {
            "role": "model",
            "parts": [
                {"functionCall": {"name": "weather", "args": {"city": "Köln"}}, "thoughtSignature": "SIG"},
                {"functionCall": {"name": "weather", "args": {"city": "Bonn"}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "weather", "response": {"output": "sunny in Köln"}}},
                {"functionResponse": {"name": "weather", "response": {"output": "sunny in Bonn"}}},
            ],
        },
    ]
