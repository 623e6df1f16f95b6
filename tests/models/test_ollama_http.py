"""`OllamaChatModel` against a real server: what is sent, what comes back, what is left open, and every kind of end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from reactivex import operators as ops

from agentscope_rx import ReActAgent, StructuredOutput, Toolkit, tool
from agentscope_rx.errors import (
    AuthenticationError,
    BadRequestError,
    ModelConnectionError,
    ModelTimeoutError,
    NotFoundError,
    ServerError,
)
from agentscope_rx.messages import FileSource, ImageBlock, Msg, TextBlock, ThinkingBlock
from agentscope_rx.models import ChatResponse, ExecutionConfig, FinishReason, OllamaChatModel

Serve = Callable[..., Any]
ASK = [Msg.user("hi")]
ONCE = ExecutionConfig(max_attempts=1)


def piece(text: str = "", done: bool = False, **more: Any) -> dict[str, Any]:
    end = {"done_reason": "stop", "prompt_eval_count": 3, "eval_count": 2} if done else {}
    return {"model": "m", "message": {"role": "assistant", "content": text, **more}, "done": done, **end}


def model(server: Any, **given: Any) -> OllamaChatModel:
    base = server.url.removesuffix("/v1")
    return OllamaChatModel("qwen3", **{"base_url": base, "api_key": "", "execution_config": ONCE, **given})


async def collect(source: Any) -> list[Any]:
    return [value async for value in source]


def said(chunks: list[ChatResponse]) -> str:
    return "".join(block.text for chunk in chunks for block in chunk.content if isinstance(block, TextBlock))


def begin(reply: Any) -> None:
    reply.start(**{"content-type": "application/x-ndjson"})


async def hello(reply: Any) -> None:
    begin(reply)
    reply.lines(piece("Hel"), piece("lo"))
    reply.lines(piece(done=True))
    reply.end()


def refused(server: Any, error: type[Exception], **given: Any) -> Any:
    with pytest.raises(error) as caught:
        asyncio.run(collect(model(server, **given).stream(ASK)))
    return caught.value


def test_a_stream_is_asked_for_and_summed_up(serve: Serve) -> None:
    server = serve(hello)
    chunks = asyncio.run(collect(model(server, think=True).stream(ASK)))
    assert said(chunks) == "Hello"
    assert chunks[-1].finish_reason is FinishReason.STOP
    assert chunks[-1].usage is not None
    assert (chunks[-1].usage.input_tokens, chunks[-1].usage.output_tokens) == (3, 2)
    assert chunks[-1].usage.time > 0
    (asked,) = server.asked
    assert asked.target == "/api/chat"
    assert "authorization" not in asked.headers
    assert asked.headers["accept"].startswith("application/x-ndjson")
    assert asked.body == {
        "model": "qwen3",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "think": True,
    }


@pytest.mark.parametrize("stream", [True, False])
def test_a_whole_answer_is_read_where_a_stream_was_asked_for(serve: Serve, stream: bool) -> None:
    async def whole(reply: Any) -> None:
        reply.json(200, piece("Hello", True, thinking="hm"))

    server = serve(whole)
    (chunk,) = asyncio.run(collect(model(server, stream=stream).stream(ASK)))
    assert chunk.content == (ThinkingBlock("hm"), TextBlock("Hello"))
    assert server.asked[0].body["stream"] is stream


def test_a_local_picture_is_read_and_sent(serve: Serve, tmp_path: Any) -> None:
    server = serve(hello)
    picture = tmp_path / "a.png"
    picture.write_bytes(b"\x89PNG")
    asyncio.run(collect(model(server).stream([Msg.user([ImageBlock(FileSource(picture)), TextBlock("what?")])])))
    assert server.asked[0].body["messages"] == [{"role": "user", "content": "what?", "images": ["iVBORw=="]}]


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "text", "kind", "advice"),
    [
        (404, 'model "qwen3" not found, try pulling it first', NotFoundError, "ollama pull qwen3"),
        (404, "404 page not found", NotFoundError, None),
        (400, '"qwen3" does not support tools', BadRequestError, None),
        (401, "unauthorized", AuthenticationError, None),
        (500, "llama runner process has terminated", ServerError, None),
    ],
)
def test_an_error_status_is_an_error_of_the_tree(
    serve: Serve, status: int, text: str, kind: type[Exception], advice: str | None
) -> None:
    async def complain(reply: Any) -> None:
        reply.json(status, {"error": text})

    error = refused(serve(complain), kind)
    assert (error.status, error.model, error.provider) == (status, "qwen3", "ollama")
    assert text in str(error)
    assert advice in str(error) if advice else "ollama pull" not in str(error)


def test_an_error_in_a_stream(serve: Serve) -> None:
    async def complain(reply: Any) -> None:
        begin(reply)
        reply.lines(piece("Hel"), {"error": "an error was encountered while running the model"})
        reply.end()

    assert "while running the model" in str(refused(serve(complain), ServerError))


def test_a_server_that_is_not_there_is_said_to_be_started() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    chat = OllamaChatModel("m", base_url=f"127.0.0.1:{port}", api_key="", execution_config=ONCE)
    with pytest.raises(ModelConnectionError, match="ollama serve"):
        asyncio.run(collect(chat.stream(ASK)))


@pytest.mark.parametrize("how", ["end", "abort"])
def test_a_stream_that_breaks_off_is_no_answer(serve: Serve, how: str) -> None:
    async def leave(reply: Any) -> None:
        begin(reply)
        reply.lines(piece("Hel"))
        reply.send_bytes(b'{"message": {"content": "l')
        await reply.writer.drain()
        getattr(reply, how)()

    assert "ollama serve" not in str(refused(serve(leave), ModelConnectionError))


# --- attempts, deadlines, disposal -----------------------------------------------------------------------------------


def test_an_attempt_is_made_again_until_words_were_shown(serve: Serve) -> None:
    answers = iter([503])

    async def at_last(reply: Any) -> None:
        if next(answers, None):
            reply.json(503, {"error": "server busy, please try again.  maximum pending requests exceeded"})
        else:
            await hello(reply)

    config = ExecutionConfig(max_attempts=2, initial_backoff=0)
    chunks = asyncio.run(collect(model(serve(at_last), execution_config=config).stream(ASK)))
    assert said(chunks) == "Hello"
    assert [chunk.retry.attempt for chunk in chunks if chunk.retry] == [1]


def test_a_server_that_is_silent_runs_into_the_deadline(serve: Serve) -> None:
    async def silent(reply: Any) -> None:
        begin(reply)
        reply.lines(piece("Hel"))
        await reply.until_client_leaves()

    server = serve(silent)
    config = ExecutionConfig(max_attempts=1, idle_timeout=0.05)
    assert refused(server, ModelTimeoutError, execution_config=config).which == "idle"
    assert server.left.wait(10)


def test_who_has_read_enough_closes_the_response(serve: Serve) -> None:
    async def endless(reply: Any) -> None:
        begin(reply)
        reply.lines(piece("Hel"))
        await reply.until_client_leaves()

    server = serve(endless)
    (chunk,) = asyncio.run(collect(model(server).stream(ASK).pipe(ops.take(1))))
    assert said([chunk]) == "Hel"
    assert server.left.wait(10)


# --- in an agent -----------------------------------------------------------------------------------------------------


@dataclass
class Count:
    n: int


async def _call(agent: ReActAgent, text: str, **given: Any) -> Msg:
    return await agent.call(text, **given)


@tool
def weather(city: str) -> str:
    """The weather.

    Args:
        city: Which.
    """
    return f"sunny in {city}"


def test_an_agent_calls_a_tool(serve: Serve) -> None:
    async def answer(reply: Any) -> None:
        begin(reply)
        if len(reply.server.asked) == 1:
            calls = [{"function": {"name": "weather", "arguments": {"city": "Bern"}}}]
            reply.lines(piece(tool_calls=calls), piece(done=True))
        else:
            reply.lines(piece("Sunny."), piece(done=True))
        reply.end()

    server = serve(answer)
    agent = ReActAgent("Friday", model(server), toolkit=Toolkit([weather]))
    reply = asyncio.run(_call(agent, "Weather in Bern?"))
    assert reply.text == "Sunny."
    _, call, told = server.asked[1].body["messages"][-3:]
    assert call["tool_calls"][0]["id"] == told["tool_call_id"]
    assert (told["tool_name"], told["content"]) == ("weather", "sunny in Bern")


def test_an_output_is_asked_for_though_no_call_can_be_forced(serve: Serve) -> None:
    async def answer(reply: Any) -> None:
        begin(reply)
        if len(reply.server.asked) == 1:
            reply.lines(piece("Three."), piece(done=True))
        else:
            calls = [{"function": {"name": "generate_response", "arguments": {"n": 3}}}]
            reply.lines(piece(tool_calls=calls), piece(done=True))
        reply.end()

    server = serve(answer)
    agent = ReActAgent("Friday", model(server), toolkit=Toolkit([weather]))
    reply = asyncio.run(_call(agent, "How many?", output=StructuredOutput(Count, mode="tool")))
    assert reply.structured(Count) == Count(3)
    assert len(server.asked) == 2
