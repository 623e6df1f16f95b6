"""The parser of DashScope's answers: every form of them, whole or cut, damaged or complaining."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterable
from itertools import pairwise
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import (
    AuthenticationError,
    BadRequestError,
    ContentFilterError,
    ContextOverflowError,
    ModelConnectionError,
    ModelError,
    NotFoundError,
    PermissionDeniedError,
    ProtocolError,
    RateLimitError,
    ServerError,
)
from agentscope_rx.messages import AudioBlock, ImageBlock, Msg, TextBlock, ThinkingBlock, ToolUseBlock
from agentscope_rx.models import ChatResponse, FinishReason
from agentscope_rx.models.accumulate import ResponseAccumulator
from agentscope_rx.models.dashscope.parser import DashScopeParser
from agentscope_rx.models.transport.framing import ServerEvent, read_events


def chunk(message: dict[str, Any] | None = None, finish: str | None = "null", **more: Any) -> dict[str, Any]:
    choice = {"message": {"role": "assistant", **(message or {})}, "finish_reason": finish, "index": 0}
    return {"output": {"choices": [choice]}, "request_id": "r1", **more}


def call(arguments: str, name: str | None = None, index: int | None = 0, id: str | None = "") -> dict[str, Any]:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return {"function": function, "type": "function"} | {
        key: value for key, value in (("index", index), ("id", id)) if value is not None
    }


def used(read: int, written: int) -> dict[str, Any]:
    return {"usage": {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}}


def increments(*chunks: Any, incremental: bool = True) -> list[ChatResponse]:
    parser = DashScopeParser(lambda: 0.0, incremental=incremental)
    made = [each for one in chunks for each in parser.read(ServerEvent(json.dumps(one), "result"))]
    return made + list(parser.end())


def gathered(responses: Iterable[ChatResponse]) -> ResponseAccumulator:
    gather = ResponseAccumulator()
    for response in responses:
        gather.feed(response)
    return gather


def calls_of(*chunks: Any) -> list[tuple[str, str, Any]]:
    return [
        (block.id, block.name, dict(block.input))
        for block in gathered(increments(*chunks)).blocks()
        if isinstance(block, ToolUseBlock)
    ]


# --- what an answer says ---------------------------------------------------------------------------------------------


def test_thinking_then_words_then_the_account() -> None:
    made = increments(
        chunk({"content": "", "reasoning_content": "h"}, **used(3, 1)),
        chunk({"content": "", "reasoning_content": "m"}),
        chunk({"content": "yes", "reasoning_content": ""}),
        chunk({"content": ""}, "stop", **used(3, 4)),
    )
    assert [each.content for each in made] == [
        (ThinkingBlock("h"),),
        (ThinkingBlock("m"),),
        (TextBlock("yes"),),
        (),
    ]
    gather = gathered(made)
    assert gather.usage is not None
    assert (gather.usage.input_tokens, gather.usage.output_tokens) == (3, 4)
    assert (gather.finish_reason, gather.raw_finish_reason, gather.response_id) == (FinishReason.STOP, "stop", "r1")


def test_the_text_null_is_no_finish_reason() -> None:
    made = increments(chunk({"content": "a"}, "null"), chunk({"content": "b"}, ""), chunk({}, "stop"))
    assert [each.finish_reason for each in made] == [None, None, FinishReason.STOP]
    with pytest.raises(ModelConnectionError):
        increments(chunk({"content": "a"}, "null"))


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("stop", FinishReason.STOP),
        ("length", FinishReason.LENGTH),
        ("tool_calls", FinishReason.TOOL_CALLS),
        ("content_filter", FinishReason.CONTENT_FILTER),
        ("new", FinishReason.OTHER),
    ],
)
def test_finish_reasons(raw: str, reason: FinishReason) -> None:
    last = increments(chunk({"content": "a"}, raw))[-1]
    assert (last.finish_reason, last.raw_finish_reason) == (reason, raw)


def test_an_answer_that_was_withheld_is_an_error() -> None:
    with pytest.raises(ContentFilterError):
        increments(chunk({"content": ""}, "content_filter"))


def test_content_in_parts_is_read_whole() -> None:
    (made,) = increments(
        chunk({"content": [{"text": "a"}, {"image": "https://host/a.png"}, {"text": "b"}, {"new": 1}]}, "stop")
    )
    assert [type(block) for block in made.content] == [TextBlock, ImageBlock, TextBlock]
    assert gathered([made]).blocks()[2] == TextBlock("b")


def test_sound_is_an_address() -> None:
    audio = {"data": "", "url": "https://host/a.wav", "id": "x", "expires_at": 1}
    answer = {"output": {"finish_reason": "stop", "audio": audio}, "request_id": "r"}
    (made,) = increments(answer)
    (block,) = made.content
    assert isinstance(block, AudioBlock)
    assert increments({"output": {**answer["output"], "audio": {"data": ""}}})[0].content == ()


def test_old_models_put_the_text_beside_choices() -> None:
    (made,) = increments({"output": {"text": "a", "finish_reason": "stop"}, "request_id": "r"})
    assert made.content == (TextBlock("a"),)
    assert made.finish_reason is FinishReason.STOP
    nothing = {"output": {"text": None, "choices": [{"message": {"content": "b"}, "finish_reason": "stop"}]}}
    assert increments(nothing)[0].content == (TextBlock("b"),)


def test_only_the_first_of_several_answers_is_read() -> None:
    other = {"output": {"choices": [{"message": {"content": "x"}, "finish_reason": "stop", "index": 1}]}}
    assert gathered(increments(chunk({"content": "a"}), other, chunk({}, "stop"))).blocks() == (TextBlock("a"),)


def test_what_a_search_found_is_told_once() -> None:
    found = {"search_results": [{"index": 1, "title": "t", "url": "u"}]}
    first, second = chunk({"content": "a"}), chunk({"content": "b"}, "stop")
    first["output"]["search_info"] = second["output"]["search_info"] = found
    made = increments(first, second)
    assert [dict(each.metadata) for each in made] == [{"search_info": found}, {}]


def test_cached_and_reasoning_tokens_are_told() -> None:
    account = {
        "input_tokens": 9,
        "output_tokens": 8,
        "prompt_tokens_details": {"cached_tokens": 7, "cache_creation_input_tokens": 5},
        "output_tokens_details": {"reasoning_tokens": 6, "text_tokens": 2},
    }
    (made,) = increments(chunk({"content": "a"}, "stop", usage=account))
    assert made.usage is not None
    assert (made.usage.cached_tokens, made.usage.reasoning_tokens) == (7, 6)
    assert dict(made.metadata) == {"cache_creation_tokens": 5}
    (older,) = increments(chunk({"content": "a"}, "stop", usage={**account, "prompt_tokens_details": None}))
    assert older.usage is not None
    assert older.usage.cached_tokens == 0


def test_an_attempt_that_has_said_nothing_tells_nothing() -> None:
    parser = DashScopeParser(lambda: 0.0)
    assert list(parser.read(ServerEvent(json.dumps(chunk({"content": ""}, **used(3, 0)))))) == []


def test_half_a_character_waits_for_its_other_half() -> None:
    made = increments(chunk({"content": "a\ud83d"}), chunk({"content": "\ude00b"}), chunk({}, "stop"))
    assert gathered(made).blocks() == (TextBlock("a\U0001f600b"),)


# --- calls -----------------------------------------------------------------------------------------------------------


def test_pieces_of_calls_come_together() -> None:
    assert calls_of(
        chunk({"content": "", "tool_calls": [call('{"a', "f", 0, "c1")]}),
        chunk({"content": "", "tool_calls": [call('":1}', None, 0, "")]}),
        chunk({"content": "", "tool_calls": [call("{}", "g", 1, "c2")]}, "tool_calls"),
    ) == [("c1", "f", {"a": 1}), ("c2", "g", {})]


def test_a_piece_without_id_and_index_belongs_to_the_last_call() -> None:
    assert calls_of(
        chunk({"tool_calls": [call('{"a', "f", None, "c1")]}),
        chunk({"tool_calls": [call('":1}', None, None, None)]}, "tool_calls"),
    ) == [("c1", "f", {"a": 1})]


def test_a_call_without_an_id_gets_one() -> None:
    ((id, name, arguments),) = calls_of(chunk({"tool_calls": [call("{}", "f", 0, None)]}, "tool_calls"))
    assert id and (name, arguments) == ("f", {})


def test_a_call_without_a_name_is_refused() -> None:
    with pytest.raises(ProtocolError, match="no name"):
        increments(chunk({"tool_calls": [call("{}", None, 0, "c1")]}, "tool_calls"))


# --- snapshots -------------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(["text", "thought", "call", "other"]), max_size=12), st.booleans())
def test_snapshots_say_what_increments_say(kinds: list[str], in_parts: bool) -> None:
    """Each event of a snapshot stream tells all from the beginning; what is shown of the two streams is the same."""
    state: dict[str, str] = {"text": "", "thought": "", "call": "", "other": ""}
    told: list[dict[str, Any]] = []
    new: list[dict[str, Any]] = []
    for at, kind in enumerate(kinds):
        first = not state[kind]
        piece = f"<{kind}{at}>" if kind in ("text", "thought") else ('{"a": [' if first else f"{at},")
        state[kind] += piece
        pieces = [
            call(piece, key[0] if first else None, index, f"id-{key}" if first else "")
            for index, key in enumerate(("call", "other"))
            if key == kind
        ]
        whole = [
            call(state[key], key[0], index, f"id-{key}") for index, key in enumerate(("call", "other")) if state[key]
        ]
        new.append(message(piece if kind == "text" else "", piece if kind == "thought" else "", pieces, in_parts))
        told.append(message(state["text"], state["thought"], whole, in_parts))
    ends = [chunk({"content": ""}, "stop")]
    a = gathered(increments(*map(chunk, new), *ends)).blocks()
    b = gathered(increments(*map(chunk, told), *ends, incremental=False)).blocks()
    assert sorted(map(repr, a)) == sorted(map(repr, b))


def message(text: str, thought: str, calls: list[Any], in_parts: bool) -> dict[str, Any]:
    made: dict[str, Any] = {"content": [{"text": text}] if in_parts else text, "reasoning_content": thought}
    return made | ({"tool_calls": calls} if calls else {})


def test_cumulative_text_may_be_left_out_but_not_change() -> None:
    def told(*texts: str) -> list[str]:
        chunks = [chunk({"content": text}) for text in texts]
        made = increments(*chunks, chunk({"content": texts[-1]}, "stop"), incremental=False)
        return [block.text for each in made for block in each.content if isinstance(block, TextBlock)]

    assert told("a", "ab", "ab", "", "a", "abc") == ["a", "b", "c"]
    assert told("a\ufffd", "a\U0001f600") == ["a", "\U0001f600"]
    with pytest.raises(ProtocolError, match="does not continue"):
        told("abc", "abX")


def test_pictures_of_snapshots_come_once() -> None:
    picture = {"image": "https://host/a.png"}
    made = increments(
        chunk({"content": [{"text": "a"}, picture]}),
        chunk({"content": [{"text": "ab"}, picture, picture]}, "stop"),
        incremental=False,
    )
    assert [type(block) for each in made for block in each.content] == [TextBlock, ImageBlock, TextBlock, ImageBlock]


# --- whole answers ---------------------------------------------------------------------------------------------------


def test_an_answer_in_one_piece_is_whole() -> None:
    parser = DashScopeParser(lambda: 0.0)
    (made,) = parser.read_whole(chunk({"content": "a"}, None, **used(1, 2)))
    assert made.content == (TextBlock("a"),)
    assert list(parser.end()) == []
    with pytest.raises(ProtocolError, match="no output with a message"):
        DashScopeParser(lambda: 0.0).read_whole({"request_id": "r"})
    with pytest.raises(ProtocolError, match="must be a JSON object"):
        DashScopeParser(lambda: 0.0).read_whole([1])


# --- complaints ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        ("InvalidApiKey", "Invalid API-key provided.", AuthenticationError),
        ("AccessDenied", "Access denied.", PermissionDeniedError),
        ("Arrearage", "Access denied, please make sure your account is in good standing.", PermissionDeniedError),
        ("ModelNotFound", "Model can not be found.", NotFoundError),
        ("Model.NotExist", "Model not exist.", NotFoundError),
        ("Throttling", "Requests throttled.", RateLimitError),
        ("Throttling.RateQuota", "Requests rate limit exceeded.", RateLimitError),
        ("Throttling.AllocationQuota", "Allocated quota exceeded.", RateLimitError),
        ("DataInspectionFailed", "Output data may contain inappropriate content.", BadRequestError),
        ("InvalidParameter", "Range of max_tokens should be [1, 8192]", BadRequestError),
        ("InvalidParameter", "Range of input length should be [1, 30720]", ContextOverflowError),
        ("InternalError.Algo", "<400> InternalError.Algo.InvalidParameter: no", BadRequestError),
        ("InternalError", "An internal error has occured.", ServerError),
        ("RequestTimeOut", "Request timed out, please try again later.", ServerError),
    ],
)
def test_an_error_in_a_stream_has_the_type_of_its_code(code: str, text: str, kind: type[Exception]) -> None:
    data = json.dumps({"code": code, "message": text, "request_id": "r9"})
    for event in (ServerEvent(data, "error"), ServerEvent(data, "result"), ServerEvent(data, whole=True)):
        parser = DashScopeParser(lambda: 0.0)
        with pytest.raises(kind) as caught:
            parser.read(event)
        assert text in str(caught.value)
        assert (caught.value.code, caught.value.request_id) == (code, "r9")  # pyright: ignore[reportAttributeAccessIssue]


def test_an_error_event_is_one_whatever_it_holds() -> None:
    for data in ('{"output": {}}', "oh no", "{}", "[]", '"x"'):
        with pytest.raises(ModelError):
            DashScopeParser(lambda: 0.0).read(ServerEvent(data, "error"))


def test_an_empty_code_is_no_complaint() -> None:
    made = {**chunk({"content": "a"}, "stop"), "code": "", "message": ""}
    assert increments(made)[0].content == (TextBlock("a"),)


@pytest.mark.parametrize(
    "data", ["nope", "[]", '{"output": []}', '{"output": {"choices": {}}}', '{"output": {"choices": [{"message": 1}]}}']
)
def test_what_the_format_does_not_allow_is_a_protocol_error(data: str) -> None:
    with pytest.raises(ProtocolError):
        DashScopeParser(lambda: 0.0).read(ServerEvent(data, "result"))


# --- cut and damaged -------------------------------------------------------------------------------------------------

STREAM = [
    chunk({"content": "", "reasoning_content": "höre"}, **used(3, 1)),
    chunk({"content": "Grüße \U0001f600"}),
    chunk({"content": "", "tool_calls": [call('{"city": "北', "weather", 0, "c1")]}),
    chunk({"content": "", "tool_calls": [call('京"}', None, 0, "")]}),
    chunk({"content": ""}, "tool_calls", **used(3, 9)),
]


def framed(chunks: list[Any], end: str = "\n") -> bytes:
    lines = [
        line
        for at, one in enumerate(chunks)
        for line in (f"id:{at}", "event:result", ":HTTP_STATUS/200", f"data:{json.dumps(one, ensure_ascii=False)}", "")
    ]
    return (end.join(lines) + end).encode()


BODY = framed(STREAM)


def read(pieces: list[bytes]) -> list[ChatResponse]:
    async def body() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async def events() -> list[ServerEvent]:
        return [event async for event in read_events(httpx.Response(200, content=body()))]

    parser = DashScopeParser(lambda: 0.0)
    made = [each for event in asyncio.run(events()) for each in parser.read(event)]
    return made + list(parser.end())


WHOLE = gathered(read([BODY])).blocks()


@given(st.sets(st.integers(1, len(BODY) - 1), max_size=40), st.sampled_from(["\n", "\r\n", "\r"]))
def test_pieces_of_any_size_say_the_same(places: set[int], end: str) -> None:
    data = framed(STREAM, end)
    marks = [0, *sorted(place for place in places if place < len(data)), len(data)]
    assert gathered(read([data[a:b] for a, b in pairwise(marks)])).blocks() == WHOLE


@given(st.integers(0, len(BODY)))
def test_an_answer_that_is_cut_off_is_whole_or_an_error(place: int) -> None:
    last = len(framed(STREAM[:-1]))
    try:
        blocks = gathered(read([BODY[:place]])).blocks()
    except ModelConnectionError:
        assert place < len(BODY)
    else:
        assert place > last
        assert blocks == WHOLE


SPICE = [
    *(b"data:", b"\n\n", b"\r", b"[DONE]", b"{", b"}", b"null", b"\xff", b"\xef\xbb\xbf", b'"index":-1,', b"\x00"),
    *(b'"tool_calls":5,', b'"choices":{},', b'"content":[{"text":1}],', b'"\\ud800"', b"event:error\n", b"[" * 50),
    *(b'"code":"x",', b'"code":5,', b'"output":null,', b'"usage":[],'),
]


@given(st.integers(0), st.integers(1, 50), st.booleans())
def test_damage_gives_an_answer_or_an_error_of_ours(seed: int, pieces: int, incremental: bool) -> None:
    source = random.Random(seed)
    body = bytearray(BODY)
    for _ in range(source.randint(1, 6)):
        at = source.randrange(len(body) + 1)
        to = min(len(body), at + source.choice([0, 1, 2, 10, 100]))
        body[at:to] = source.choice([b"", body[at:to] * 2, source.choice(SPICE), source.choice(SPICE) + body[at:to]])
    size = max(1, len(body) // pieces)
    try:
        made = read([bytes(body[start : start + size]) for start in range(0, len(body), size)])
    except ModelError:
        return
    said = Msg.assistant(gathered(made).blocks())
    assert Msg.from_json(said.to_json()) == said
