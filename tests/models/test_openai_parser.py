"""The parser as tables: chunks of the wire in, increments out; and the same from bytes that are cut anywhere."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Iterable
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import (
    BadRequestError,
    ContentFilterError,
    ModelConnectionError,
    ModelHTTPError,
    OverloadedError,
    ProtocolError,
    RateLimitError,
    ServerError,
)
from agentscope_rx.messages import (
    AudioBlock,
    Base64Source,
    ChatUsage,
    ImageBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    URLSource,
)
from agentscope_rx.models.accumulate import ResponseAccumulator
from agentscope_rx.models.openai.formatter import format_messages
from agentscope_rx.models.openai.parser import ChunkParser
from agentscope_rx.models.response import ChatResponse, FinishReason, ToolUseDelta
from agentscope_rx.models.transport.framing import ServerEvent, read_events
from agentscope_rx.models.wire.answers import DONE


def text(value: str) -> TextBlock:
    return TextBlock(value)


def thought(value: str, **given: Any) -> ThinkingBlock:
    return ThinkingBlock(value, **given)


def call(index: int, id: str | None = None, name: str | None = None, arguments: str = "") -> ToolUseDelta:
    return ToolUseDelta(index, id, name, arguments)


def delta(finish: str | None = None, **fields: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def piece(
    index: int | None = None, id: str | None = None, name: str | None = None, arguments: object = None
) -> dict[str, object]:
    given = {"index": index, "id": id, "function": {"name": name, "arguments": arguments}}
    return delta(tool_calls=[given])


def parse(chunks: Iterable[object], *, done: bool = True) -> list[ChatResponse]:
    parser = ChunkParser(lambda: 0.0)
    increments = [increment for chunk in chunks for increment in parser.feed(chunk)]
    if done:
        parser.read(ServerEvent(DONE))
    return increments + list(parser.end())


def content(increments: Iterable[ChatResponse]) -> list[object]:
    return [block for increment in increments for block in increment.content]


CONTENT: dict[str, tuple[list[dict[str, object]], list[object]]] = {
    "text": ([delta(role="assistant", content=""), delta(content="a"), delta(content="b")], [text("a"), text("b")]),
    "nothing at all": ([delta(), delta(content=None), {"choices": []}, {"choices": None}, {}], []),
    "reasoning_content": (
        [delta(reasoning_content="x", content=None), delta(content="a")],
        [thought("x"), text("a")],
    ),
    "reasoning": ([delta(reasoning="x"), delta(reasoning="y")], [thought("x"), thought("y")]),
    "thinking and text in one chunk": ([delta(content="a", reasoning_content="x")], [thought("x"), text("a")]),
    "refusal": ([delta(refusal="I "), delta(refusal="won't")], [text("I "), text("won't")]),
    "parts": (
        [
            delta(
                content=[
                    {"type": "thinking", "thinking": [{"type": "text", "text": "x"}]},
                    {"type": "text", "text": "a"},
                ]
            )
        ],
        [thought("x"), text("a")],
    ),
    "unknown parts and fields": ([delta(content=[{"type": "reference", "ids": [1]}], shiny=1)], []),
    "an image": (
        [delta(images=[{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}])],
        [ImageBlock(URLSource("data:image/png;base64,AA=="))],
    ),
    "other choices": (
        [{"choices": [{"index": 1, "delta": {"content": "b"}}, {"delta": {"content": "a"}}]}],
        [text("a")],
    ),
    "a message beside the delta": (
        [{"choices": [{"delta": {"content": "b"}, "message": {"content": "ab"}}]}],
        [text("b")],
    ),
    "a character cut in two": (
        [delta(content="\ud83d"), delta(content="\ude00!"), delta(content="\ud83d")],
        [text("\U0001f600!"), text("\ufffd")],
    ),
    "calls": (
        [
            piece(0, "c1", "f", ""),
            piece(0, arguments='{"a"'),
            piece(0, arguments=":1}"),
            piece(1, "c2", "g", "{}"),
        ],
        [call(0, "c1", "f"), call(0, arguments='{"a"'), call(0, arguments=":1}"), call(1, "c2", "g", "{}")],
    ),
    "interleaved calls": (
        [
            piece(0, "c1", "f"),
            piece(1, "c2", "g"),
            piece(0, arguments="{"),
            piece(1, arguments="["),
            piece(0, arguments="}"),
        ],
        [
            call(0, "c1", "f"),
            call(1, "c2", "g"),
            call(0, None, None, "{"),
            call(1, None, None, "["),
            call(0, None, None, "}"),
        ],
    ),
    "indices that begin late": (
        [piece(3, "c1", "f"), piece(3, arguments="{}")],
        [call(0, "c1", "f"), call(0, arguments="{}")],
    ),
    "id and name repeated with every piece": (
        [piece(0, "c1", "f", ""), piece(0, "c1", "f", "{"), piece(0, "c1", "f", "}")],
        [call(0, "c1", "f"), call(0, arguments="{"), call(0, arguments="}")],
    ),
    "a new id with every piece": (
        [piece(0, "c1", "f", "{"), piece(0, "c2", None, "}")],
        [call(0, "c1", "f", "{"), call(0, arguments="}")],
    ),
    "empty ids and names on later pieces": (
        [piece(0, "c1", "f", ""), piece(0, "", "", "{}")],
        [call(0, "c1", "f"), call(0, arguments="{}")],
    ),
    "the name after the id": ([piece(0, "c1"), piece(0, None, "f", "{}")], [call(0, "c1"), call(0, None, "f", "{}")]),
    "one index for several calls": (
        [piece(0, "c1", "f", "{}"), piece(0, "c2", "f", "{}"), piece(0, None, None, " ")],
        [call(0, "c1", "f", "{}"), call(1, "c2", "f", "{}"), call(1, arguments=" ")],
    ),
    "no index, several calls in one chunk": (
        [delta(tool_calls=[{"id": i, "function": {"name": "f", "arguments": "{}"}} for i in ("c1", "c2")])],
        [call(0, "c1", "f", "{}"), call(1, "c2", "f", "{}")],
    ),
    "no index, fragments": (
        [
            piece(None, "c1", "f", "{"),
            piece(None, None, None, "}"),
            piece(None, "c2", "g", "{"),
            piece(None, "c1", None, " "),
        ],
        [call(0, "c1", "f", "{"), call(0, arguments="}"), call(1, "c2", "g", "{"), call(0, arguments=" ")],
    ),
    "an id that left its index": (
        [piece(0, "c1", "f", "{"), piece(1, "c1", None, "}")],
        [call(0, "c1", "f", "{"), call(0, arguments="}")],
    ),
    "arguments as an object": ([piece(0, "c1", "f", {"a": 1})], [call(0, "c1", "f", '{"a": 1}')]),
    "an empty piece": ([piece(0, "c1", "f", "{}"), piece(1)], [call(0, "c1", "f", "{}")]),
    "a whole message": (
        [
            {
                "choices": [
                    {
                        "message": {
                            "content": "a",
                            "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}],
                        }
                    }
                ]
            }
        ],
        [text("a"), call(0, "c1", "f", "{}")],
    ),
}


@pytest.mark.parametrize("case", CONTENT)
def test_chunks_become_increments(case: str) -> None:
    chunks, expected = CONTENT[case]
    assert content(parse(chunks)) == expected


@pytest.mark.parametrize("index", [None, 0])
def test_calls_without_ids_get_one_each(index: int | None) -> None:
    chunks = [piece(index, None, "f", "{}"), piece(index, None, "f", '{"a":'), piece(index, None, None, "1}")]
    first, second, rest = (block for block in content(parse(chunks)) if isinstance(block, ToolUseDelta))
    assert first.id
    assert second.id
    assert first.id != second.id
    assert (first.index, second.index, rest.index) == (0, 1, 1)
    assert (rest.id, rest.arguments) == (None, "1}")


def test_a_repeated_name_begins_a_call_after_whole_arguments() -> None:
    chunks = [piece(0, None, "f", "{"), piece(0, None, "f", "}"), piece(0, None, "f"), piece(0, None, None, "{}")]
    assert [(b.index, b.arguments) for b in content(parse(chunks)) if isinstance(b, ToolUseDelta)] == [
        (0, "{"),
        (0, "}"),
        (1, ""),
        (1, "{}"),
    ]


def test_a_piece_that_says_nothing_new_is_no_increment() -> None:
    assert content(parse([piece(0, "c1", "f"), piece(0, "c1", "f")])) == [call(0, "c1", "f")]


def test_two_calls_of_one_id_are_told_apart() -> None:
    first, second = (b for b in content(parse([piece(0, "c", "f", "{}"), piece(1, "c", "g", "{}")])))
    assert isinstance(first, ToolUseDelta)
    assert isinstance(second, ToolUseDelta)
    assert first.id == "c"
    assert second.id not in (None, "c")


def test_the_old_function_call_is_a_call() -> None:
    chunks = [
        delta(function_call={"name": "f", "arguments": "{"}),
        delta("function_call", function_call={"arguments": "}"}),
    ]
    first, second = (b for b in content(parse(chunks)) if isinstance(b, ToolUseDelta))
    assert (first.name, first.arguments, second.arguments) == ("f", "{", "}")


def test_a_signature_that_a_gateway_attaches_to_a_call_is_kept() -> None:
    extra = {"google": {"thought_signature": "s"}}
    given = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}, "extra_content": extra}
    (block,) = content(parse([delta(tool_calls=[given])]))
    assert isinstance(block, ToolUseDelta)
    assert block.metadata == {"extra_content": extra}


def test_reasoning_details_are_put_together_and_given_once() -> None:
    def detail(**fields: object) -> dict[str, object]:
        return {"index": 0, "format": "v1", **fields}

    chunks = [
        delta(reasoning="x", reasoning_details=[detail(type="reasoning.text", text="x")]),
        delta(reasoning="y", reasoning_details=[detail(type="reasoning.text", text="y", signature=None)]),
        delta(reasoning_details=[detail(type="reasoning.text", signature="sig")]),
        delta(reasoning_details=[detail(type="reasoning.encrypted", data="AA", id="r1")]),
        delta(content="a"),
    ]
    x, y, last, answer = content(parse(chunks))
    assert (x, y, answer) == (thought("x"), thought("y"), text("a"))
    assert isinstance(last, ThinkingBlock)
    assert (last.thinking, last.signature) == ("", "sig")
    assert last.metadata["reasoning_details"] == [
        detail(type="reasoning.text", text="xy", signature="sig"),
        detail(type="reasoning.encrypted", data="AA", id="r1"),
    ]


def test_reasoning_details_are_read_as_a_last_resort() -> None:
    chunks = [delta(reasoning_details=[{"type": "reasoning.summary", "summary": "x"}]), delta("stop")]
    first, last = content(parse(chunks))
    assert first == thought("x")
    assert isinstance(last, ThinkingBlock)
    assert last.thinking == ""


# --- facts about the answer ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("stop", FinishReason.STOP),
        ("eos", FinishReason.STOP),
        ("length", FinishReason.LENGTH),
        ("tool_calls", FinishReason.TOOL_CALLS),
        ("function_call", FinishReason.TOOL_CALLS),
        ("content_filter", FinishReason.CONTENT_FILTER),
        ("sensitive", FinishReason.CONTENT_FILTER),
        ("something_new", FinishReason.OTHER),
    ],
)
def test_finish_reasons_keep_the_raw_one(raw: str, reason: FinishReason) -> None:
    increment = parse([delta(raw, content="a")], done=False)[0]
    assert (increment.finish_reason, increment.raw_finish_reason) == (reason, raw)


@pytest.mark.parametrize(
    ("chunk", "usage"),
    [
        ({"usage": {"prompt_tokens": 5, "completion_tokens": 2}}, ChatUsage(5, 2)),
        (
            {
                "usage": {
                    "prompt_tokens": 5,
                    "completion_tokens": 2,
                    "prompt_tokens_details": {"cached_tokens": 4},
                    "completion_tokens_details": {"reasoning_tokens": 1},
                }
            },
            ChatUsage(5, 2, 4, 1),
        ),
        ({"usage": {"prompt_tokens": 5, "completion_tokens": 2, "prompt_cache_hit_tokens": 3}}, ChatUsage(5, 2, 3)),
        ({"usage": {"prompt_tokens": 5, "completion_tokens": None, "prompt_tokens_details": None}}, ChatUsage(5)),
        ({"usage": {"prompt_tokens": 5.0}}, ChatUsage(5)),
        ({"x_groq": {"usage": {"prompt_tokens": 5, "completion_tokens": 2}}}, ChatUsage(5, 2)),
        ({"choices": [{"delta": {}, "usage": {"prompt_tokens": 5}}]}, ChatUsage(5)),
        ({"usage": None}, None),
    ],
)
def test_usage_is_read_wherever_it_stands(chunk: dict[str, object], usage: ChatUsage | None) -> None:
    increments = parse([delta(content="a"), {"choices": [], **chunk}])
    assert [increment.usage for increment in increments if increment.usage] == ([usage] if usage else [])


def test_the_time_of_a_usage_is_counted_from_the_beginning() -> None:
    clock = iter((10.0, 12.5))
    parser = ChunkParser(lambda: next(clock))
    (increment,) = parser.feed({"choices": [], "usage": {"prompt_tokens": 1}})
    assert increment.usage == ChatUsage(1, time=2.5)


def test_an_id_alone_is_no_increment() -> None:
    chunks = [{"id": "c1", **delta(role="assistant")}, {"id": "c1", **delta("stop", content="a")}]
    (increment,) = parse(chunks)
    assert increment.id == "c1"


# --- answers that are none -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "chunk",
    [
        [],
        "text",
        7,
        None,
        {"choices": {}},
        {"choices": ["a"]},
        {"choices": [{"delta": "a"}]},
        {"choices": [{"index": "0", "delta": {}}]},
        {"choices": [{"delta": {}, "finish_reason": 1}]},
        {"choices": [], "usage": 3},
        {"choices": [], "usage": {"prompt_tokens": "many"}},
        {"choices": [], "usage": {"prompt_tokens": 1.5}},
        {"choices": [], "usage": {"prompt_tokens": float("inf")}},
        delta(content=5),
        delta(content=["a"]),
        delta(reasoning_content={}),
        delta(tool_calls={}),
        delta(tool_calls=["f"]),
        delta(tool_calls=[{"index": 0, "function": "f"}]),
        piece(0, "c1", "f", 5),
        {**delta(content="a"), "id": 5},
    ],
)
def test_what_the_format_does_not_allow_is_a_protocol_error(chunk: object) -> None:
    with pytest.raises(ProtocolError) as caught:
        parse([chunk])
    assert caught.value.body


def test_a_call_without_a_name_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError, match="no name"):
        parse([piece(0, "c1", None, "{}")])


@pytest.mark.parametrize(
    ("chunk", "error"),
    [
        ({"error": {"message": "m", "code": "rate_limit_exceeded"}}, RateLimitError),
        ({"error": {"message": "m", "status_code": 400}}, BadRequestError),
        ({"error": {"message": "m", "type": "overloaded_error"}, "choices": []}, OverloadedError),
        ({"error": "m"}, ServerError),
        ({"choices": [{"delta": {}, "error": {"message": "m", "code": 502}}]}, ServerError),
        ({"object": "error", "message": "m", "code": 400}, BadRequestError),
        ({"detail": "m"}, ServerError),
        (delta("error"), ServerError),
        (delta("insufficient_system_resource"), OverloadedError),
    ],
)
def test_an_error_in_the_stream_is_raised(chunk: dict[str, object], error: type[ModelHTTPError]) -> None:
    with pytest.raises(ModelHTTPError) as caught:
        parse([delta(content="a"), chunk])
    assert type(caught.value) is error


@pytest.mark.parametrize("empty", [None, {}, "", []])
def test_an_empty_error_is_none(empty: object) -> None:
    assert content(parse([{"error": empty, **delta(content="a")}])) == [text("a")]


def test_an_answer_that_was_withheld_is_an_error() -> None:
    with pytest.raises(ContentFilterError):
        parse([delta("content_filter")])


def test_a_withheld_answer_reports_its_usage() -> None:
    parser = ChunkParser(lambda: 0.0)
    choice = {"index": 0, "finish_reason": "content_filter", "content_filter_results": {"hate": {"filtered": True}}}
    (told,) = parser.read_whole({"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 2}})
    assert told.finish_reason is FinishReason.CONTENT_FILTER
    assert told.usage is not None
    assert told.usage.input_tokens == 7
    with pytest.raises(ContentFilterError):
        parser.end()


@pytest.mark.parametrize("data", ['{"code":500,"message":"it broke"}', '{"error":{"message":"it broke"}}', "it broke"])
def test_an_error_line_is_the_provider_s_error(data: str) -> None:
    reader = ChunkParser(lambda: 0.0)
    (event,) = asyncio.run(read([f"error: {data}\n\n".encode()]))
    with pytest.raises((ModelHTTPError, ProtocolError), match="it broke"):
        reader.read(event)


# --- the end ---------------------------------------------------------------------------------------------------------

ACCOUNT: dict[str, object] = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}


@pytest.mark.parametrize(
    ("chunks", "whole"),
    [
        ([], False),
        ([delta(content="a")], False),
        ([delta("stop", content="a")], True),
        ([delta(content="a"), ACCOUNT], True),
        ([ACCOUNT], False),
        ([ACCOUNT, delta(content="a")], False),
        ([ACCOUNT, delta(content="a"), ACCOUNT], True),
        # an account that runs along closes nothing
        ([{**delta(content="a"), "usage": ACCOUNT["usage"]}, ACCOUNT], False),
    ],
)
def test_an_answer_is_whole_or_an_error(chunks: list[dict[str, object]], whole: bool) -> None:
    if whole:
        parse(chunks, done=False)
    else:
        with pytest.raises(ModelConnectionError):
            parse(chunks, done=False)
    parse(chunks, done=True)


# --- bytes -----------------------------------------------------------------------------------------------------------

CHUNKS: list[dict[str, object]] = [
    {"id": "c1", **delta(role="assistant", content="")},
    {"id": "c1", **delta(reasoning_content="hm\u2028 \u00e9")},
    {"id": "c1", **delta(content="\u4f60\u597d \U0001f600\n\r")},
    {"id": "c1", **piece(0, "t1", "f", '{"\\u00e9": "\u2029\\n')},
    {"id": "c1", **piece(1, "t2", "g", "{}")},
    {"id": "c1", **piece(0, arguments='"}')},
    {"id": "c1", **delta("tool_calls")},
    {"id": "c1", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 9}},
]
EXPECTED = parse(CHUNKS)


class Body(httpx.AsyncByteStream):
    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for data in self.pieces:
            yield data


async def read(pieces: list[bytes], kind: str = "text/event-stream") -> list[ServerEvent]:
    response = httpx.Response(200, headers={"content-type": kind}, stream=Body(pieces))
    return [event async for event in read_events(response)]


def increments_of(pieces: list[bytes]) -> list[ChatResponse]:
    reader = ChunkParser(lambda: 0.0)
    events = asyncio.run(read(pieces))
    return [increment for event in events for increment in reader.read(event)] + list(reader.end())


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """The same events in any legal spelling."""
    ascii_only = draw(st.booleans())
    lines: list[str] = []
    for chunk in CHUNKS:
        data = json.dumps(chunk, ensure_ascii=ascii_only, indent=draw(st.sampled_from([None, None, 1])))
        noise = draw(
            st.sampled_from([[], [": keep-alive", ""], [":"], ["event: message"], ["id: 4"], ["retry: 10"], ["x: y"]])
        )
        space = draw(st.sampled_from(["", " "]))
        lines += [*noise, *(f"data:{space}{line}" for line in data.split("\n")), ""]
    lines += draw(st.sampled_from([["data: [DONE]", ""], ["data:[DONE]"], []]))
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    mark = draw(st.sampled_from(["", "\ufeff"]))
    return (mark + end.join([*lines, ""])).encode()


@st.composite
def cuts(draw: st.DrawFn) -> list[bytes]:
    data = draw(streams())
    if draw(st.booleans()):
        return [data[i : i + 1] for i in range(len(data))]
    places = sorted(draw(st.sets(st.integers(1, len(data) - 1), max_size=40)))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


@given(cuts())
def test_bytes_cut_anywhere_give_the_same_increments(pieces: list[bytes]) -> None:
    assert increments_of(pieces) == EXPECTED


@given(streams(), st.data())
def test_a_stream_that_ends_before_the_finish_reason_raises(stream: bytes, data: st.DataObject) -> None:
    # the last brace of the chunk with the finish reason, the last but one
    brace = stream.rindex(b"}", 0, stream.rindex(b'"id"', 0, stream.index(b'"usage"')))
    at = data.draw(st.one_of(st.integers(0, brace), st.just(brace)))
    with pytest.raises(ModelConnectionError):
        increments_of([stream[:at]])


@pytest.mark.parametrize(
    ("body", "events"),
    [
        (b"", []),
        (b"\n\n\n", []),
        (b": only a comment\n\n", []),
        (b"data: a\n\n", [("a", "message", False, False)]),
        (b"data: a", [("a", "message", False, True)]),
        (b"event: x\ndata: a\ndata: b\n\n", [("a\nb", "x", False, False)]),
        (b"id: 1\n\ndata: a\n\n\n\n", [("a", "message", False, False)]),
        (
            b'data: a\n\nerror: {"code":500}\n\n',
            [("a", "message", False, False), ('{"code":500}', "error", False, False)],
        ),
        (b"data: a\xe2\x80\xa8b\n\n", [("a\u2028b", "message", False, False)]),
        (b"data: a\xff\n\n", [("a\ufffd", "message", False, False)]),
        (b' \n{"a":\n1}', [(' \n{"a":\n1}', "message", True, False)]),
        (b"\xef\xbb\xbf[1]", [("[1]", "message", True, False)]),
        (b"\xef\xbb\xbfdata: a\n\n", [("a", "message", False, False)]),
    ],
)
@pytest.mark.parametrize("bytewise", [False, True])
@pytest.mark.parametrize("kind", ["text/event-stream; charset=latin-1", "text/plain", "application/json"])
def test_events_of_a_body(body: bytes, events: list[tuple[object, ...]], bytewise: bool, kind: str) -> None:
    pieces = [body[i : i + 1] for i in range(len(body))] if bytewise else [body]
    assert [tuple(event) for event in asyncio.run(read(pieces, kind))] == events


def test_half_an_event_after_the_end_is_let_go() -> None:
    reader = ChunkParser(lambda: 0.0)
    reader.read(ServerEvent(json.dumps(delta("stop", content="a"))))
    assert reader.read(ServerEvent('{"choices": [', cut=True)) == ()
    assert list(reader.end()) == []


# --- sound -----------------------------------------------------------------------------------------------------------


def sound(data: bytes = b"", **fields: object) -> dict[str, object]:
    return delta(audio={**fields, **({"data": b64encode(data).decode()} if data else {})})


def test_sound_and_its_transcript_are_chunks_and_blocks() -> None:
    chunks = [
        sound(id="audio_1", transcript="It is "),
        sound(b"abcd"),
        sound(transcript="sunny"),
        sound(b"e"),
        sound(transcript="."),
        sound(expires_at=9),
        delta("stop"),
    ]
    gather = ResponseAccumulator()
    shown = [piece.delta for increment in parse(chunks) for piece in gather.feed(increment)]
    assert [block.type for block in shown] == ["text", "audio", "text", "audio", "text"]
    message = Msg.assistant(gather.blocks())
    assert message.content == (
        text("It is sunny."),
        AudioBlock(Base64Source("audio/pcm", b64encode(b"abcde").decode())),
    )
    # (no server takes bare samples)
    assert format_messages([message]) == [{"role": "assistant", "content": "It is sunny."}]


def test_sound_in_one_piece_has_the_format_that_was_asked_for() -> None:
    parser = ChunkParser(lambda: 0.0, "mp3")
    audio = {"id": "audio_1", "data": "AAEC", "transcript": "Hi."}
    choice = {"index": 0, "message": {"content": None, "audio": audio}, "finish_reason": "stop"}
    gather = ResponseAccumulator()
    for increment in parser.read_whole({"choices": [choice]}):
        gather.feed(increment)
    assert gather.blocks() == (text("Hi."), AudioBlock(Base64Source("audio/mpeg", "AAEC")))


def test_sound_that_is_no_base64_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError, match="base64"):
        parse([delta(audio={"data": "%%%"})])
