"""Nothing that a model's server sends is unbounded: each limit has its error, and memory stays near the limit."""

from __future__ import annotations

import asyncio
import gzip
import json
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from typing import Any

import pytest

from agentscope_rx import ReActAgent
from agentscope_rx.errors import AnswerTooLargeError, ConfigurationError, ModelError, ModelHTTPError, ProtocolError
from agentscope_rx.messages import Msg, TextBlock
from agentscope_rx.models import ChatModel, ChatResponse, ExecutionConfig, OllamaChatModel, OpenAIChatModel
from agentscope_rx.models.embedding import OpenAIEmbeddingModel
from agentscope_rx.models.speech import OpenAITTSModel
from agentscope_rx.models.transport import HttpConfig, HttpRequest, Transport
from agentscope_rx.reactive import from_iterable
from tests.models.conftest import Loopback, loopback

MIB = 1024 * 1024
ASK = [Msg.user("hi")]
ONCE = ExecutionConfig(max_attempts=1)
SMALL = HttpConfig(max_event_bytes=MIB, max_answer_bytes=2 * MIB, max_error_bytes=MIB // 16)
PIECE = b"x" * 65_536


@pytest.fixture
def serve() -> Iterator[Callable[..., Loopback]]:
    with ExitStack() as stack:
        yield lambda script: stack.enter_context(loopback(script))


async def collect(source: Any) -> list[Any]:
    return [value async for value in source]


def openai(server: Loopback, **given: Any) -> OpenAIChatModel:
    transport = Transport(given.pop("config", SMALL))
    return OpenAIChatModel("m", base_url=server.url, execution_config=ONCE, transport=transport, **given)


def flood(head: bytes, piece: bytes = PIECE, size: int = 20 * MIB, status: int = 200, **headers: str) -> Any:
    """Sends the piece again and again, until so much was sent or the client has left."""

    async def answer(reply: Any) -> None:
        reply._head(status, {"transfer-encoding": "chunked", "content-type": "text/event-stream", **headers})
        reply.send_bytes(head or b" ")
        for _ in range(size // len(piece)):
            reply.send_bytes(piece)
            await reply.writer.drain()
        reply.end()

    return answer


def peak(run: Callable[[], object]) -> float:
    """MiB that were taken at most meanwhile. (The server runs in this process: its buffers count, too.)"""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1] / MIB
    finally:
        tracemalloc.stop()


def refused(ask: Callable[[], Any], setting: str) -> AnswerTooLargeError:
    with pytest.raises(AnswerTooLargeError) as caught:
        asyncio.run(collect(ask()))
    error = caught.value
    assert error.setting == setting and setting in str(error) and not error.retryable
    assert error.limit == getattr(SMALL, setting)
    return error


FLOODS: dict[str, tuple[Any, str]] = {
    "a line": (flood(b"data: "), "max_event_bytes"),
    "an event of many lines": (flood(b"data: x\n", b"data: " + b"y" * 1000 + b"\n"), "max_event_bytes"),
    "an event of tiny lines": (flood(b"data: x\n", b"data:xy\n" * 1000), "max_event_bytes"),
    "an event of empty lines": (flood(b"data: x\n", b"data\n" * 1000), "max_event_bytes"),
    "a field that is none": (flood(b"x"), "max_event_bytes"),
    "a comment": (flood(b":"), "max_event_bytes"),
    "comments": (flood(b":\n", b": ping\n\n" * 1000), "max_answer_bytes"),
    "blank lines": (flood(b"\n", b"\n" * 10_000), "max_answer_bytes"),
    "blanks": (flood(b" ", b" " * 10_000), "max_event_bytes"),
    "returns": (flood(b"data: x", b"\rdata: xy" * 1000), "max_event_bytes"),
    "JSON in place of events": (flood(b'{"a": "'), "max_event_bytes"),
    "a list in place of events": (flood(b"[", b"1," * 10_000), "max_event_bytes"),
    "events": (flood(b"\n", b'data: {"choices": []}\n\n' * 500), "max_answer_bytes"),
}


@pytest.mark.parametrize("kind", FLOODS)
def test_a_stream_without_end(serve: Any, kind: str) -> None:
    script, setting = FLOODS[kind]
    server = serve(script)
    taken = peak(lambda: refused(lambda: openai(server).stream(ASK), setting))
    # the limit is 1 MiB of an event, 2 MiB of an answer
    assert taken < 8, f"{taken:.1f} MiB"


@pytest.mark.parametrize(
    ("ask", "head", "setting"),
    [
        (lambda url, t: OllamaChatModel("m", base_url=url, transport=t, execution_config=ONCE).stream(ASK), b'{"',
         "max_event_bytes"),
        (lambda url, t: OpenAIChatModel("m", base_url=url, transport=t, stream=False).stream(ASK), b'{"',
         "max_event_bytes"),
        (lambda url, t: OpenAIEmbeddingModel("m", base_url=url, transport=t, execution_config=ONCE).embed(["x"]), b'{"',
         "max_event_bytes"),
        (lambda url, t: OpenAITTSModel("m", base_url=url, transport=t, format="wav").synthesize("x"), b"RIFF",
         "max_answer_bytes"),
        (lambda url, t: OpenAITTSModel("m", base_url=url, transport=t, execution_config=ONCE).synthesize("x"), b"",
         "max_answer_bytes"),
    ],
)  # fmt: skip
def test_answers_of_other_kinds(serve: Any, ask: Any, head: bytes, setting: str) -> None:
    server = serve(flood(head))
    taken = peak(lambda: refused(lambda: ask(server.url, Transport(SMALL)), setting))
    assert taken < 16, f"{taken:.1f} MiB"


# --- bombs -----------------------------------------------------------------------------------------------------------


@cache
def squeezed(encoding: str, data: bytes) -> bytes:
    if encoding == "gzip":
        return gzip.compress(data)
    raw = zlib.compressobj(9, zlib.DEFLATED, -15 if encoding == "raw deflate" else 15)
    return raw.compress(data) + raw.flush()


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw deflate"])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("status", [200, 500])
def test_a_bomb_is_not_blown_up(serve: Any, encoding: str, stream: bool, status: int) -> None:
    bomb = squeezed(encoding, b'{"a": "' + b"x" * (40 * MIB))
    assert len(bomb) < MIB

    async def answer(reply: Any) -> None:
        reply.whole(status, bomb, **{"content-encoding": encoding.removeprefix("raw ")})

    server = serve(answer)

    def run() -> None:
        with pytest.raises(ModelError) as caught:
            asyncio.run(collect(openai(server, stream=stream).stream(ASK)))
        assert isinstance(caught.value, AnswerTooLargeError if status == 200 else ModelHTTPError)

    taken = peak(run)
    assert taken < 8, f"{taken:.1f} MiB for 40"


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "GZIP", "deflate", "identity"])
@pytest.mark.parametrize("bytewise", [True, False])
def test_a_compressed_answer_is_read(serve: Any, encoding: str, bytewise: bool) -> None:
    text = "\u20ac and so on " * 20_000
    data = json.dumps({"text": text}).encode()
    kind = encoding.lower().removeprefix("x-")
    sent = data if kind == "identity" else squeezed(kind, data)

    async def answer(reply: Any) -> None:
        reply.start(**{"content-encoding": encoding})
        for at in range(0, len(sent), 7 if bytewise else len(sent)):
            reply.send_bytes(sent[at : at + (7 if bytewise else len(sent))])
        reply.end()

    server = serve(answer)
    assert asyncio.run(collect(Transport().request(HttpRequest(server.url, b"{}")))) == [{"text": text}]
    assert server.asked[0].headers["accept-encoding"] == "gzip, deflate"


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "compress"])
def test_an_encoding_that_was_not_offered_is_an_error(serve: Any, encoding: str) -> None:
    async def answer(reply: Any) -> None:
        reply.whole(200, b"\x1b\x00", **{"content-encoding": encoding})

    with pytest.raises(ProtocolError, match="encoded as"):
        asyncio.run(collect(openai(serve(answer)).stream(ASK)))


def test_damaged_compression_is_an_error(serve: Any) -> None:
    async def answer(reply: Any) -> None:
        reply.whole(200, b"no gzip at all", **{"content-encoding": "gzip"})

    with pytest.raises(ModelError):
        asyncio.run(collect(openai(serve(answer)).stream(ASK)))


# --- errors ----------------------------------------------------------------------------------------------------------


def test_the_body_of_an_error_is_read_to_its_limit(serve: Any) -> None:
    head = b"The server is on fire. "
    server = serve(flood(head, status=503, **{"retry-after": "7"}))

    def run() -> None:
        with pytest.raises(ModelHTTPError) as caught:
            asyncio.run(collect(openai(server).stream(ASK)))
        assert (caught.value.status, caught.value.retry_after) == (503, 7.0)
        assert "on fire" in str(caught.value) and len(str(caught.value)) < 3000 and len(caught.value.body or "") <= 2000

    assert peak(run) < 8


def test_a_slow_error_body_does_not_hide_the_error(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentscope_rx.models.transport.exchange.ERROR_BODY_SECONDS", 0.05)

    async def answer(reply: Any) -> None:
        reply.whole(429, b"slow", **{"content-length": "99999", "retry-after": "3"})
        await reply.until_client_leaves()

    with pytest.raises(ModelHTTPError) as caught:
        asyncio.run(collect(openai(serve(answer)).stream(ASK)))
    assert (caught.value.status, caught.value.retry_after) == (429, 3.0)


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "m" * 100_000, "code": "c" * 100_000}},
        {"error": {"message": "m", "status": "\u00b2\u00b2\u00b2"}},
        {"error": {"message": "m", "code": "9" * 5000}},
        {"error": [[[[]]]]},
        {"error": {"message": {"a": [1] * 10_000}}},
    ],
)
@pytest.mark.parametrize("status", [200, 400])
def test_odd_errors_are_typed_and_short(serve: Any, body: object, status: int) -> None:
    async def answer(reply: Any) -> None:
        reply.json(status, body, **{"x-request-id": "r" * 5000})

    with pytest.raises(ModelError) as caught:
        asyncio.run(collect(openai(serve(answer)).stream(ASK)))
    assert len(str(caught.value)) < 3000
    if isinstance(caught.value, ModelHTTPError):
        assert len(caught.value.code or "") <= 200 and len(caught.value.request_id or "") <= 200


@pytest.mark.parametrize("deep", ["[" * 200_000, '{"a":' * 200_000, '{"error":' * 400 + "1" + "}" * 400,
                                  '{"error":{"message":' + "[" * 900 + "]" * 900 + "}}"])  # fmt: skip
@pytest.mark.parametrize("framing", ["data: {}\n\n", "{}"])
@pytest.mark.parametrize("status", [200, 400])
def test_deep_nesting_is_a_typed_error(serve: Any, deep: str, framing: str, status: int) -> None:
    async def answer(reply: Any) -> None:
        reply.whole(status, framing.replace("{}", deep).encode())

    with pytest.raises(ModelError):
        asyncio.run(collect(openai(serve(answer), config=HttpConfig()).stream(ASK)))


@pytest.mark.parametrize("values", ["[" + "[]," * 1_500_000 + "1]", "[" + "{}," * 1_500_000 + "1]"])
def test_a_document_does_not_grow_out_of_its_text(serve: Any, values: str) -> None:
    async def answer(reply: Any) -> None:
        reply.whole(200, values.encode())

    server = serve(answer)

    def run() -> None:
        with pytest.raises(ProtocolError, match="may not hold"):
            asyncio.run(collect(Transport().request(HttpRequest(server.url, b"{}"))))

    assert peak(run) < 40, "of 4.5 MB of text more than 100 would be made"


def calls(count: int, *, at_once: bool) -> Any:
    """Tool calls, so many, in one event or in one each."""

    async def answer(reply: Any) -> None:
        reply.start()
        each = [{"index": at, "id": f"c{at}", "function": {"name": "f", "arguments": "{}"}} for at in range(count)]
        for some in [each] if at_once else [[one] for one in each]:
            reply.send({"choices": [{"index": 0, "delta": {"tool_calls": some}}]})
            await reply.writer.drain()
        reply.send({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}, "[DONE]")
        reply.end()

    return answer


@pytest.mark.parametrize("at_once", [True, False])
def test_an_answer_of_calls_without_end(serve: Any, at_once: bool) -> None:
    server = serve(calls(16_385, at_once=at_once))
    with pytest.raises(ProtocolError, match="more than 16384"):
        asyncio.run(collect(openai(server, config=HttpConfig()).stream(ASK)))


def test_a_list_of_too_many_things_is_not_read(serve: Any) -> None:
    server = serve(calls(65_537, at_once=True))
    with pytest.raises(ProtocolError, match="more than 65536"):
        asyncio.run(collect(openai(server, config=HttpConfig()).stream(ASK)))


def test_blocks_without_end_are_a_typed_error_of_the_run() -> None:
    class Endless(ChatModel):
        def do_stream(self, messages: Any, tools: Any, options: Any) -> Any:
            return from_iterable(ChatResponse((TextBlock("a"),), block=at) for at in range(20_000))

    with pytest.raises(ProtocolError, match="more than 16384 blocks"):
        ReActAgent("Friday", Endless("m", execution_config=ONCE)).call("hi").run()


@pytest.mark.parametrize("number", [10**100, -(10**100), 1e300])
def test_a_count_beyond_all_measure_is_an_error(serve: Any, number: Any) -> None:
    async def answer(reply: Any) -> None:
        reply.json(200, {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}],
                         "usage": {"prompt_tokens": number}})  # fmt: skip

    with pytest.raises(ProtocolError, match="whole number"):
        asyncio.run(collect(openai(serve(answer)).stream(ASK)))


def test_a_long_head_is_an_error(serve: Any) -> None:
    async def answer(reply: Any) -> None:
        reply.writer.write(b"HTTP/1.1 200 OK\r\n" + b"x-more: 1\r\n" * 50_000)

    with pytest.raises(ModelError):
        asyncio.run(collect(openai(serve(answer)).stream(ASK)))


# --- what is right passes --------------------------------------------------------------------------------------------


def test_what_comes_after_the_end_does_not_fail_the_answer(serve: Any) -> None:
    piece = {"id": "c1", "choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]}
    done = f"data: {json.dumps(piece)}\n\ndata: [DONE]\n\n".encode()
    chunks = asyncio.run(collect(openai(serve(flood(done))).stream(ASK)))
    assert chunks[0].content


@pytest.mark.parametrize("size", [MIB - 100, MIB // 2])
def test_an_event_within_its_limit_is_read(serve: Any, size: int) -> None:
    text = "x" * (size - 200)
    piece = {"id": "c1", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}

    async def answer(reply: Any) -> None:
        reply.start()
        reply.send(piece, "[DONE]")
        reply.end()

    (chunk,) = [c for c in asyncio.run(collect(openai(serve(answer)).stream(ASK))) if c.content]
    assert chunk.content[0].text == text


@pytest.mark.parametrize(
    "given",
    [{"max_event_bytes": 0}, {"max_answer_bytes": -1}, {"max_error_bytes": 1.5}, {"max_event_bytes": None},
     {"connect_timeout": 0}, {"verify": "ca.pem"}],
)  # fmt: skip
def test_limits_that_are_none(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(given))):
        HttpConfig(**given)
