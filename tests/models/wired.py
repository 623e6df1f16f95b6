"""Parsers fed with bytes as the transport would bring them, cut anywhere, spelled in any legal way, or damaged."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import httpx
from hypothesis import strategies as st

from agentscope_rx.errors import ModelError
from agentscope_rx.messages import ContentBlock, Msg
from agentscope_rx.models.accumulate import ResponseAccumulator
from agentscope_rx.models.http_model import AnswerParser
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.models.transport import ServerEvent
from agentscope_rx.models.transport.framing import read_events

Make = Callable[[Callable[[], float]], AnswerParser]

SPICE = [
    b"data:", b"\n\n", b"\r", b"[DONE]", b"{", b"}", b"null", b"\xff", b"\xef\xbb\xbf", b'"index":-1,', b"1e999",
    b"\x00", b'"parts":5,', b'"content":{},', b'"text":[],', b'"\\ud800"', b"\\ud83d", b"event: error\n", b"[" * 50,
    b'"type":"error",', b"NaN",
]  # fmt: skip


class _Bytes(httpx.AsyncByteStream):
    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


async def _events(pieces: Sequence[bytes]) -> list[ServerEvent]:
    response = httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=_Bytes(pieces))
    return [event async for event in read_events(response)]


def increments(make: Make, pieces: Sequence[bytes]) -> list[ChatResponse]:
    """What the parser makes of these bytes."""
    parser = make(lambda: 0.0)
    events = asyncio.run(_events(pieces))
    return [increment for event in events for increment in parser.read(event)] + list(parser.end())


def gathered(found: Sequence[ChatResponse]) -> ResponseAccumulator:
    gather = ResponseAccumulator()
    for increment in found:
        gather.feed(increment)
    return gather


def whole(make: Make, answer: object) -> list[ChatResponse]:
    """What the parser makes of an answer in one piece."""
    parser = make(lambda: 0.0)
    return [*parser.read_whole(answer), *parser.end()]


def streamed(make: Make, events: Sequence[Any]) -> list[ChatResponse]:
    """What the parser makes of these events: JSON, or text as it is."""
    parser = make(lambda: 0.0)
    found: list[ChatResponse] = []
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event)
        found += parser.read(ServerEvent(data))
    return [*found, *parser.end()]


def blocks(found: Sequence[ChatResponse]) -> tuple[ContentBlock, ...]:
    return gathered(found).blocks()


def body_of(events: Sequence[dict[str, Any]]) -> bytes:
    """The events as server-sent ones; named by their type if they have one."""
    lines: list[str] = []
    for event in events:
        if "type" in event:
            lines.append(f"event: {event['type']}")
        lines += [f"data: {json.dumps(event, ensure_ascii=False)}", ""]
    return "\n".join([*lines, ""]).encode()


@st.composite
def spellings(draw: st.DrawFn, events: Sequence[dict[str, Any]]) -> bytes:
    """The same events in any legal spelling."""
    lines: list[str] = []
    for event in events:
        data = json.dumps(event, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, None, 1])))
        noise = draw(st.sampled_from([[], [": keep-alive", ""], [":"], ["id: 4"], ["retry: 10"], ["x: y"]]))
        name = [f"event: {event['type']}"] if "type" in event and draw(st.booleans()) else []
        space = draw(st.sampled_from(["", " "]))
        lines += [*noise, *name, *(f"data:{space}{line}" for line in data.split("\n")), ""]
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    return (draw(st.sampled_from(["", "\ufeff"])) + end.join([*lines, ""])).encode()


@st.composite
def pieces_of(draw: st.DrawFn, body: bytes) -> list[bytes]:
    """The bytes, cut anywhere."""
    at = sorted(draw(st.sets(st.integers(0, len(body)), max_size=20)))
    return [body[start:end] for start, end in zip([0, *at], [*at, len(body)], strict=True)]


def damaged(body: bytes, source: random.Random) -> bytes:
    """The body after a few accidents: bytes lost, doubled, moved, changed, or put in."""
    hurt = bytearray(body)
    for _ in range(source.randint(1, 6)):
        at = source.randrange(len(hurt) + 1)
        to = min(len(hurt), at + source.choice([1, 1, 2, 10, 100]))
        kind = source.randrange(5)
        if kind == 0:
            del hurt[at:to]
        elif kind == 1:
            hurt[at:at] = hurt[at:to]
        elif kind == 2:
            piece = hurt[at:to]
            del hurt[at:to]
            place = source.randrange(len(hurt) + 1)
            hurt[place:place] = piece
        elif kind == 3 and at < len(hurt):
            hurt[at] = source.randrange(256)
        else:
            hurt[at:at] = source.choice(SPICE)
    return bytes(hurt)


def check(make: Make, body: bytes, pieces: int, send: Callable[[Msg], object]) -> bool:
    """Read it; True if it was taken for an answer. The accumulated message can be remembered, and sent back."""
    size = max(1, len(body) // pieces)
    try:
        found = increments(make, [body[start : start + size] for start in range(0, len(body), size)])
    except ModelError:
        return False
    message = Msg.assistant(blocks(found))
    assert Msg.from_json(message.to_json()) == message
    send(message)
    return True
