"""The parser of Ollama's answers: every form of them, whole or cut, damaged or complaining."""

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

from agentscope_rx.errors import ContextOverflowError, ModelConnectionError, ModelError, ProtocolError, ServerError
from agentscope_rx.messages import ImageBlock, Msg, TextBlock, ThinkingBlock, ToolUseBlock
from agentscope_rx.models import ChatResponse, FinishReason
from agentscope_rx.models.accumulate import ResponseAccumulator
from agentscope_rx.models.ollama.parser import OllamaParser
from agentscope_rx.models.transport.framing import ServerEvent, read_lines


def line(content: str = "", **more: Any) -> dict[str, Any]:
    return {"model": "m", "message": {"role": "assistant", "content": content, **more}, "done": False}


def last(reason: str | None = "stop", **more: Any) -> dict[str, Any]:
    return {**line(), "done": True, **({} if reason is None else {"done_reason": reason}), **more}


def call(name: str, arguments: Any, **more: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}, **more}


def increments(*lines: Any) -> list[ChatResponse]:
    parser = OllamaParser(lambda: 0.0)
    return [each for one in lines for each in parser.read(ServerEvent(json.dumps(one)))] + list(parser.end())


def gathered(responses: Iterable[ChatResponse]) -> ResponseAccumulator:
    gather = ResponseAccumulator()
    for response in responses:
        gather.feed(response)
    return gather


def calls_of(*lines: Any) -> list[ToolUseBlock]:
    return [block for block in gathered(increments(*lines)).blocks() if isinstance(block, ToolUseBlock)]


def test_thinking_then_words_then_the_account() -> None:
    made = increments(
        line(thinking="h"),
        line(thinking="m"),
        line("yes"),
        line(),
        last(prompt_eval_count=3, eval_count=4, total_duration=2_500_000_000, eval_duration=1_000_000_000),
    )
    assert [each.content for each in made] == [(ThinkingBlock("h"),), (ThinkingBlock("m"),), (TextBlock("yes"),), ()]
    end = made[-1]
    assert end.usage is not None
    assert (end.usage.input_tokens, end.usage.output_tokens) == (3, 4)
    assert (end.finish_reason, end.raw_finish_reason) == (FinishReason.STOP, "stop")
    assert dict(end.metadata) == {"total_duration": 2.5, "eval_duration": 1.0}
    assert [each.usage for each in made[:-1]] == [None, None, None]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("stop", FinishReason.STOP),
        (None, FinishReason.STOP),
        ("length", FinishReason.LENGTH),
        ("load", FinishReason.OTHER),
        ("custom", FinishReason.OTHER),
    ],
)
def test_finish_reasons(raw: str | None, reason: FinishReason) -> None:
    end = increments(line("a"), last(raw))[-1]
    assert (end.finish_reason, end.raw_finish_reason) == (reason, raw)


def test_calls_come_whole_and_get_ids_where_they_have_none() -> None:
    first, second, third = calls_of(
        line(tool_calls=[call("f", {"a": 1}), call("f", {"a": 1}, id="call_x")]),
        line(tool_calls=[call("g", {}, id="call_x")]),
        last(),
    )
    assert [(each.name, dict(each.input)) for each in (first, second, third)] == [
        ("f", {"a": 1}),
        ("f", {"a": 1}),
        ("g", {}),
    ]
    assert second.id == "call_x"
    assert len({first.id, second.id, third.id}) == 3


def test_a_model_that_calls_has_stopped_for_the_calls() -> None:
    end = increments(line(tool_calls=[call("f", {})]), last())[-1]
    assert (end.finish_reason, end.raw_finish_reason) == (FinishReason.TOOL_CALLS, "stop")
    assert increments(line(tool_calls=[call("f", {})]), last("length"))[-1].finish_reason is FinishReason.LENGTH


def test_arguments_of_any_kind() -> None:
    text, none, wrong = calls_of(line(tool_calls=[call("f", '{"a":1}'), call("f", None), call("f", [1])]), last())
    assert (dict(text.input), dict(none.input)) == ({"a": 1}, {})
    assert wrong.input_error


def test_pictures_are_data() -> None:
    (block,) = gathered(increments(line(images=["iVBORw=="]), last())).blocks()
    assert isinstance(block, ImageBlock)


def test_half_a_character_waits_for_its_other_half() -> None:
    assert gathered(increments(line("a\ud83d"), line("\ude00b"), last())).blocks() == (TextBlock("a\U0001f600b"),)
    assert gathered(increments(line("a\ud83d"), last())).blocks() == (TextBlock("a\ufffd"),)


def test_an_answer_in_one_piece() -> None:
    parser = OllamaParser(lambda: 0.0)
    (made,) = parser.read_whole({**line("a"), "done": True, "prompt_eval_count": 1})
    assert made.content == (TextBlock("a"),)
    assert list(parser.end()) == []
    for wrong in ({}, [], {"message": 1}):
        with pytest.raises(ProtocolError):
            OllamaParser(lambda: 0.0).read_whole(wrong)


def test_logprobs_are_metadata() -> None:
    told = [{"token": "a", "logprob": -0.1}]
    assert dict(increments({**line("a"), "logprobs": told}, last())[0].metadata) == {"logprobs": told}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("llama runner process has terminated", ServerError),
        ("prompt too long; exceeded max context length by 9 tokens", ContextOverflowError),
        ("the input length exceeds the context length", ContextOverflowError),
    ],
)
def test_a_complaint_in_a_stream_is_an_error(text: str, kind: type[Exception]) -> None:
    parser = OllamaParser(lambda: 0.0)
    parser.read(ServerEvent(json.dumps(line("a"))))
    with pytest.raises(kind, match=text[:20]):
        parser.read(ServerEvent(json.dumps({"error": text})))


@pytest.mark.parametrize(
    "data", ["nope", "[]", '{"message": []}', '{"message": {"content": 1}}', '{"message": {"tool_calls": [{}]}}']
)
def test_what_the_format_does_not_allow_is_a_protocol_error(data: str) -> None:
    with pytest.raises(ProtocolError):
        OllamaParser(lambda: 0.0).read(ServerEvent(data))


# --- cut and damaged -------------------------------------------------------------------------------------------------

STREAM = [
    line(thinking="höre"),
    line("Grüße \U0001f600"),
    line(tool_calls=[call("weather", {"city": "北京"}, id="c1")]),
    last(prompt_eval_count=3, eval_count=9),
]


def framed(lines: list[Any], end: str = "\n") -> bytes:
    return "".join(json.dumps(one, ensure_ascii=False) + end for one in lines).encode()


BODY = framed(STREAM)


def read(pieces: list[bytes]) -> list[ChatResponse]:
    async def body() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async def events() -> list[ServerEvent]:
        return [event async for event in read_lines(httpx.Response(200, content=body()))]

    parser = OllamaParser(lambda: 0.0)
    made = [each for event in asyncio.run(events()) for each in parser.read(event)]
    return made + list(parser.end())


WHOLE = gathered(read([BODY])).blocks()


@given(st.sets(st.integers(1, len(BODY) - 1), max_size=40), st.sampled_from(["\n", "\r\n", "\n\n"]))
def test_pieces_of_any_size_say_the_same(places: set[int], end: str) -> None:
    data = framed(STREAM, end)
    marks = [0, *sorted(places), len(data)]
    assert gathered(read([data[a:b] for a, b in pairwise(marks)])).blocks() == WHOLE


@given(st.integers(0, len(BODY)))
def test_an_answer_that_is_cut_off_is_whole_or_an_error(place: int) -> None:
    try:
        blocks = gathered(read([BODY[:place]])).blocks()
    except ModelConnectionError:
        assert place < len(BODY) - 1
    else:
        # all but the newline at the end
        assert place >= len(BODY) - 1
        assert blocks == WHOLE


SPICE = [
    *(b"\n", b"\r", b"{", b"}", b"null", b"\xff", b"\xef\xbb\xbf", b"\x00", b'"tool_calls":5,', b'"message":{},'),
    *(b'"content":[1],', b'"\\ud800"', b"[" * 50, b'"error":"x",', b'"error":5,', b'"done":true,', b'"done":1,'),
]


@given(st.integers(0), st.integers(1, 50))
def test_damage_gives_an_answer_or_an_error_of_ours(seed: int, pieces: int) -> None:
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
