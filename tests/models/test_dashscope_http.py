"""`DashScopeChatModel` against a real server: what is sent, what comes back, what is left open, every kind of end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from reactivex import operators as ops

from agentscope_rx import ReActAgent, StructuredOutput
from agentscope_rx.errors import (
    AuthenticationError,
    BadRequestError,
    InvalidInputError,
    ModelConnectionError,
    ModelTimeoutError,
    PermissionDeniedError,
    ProtocolError,
    RateLimitError,
    ServerError,
)
from agentscope_rx.messages import (
    FileSource,
    FramesSource,
    ImageBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    URLSource,
    VideoBlock,
)
from agentscope_rx.models import ChatResponse, DashScopeChatModel, ExecutionConfig, GenerateOptions, ToolSchema
from agentscope_rx.models.accumulate import ResponseAccumulator

Serve = Callable[..., Any]
ASK = [Msg.user("hi")]
ONCE = ExecutionConfig(max_attempts=1)


def piece(text: str = "", finish: str = "null", **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, **more}
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    return {"output": {"choices": [{"message": message, "finish_reason": finish}]}, "usage": usage, "request_id": "r1"}


def event(data: object, name: str = "result", status: int = 200, number: int = 1) -> bytes:
    return f"id:{number}\nevent:{name}\n:HTTP_STATUS/{status}\ndata:{json.dumps(data)}\n\n".encode()


def model(server: Any, **given: Any) -> DashScopeChatModel:
    base = server.url.replace("/v1", "/api/v1")
    return DashScopeChatModel("qwen-plus", **{"api_key": "k", "base_url": base, "execution_config": ONCE, **given})


async def collect(source: Any) -> list[Any]:
    return [value async for value in source]


def said(chunks: list[ChatResponse]) -> str:
    return "".join(block.text for chunk in chunks for block in chunk.content if isinstance(block, TextBlock))


async def hello(reply: Any) -> None:
    reply.start()
    for each in (piece("Hel"), piece("lo"), piece(finish="stop")):
        reply.send_bytes(event(each))
    reply.end()


def refused(server: Any, error: type[Exception], **given: Any) -> Any:
    with pytest.raises(error) as caught:
        asyncio.run(collect(model(server, **given).stream(ASK)))
    return caught.value


def test_a_stream_is_asked_for_and_summed_up(serve: Serve) -> None:
    server = serve(hello)
    chunks = asyncio.run(collect(model(server).stream(ASK)))
    assert said(chunks) == "Hello"
    assert {chunk.id for chunk in chunks} == {"r1"}
    assert chunks[-1].usage is not None
    assert (chunks[-1].usage.input_tokens, chunks[-1].usage.output_tokens) == (3, 2)
    assert chunks[-1].usage.time > 0
    (asked,) = server.asked
    assert asked.target == "/api/v1/services/aigc/text-generation/generation"
    assert asked.headers["x-dashscope-sse"] == "enable"
    assert asked.headers["authorization"] == "Bearer k"
    assert asked.body == {
        "model": "qwen-plus",
        "input": {"messages": [{"role": "user", "content": "hi"}]},
        "parameters": {"result_format": "message", "incremental_output": True},
    }


@pytest.mark.parametrize("stream", [True, False])
def test_a_whole_answer_is_read_where_a_stream_was_asked_for(serve: Serve, stream: bool) -> None:
    async def whole(reply: Any) -> None:
        reply.json(200, piece("Hello", "stop", reasoning_content="hm"))

    server = serve(whole)
    (chunk,) = asyncio.run(collect(model(server, stream=stream).stream(ASK)))
    assert chunk.content == (ThinkingBlock("hm"), TextBlock("Hello"))
    assert ("x-dashscope-sse" in server.asked[0].headers) is stream


def test_snapshots_are_read_where_no_increments_were_asked_for(serve: Serve) -> None:
    async def snapshots(reply: Any) -> None:
        reply.start()
        for each in (piece("Hel"), piece("Hello"), piece("Hello", "stop")):
            reply.send_bytes(event(each))
        reply.end()

    options = GenerateOptions(additional_body_params={"incremental_output": False})
    chunks = asyncio.run(collect(model(serve(snapshots)).stream(ASK, (), options)))
    assert said(chunks) == "Hello"


def test_local_files_are_read_and_sent_as_data(serve: Serve, tmp_path: Any) -> None:
    server = serve(hello)
    picture = tmp_path / "a.png"
    picture.write_bytes(b"\x89PNG")
    film = VideoBlock(FramesSource((FileSource(picture), URLSource("https://host/b.png"))), fps=1.0)
    message = Msg.user([ImageBlock(FileSource(picture)), film, TextBlock("what?")])
    asyncio.run(collect(model(server).stream([message])))
    (asked,) = server.asked
    data = "data:image/png;base64,iVBORw=="
    assert asked.target.endswith("/multimodal-generation/generation")
    assert asked.body["input"]["messages"][0]["content"] == [
        {"image": data},
        {"video": [data, "https://host/b.png"], "fps": 1.0},
        {"text": "what?"},
    ]
    lost = Msg.user(VideoBlock(FramesSource((FileSource(tmp_path / "none.png"),))))
    with pytest.raises(InvalidInputError, match=r"none\.png cannot be read"):
        asyncio.run(collect(model(server).stream([lost])))
    assert len(server.asked) == 1


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (401, "InvalidApiKey", AuthenticationError),
        (403, "AccessDenied", PermissionDeniedError),
        (400, "InvalidParameter", BadRequestError),
        (429, "Throttling.RateQuota", RateLimitError),
        (500, "InternalError", ServerError),
    ],
)
def test_an_error_status_is_an_error_of_the_tree(serve: Serve, status: int, code: str, kind: type[Exception]) -> None:
    async def complain(reply: Any) -> None:
        reply.json(status, {"code": code, "message": "No.", "request_id": "r9"})

    error = refused(serve(complain), kind)
    assert (error.status, error.code, error.request_id) == (status, code, "r9")
    assert (error.model, error.provider) == ("qwen-plus", "dashscope")
    assert "No." in str(error)


def test_an_error_status_with_the_body_of_an_event(serve: Serve) -> None:
    async def complain(reply: Any) -> None:
        data = {
            "code": "InvalidParameter",
            "message": "<400> InternalError.Algo: Range of max_tokens",
            "request_id": "r9",
        }
        reply.whole(400, event(data, "error", 400), **{"content-type": "application/json"})

    error = refused(serve(complain), BadRequestError)
    assert (error.code, error.request_id) == ("InvalidParameter", "r9")
    assert str(error) == "HTTP 400: <400> InternalError.Algo: Range of max_tokens"


def test_an_error_in_a_stream(serve: Serve) -> None:
    async def complain(reply: Any) -> None:
        reply.start()
        reply.send_bytes(event(piece("Hel")))
        reply.send_bytes(event({"code": "Throttling", "message": "Slowly.", "request_id": "r9"}, "error", 429))
        reply.end()

    assert refused(serve(complain), RateLimitError).request_id == "r9"


def test_a_model_of_the_other_endpoint_is_named(serve: Serve) -> None:
    async def complain(reply: Any) -> None:
        reply.json(400, {"code": "InvalidParameter", "message": "url error, please check url!", "request_id": "r9"})

    error = refused(serve(complain), BadRequestError)
    assert "Give endpoint='multimodal'" in str(error)


@pytest.mark.parametrize("how", ["end", "abort"])
def test_a_stream_that_breaks_off_is_no_answer(serve: Serve, how: str) -> None:
    async def leave(reply: Any) -> None:
        reply.start()
        reply.send_bytes(event(piece("Hel")))
        await reply.writer.drain()
        getattr(reply, how)()

    refused(serve(leave), ModelConnectionError)


def test_a_web_page_is_no_answer(serve: Serve) -> None:
    async def page(reply: Any) -> None:
        reply.whole(200, b"<html>hi</html>", **{"content-type": "text/html"})

    refused(serve(page), ProtocolError)


# --- attempts, deadlines, disposal -----------------------------------------------------------------------------------


def test_an_attempt_is_made_again_until_words_were_shown(serve: Serve) -> None:
    answers = iter([429, 503])

    async def at_last(reply: Any) -> None:
        status = next(answers, None)
        if status is None:
            await hello(reply)
        else:
            reply.json(status, {"code": "Throttling", "message": "Slowly.", "request_id": "r"}, **{"retry-after": "0"})

    server = serve(at_last)
    config = ExecutionConfig(max_attempts=3, initial_backoff=0)
    chunks = asyncio.run(collect(model(server, execution_config=config).stream(ASK)))
    assert said(chunks) == "Hello"
    assert [chunk.retry.attempt for chunk in chunks if chunk.retry] == [1, 2]


def test_a_server_that_is_silent_runs_into_the_deadline(serve: Serve) -> None:
    async def silent(reply: Any) -> None:
        reply.start()
        reply.send_bytes(event(piece("Hel")))
        await reply.until_client_leaves()

    server = serve(silent)
    config = ExecutionConfig(max_attempts=1, idle_timeout=0.05)
    error = refused(server, ModelTimeoutError, execution_config=config)
    assert error.which == "idle"
    assert server.left.wait(10)


def test_who_has_read_enough_closes_the_response(serve: Serve) -> None:
    async def endless(reply: Any) -> None:
        reply.start()
        reply.send_bytes(event(piece("Hel")))
        await reply.until_client_leaves()

    server = serve(endless)
    (chunk,) = asyncio.run(collect(model(server).stream(ASK).pipe(ops.take(1))))
    assert said([chunk]) == "Hel"
    assert server.left.wait(10)


def test_the_pieces_of_a_call_are_one_call(serve: Serve) -> None:
    def part(arguments: str, **more: str) -> list[Any]:
        return [{"index": 0, "id": "", "type": "function", "function": {"arguments": arguments, **more}}]

    async def calls(reply: Any) -> None:
        reply.start()
        reply.send_bytes(event(piece(tool_calls=[{**part('{"ci', name="f")[0], "id": "c1"}])))
        reply.send_bytes(event(piece(tool_calls=part('ty": "Bern"}'))))
        reply.send_bytes(event(piece(finish="tool_calls")))
        reply.end()

    gather = ResponseAccumulator()
    tools = [ToolSchema("f", "d", {})]
    for chunk in asyncio.run(collect(model(serve(calls)).stream(ASK, tools))):
        gather.feed(chunk)
    assert gather.blocks() == (ToolUseBlock("c1", "f", {"city": "Bern"}),)


@dataclass
class Count:
    n: int


async def _call(agent: ReActAgent, text: str, **given: Any) -> Msg:
    return await agent.call(text, **given)


@pytest.mark.spec("S10")
def test_a_thinking_model_is_asked_again_without_force(serve: Serve) -> None:
    """A forced tool is refused while the model thinks."""
    told = "<400> InternalError.Algo.InvalidParameter: The tool_choice parameter does not support being set to object"

    async def answer(reply: Any) -> None:
        if "tool_choice" in reply.asked.body["parameters"]:
            reply.json(400, {"code": "InvalidParameter", "message": told, "request_id": "r"})
            return
        reply.start()
        if len(reply.server.asked) == 1:
            reply.send_bytes(event(piece("Three.", "stop")))
            reply.end()
            return
        function = {"name": "generate_response", "arguments": '{"n": 3}'}
        call = {"index": 0, "id": "c1", "type": "function", "function": function}
        reply.send_bytes(event(piece(reasoning_content="hm")))
        reply.send_bytes(event(piece("", "tool_calls", tool_calls=[call])))
        reply.end()

    server = serve(answer)
    agent = ReActAgent("Friday", model(server, enable_thinking=True))
    reply = asyncio.run(_call(agent, "How many?", output=StructuredOutput(Count, mode="tool")))
    assert reply.structured(Count) == Count(3)
    assert ["tool_choice" in asked.body["parameters"] for asked in server.asked] == [False, True, False]
