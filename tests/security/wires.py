"""The wires of all providers for the fuzzers: an answer as each sends it, how it is read, how it goes back."""

from __future__ import annotations

import asyncio
import copy
import json
import random
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple

import httpx

from agentscope_rx.errors import ModelError
from agentscope_rx.messages import Msg
from agentscope_rx.messages.frozen import encodable
from agentscope_rx.models.accumulate import ResponseAccumulator
from agentscope_rx.models.anthropic import formatter as anthropic
from agentscope_rx.models.anthropic.parser import MessageParser
from agentscope_rx.models.dashscope import formatter as dashscope
from agentscope_rx.models.dashscope.parser import DashScopeParser
from agentscope_rx.models.gemini import formatter as gemini
from agentscope_rx.models.gemini.parser import ContentParser
from agentscope_rx.models.http_model import AnswerParser
from agentscope_rx.models.ollama import formatter as ollama
from agentscope_rx.models.ollama.parser import OllamaParser
from agentscope_rx.models.openai import formatter as openai
from agentscope_rx.models.openai.parser import ChunkParser
from agentscope_rx.models.openai.responses.items import input_of
from agentscope_rx.models.openai.responses.parser import ResponseParser
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.models.transport import ServerEvent
from agentscope_rx.models.transport.framing import read_events, read_lines
from agentscope_rx.models.wire.chat_turns import turns_of
from agentscope_rx.models.wire.json_codec import encode_json
from tests.models.test_anthropic_parser import ANSWER as CLAUDE
from tests.models.test_dashscope_parser import STREAM as QWEN
from tests.models.test_gemini_parser import ANSWER as GEMINI
from tests.models.test_ollama_parser import STREAM as OLLAMA
from tests.models.test_openai_parser import CHUNKS
from tests.models.test_responses_parser import EVENTS

Events = list[dict[str, Any]]


class Wire(NamedTuple):
    """How one provider answers."""

    make: Callable[[Callable[[], float]], AnswerParser]
    events: Events
    format: Callable[[Sequence[Msg]], object]
    last: str = ""
    lines: bool = False

    def body(self, events: Events) -> bytes:
        """The events as the server sends them."""
        if self.lines:
            return b"".join(json.dumps(event).encode() + b"\n" for event in events)
        told = [_name(event) for event in events]
        texts = [f"{name}data: {json.dumps(event)}\n\n" for name, event in zip(told, events, strict=True)]
        return "".join([*texts, f"data: {self.last}\n\n" if self.last else ""]).encode()

    def read(self, body: bytes, pieces: int) -> list[ChatResponse] | None:
        """The increments of a body that comes in so many pieces; None for an error of ours. Others fail the test."""
        size = max(1, len(body) // pieces)
        chunks = [body[start : start + size] for start in range(0, len(body), size)]
        try:
            parser = self.make(lambda: 0.0)
            events = asyncio.run(_events(chunks, self.lines))
            return [increment for event in events for increment in parser.read(event)] + list(parser.end())
        except ModelError as error:
            str(error).encode()
            return None

    def read_whole(self, answer: object) -> list[ChatResponse] | None:
        """The same for an answer in one piece, which a server may give whatever was asked for."""
        try:
            parser = self.make(lambda: 0.0)
            return [*parser.read_whole(answer), *parser.end()]
        except ModelError as error:
            str(error).encode()
            return None

    def check(self, increments: list[ChatResponse] | None) -> None:
        """What was taken for an answer can be remembered, and sent again."""
        if increments is None:
            return
        gather = ResponseAccumulator()
        for increment in increments:
            gather.feed(increment)
        message = Msg.assistant(gather.blocks())
        text = message.to_json()
        text.encode()
        assert Msg.from_json(text) == message
        encode_json(self.format([Msg.user("a"), message, Msg.user("b")])).encode()


def _name(event: object) -> str:
    kind = event.get("type") if isinstance(event, dict) else None
    return f"event: {encodable(kind)}\n" if isinstance(kind, str) else ""


class _Bytes(httpx.AsyncByteStream):
    def __init__(self, chunks: Sequence[bytes]) -> None:
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk


async def _events(chunks: Sequence[bytes], lines: bool) -> list[ServerEvent]:
    response = httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=_Bytes(chunks))
    return [event async for event in (read_lines if lines else read_events)(response)]


WIRES = {
    "openai": Wire(ChunkParser, CHUNKS, openai.format_messages, last="[DONE]"),
    "responses": Wire(ResponseParser, EVENTS, lambda messages: list(input_of(messages))),
    "anthropic": Wire(MessageParser, CLAUDE, anthropic.format_messages),
    "gemini": Wire(ContentParser, GEMINI, gemini.format_messages),
    "dashscope": Wire(DashScopeParser, QWEN, lambda messages: dashscope.format_turns(turns_of(messages), "text")),
    "ollama": Wire(OllamaParser, OLLAMA, lambda messages: ollama.format_turns(turns_of(messages)), lines=True),
}

SPICE = [
    b"data:", b"\n\n", b"\n", b"\r", b"[DONE]", b"{", b"}", b"null", b"\xff", b"\xef\xbb\xbf", b"\x00", b"1e999",
    b'"index":-1,', b'"tool_calls":5,', b'"choices":{},', b'"content":[{"type":"text"}],', b'"content":{},', b"NaN",
    b'"\\ud800"', b"\\ud83d", b"event: error\n", b'"type":"error",', b'"error":{"message":"x"},', b'"code":"x",',
    b'"parts":5,', b'"text":[],', b'"done":true,', b'"usage":[],', b"[" * 50, b"[" * 300, b'{"a":' * 300,
]  # fmt: skip


def damaged(body: bytes, source: random.Random) -> bytes:
    """The body after a few accidents: bytes lost, doubled, moved, changed, or put in."""
    hurt = bytearray(body)
    for _ in range(source.randint(1, 6)):
        at = source.randrange(len(hurt) + 1)
        to = min(len(hurt), at + source.choice([1, 1, 2, 10, 100]))
        match source.randrange(5):
            case 0:
                del hurt[at:to]
            case 1:
                hurt[at:at] = hurt[at:to]
            case 2:
                piece = hurt[at:to]
                del hurt[at:to]
                place = source.randrange(len(hurt) + 1)
                hurt[place:place] = piece
            case 3 if at < len(hurt):
                hurt[at] = source.randrange(256)
            case _:
                hurt[at:at] = source.choice(SPICE)
    return bytes(hurt)


def _deep(levels: int) -> object:
    value: object = "x"
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


VALUES: tuple[object, ...] = (
    None, True, 0, -1, 1.5, 10**40, 1e308, "", "x", "\ud800", "a\ud83d", "\x00", "é" * 300, [], {}, [None], [[]],
    {"a": None}, {"\ud800": "\udfff"}, [{"type": "text"}], {"type": "x"}, [{}], _deep(90), _deep(150), _deep(300),
)  # fmt: skip


def retyped(events: Any, source: random.Random) -> Any:
    """The events with some of their values, at any depth, in the place of which others stand, or none."""
    hurt = copy.deepcopy(events)
    for _ in range(source.randint(1, 4)):
        places = list(_places(hurt))
        if not places:
            break
        holder, key = source.choice(places)
        if source.random() < 0.15:
            del holder[key]
        elif source.random() < 0.15:
            holder[key] = copy.deepcopy(source.choice(places)[0])
        else:
            holder[key] = copy.deepcopy(source.choice(VALUES))
    return hurt


def _places(value: Any) -> Any:
    waiting = [value]
    while waiting:
        found = waiting.pop()
        for key in list(found) if isinstance(found, dict) else range(len(found)):
            yield found, key
            if isinstance(found[key], (dict, list)):
                waiting.append(found[key])
