"""`ContentParser`: responses of the wire in, increments out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentscope_rx.errors import (
    ContentFilterError,
    EmptyResponseError,
    ModelConnectionError,
    ProtocolError,
    RateLimitError,
    ServerError,
)
from agentscope_rx.messages import (
    Base64Source,
    ImageBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    URLSource,
    VideoBlock,
)
from agentscope_rx.models.gemini.formatter import format_messages
from agentscope_rx.models.gemini.parser import ContentParser
from agentscope_rx.models.response import ChatResponse, FinishReason
from agentscope_rx.models.transport import ServerEvent
from tests.models import wired

OWN = {"vendor": "gemini"}
CODE = {"executableCode": {"language": "PYTHON", "code": "1+1"}, "thoughtSignature": "S0"}
RAN = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2\n"}}


def response(
    *parts: dict[str, Any], reason: str | None = None, usage: dict[str, int] | None = None, **more: Any
) -> Any:
    candidate: dict[str, Any] = {"index": 0, **more}
    if parts:
        candidate["content"] = {"role": "model", "parts": list(parts)}
    if reason:
        candidate["finishReason"] = reason
    return {"candidates": [candidate], "responseId": "r1", **({"usageMetadata": usage} if usage else {})}


def text(value: str, signature: str | None = None) -> dict[str, Any]:
    return {"text": value, **({"thoughtSignature": signature} if signature else {})}


def thought(value: str, signature: str | None = None) -> dict[str, Any]:
    return {**text(value, signature), "thought": True}


def call(name: str, args: dict[str, Any] | None = None, id: str | None = None, signature: str | None = None) -> Any:
    part: dict[str, Any] = {
        "functionCall": {"name": name, **({"args": args} if args else {}), **({"id": id} if id else {})}
    }
    return {**part, **({"thoughtSignature": signature} if signature else {})}


ANSWER: list[dict[str, Any]] = [
    response(thought("Lass "), usage={"promptTokenCount": 10, "totalTokenCount": 10}),
    response(thought("mich über")),
    response(CODE, RAN),
    response(text("Es sind 2")),
    response(text(" 🎉.", "S1")),
    response(call("weather", {"city": "Köln"}, "c1", "S2"), call("clock", id="c2")),
    response(
        reason="STOP",
        usage={
            "promptTokenCount": 10,
            "candidatesTokenCount": 20,
            "thoughtsTokenCount": 7,
            "cachedContentTokenCount": 4,
            "toolUsePromptTokenCount": 3,
            "totalTokenCount": 40,
        },
    ),
]
BLOCKS = (
    ThinkingBlock("Lass mich über", None, {**OWN, "parts": [json.dumps(CODE), json.dumps(RAN)]}),
    TextBlock("Es sind 2 🎉."),
    ThinkingBlock("", "S1", {**OWN, "spans": [[9, 12, "S1"]]}),
    ToolUseBlock("c1", "weather", {"city": "Köln"}, metadata={**OWN, "signature": "S2"}),
    ToolUseBlock("c2", "clock", metadata=OWN),
)


def read(*events: Any) -> list[ChatResponse]:
    return wired.streamed(ContentParser, events)


def sent_back(found: list[ChatResponse]) -> list[dict[str, Any]]:
    contents = format_messages([Msg.user("?"), Msg.assistant(wired.blocks(found))]).contents
    return contents[1].parts


def test_an_answer_with_everything() -> None:
    gather = wired.gathered(read(*ANSWER))
    assert gather.blocks() == BLOCKS
    assert gather.finish_reason is FinishReason.TOOL_CALLS
    assert gather.raw_finish_reason == "STOP"
    assert gather.response_id == "r1"
    usage = gather.usage
    assert usage is not None
    counts = (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.reasoning_tokens)
    assert counts == (13, 27, 4, 7)


@pytest.mark.parametrize("after", ["", "It is 2."])
def test_parts_of_the_server_s_tools_stay_whatever_text_follows(after: str) -> None:
    answer = [response(thought("Hm.")), response(CODE), response(RAN), response(CODE), response(text(after))]
    more = [response(RAN), response(text("", "S9"), reason="STOP")]
    words = [text(after)] if after else []
    assert sent_back(read(*answer, *more)) == [CODE, RAN, CODE, *words, RAN, text("", "S9")]


def test_it_goes_back_as_it_came() -> None:
    assert sent_back(read(*ANSWER)) == [
        CODE,
        RAN,
        text("Es sind 2"),
        text(" 🎉.", "S1"),
        call("weather", {"city": "Köln"}, "c1", "S2"),
        {"functionCall": {"name": "clock", "args": {}, "id": "c2"}},
    ]


def test_in_one_piece_and_as_a_list_it_is_the_same() -> None:
    parts = [part for each in ANSWER for part in each["candidates"][0].get("content", {}).get("parts", ())]
    assert wired.blocks(wired.whole(ContentParser, response(*parts, reason="STOP"))) == BLOCKS
    assert wired.blocks(wired.whole(ContentParser, ANSWER)) == BLOCKS
    parser = ContentParser(lambda: 0.0)
    found = [*parser.read(ServerEvent(json.dumps(ANSWER), whole=True)), *parser.end()]
    assert wired.blocks(found) == BLOCKS


def test_calls_without_ids_get_ids_that_are_not_sent() -> None:
    found = read(response(call("f", {"a": 1}, signature="S"), call("f", {"a": 2}), reason="STOP"))
    first, second = wired.blocks(found)
    assert isinstance(first, ToolUseBlock)
    assert isinstance(second, ToolUseBlock)
    assert first.id
    assert first.id != second.id
    assert sent_back(found) == [call("f", {"a": 1}, signature="S"), call("f", {"a": 2})]


@pytest.mark.parametrize(
    "parts",
    [
        [text("one "), text("two", "S1"), text(" three "), text("four", "S2")],
        [text("all", "S1"), text("", "S2")],
        [text("said"), text("", "S")],
        [thought("hm", "S"), text("so")],
        [text("a", "S"), CODE, RAN, text("b")],
        [{"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thoughtSignature": "S"}, text("there")],
        [text("here", "S1"), {"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thoughtSignature": "S2"}],
        [call("f", {"a": 1}, "c", "S"), text("", "S2")],
        [
            {"toolCall": {"id": "t", "toolType": "GOOGLE_SEARCH_WEB"}},
            {"toolResponse": {"id": "t", "response": {}}},
            text("x"),
        ],
    ],
)
def test_signatures_go_back_on_their_parts(parts: list[dict[str, Any]]) -> None:
    back = sent_back(read(*(response(part) for part in parts), response(reason="STOP")))
    united: list[dict[str, Any]] = []
    for part in parts:
        last = united[-1] if united else None
        if last is not None and set(part) == set(last) == {"text"}:
            last["text"] += part["text"]
        else:
            united.append(dict(part))
    assert [part for part in back if part not in ({"text": ""},)] == united


def test_a_text_that_was_changed_loses_its_signatures_alone() -> None:
    blocks = [TextBlock("short"), ThinkingBlock("", "S", {**OWN, "spans": [[3, 99, "S"]]})]
    assert format_messages([Msg.user("?"), Msg.assistant(blocks)]).contents[1].parts == [text("short")]


def test_unsigned_and_foreign_thoughts_are_not_sent() -> None:
    blocks = [ThinkingBlock("hm"), ThinkingBlock("hm", "S"), ThinkingBlock("hm", "S", {"vendor": "x"}), TextBlock("so")]
    assert format_messages([Msg.user("?"), Msg.assistant(blocks)]).contents[1].parts == [text("so")]


@pytest.mark.parametrize(
    ("reason", "means"),
    [
        ("STOP", FinishReason.STOP),
        ("MAX_TOKENS", FinishReason.LENGTH),
        ("SAFETY", FinishReason.CONTENT_FILTER),
        ("RECITATION", FinishReason.CONTENT_FILTER),
        ("PROHIBITED_CONTENT", FinishReason.CONTENT_FILTER),
        ("MODEL_ARMOR", FinishReason.CONTENT_FILTER),
        ("MALFORMED_FUNCTION_CALL", FinishReason.OTHER),
        ("OTHER", FinishReason.OTHER),
        ("SOMETHING_NEW", FinishReason.OTHER),
    ],
)
def test_why_it_stopped(reason: str, means: FinishReason) -> None:
    last = read(response(text("Hi")), response(reason=reason))[-1]
    assert (last.finish_reason, last.raw_finish_reason) == (means, reason)


def test_an_answer_that_was_withheld_is_an_error_after_its_cost() -> None:
    parser = ContentParser(lambda: 0.0)
    withheld = response(reason="SAFETY", usage={"promptTokenCount": 5}, finishMessage="Harassment.")
    (told,) = parser.read_whole(withheld)
    assert told.usage is not None
    assert told.usage.input_tokens == 5
    with pytest.raises(ContentFilterError, match=r"SAFETY\. Harassment"):
        parser.end()


def test_a_prompt_that_was_blocked() -> None:
    feedback = {"blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": "Not this."}
    with pytest.raises(ContentFilterError, match=r"PROHIBITED_CONTENT\. Not this"):
        read({"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 5}})


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER"])
def test_a_model_failure_without_words_is_retryable(reason: str) -> None:
    with pytest.raises(EmptyResponseError) as caught:
        read(response(reason=reason, finishMessage="print(f("))
    assert caught.value.retryable
    assert "print(f(" in str(caught.value.finish_reason)


def test_the_first_candidate_counts() -> None:
    other = {"index": 1, "content": {"parts": [text("B")]}, "finishReason": "STOP"}
    answer = {"candidates": [other, {"content": {"parts": [text("A")]}, "finishReason": "STOP"}]}
    assert wired.blocks(wired.whole(ContentParser, answer)) == (TextBlock("A"),)


def test_media_and_what_is_known_of_the_answer() -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    video = {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/v.mp4"}}
    sketch = {**image, "thought": True}
    grounded = {"webSearchQueries": ["x"]}
    found = read(response(sketch, image, video, reason="STOP", groundingMetadata=grounded))
    assert wired.blocks(found) == (ImageBlock(Base64Source("image/png", "aGk=")), VideoBlock(URLSource("gs://b/v.mp4")))
    assert found[-1].metadata == {"groundingMetadata": grounded}


def test_a_character_cut_in_two() -> None:
    raw = '{"candidates":[{"content":{"parts":[{"text":"%s"}]}}]}'
    assert wired.blocks(read(raw % "\\ud83d", raw % "\\ude00", response(reason="STOP"))) == (TextBlock("😀"),)


def test_an_error_in_the_stream_in_any_form() -> None:
    quota = {"error": {"code": 429, "message": "Slow down.", "status": "RESOURCE_EXHAUSTED"}}
    for told in (quota, [quota]):
        with pytest.raises(RateLimitError, match="Slow down"):
            read(response(text("Hi")), told)
    with pytest.raises(ServerError):
        wired.whole(
            ContentParser, [response(text("Hi")), {"error": {"code": 500, "message": "x", "status": "INTERNAL"}}]
        )


@pytest.mark.parametrize("events", [[], [response(text("Hi"))], [response(thought("hm"))], [{"usageMetadata": {}}]])
def test_less_than_a_finish_reason_is_no_answer(events: list[Any]) -> None:
    with pytest.raises(ModelConnectionError):
        read(*events)


def test_half_a_response_at_the_end_says_nothing() -> None:
    parser = ContentParser(lambda: 0.0)
    assert parser.read(ServerEvent('{"candidates": [', cut=True)) == ()


@pytest.mark.parametrize(
    "event",
    [
        "no JSON",
        5,
        {"candidates": {}},
        {"candidates": [{"content": {"parts": [5]}}]},
        response({"functionCall": {"args": {}}}),
        response({"functionCall": {"name": "f", "args": []}}),
        response({"functionCall": {"name": "f", "willContinue": True}}),
        response(text("x", "é")),
        response({"text": 5}),
    ],
)
def test_what_the_format_does_not_allow(event: Any) -> None:
    with pytest.raises(ProtocolError):
        read(event, response(reason="STOP"))


def test_half_a_character_in_an_id_can_be_written_again() -> None:
    raw = '{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","id":"c\\ud83d"}}]},"finishReason":"STOP"}]}'
    message = Msg.assistant(wired.blocks(read(raw)))
    assert Msg.from_json(message.to_json()) == message
