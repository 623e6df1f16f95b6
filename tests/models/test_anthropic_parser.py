"""`MessageParser`: events of the wire in, increments out."""

from __future__ import annotations

from typing import Any

import pytest

from agentscope_rx.errors import (
    ContentFilterError,
    ModelConnectionError,
    ModelHTTPError,
    OverloadedError,
    ProtocolError,
    RateLimitError,
    ServerError,
)
from agentscope_rx.messages import ContentBlock, Msg, TextBlock, ThinkingBlock, ToolUseBlock
from agentscope_rx.models.anthropic.formatter import format_messages
from agentscope_rx.models.anthropic.parser import MessageParser
from agentscope_rx.models.response import ChatResponse, FinishReason
from agentscope_rx.models.transport import ServerEvent
from tests.models import wired

OWN = {"vendor": "anthropic"}
SERVER_CALL = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
SERVER_RESULT = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"type": "web_search_result", "title": "Köln", "url": "https://example.com", "encrypted_content": "E"}],
}


def started(**usage: int) -> dict[str, Any]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "usage": usage}
    return {"type": "message_start", "message": message}


def opened(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, **given: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": given}


def closed(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def stopped(reason: str | None = "end_turn", usage: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, **more}, "usage": usage or {"output_tokens": 9}}


STOP: dict[str, Any] = {"type": "message_stop"}
PING: dict[str, Any] = {"type": "ping"}


def text(index: int, *pieces: str) -> list[dict[str, Any]]:
    deltas = [delta(index, type="text_delta", text=piece) for piece in pieces]
    return [opened(index, type="text", text=""), *deltas, closed(index)]


def call(index: int, id: str, name: str, *pieces: str) -> list[dict[str, Any]]:
    deltas = [delta(index, type="input_json_delta", partial_json=piece) for piece in pieces]
    return [opened(index, type="tool_use", id=id, name=name, input={}), *deltas, closed(index)]


def thinking(index: int, signature: str, *pieces: str) -> list[dict[str, Any]]:
    deltas = [delta(index, type="thinking_delta", thinking=piece) for piece in pieces]
    signed = delta(index, type="signature_delta", signature=signature)
    return [opened(index, type="thinking", thinking="", signature=""), *deltas, signed, closed(index)]


ANSWER: list[dict[str, Any]] = [
    started(input_tokens=10, cache_read_input_tokens=5, cache_creation_input_tokens=2, output_tokens=1),
    PING,
    *thinking(0, "SIG0", "Lass ", "mich über"),
    opened(1, type="redacted_thinking", data="ENC"),
    closed(1),
    *text(2, "Ich ", "suche 🔎."),
    opened(3, **SERVER_CALL),
    delta(3, type="input_json_delta", partial_json='{"query": "Kö'),
    delta(3, type="input_json_delta", partial_json='ln"}'),
    closed(3),
    opened(4, **SERVER_RESULT),
    closed(4),
    *thinking(5, "SIG5", "Und jetzt"),
    *text(6, "Gefunden."),
    *call(7, "toolu_1", "weather", "", '{"ci', 'ty": "Köln"}'),
    *call(8, "toolu_2", "clock", ""),
    stopped("tool_use", {"output_tokens": 40, "output_tokens_details": {"thinking_tokens": 12}}),
    STOP,
]
BLOCKS: tuple[ContentBlock, ...] = (
    ThinkingBlock("Lass mich über", "SIG0", OWN),
    ThinkingBlock("", "ENC", {**OWN, "redacted": True}),
    TextBlock("Ich suche 🔎."),
    ThinkingBlock("", None, {**OWN, "blocks": [{**SERVER_CALL, "input": {"query": "Köln"}}, SERVER_RESULT]}),
    ThinkingBlock("Und jetzt", "SIG5", OWN),
    TextBlock("Gefunden."),
    ToolUseBlock("toolu_1", "weather", {"city": "Köln"}),
    ToolUseBlock("toolu_2", "clock"),
)


def read(*events: Any) -> list[ChatResponse]:
    return wired.streamed(MessageParser, events)


def test_an_answer_with_everything() -> None:
    gather = wired.gathered(read(*ANSWER))
    assert gather.blocks() == BLOCKS
    assert gather.finish_reason is FinishReason.TOOL_CALLS
    assert gather.raw_finish_reason == "tool_use"
    assert gather.response_id == "msg_1"
    usage = gather.usage
    assert usage is not None
    counts = (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.reasoning_tokens)
    assert counts == (17, 40, 5, 12)


def test_it_goes_back_as_it_came() -> None:
    conversation = format_messages([Msg.user("?"), Msg.assistant(BLOCKS)])
    (_, turn, _) = conversation.turns
    assert turn.content == [
        {"type": "thinking", "thinking": "Lass mich über", "signature": "SIG0"},
        {"type": "redacted_thinking", "data": "ENC"},
        {"type": "text", "text": "Ich suche 🔎."},
        {**SERVER_CALL, "input": {"query": "Köln"}},
        SERVER_RESULT,
        {"type": "thinking", "thinking": "Und jetzt", "signature": "SIG5"},
        {"type": "text", "text": "Gefunden."},
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Köln"}},
        {"type": "tool_use", "id": "toolu_2", "name": "clock", "input": {}},
    ]


def test_in_one_piece_it_is_the_same() -> None:
    content = format_messages([Msg.user("?"), Msg.assistant(BLOCKS)]).turns[1].content
    usage = {"input_tokens": 10, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2, "output_tokens": 40}
    answer = {"id": "msg_1", "type": "message", "content": content, "stop_reason": "tool_use", "usage": usage}
    gather = wired.gathered(wired.whole(MessageParser, answer))
    assert gather.blocks() == BLOCKS
    assert gather.finish_reason is FinishReason.TOOL_CALLS
    assert gather.usage is not None
    assert (gather.usage.input_tokens, gather.usage.output_tokens, gather.usage.cached_tokens) == (17, 40, 5)


def test_a_message_in_one_piece_instead_of_a_stream() -> None:
    answer = '{"id":"m","type":"message","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn","usage":{}}'
    parser = MessageParser(lambda: 0.0)
    found = [*parser.read(ServerEvent(answer, whole=True)), *parser.end()]
    assert wired.blocks(found) == (TextBlock("Hi"),)


@pytest.mark.parametrize(
    ("reason", "means"),
    [
        ("end_turn", FinishReason.STOP),
        ("stop_sequence", FinishReason.STOP),
        ("max_tokens", FinishReason.LENGTH),
        ("model_context_window_exceeded", FinishReason.LENGTH),
        ("tool_use", FinishReason.TOOL_CALLS),
        ("refusal", FinishReason.CONTENT_FILTER),
        ("pause_turn", FinishReason.OTHER),
        ("what_next", FinishReason.OTHER),
    ],
)
def test_why_it_stopped(reason: str, means: FinishReason) -> None:
    last = read(started(), *text(0, "Hi"), stopped(reason), STOP)[-1]
    assert (last.finish_reason, last.raw_finish_reason) == (means, reason)


def test_what_is_known_of_the_stop() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "No."}
    told = read(started(cache_creation_input_tokens=7), *text(0, "Hi"), stopped("refusal", stop_details=details))[-1]
    assert told.metadata == {"refusal": True, "stop_details": details, "cache_creation_tokens": 7}
    assert read(started(), stopped("stop_sequence", stop_sequence="END"))[-1].metadata == {"stop_sequence": "END"}


def test_a_refusal_without_a_word_is_an_error_after_its_cost() -> None:
    parser = MessageParser(lambda: 0.0)
    told: list[ChatResponse] = []
    for event in (started(input_tokens=3), stopped("refusal", stop_details={"explanation": "Not this."})):
        told += parser.read(ServerEvent(wired.json.dumps(event)))
    assert told[-1].usage is not None
    assert told[-1].usage.input_tokens == 3
    with pytest.raises(ContentFilterError, match="Not this"):
        parser.end()


def test_what_was_read_is_told_with_the_first_increment() -> None:
    first = read(started(input_tokens=8, output_tokens=1), *text(0, "Hi"), stopped())[0]
    assert first.usage is not None
    assert first.usage.input_tokens == 8


def test_citations_are_metadata() -> None:
    citation = {"type": "page_location", "cited_text": "x", "document_index": 0}
    found = read(
        started(),
        opened(0, type="text", text=""),
        delta(0, type="text_delta", text="Hi"),
        delta(0, type="citations_delta", citation=citation),
        closed(0),
        stopped(),
    )
    assert [r.metadata["citations"] for r in found if "citations" in r.metadata] == [[citation]]
    assert wired.blocks(found) == (TextBlock("Hi"),)


def test_arguments_that_came_with_the_beginning() -> None:
    found = read(
        started(), opened(0, type="tool_use", id="t", name="f", input={"a": "ü"}), closed(0), stopped("tool_use")
    )
    assert wired.blocks(found) == (ToolUseBlock("t", "f", {"a": "ü"}),)


def test_calls_keep_what_only_anthropic_knows() -> None:
    caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
    block = {"type": "tool_use", "id": "t", "name": "f", "input": {}, "caller": caller}
    (made,) = wired.blocks(read(started(), opened(0, **block), closed(0), stopped("tool_use")))
    turns = format_messages([Msg.user("?"), Msg.assistant([made])]).turns
    assert turns[1].content == [block]
    direct = {"type": "tool_use", "id": "t", "name": "f", "input": {}, "caller": {"type": "direct"}}
    (plain,) = wired.blocks(read(started(), opened(0, **direct), closed(0), stopped("tool_use")))
    assert plain == ToolUseBlock("t", "f")


def test_calls_whose_pieces_come_in_turns() -> None:
    found = read(
        started(),
        opened(0, type="tool_use", id="a", name="f", input={}),
        opened(1, type="tool_use", id="b", name="g", input={}),
        delta(0, type="input_json_delta", partial_json='{"x"'),
        delta(1, type="input_json_delta", partial_json='{"y"'),
        delta(0, type="input_json_delta", partial_json=":1}"),
        delta(1, type="input_json_delta", partial_json=":2}"),
        stopped("tool_use"),
    )
    assert wired.blocks(found) == (ToolUseBlock("a", "f", {"x": 1}), ToolUseBlock("b", "g", {"y": 2}))


def test_a_character_cut_in_two() -> None:
    raw = '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}}'
    found = read(started(), opened(0, type="text", text=""), raw % "\\ud83d", raw % "\\ude00", closed(0), stopped())
    assert wired.blocks(found) == (TextBlock("😀"),)


def test_thinking_that_is_not_shown_keeps_its_signature() -> None:
    found = read(started(), *thinking(0, "SIG"), *text(1, "Hi"), stopped())
    assert wired.blocks(found) == (ThinkingBlock("", "SIG", OWN), TextBlock("Hi"))


@pytest.mark.parametrize(
    ("kind", "error", "status"),
    [
        ("overloaded_error", OverloadedError, 503),
        ("rate_limit_error", RateLimitError, 429),
        ("api_error", ServerError, 500),
        ("invalid_request_error", ModelHTTPError, 400),
    ],
)
def test_an_error_in_the_stream(kind: str, error: type[ModelHTTPError], status: int) -> None:
    told = {"type": "error", "error": {"type": kind, "message": "No more."}}
    with pytest.raises(error, match="No more") as caught:
        read(started(), *text(0, "Hi"), told)
    assert (caught.value.status, caught.value.code) == (status, kind)
    with pytest.raises(error):
        wired.whole(MessageParser, told)


@pytest.mark.parametrize("events", [[], [started()], [started(), *text(0, "Hi")], [started(), PING]])
def test_less_than_a_stop_reason_is_no_answer(events: list[Any]) -> None:
    with pytest.raises(ModelConnectionError):
        read(*events)


def test_half_an_event_at_the_end_says_nothing() -> None:
    parser = MessageParser(lambda: 0.0)
    assert parser.read(ServerEvent('{"type": "content_bl', cut=True)) == ()
    with pytest.raises(ModelConnectionError):
        parser.end()


def test_events_that_are_not_known_are_passed_over() -> None:
    assert wired.blocks(read(started(), {"type": "news", "a": 1}, *text(0, "Hi"), stopped(), STOP)) == (
        TextBlock("Hi"),
    )


@pytest.mark.parametrize(
    "event",
    [
        "[]",
        "no JSON",
        {"type": "content_block_start", "index": 0},
        {"type": "content_block_start", "index": 0, "content_block": {}},
        opened(0, type="tool_use", id="t"),
        opened(0, type="thinking", thinking="", signature="é"),
        delta(7, type="text_delta", text="whose?"),
        {"type": "content_block_delta", "index": "0", "delta": {}},
        {"type": "message_start"},
        {"type": 5},
    ],
)
def test_what_the_format_does_not_allow(event: Any) -> None:
    with pytest.raises(ProtocolError):
        read(started(), event, stopped())
    with pytest.raises(ProtocolError):
        wired.whole(MessageParser, {"content": [5], "stop_reason": "end_turn"})
    with pytest.raises(ProtocolError):
        wired.whole(MessageParser, {"a": 1})
