"""Event streams: the bytes, cut anywhere, against another reader of the standard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise

import httpx
import pytest
from httpx_sse import EventSource
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentscope_rx.models.transport.framing import EventLines, ServerEvent, read_events

LINES = st.sampled_from(
    (
        *("data: {}", "data:{}", "data:  two spaces", "data", "data:", "data: ", "data: \u20ac\u2028x", "data: a:b"),
        *(
            "event: error",
            "event:",
            "event: a\x0bb",
            "id: 7",
            "retry: 10",
            ": comment",
            ":",
            "nonsense",
            " data: x",
            "",
        ),
    )
)
ENDS = st.sampled_from(("\n", "\n", "\r\n", "\r"))
STREAMS = st.lists(st.tuples(LINES, ENDS), max_size=14).map(
    lambda lines: "".join(line + end for line, end in lines).encode()
)


class Body(httpx.AsyncByteStream):
    def __init__(self, chunks: Sequence[bytes]) -> None:
        self.chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            yield chunk


def response(chunks: Sequence[bytes]) -> httpx.Response:
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Body(chunks))


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    at = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in pairwise(at)]


async def theirs(data: bytes) -> list[tuple[str, str]]:
    source = EventSource(response([data + b"\n\n"]))
    return [(sse.event or "message", sse.data) async for sse in source.aiter_sse() if sse.data]


async def ours(chunks: Sequence[bytes]) -> list[ServerEvent]:
    return [event async for event in read_events(response(chunks))]


@given(STREAMS, st.lists(st.integers(0, 300), max_size=12))
@example(b"data: a\r\n\r\ndata: b\r\n\r\n", [8, 9])
@example(b"data: a\rdata: b\r\rdata: c", [8])
@example("data: \u20ac\n\n".encode(), [7])
@settings(deadline=None)
def test_events_follow_the_standard_however_bytes_are_cut(data: bytes, places: list[int]) -> None:
    expected = asyncio.run(theirs(data))
    found = asyncio.run(ours(cut(data, places)))
    assert [(event.event, event.data) for event in found] == expected


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=6))
@settings(deadline=None)
def test_any_bytes_give_the_same_events_however_cut(data: bytes, places: list[int]) -> None:
    def read(chunks: list[bytes]) -> list[ServerEvent]:
        lines = EventLines()
        return [event for chunk in chunks for event in lines.feed(chunk)] + list(lines.end())

    marked = b"data: " + data
    assert read(cut(marked, places)) == read([marked])


def test_a_return_alone_ends_its_line_at_once() -> None:
    lines = EventLines()
    assert list(lines.feed(b"data: a\r\r")) == [ServerEvent("a")]
    assert list(lines.feed(b"\ndata: b\r\r")) == [ServerEvent("b")]


@pytest.mark.parametrize("ended", [b"data: a", b"data: a\n", b"data: a\r"])
def test_an_event_that_only_the_end_completes_is_marked(ended: bytes) -> None:
    assert asyncio.run(ours([ended])) == [ServerEvent("a", cut=True)]
