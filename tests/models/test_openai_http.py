"""`OpenAIChatModel` and the transport against a real server: what is sent, what comes back, and what is left open."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from typing import Any

import pytest
from reactivex import operators as ops

from agentscope_rx.errors import (
    AuthenticationError,
    BadRequestError,
    ConfigurationError,
    ContextOverflowError,
    ModelConnectionError,
    ModelError,
    ModelHTTPError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProtocolError,
    RateLimitError,
    ServerError,
)
from agentscope_rx.messages import FileSource, ImageBlock, Msg, TextBlock
from agentscope_rx.models import ChatResponse, ExecutionConfig, FinishReason, GenerateOptions, OpenAIChatModel
from agentscope_rx.models.transport import HttpRequest, Transport, http

Serve = Callable[..., Any]
ASK = [Msg.user("hi")]
ONCE = ExecutionConfig(max_attempts=1)


def piece(text: str, finish: str | None = None) -> dict[str, object]:
    return {"id": "c1", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


def model(server: Any, **given: Any) -> OpenAIChatModel:
    return OpenAIChatModel("m", **{"api_key": "k", "base_url": server.url, "execution_config": ONCE, **given})


def said(chunks: list[ChatResponse]) -> str:
    return "".join(block.text for chunk in chunks for block in chunk.content if isinstance(block, TextBlock))


async def collect(source: Any) -> list[Any]:
    return [value async for value in source]


async def happens(event: Any) -> bool:
    return await asyncio.to_thread(event.wait, 10)


async def hello(reply: Any) -> None:
    reply.start()
    reply.send(piece("Hel"), piece("lo", "stop"))
    reply.send({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}, "[DONE]")
    reply.end()


async def complain(server: Any, error: type[Exception]) -> Any:
    with pytest.raises(error) as caught:
        await collect(model(server).stream(ASK))
    return caught.value


# --- what is sent ----------------------------------------------------------------------------------------------------


def test_a_stream_is_asked_for_and_summed_up(serve: Serve) -> None:
    server = serve(hello)
    chunks = asyncio.run(collect(model(server).stream(ASK)))
    assert said(chunks) == "Hello"
    assert chunks[-1].usage is not None
    assert (chunks[-1].usage.input_tokens, chunks[-1].usage.output_tokens) == (3, 2)
    assert chunks[-1].usage.time > 0
    assert [c.finish_reason for c in chunks] == [None, FinishReason.STOP, None]
    (asked,) = server.asked
    assert asked.target == "/v1/chat/completions"
    assert asked.headers["authorization"] == "Bearer k"
    assert asked.headers["user-agent"].startswith("agentscope-rx")
    assert asked.body == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_headers_query_and_body_of_ones_own_go_out(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    server = serve(hello)
    options = GenerateOptions(
        additional_headers={"Api-Key": "z"},
        additional_query_params={"api-version": "1 2"},
        additional_body_params={"top_k": 3},
    )
    asyncio.run(collect(model(server, api_key=None, options=options).stream(ASK)))
    (asked,) = server.asked
    assert "authorization" not in asked.headers
    assert asked.headers["api-key"] == "z"
    assert asked.target == "/v1/chat/completions?api-version=1+2"
    assert asked.body["top_k"] == 3


def test_a_local_file_is_read_and_sent_as_data(serve: Serve, tmp_path: Any) -> None:
    server = serve(hello)
    picture = tmp_path / "a.png"
    picture.write_bytes(b"\x89PNG")
    blocks = [ImageBlock(FileSource(picture)), ImageBlock(FileSource(picture))]
    asyncio.run(collect(model(server).stream([Msg.user(blocks)])))
    parts = server.asked[0].body["messages"][0]["content"]
    assert [part["image_url"]["url"] for part in parts] == ["data:image/png;base64,iVBORw=="] * 2


def test_nothing_is_sent_if_a_file_is_missing(serve: Serve, tmp_path: Any) -> None:
    server = serve(hello)
    lost = Msg.user(ImageBlock(FileSource(tmp_path / "none.png")))
    with pytest.raises(ValueError, match=r"none\.png cannot be read"):
        asyncio.run(collect(model(server).stream([lost])))
    assert server.asked == []


# --- answers in one piece --------------------------------------------------------------------------------------------

WHOLE = {"id": "c2", "choices": [{"message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}]}


@pytest.mark.parametrize("stream", [True, False])
def test_a_completion_is_read_where_a_stream_was_asked_for(serve: Serve, stream: bool) -> None:
    async def whole(reply: Any) -> None:
        reply.json(200, WHOLE)

    server = serve(whole)
    (chunk,) = asyncio.run(collect(model(server, stream=stream).stream(ASK)))
    assert (said([chunk]), chunk.finish_reason, chunk.id) == ("Hi", FinishReason.STOP, "c2")
    assert server.asked[0].body["stream"] is stream


def test_a_call_may_choose_not_to_stream(serve: Serve) -> None:
    async def whole(reply: Any) -> None:
        reply.json(200, WHOLE)

    server = serve(whole)
    asyncio.run(collect(model(server).stream(ASK, (), GenerateOptions(stream=False))))
    assert server.asked[0].body["stream"] is False
    assert "stream_options" not in server.asked[0].body


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"error": {"message": "too fast", "code": "rate_limit_exceeded"}}, RateLimitError),
        ({"error": "no"}, ServerError),
        ({"object": "error", "message": "bad", "code": 400}, BadRequestError),
        ({"detail": "gone", "status": 404}, NotFoundError),
        ({"choices": []}, ProtocolError),
        ({}, ProtocolError),
        ([], ProtocolError),
        ({"choices": [{"message": {"content": 7}}]}, ProtocolError),
    ],
)
def test_an_error_with_status_200_is_an_error(serve: Serve, stream: bool, body: object, error: type[Exception]) -> None:
    async def answer(reply: Any) -> None:
        reply.json(200, body)

    with pytest.raises(error):
        asyncio.run(collect(model(serve(answer), stream=stream).stream(ASK)))


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/octet-stream", "application/json", "text/event-stream; x=y"]
)
def test_events_are_events_whatever_their_content_type(serve: Serve, kind: str) -> None:
    async def answer(reply: Any) -> None:
        reply.start(**{"content-type": kind})
        reply.send(piece("ok", "stop"), "[DONE]")
        reply.end()

    assert said(asyncio.run(collect(model(serve(answer)).stream(ASK)))) == "ok"


@pytest.mark.parametrize("stream", [True, False])
def test_a_web_page_is_no_answer(serve: Serve, stream: bool) -> None:
    async def answer(reply: Any) -> None:
        reply.whole(200, b"<!doctype html>hello", **{"content-type": "text/html"})

    with pytest.raises(ProtocolError) as caught:
        asyncio.run(collect(model(serve(answer), stream=stream).stream(ASK)))
    assert caught.value.body == "<!doctype html>hello"
    assert (caught.value.model, caught.value.provider) == ("m", "openai")


# --- error statuses --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("status", "error", "retryable"),
    [
        (400, BadRequestError, False),
        (401, AuthenticationError, False),
        (402, BadRequestError, False),
        (403, PermissionDeniedError, False),
        (404, NotFoundError, False),
        (408, BadRequestError, True),
        (422, BadRequestError, False),
        (429, RateLimitError, True),
        (500, ServerError, True),
        (503, OverloadedError, True),
        (529, OverloadedError, True),
        (304, ModelHTTPError, False),
    ],
)
def test_an_error_status_is_its_error(
    serve: Serve, stream: bool, status: int, error: type[ModelHTTPError], retryable: bool
) -> None:
    async def answer(reply: Any) -> None:
        body = {"error": {"message": "because", "code": "why"}} if status != 304 else {}
        if status == 304:
            reply.whole(304, b"")
        else:
            reply.json(status, body, **{"x-request-id": "r1", "retry-after": "7"})

    with pytest.raises(ModelHTTPError) as caught:
        asyncio.run(collect(model(serve(answer), stream=stream).stream(ASK)))
    failed = caught.value
    assert type(failed) is error
    assert failed.retryable is retryable
    assert (failed.status, failed.model, failed.provider) == (status, "m", "openai")
    if status != 304:
        assert (failed.code, failed.request_id, failed.retry_after) == ("why", "r1", 7.0)
        assert "because" in str(failed)
        assert json.loads(failed.body or "") == {"error": {"message": "because", "code": "why"}}


def test_an_error_status_says_more_than_a_broken_body(serve: Serve) -> None:
    async def answer(reply: Any) -> None:
        reply.whole(503, b"", **{"content-length": "99", "retry-after": "1"})
        await reply.writer.drain()
        reply.abort()

    assert asyncio.run(complain(serve(answer), OverloadedError)).retry_after == 1.0


def test_an_attempt_waits_as_long_as_the_server_asks(serve: Serve) -> None:
    async def answer(reply: Any) -> None:
        if len(reply.server.asked) == 1:
            reply.json(429, {"error": {"message": "slow"}}, **{"retry-after-ms": "20"})
        else:
            await hello(reply)

    config = ExecutionConfig(max_attempts=2, initial_backoff=0)
    chunks = asyncio.run(collect(model(serve(answer), execution_config=config).stream(ASK)))
    assert chunks[0].retry is not None
    assert chunks[0].retry.delay == pytest.approx(0.02)
    assert isinstance(chunks[0].retry.error, RateLimitError)
    assert said(chunks) == "Hello"


def test_a_conversation_that_does_not_fit_is_told_apart(serve: Serve) -> None:
    async def answer(reply: Any) -> None:
        reply.json(400, {"error": {"message": "too long", "code": "context_length_exceeded"}})

    asyncio.run(complain(serve(answer), ContextOverflowError))


# --- streams that end badly ------------------------------------------------------------------------------------------


def test_an_error_in_the_stream_comes_after_what_was_said(serve: Serve) -> None:
    async def answer(reply: Any) -> None:
        reply.start()
        reply.send(piece("Hel"), {"error": {"message": "overheated", "code": 503}})
        reply.end()

    async def main() -> str:
        seen: list[ChatResponse] = []
        with pytest.raises(OverloadedError, match="overheated"):
            await model(serve(answer)).stream(ASK).pipe(ops.do_action(seen.append))
        return said(seen)

    assert asyncio.run(main()) == "Hel"


@pytest.mark.parametrize(
    "data", [b"event: error\ndata: it broke\n\n", b'event: error\ndata: {"message": "it broke"}\n\n']
)
def test_an_event_named_error_is_one(serve: Serve, data: bytes) -> None:
    async def answer(reply: Any) -> None:
        reply.start()
        reply.send_bytes(data)
        reply.end()

    assert "it broke" in str(asyncio.run(complain(serve(answer), ModelHTTPError)))


@pytest.mark.parametrize("broken", [True, False])
def test_a_stream_that_ends_early_is_never_a_short_answer(serve: Serve, broken: bool) -> None:
    async def answer(reply: Any) -> None:
        reply.start()
        reply.send(piece("Hel"))
        await reply.writer.drain()
        if broken:
            reply.abort()
        else:
            reply.end()

    failed = asyncio.run(complain(serve(answer), ModelConnectionError))
    assert failed.retryable
    assert failed.model == "m"
    assert (failed.__cause__ is not None) is broken


def test_a_chunk_that_is_not_json_is_a_protocol_error(serve: Serve) -> None:
    async def answer(reply: Any) -> None:
        reply.start()
        reply.send(piece("Hel"), "{nonsense", "[DONE]")
        reply.end()

    assert asyncio.run(complain(serve(answer), ProtocolError)).body == "{nonsense"


def test_keep_alive_comments_are_no_content(serve: Serve) -> None:
    async def answer(reply: Any) -> None:
        reply.start()
        for data in (b": ping\n\n", b":\n\n", b"retry: 3\n\n", b"id: 7\n\n", b"event: ping\n\n"):
            reply.send_bytes(data)
        reply.send(piece("ok", "stop"), "[DONE]")
        reply.end()

    assert len(asyncio.run(collect(model(serve(answer)).stream(ASK)))) == 1


# --- connections -----------------------------------------------------------------------------------------------------


def test_disposal_closes_the_connection(serve: Serve) -> None:
    async def endless(reply: Any) -> None:
        reply.start()
        reply.send(piece("Hel"))
        await reply.until_client_leaves()

    async def main() -> None:
        server = serve(endless)
        async with model(server).stream(ASK) as chunks:
            async for _ in chunks:
                break
        assert await happens(server.left)

    asyncio.run(main())


@pytest.mark.parametrize("stream", [True, False])
def test_disposal_before_the_answer_closes_the_connection(serve: Serve, stream: bool) -> None:
    async def silent(reply: Any) -> None:
        reply.server.reached.set()
        await reply.until_client_leaves()

    async def main() -> None:
        server = serve(silent)
        task = model(server, stream=stream).stream(ASK).as_task()
        assert await happens(server.reached)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await happens(server.left)

    asyncio.run(main())


def test_no_connection_is_a_connection_error() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    chat = OpenAIChatModel("m", api_key="k", base_url=f"http://127.0.0.1:{port}/v1", execution_config=ONCE)
    with pytest.raises(ModelConnectionError) as caught:
        asyncio.run(collect(chat.stream(ASK)))
    assert f"127.0.0.1:{port}" in str(caught.value)
    assert caught.value.__cause__ is not None


def test_one_model_object_works_in_two_loops_and_in_none(serve: Serve) -> None:
    server = serve(hello)
    chat = model(server)
    for _ in range(2):
        assert said(asyncio.run(collect(chat.stream(ASK)))) == "Hello"
        assert server.all_closed.wait(10), "asyncio.run left a connection open"
    assert chat.stream(ASK).run().usage is not None
    assert server.connections == 3


@pytest.mark.parametrize("held", [False, True])
def test_a_connection_is_reused_unless_the_stream_stays_open(
    serve: Serve, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if held:
        monkeypatch.setattr(http, "DRAIN_SECONDS", 0.01)

    async def answer(reply: Any) -> None:
        reply.start()
        reply.send(piece("ok", "stop"), "[DONE]")
        if held:
            await reply.until_client_leaves()
        else:
            reply.end()

    async def main() -> None:
        server = serve(answer)
        chat = model(server)
        for _ in range(2):
            assert said(await collect(chat.stream(ASK))) == "ok"
        assert server.connections == (2 if held else 1)

    asyncio.run(main())


def test_the_transport_names_what_cannot_be_sent(serve: Serve) -> None:
    url = serve(hello).url
    for request in (HttpRequest(url, b"{}", {"x": "a\nb"}), HttpRequest("nope://host/", b"{}")):
        with pytest.raises(ConfigurationError, match="cannot be sent"):
            asyncio.run(collect(Transport().request(request)))


# --- construction ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions"),
        ("https://api.openai.com/v1/", "https://api.openai.com/v1/chat/completions"),
        ("https://host/api/paas/v4", "https://host/api/paas/v4/chat/completions"),
        ("https://host/compatible-mode/v1/", "https://host/compatible-mode/v1/chat/completions"),
        ("https://host", "https://host/chat/completions"),
        ("https://host/v1?api-version=2", "https://host/v1/chat/completions?api-version=2"),
        ("https://host/v1/chat/completions", "https://host/v1/chat/completions"),
    ],
)
def test_the_path_is_appended_and_nothing_else(base: str, url: str) -> None:
    assert OpenAIChatModel("m", api_key="k", base_url=base).endpoint.url == url


def test_key_and_base_url_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", " secret \n")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://host/v1")
    chat = OpenAIChatModel("m")
    assert (chat.endpoint.url, chat.endpoint.api_key) == ("http://host/v1/chat/completions", "secret")
    assert "secret" not in repr(chat)
    assert "secret" not in repr(chat.endpoint)


def test_a_missing_key_names_both_remedies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(ConfigurationError, match=r"(?s)api_key=.*OPENAI_API_KEY"):
        OpenAIChatModel("m")
    OpenAIChatModel("m", base_url="http://localhost:1234/v1")


@pytest.mark.parametrize("base", ["localhost:8000/v1", "ftp://host/v1", "https://", "http://[::1/v1"])
def test_a_base_url_that_cannot_work_is_refused(base: str) -> None:
    with pytest.raises(ConfigurationError, match="base_url"):
        OpenAIChatModel("m", api_key="k", base_url=base)


@pytest.mark.parametrize("name", ["top_k", "thinking_budget"])
def test_options_without_a_field_are_refused(name: str) -> None:
    options = GenerateOptions(**{name: 5})
    with pytest.raises(ConfigurationError, match=f"{name}.*additional_body_params"):
        OpenAIChatModel("m", api_key="k", options=options)
    with pytest.raises(ConfigurationError, match=name):
        asyncio.run(collect(OpenAIChatModel("m", api_key="k").stream(ASK, (), options)))


def test_all_that_goes_wrong_with_a_model_is_a_model_error() -> None:
    assert issubclass(ModelHTTPError, ModelError)
