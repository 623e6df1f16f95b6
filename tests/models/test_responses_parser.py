"""Answers of the Responses API: in pieces, whole, broken; and what cannot be asked."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx.errors import (
    BadRequestError,
    ConfigurationError,
    ContentFilterError,
    InvalidInputError,
    ModelConnectionError,
    ModelError,
    ProtocolError,
    RateLimitError,
    ServerError,
    UnsupportedOptionError,
)
from agentscope_rx.messages import (
    AudioBlock,
    Base64Source,
    ChatUsage,
    ContentBlock,
    ImageBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    URLSource,
    VideoBlock,
)
from agentscope_rx.models import (
    ChatResponse,
    ExecutionConfig,
    FinishReason,
    GenerateOptions,
    OpenAIResponsesModel,
    ToolChoice,
    ToolSchema,
)
from agentscope_rx.models.accumulate import ResponseAccumulator
from agentscope_rx.models.openai.responses.items import REASONING, input_of
from agentscope_rx.models.openai.responses.parser import ResponseParser
from agentscope_rx.models.openai.responses.request import ResponsesSettings, format_request, reasons
from agentscope_rx.models.transport.framing import read_events
from tests.models.conftest import Loopback, Reply

Serve = Callable[..., Loopback]

USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 3},
    "total_tokens": 17,
}
THINKING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Then."}],
    "encrypted_content": "secret",
}
WORDS = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Héllo 🙂", "annotations": []}],
}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "weather", "arguments": '{"city": "北京"}'}
SECOND = {"type": "function_call", "id": "fc_2", "call_id": "c2", "name": "clock", "arguments": "{}"}
OUTPUT = [THINKING, WORDS, CALL, SECOND]


def ended(output: Sequence[object], status: str = "completed", **more: object) -> dict[str, Any]:
    return {"id": "resp_1", "object": "response", "status": status, "output": output, "usage": USAGE, **more}


def numbered(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


EVENTS = numbered(
    [
        {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}},
        {"type": "response.in_progress", "response": {"id": "resp_1", "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**THINKING, "summary": []}},
        {"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 0},
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "Fir"},
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "st."},
        {"type": "response.reasoning_summary_text.done", "output_index": 0, "summary_index": 0, "text": "First."},
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 1, "delta": "Then."},
        {"type": "response.output_item.done", "output_index": 0, "item": THINKING},
        {"type": "response.output_item.added", "output_index": 1, "item": {**WORDS, "content": []}},
        {"type": "response.content_part.added", "output_index": 1, "content_index": 0, "part": {"type": "output_text"}},
        {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "Héllo "},
        {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "\ud83d"},
        {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "\ude42"},
        {"type": "response.output_text.done", "output_index": 1, "content_index": 0, "text": "Héllo 🙂"},
        {"type": "response.output_item.done", "output_index": 1, "item": WORDS},
        {"type": "response.output_item.added", "output_index": 2, "item": {**CALL, "arguments": ""}},
        {"type": "response.output_item.added", "output_index": 3, "item": {**SECOND, "arguments": ""}},
        {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"city": '},
        {"type": "response.function_call_arguments.delta", "output_index": 3, "delta": "{}"},
        {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '"北京"}'},
        {"type": "response.function_call_arguments.done", "output_index": 2, "arguments": CALL["arguments"]},
        {"type": "response.output_item.done", "output_index": 2, "item": CALL},
        {"type": "response.output_item.done", "output_index": 3, "item": SECOND},
        {"type": "response.completed", "response": ended(OUTPUT)},
    ]
)
BLOCKS: tuple[ContentBlock, ...] = (
    ThinkingBlock("First.\n\nThen.", "secret", {REASONING: {"id": "rs_1", "summary": THINKING["summary"]}}),
    TextBlock("Héllo 🙂"),
    ToolUseBlock("c1", "weather", {"city": "北京"}),
    ToolUseBlock("c2", "clock"),
)


def body_of(events: Sequence[object]) -> bytes:
    def line(event: Any) -> str:
        name = f"event: {event['type']}\n" if isinstance(event, dict) else ""
        return f"{name}data: {json.dumps(event)}\n\n"

    return "".join(line(event) for event in events).encode()


class Body(httpx.AsyncByteStream):
    def __init__(self, chunks: Sequence[bytes]) -> None:
        self.chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            yield chunk


def increments_of(chunks: Sequence[bytes]) -> list[ChatResponse]:
    async def read() -> list[ChatResponse]:
        parser = ResponseParser(lambda: 0.0)
        found: list[ChatResponse] = []
        async for event in read_events(httpx.Response(200, stream=Body(chunks))):
            found += parser.read(event)
        return [*found, *parser.end()]

    return asyncio.run(read())


def gathered(increments: Iterable[ChatResponse]) -> ResponseAccumulator:
    gather = ResponseAccumulator()
    for increment in increments:
        gather.feed(increment)
    return gather


def read(*events: dict[str, Any]) -> ResponseAccumulator:
    return gathered(increments_of([body_of(events)]))


def whole(answer: object) -> ResponseAccumulator:
    parser = ResponseParser(lambda: 0.0)
    return gathered([*parser.read_whole(answer), *parser.end()])


def end(output: Sequence[object] = (), status: str = "completed", **more: object) -> dict[str, Any]:
    return {"type": f"response.{status}", "response": ended(output, status, **more)}


def added(index: int, item: object) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: int, item: object) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def told(index: int, delta: str, kind: str = "output_text", **more: object) -> dict[str, Any]:
    return {"type": f"response.{kind}.delta", "output_index": index, "delta": delta, **more}


# --- answers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given", ["in pieces", "in one piece", "items only", "the end only", "a document for a stream"]
)
def test_an_answer_is_the_same_however_it_is_cut(given: str) -> None:
    if given == "in pieces":
        gather = read(*EVENTS)
    elif given == "in one piece":
        gather = whole(ended(OUTPUT))
    elif given == "items only":
        gather = read(*(done(index, item) for index, item in enumerate(OUTPUT)), end(OUTPUT))
    elif given == "the end only":
        gather = read(end(OUTPUT))
    else:
        gather = gathered(increments_of([json.dumps(ended(OUTPUT)).encode()]))
    assert gather.blocks() == BLOCKS
    assert gather.finish_reason is FinishReason.TOOL_CALLS
    assert (gather.response_id, gather.raw_finish_reason) == ("resp_1", "completed")
    assert gather.usage == ChatUsage(10, 7, 4, 3, 0.0)


def test_thinking_goes_back_as_it_came() -> None:
    _, items = input_of([Msg.assistant(BLOCKS)])
    assert items[0] == THINKING


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("max_output_tokens", FinishReason.LENGTH),
        ("content_filter", FinishReason.CONTENT_FILTER),
        ("steered", FinishReason.OTHER),
    ],
)
def test_an_incomplete_answer_says_why(reason: str, finish: FinishReason) -> None:
    gather = read(told(0, "half"), end([], "incomplete", incomplete_details={"reason": reason}))
    assert (gather.finish_reason, gather.raw_finish_reason) == (finish, reason)
    assert gather.blocks() == (TextBlock("half"),)


def test_an_answer_withheld_is_an_error() -> None:
    with pytest.raises(ContentFilterError):
        read(end([], "incomplete", incomplete_details={"reason": "content_filter"}))


def test_a_refusal_is_text_that_is_marked() -> None:
    said = {"type": "message", "content": [{"type": "refusal", "refusal": "I cannot."}]}
    increments = increments_of([body_of([told(0, "I can", "refusal"), told(0, "not.", "refusal"), end([said])])])
    assert gathered(increments).blocks() == (TextBlock("I cannot."),)
    assert [bool(each.metadata.get("refusal")) for each in increments] == [True, True, True]
    assert whole(ended([said])).blocks() == (TextBlock("I cannot."),)


def test_arguments_that_come_only_when_done_or_only_in_part() -> None:
    early = read(added(0, {**CALL, "arguments": ""}), done(0, CALL), end([CALL]))
    part = read(added(0, {**CALL, "arguments": ""}), told(0, '{"ci', "function_call_arguments"), end([CALL]))
    assert early.blocks() == part.blocks() == (BLOCKS[2],)


def test_thinking_of_two_items_is_two_blocks() -> None:
    second = {**THINKING, "id": "rs_2", "encrypted_content": None, "summary": []}
    first, other, _ = read(done(0, THINKING), done(1, second), told(2, "so"), end()).blocks()
    assert isinstance(first, ThinkingBlock) and isinstance(other, ThinkingBlock)
    assert (first.signature, other.signature) == ("secret", "rs_2")


def test_open_models_think_in_reasoning_text() -> None:
    kept = {"type": "reasoning", "id": "rs", "content": [{"type": "reasoning_text", "text": "hm"}], "summary": []}
    block = read(told(0, "hm", "reasoning_text", content_index=0), done(0, kept), end([kept])).blocks()[0]
    assert isinstance(block, ThinkingBlock)
    assert (block.thinking, block.metadata[REASONING]["content"][0]["text"]) == ("hm", "hm")  # pyright: ignore


def test_a_picture_that_was_made_is_an_image() -> None:
    made = {"type": "image_generation_call", "id": "ig", "status": "completed", "result": "iVBORw=="}
    assert whole(ended([made])).blocks() == (ImageBlock(Base64Source("image/png", "iVBORw==")),)


def test_events_and_items_that_are_not_known_are_passed_over() -> None:
    search = {"type": "web_search_call", "id": "ws", "status": "completed"}
    gather = read(
        added(0, search), {"type": "response.web_search_call.searching"}, done(0, search), told(1, "x"), end([search])
    )
    assert gather.blocks() == (TextBlock("x"),)


# --- what is wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ({"type": "error", "code": "rate_limit_exceeded", "message": "slow down"}, RateLimitError),
        ({"type": "error", "error": {"type": "server_error", "message": "oops"}}, ServerError),
        (end([], "failed", error={"code": "server_error", "message": "oops"}), ServerError),
        (end([], "failed", error={"code": "invalid_prompt", "message": "no"}), BadRequestError),
        (end([], "cancelled"), ServerError),
        (end([], "failed"), ServerError),
    ],
)
def test_a_failure_is_its_error(event: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        read(told(0, "half"), event)


@pytest.mark.parametrize(
    "events",
    [
        [told(0, "b", sequence_number=5), told(0, "a", sequence_number=4)],
        [told(0, "{", "function_call_arguments")],
        [added(0, {"type": "function_call", "call_id": "c"})],
        [{"type": "response.output_item.done", "output_index": 0}],
        [{"type": "response.output_text.delta", "delta": 5}],
        [[]],
    ],
)
def test_what_the_format_does_not_allow_is_a_protocol_error(events: list[Any]) -> None:
    with pytest.raises(ProtocolError):
        read(*events, end())


def test_events_that_are_all_numbered_alike_are_in_order() -> None:
    assert read(told(0, "a", sequence_number=0), told(0, "b", sequence_number=0), end()).blocks() == (TextBlock("ab"),)


@given(st.integers(0, len(body_of(EVENTS)) - 1))
@settings(deadline=None, max_examples=200)
def test_a_stream_cut_anywhere_is_whole_or_one_error(cut: int) -> None:
    try:
        gather = gathered(increments_of([body_of(EVENTS)[:cut]]))
    except ModelConnectionError:
        return
    assert gather.blocks() == BLOCKS


@given(st.lists(st.integers(0, len(body_of(EVENTS))), max_size=30))
@settings(deadline=None)
def test_the_bytes_may_be_cut_anyhow(places: list[int]) -> None:
    data = body_of(EVENTS)
    at = sorted({0, len(data), *places})
    chunks = [data[a:b] for a, b in itertools.pairwise(at)]
    assert gathered(increments_of(chunks)).blocks() == BLOCKS


@given(st.integers(min_value=0))
@settings(deadline=None, max_examples=200)
def test_damage_gives_an_answer_or_an_error_of_ours(seed: int) -> None:
    source = random.Random(seed)
    body = bytearray(body_of(EVENTS))
    for _ in range(source.randint(1, 5)):
        at = source.randrange(len(body))
        to = min(len(body), at + source.choice([1, 2, 10, 100]))
        kind = source.randrange(3)
        if kind == 0:
            del body[at:to]
        elif kind == 1:
            body[at:at] = body[at:to]
        else:
            body[at] = source.randrange(256)
    try:
        message = Msg.assistant(gathered(increments_of([bytes(body)])).blocks())
    except ModelError:
        return
    assert Msg.from_json(message.to_json()) == message


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ("type", "output", "item", "delta", "response", "error", "usage", "content", "arguments", "status")
                ),
                inner | st.sampled_from(("message", "reasoning", "function_call", "response.completed")),
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
@settings(deadline=None, max_examples=200)
def test_json_of_any_shape_gives_an_answer_or_an_error_of_ours(value: object) -> None:
    for attempt in (lambda: whole(value), lambda: increments_of([body_of([[value]])[:-2]])):
        try:
            attempt()
        except ModelError:
            continue


# --- over HTTP -------------------------------------------------------------------------------------------------------


def model(server: Loopback, **given: Any) -> OpenAIResponsesModel:
    config = ExecutionConfig(max_attempts=1)
    return OpenAIResponsesModel("gpt-5", base_url=server.url, api_key="k", execution_config=config, **given)


@pytest.mark.parametrize("hold", [False, True])
def test_a_stream_over_http(serve: Serve, hold: bool) -> None:
    async def answer(reply: Reply) -> None:
        reply.start()
        data = body_of(EVENTS)
        for at in range(0, len(data), 7):
            reply.send_bytes(data[at : at + 7])
        if hold:
            await reply.until_client_leaves()
        else:
            reply.end()

    server = serve(answer)
    chunks: list[ChatResponse] = []

    async def main() -> None:
        async with model(server).stream([Msg.user("?")]) as increments:
            async for increment in increments:
                chunks.append(increment)

    asyncio.run(main())
    assert gathered(chunks).blocks() == BLOCKS
    assert server.asked[0].target == "/v1/responses"


def test_a_stream_that_breaks_off_and_a_status(serve: Serve) -> None:
    async def answer(reply: Reply) -> None:
        if reply.asked.body["stream"]:
            reply.start()
            reply.send_bytes(body_of(EVENTS)[:900])
            await reply.writer.drain()
            reply.abort()
        else:
            reply.json(429, {"error": {"message": "slow", "code": "rate_limit_exceeded"}}, **{"retry-after": "3"})

    server = serve(answer)
    with pytest.raises(ModelConnectionError):
        model(server).stream([Msg.user("?")]).run()
    with pytest.raises(RateLimitError) as caught:
        model(server, stream=False).stream([Msg.user("?")]).run()
    assert (caught.value.retry_after, caught.value.model, caught.value.provider) == (3.0, "gpt-5", "openai")


# --- what cannot be asked --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["stop", "seed", "frequency_penalty", "presence_penalty", "top_k", "thinking_budget"])
def test_an_option_without_a_field_is_refused(name: str) -> None:
    options = GenerateOptions(**{name: 1 if name != "stop" else ("x",)})  # pyright: ignore
    with pytest.raises(UnsupportedOptionError) as caught:
        OpenAIResponsesModel("gpt-5", api_key="k", options=options)
    assert caught.value.option == name


@pytest.mark.parametrize(
    "message",
    [
        Msg.user(AudioBlock(Base64Source("audio/wav", "AA=="))),
        Msg.user(VideoBlock(URLSource("https://example.com/a.mp4"))),
        Msg.user(ToolUseBlock("c", "f")),
        Msg.user("x").replace(role="tool"),
        Msg.system("x").replace(content=(ImageBlock(Base64Source("image/png", "AA==")),)),
    ],
)
def test_a_message_that_cannot_be_said_is_refused(message: Msg) -> None:
    with pytest.raises(InvalidInputError):
        input_of([message])


def test_a_choice_among_no_tools_or_of_another_is_refused() -> None:
    tool = ToolSchema("f", "", {})
    for choice, tools in ((ToolChoice("required"), ()), (ToolChoice.specific("g"), (tool,))):
        options = GenerateOptions(tool_choice=choice)
        with pytest.raises(ConfigurationError):
            format_request("m", [], tools, options, stream=False, settings=ResponsesSettings(reasons=False))


def test_models_that_think_are_known_by_their_names() -> None:
    thinking = ("o1", "o3-mini", "o4-mini", "gpt-5", "gpt-5.1-codex", "openai/gpt-5-mini", "gpt-oss-120b", "codex-mini")
    assert all(reasons(name) for name in thinking)
    assert not any(reasons(name) for name in ("gpt-4o", "gpt-4.1", "gpt-5-chat-latest", "chatgpt-4o-latest", "omni"))
