"""A redirect carries no key, no header and no conversation to another origin: real servers, all providers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from agentscope_rx.errors import ModelError, RedirectError
from agentscope_rx.messages import Msg
from agentscope_rx.models import (
    AnthropicChatModel,
    DashScopeChatModel,
    ExecutionConfig,
    GeminiChatModel,
    GenerateOptions,
    OllamaChatModel,
    OpenAIChatModel,
    OpenAIResponsesModel,
)
from agentscope_rx.models.embedding import OpenAIEmbeddingModel
from agentscope_rx.models.speech import DashScopeTTSModel, OpenAITTSModel
from agentscope_rx.models.transport import HttpRequest, Transport
from tests.models.conftest import Loopback, loopback

KEY = "sk-0123456789abcdef"
ASK = [Msg.user("the conversation")]
CONFIG = ExecutionConfig(max_attempts=3, initial_backoff=0)
OPTIONS = GenerateOptions(additional_headers={"x-tenant": "tenant-secret"})

MODELS: dict[str, Callable[[str], Any]] = {
    "openai": lambda url: OpenAIChatModel("m", api_key=KEY, base_url=url, execution_config=CONFIG, options=OPTIONS),
    "responses": lambda url: OpenAIResponsesModel("m", api_key=KEY, base_url=url, execution_config=CONFIG),
    "anthropic": lambda url: AnthropicChatModel("m", api_key=KEY, base_url=url, execution_config=CONFIG),
    "gemini": lambda url: GeminiChatModel("m", api_key=KEY, base_url=url, execution_config=CONFIG),
    "dashscope": lambda url: DashScopeChatModel("m", api_key=KEY, base_url=url, execution_config=CONFIG),
    "ollama": lambda url: OllamaChatModel("m", api_key=KEY, base_url=url, execution_config=CONFIG),
}


@pytest.fixture
def serve() -> Iterator[Callable[..., Loopback]]:
    with ExitStack() as stack:
        yield lambda script: stack.enter_context(loopback(script))


async def collect(source: Any) -> list[Any]:
    return [value async for value in source]


def elsewhere(location: str, status: int = 307) -> Callable[[Any], Any]:
    async def answer(reply: Any) -> None:
        reply.whole(status, b"", location=location)

    return answer


async def greedy(reply: Any) -> None:
    reply.json(200, {})


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("provider", MODELS)
@pytest.mark.parametrize("stream", [True, False])
def test_nothing_goes_to_another_origin(serve: Any, provider: str, status: int, stream: bool) -> None:
    other = serve(greedy)
    server = serve(elsewhere(f"{other.url}/v1/steal?x=1", status))
    with pytest.raises(RedirectError) as caught:
        asyncio.run(collect(MODELS[provider](server.url).stream(ASK, (), GenerateOptions(stream=stream))))
    assert other.connections == 0 and len(server.asked) == 1, "not followed, not tried again"
    origin = other.url.removesuffix("/v1")
    assert origin in str(caught.value) and "base_url" in str(caught.value) and "steal" not in str(caught.value)
    assert (caught.value.status, caught.value.target, caught.value.retryable) == (status, origin, False)


@pytest.mark.parametrize(
    "ask",
    [
        lambda url: OpenAIEmbeddingModel("m", api_key=KEY, base_url=url).embed(["text"]),
        lambda url: OpenAITTSModel("m", api_key=KEY, base_url=url).synthesize("text"),
        lambda url: DashScopeTTSModel("m", voice="Cherry", api_key=KEY, base_url=url).synthesize("text"),
    ],
)
def test_vectors_and_voices_do_not_follow_either(serve: Any, ask: Any) -> None:
    other = serve(greedy)
    server = serve(elsewhere(f"{other.url}/x"))
    with pytest.raises(RedirectError):
        asyncio.run(collect(ask(server.url)))
    assert other.connections == 0


@pytest.mark.parametrize("location", ["{same}/v1/there", "/v1/there", "there", "{account}/v1/there", "?x=1", "#x"])
def test_the_same_origin_is_followed_with_method_key_and_body(serve: Any, location: str) -> None:
    async def answer(reply: Any) -> None:
        if len(reply.server.asked) == 1:
            same = server.url.removesuffix("/v1")
            account = same.replace("//", "//intruder:password@")
            reply.whole(308, b"", location=location.format(same=same, account=account))
        else:
            reply.json(200, {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]})

    server = serve(answer)
    asyncio.run(collect(MODELS["openai"](server.url).stream(ASK)))
    first, second = server.asked
    assert first.body == second.body
    assert second.headers["authorization"] == f"Bearer {KEY}", "not the one of the answer"


@pytest.mark.parametrize(
    "location",
    [
        *("//127.0.0.1:1/x", "//evil.example/x", "https://127.0.0.1/x", "http://localhost/x", "http://[::1", "http://[::1]/"),
        *("http://127.0.0.1@evil.example/", "http://user:password@evil.example/", "ftp://127.0.0.1/", "file:///etc/passwd"),
        *("javascript:alert(1)", "data:text/plain,x", "http://127.0.0.1:99999/", "http://127.0.0.1:x/"),
        *("http://\u0445.example/", "http://127.0.0.1.evil.example/", "mailto:a@b"),
    ],
)  # fmt: skip
def test_locations_that_lead_astray(serve: Any, location: str) -> None:
    async def answer(reply: Any) -> None:
        reply.writer.write(b"HTTP/1.1 307 Go\r\ncontent-length: 0\r\nlocation: " + location.encode() + b"\r\n\r\n")

    server = serve(answer)
    with pytest.raises(ModelError) as caught:
        asyncio.run(collect(MODELS["openai"](server.url).stream(ASK)))
    assert isinstance(caught.value, RedirectError)
    assert len(server.asked) == 1
    assert "password" not in str(caught.value)


@pytest.mark.parametrize(
    "location", ["http://", "http:///evil.example", "///evil.example", "http:evil", "/\\evil.example"]
)
def test_odd_locations_that_stay_within_the_origin(serve: Any, location: str) -> None:
    server = serve(elsewhere(location))
    with pytest.raises(RedirectError, match="more than 5 times"):
        asyncio.run(collect(MODELS["openai"](server.url).stream(ASK)))
    assert len(server.asked) == 6


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirect_that_makes_a_get_of_a_post_is_an_error(serve: Any, status: int) -> None:
    server = serve(elsewhere("/v1/there", status))
    with pytest.raises(RedirectError, match="makes a GET of a POST"):
        asyncio.run(collect(MODELS["openai"](server.url).stream(ASK)))
    assert len(server.asked) == 1


def test_a_get_follows_within_its_origin(serve: Any) -> None:
    async def answer(reply: Any) -> None:
        if len(reply.server.asked) == 1:
            reply.whole(302, b"", location="/there")
        else:
            reply.json(200, {"found": True})

    server = serve(answer)
    request = HttpRequest(server.url, b"", method="GET")
    assert asyncio.run(collect(Transport().request(request))) == [{"found": True}]


def test_redirects_in_circles_end(serve: Any) -> None:
    server = serve(elsewhere("/v1/again"))
    with pytest.raises(RedirectError, match="more than 5 times"):
        asyncio.run(collect(MODELS["openai"](server.url).stream(ASK)))
    assert len(server.asked) == 6


def test_a_redirect_without_a_location_is_an_error_status(serve: Any) -> None:
    async def answer(reply: Any) -> None:
        reply.whole(307, b"")

    with pytest.raises(ModelError, match="HTTP 307"):
        asyncio.run(collect(MODELS["openai"](serve(answer).url).stream(ASK)))


def test_cookies_are_not_kept(serve: Any) -> None:
    """Requests under several keys share a connection pool; a cookie would tell the server that they belong together."""

    async def answer(reply: Any) -> None:
        reply.json(200, {}, **{"set-cookie": "session=1; Path=/"})

    server = serve(answer)

    async def main() -> None:
        for _ in range(2):
            await Transport().request(HttpRequest(server.url, b"{}"))

    asyncio.run(main())
    assert all("cookie" not in asked.headers for asked in server.asked)


def test_https_to_the_same_host_is_another_origin() -> None:
    from agentscope_rx.models.transport.client import origin

    assert origin(httpx.URL("http://a/x")) != origin(httpx.URL("https://a/x"))
    assert origin(httpx.URL("https://A:443/x")) == origin(httpx.URL("https://a/y")) == "https://a"
    assert origin(httpx.URL("http://[::1]:80/x")) == "http://[::1]"
