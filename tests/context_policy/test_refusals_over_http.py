"""Providers on loopback with a small window, each in its own format: by status, in the stream, by a cut-off answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from agentscope_rx import InMemoryMemory, ReActAgent
from agentscope_rx.context_policy import CompactionHook, Summarize
from agentscope_rx.events import ContextEvent, RetryEvent
from agentscope_rx.models import (
    AnthropicChatModel,
    DashScopeChatModel,
    GeminiChatModel,
    OllamaChatModel,
    OpenAIChatModel,
)
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.options import ExecutionConfig, GenerateOptions
from tests.context_policy.parts import FACT, conversation, marked
from tests.support.json_server import JsonServer

WINDOW = 2_600
ONCE = ExecutionConfig(max_attempts=1)
WHOLE, STREAM = GenerateOptions(stream=False), GenerateOptions(stream=True)


def sse(*events: object, names: bool = False) -> bytes:
    lines = [f"event: {e['type']}\n" if names and isinstance(e, dict) else "" for e in events]
    return "".join(f"{line}data: {json.dumps(e)}\n\n" for line, e in zip(lines, events, strict=True)).encode()


def openai(text: str, reason: str, stream: bool) -> object:
    about = {"id": "x", "created": 1, "model": "m"}
    if not stream:
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
        return {**about, "object": "chat.completion", "choices": [choice]}
    first = {**about, "choices": [{"index": 0, "delta": {"role": "assistant", "content": text}}]}
    return sse(first, {**about, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}) + b"data: [DONE]\n\n"


def anthropic(text: str, reason: str, stream: bool) -> object:
    about = {"id": "m1", "type": "message", "role": "assistant", "model": "claude"}
    usage = {"input_tokens": 2_600, "output_tokens": 5}
    if not stream:
        content = [{"type": "text", "text": text}] if text else []
        return {**about, "content": content, "stop_reason": reason, "usage": usage}
    return sse(
        {"type": "message_start", "message": {**about, "content": [], "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
        names=True,
    )


def gemini(text: str, reason: str, stream: bool) -> object:
    parts = [{"text": text}] if text else []
    whole = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": reason}]}
    return sse(whole) if stream else whole


def dashscope(text: str, reason: str, stream: bool) -> object:
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": reason}
    whole = {"output": {"choices": [choice]}, "request_id": "r"}
    return sse(whole) if stream else whole


def ollama(text: str, reason: str, stream: bool) -> object:
    whole = {"model": "m", "message": {"role": "assistant", "content": text}, "done": True, "done_reason": reason}
    return f"{json.dumps(whole)}\n".encode() if stream else whole


def error_of(vendor: str) -> dict[str, Any]:
    return {
        "openai": {"error": {"message": "maximum context length is 2600 tokens", "code": "context_length_exceeded"}},
        "anthropic": {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "prompt is too long: 5000 tokens > 2600 maximum"},
        },
        "gemini": {
            "error": {
                "code": 400,
                "message": "The input token count (5000) exceeds the maximum number of tokens allowed (2600).",
                "status": "INVALID_ARGUMENT",
            }
        },
        "dashscope": {"code": "InvalidParameter", "message": "<400> Range of input length should be [1, 2600]"},
        "ollama": {"error": "the input length exceeds the context length"},
    }[vendor]


WRITTEN: Mapping[str, Callable[[str, str, bool], object]] = {
    "openai": openai,
    "anthropic": anthropic,
    "gemini": gemini,
    "dashscope": dashscope,
    "ollama": ollama,
}
STOPS = {"openai": "stop", "anthropic": "end_turn", "gemini": "STOP", "dashscope": "stop", "ollama": "stop"}
FULL = {"openai": "length", "anthropic": "model_context_window_exceeded", "ollama": "length"}
MODELS: Mapping[str, Callable[[str, GenerateOptions], ChatModel]] = {
    "openai": lambda url, o: OpenAIChatModel(
        "m", api_key="k", base_url=f"{url}/v1", options=o, execution_config=ONCE, native_output=False
    ),
    "anthropic": lambda url, o: AnthropicChatModel(
        "m", api_key="k", base_url=url, options=o.over(GenerateOptions(max_tokens=100)), execution_config=ONCE
    ),
    "gemini": lambda url, o: GeminiChatModel("m", api_key="k", base_url=url, options=o, execution_config=ONCE),
    "dashscope": lambda url, o: DashScopeChatModel("m", api_key="k", base_url=url, options=o, execution_config=ONCE),
    "ollama": lambda url, o: OllamaChatModel("m", base_url=url, options=o, execution_config=ONCE),
}


def refusing(vendor: str, how: str, stream: bool) -> JsonServer:
    def answer(path: str, body: Mapping[str, Any]) -> object:
        text = json.dumps(body)
        if len(text) // 4 <= WINDOW:
            return WRITTEN[vendor](_said(text), STOPS[vendor], stream)
        error = error_of(vendor)
        if how == "status":
            return 400, error
        if how == "full":
            return WRITTEN[vendor]("It is " if vendor == "anthropic" else "", FULL[vendor], stream)
        if vendor == "ollama":
            part = {"model": "m", "message": {"role": "assistant", "content": "It is "}, "done": False}
            return f"{json.dumps(part)}\n{json.dumps(error)}\n".encode()
        begun = sse({"type": "ping"}, names=True) if vendor == "anthropic" else b""
        return begun + (b"event: error\n" if vendor != "gemini" else b"") + sse(error)

    return JsonServer(answer)


def _said(text: str) -> str:
    facts = dict(FACT.findall(text))
    if "</conversation>" not in text:
        return facts.get("room3", "I do not know.")
    kept = f"- FACT room3 = {facts['room3']}" if "room3" in facts else ""
    return f"## Goal\nLook.\n## State\nLooking.\n## Facts to keep\n{kept}"


CASES = [
    *((vendor, "status", stream) for vendor in WRITTEN for stream in (True, False)),
    *((vendor, "stream", True) for vendor in WRITTEN),
    *((vendor, "full", stream) for vendor in FULL for stream in (True, False)),
]


@pytest.mark.parametrize(("vendor", "how", "stream"), CASES)
def test_what_does_not_fit_is_compacted_and_asked_again(vendor: str, how: str, stream: bool) -> None:
    with refusing(vendor, how, stream) as server:
        model = MODELS[vendor](server.url, STREAM if stream else WHOLE)
        memory = InMemoryMemory(conversation(40))
        compaction = CompactionHook(strategies=[Summarize(max_tokens=300)], max_tokens=9_000)
        agent = ReActAgent("Friday", model, "Be brief.", memory=memory, hooks=[compaction])

        async def main() -> list[object]:
            return [event async for event in agent.stream("What was in room 3?")]

        events = asyncio.run(main())
    assert memory.messages[-1].text == "value3"
    assert [type(each) for each in events].count(RetryEvent) == 1
    (event,) = [each for each in events if isinstance(each, ContextEvent)]
    assert (event.cause, event.error) == ("overflow", "") and marked(list(memory.messages))
