"""The models that are shipped keep the laws of a `ChatModel`: each provider over HTTP, and each wrapper."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from agentscope_rx.models import (
    AnthropicChatModel,
    ChatModel,
    DashScopeChatModel,
    ExecutionConfig,
    FallbackModel,
    GeminiChatModel,
    HedgedModel,
    MultiAgentModel,
    OllamaChatModel,
    OpenAIResponsesModel,
    RateLimitedModel,
    TruncatingModel,
)
from agentscope_rx.models.wrappers import CircuitBreaker
from agentscope_rx.testing import HANG, ScriptedModel, check_chat_model
from tests.models.conftest import Reply, loopback
from tests.testing.test_chat_model_kit import answering, calling, failing

Wire = Callable[[str, str], Iterable[dict[str, Any]]]
"""The pieces of an answer, by its way (text or call) and the id of the call."""

TEXTS = ("It is ", "sunny ", "today.")


def gemini(way: str, id: str) -> Iterable[dict[str, Any]]:
    call = {"functionCall": {"name": "look", "args": {"city": "Paris"}}}
    parts = [call] if way == "call" else [{"text": text} for text in TEXTS]
    usage = {"promptTokenCount": 5, "candidatesTokenCount": 3, "totalTokenCount": 8}
    for part in parts:
        end = {"finishReason": "STOP"} if part is parts[-1] else {}
        yield {"candidates": [{"content": {"role": "model", "parts": [part]}, **end}], "usageMetadata": usage}


def anthropic(way: str, id: str) -> Iterable[dict[str, Any]]:
    block: dict[str, Any] = {"type": "text", "text": ""}
    deltas: list[dict[str, Any]] = [{"type": "text_delta", "text": text} for text in TEXTS]
    if way == "call":
        block = {"type": "tool_use", "id": id, "name": "look", "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in ('{"city":', '"Paris"}')]
    usage = {"input_tokens": 5, "output_tokens": 1}
    yield {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": usage}}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    reason = "tool_use" if way == "call" else "end_turn"
    yield {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}}
    yield {"type": "message_stop"}


def ollama(way: str, id: str) -> Iterable[dict[str, Any]]:
    call = {"content": "", "tool_calls": [{"function": {"name": "look", "arguments": {"city": "Paris"}}}]}
    for message in [call] if way == "call" else [{"content": text} for text in TEXTS]:
        yield {"model": "llama", "message": {"role": "assistant", **message}, "done": False}
    end = {"done": True, "done_reason": "stop", "prompt_eval_count": 5, "eval_count": 3}
    yield {"model": "llama", "message": {"role": "assistant", "content": ""}, **end}


def dashscope(way: str, id: str) -> Iterable[dict[str, Any]]:
    function = {"name": "look", "arguments": '{"city": "Paris"}'}
    call = {"content": "", "tool_calls": [{"index": 0, "id": id, "type": "function", "function": function}]}
    messages: list[dict[str, Any]] = [call] if way == "call" else [{"content": text} for text in TEXTS]
    for message in messages:
        last = ("tool_calls" if way == "call" else "stop") if message is messages[-1] else "null"
        choice = {"finish_reason": last, "message": {"role": "assistant", **message}}
        yield {"output": {"choices": [choice]}, "usage": {"input_tokens": 5, "output_tokens": 3}, "request_id": "r"}


def responses(way: str, id: str) -> Iterable[dict[str, Any]]:
    if way == "call":
        item: dict[str, Any] = {"id": "f", "type": "function_call", "call_id": id, "name": "look", "arguments": ""}
        yield {"type": "response.output_item.added", "output_index": 0, "item": item}
        arguments = '{"city": "Paris"}'
        yield {"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "f", "delta": arguments}
        item = {**item, "arguments": arguments}
    else:
        item = {"id": "m", "type": "message", "role": "assistant", "content": []}
        place = {"output_index": 0, "content_index": 0, "item_id": "m"}
        yield {"type": "response.output_item.added", "output_index": 0, "item": item}
        for text in TEXTS:
            yield {"type": "response.output_text.delta", **place, "delta": text}
        item = {**item, "content": [{"type": "output_text", "text": "".join(TEXTS), "annotations": []}]}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    end = {"status": "completed", "output": [item], "usage": {"input_tokens": 5, "output_tokens": 3}}
    yield {"type": "response.completed", "response": {"id": "r", "model": "m", **end}}


PROVIDERS: dict[str, tuple[Wire, Callable[..., ChatModel], tuple[str, ...]]] = {
    "gemini": (gemini, GeminiChatModel, ("parallel_tool_calls",)),
    "anthropic": (anthropic, AnthropicChatModel, ("frequency_penalty", "presence_penalty", "seed")),
    "ollama": (ollama, OllamaChatModel, ("max_completion_tokens", "thinking_budget", "parallel_tool_calls")),
    "dashscope": (dashscope, DashScopeChatModel, ("max_completion_tokens", "frequency_penalty", "reasoning_effort")),
    "responses": (
        responses,
        OpenAIResponsesModel,
        ("top_k", "frequency_penalty", "presence_penalty", "seed", "stop", "thinking_budget"),
    ),
}
NAMES = {"gemini": "gemini-2.5-flash", "anthropic": "claude-sonnet-4-5", "dashscope": "qwen-max", "responses": "gpt-4o"}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_provider_over_http_keeps_the_laws(provider: str):
    wire, kind, unsupported = PROVIDERS[provider]

    async def talk(reply: Reply) -> None:
        if "fail" in reply.asked.target:
            reply.json(500, {"error": {"message": "broken"}})
            return
        reply.start()
        for piece in wire("call" if "call" in reply.asked.target else "text", f"c{len(reply.server.asked)}"):
            data = json.dumps(piece)
            name = f"event: {piece['type']}\n" if "type" in piece else ""
            reply.send_bytes(f"{data}\n".encode() if provider == "ollama" else f"{name}data: {data}\n\n".encode())
            if "hang" in reply.asked.target and TEXTS[0] in data:
                await reply.until_client_leaves()
                return
        reply.end()

    with loopback(talk) as server:
        server.left.clear()
        key: dict[str, Any] = {} if provider == "ollama" else {"api_key": "k"}
        once = ExecutionConfig(max_attempts=1)

        def at(path: str) -> Callable[[], ChatModel]:
            url = server.url.replace("/v1", path)
            return lambda: kind(NAMES.get(provider, "llama"), base_url=url, execution_config=once, **key)

        report = check_chat_model(
            at("/v1"),
            failing=at("/fail/v1"),
            calling=at("/call/v1"),
            hanging=at("/hang/v1"),
            closed=lambda: server.left.wait(10),
            requests=lambda: len(server.asked),
            unsupported=unsupported,
            # the pieces of one read of the socket come together
            ahead=None,
            name=provider,
        )
    assert set(dict(report.skipped)) <= {"stream 1.01", "stream 3.03", "stream 3.08"}


WRAPPERS: dict[str, Callable[[ChatModel], ChatModel]] = {
    "rate": lambda model: RateLimitedModel(model, max_concurrency=4),
    "tokens": lambda model: RateLimitedModel(model, tokens_per_minute=1e9),
    "fallback": lambda model: FallbackModel(model, model),
    "hedged": lambda model: HedgedModel(model, after=100),
    "breaker": CircuitBreaker,
    "multi_agent": MultiAgentModel,
    "truncating": lambda model: TruncatingModel(model, max_tokens=1000),
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_wrapper_keeps_the_laws(wrapper: str):
    wrap, hung = WRAPPERS[wrapper], list[ScriptedModel]()

    def hanging() -> ChatModel:
        hung.append(ScriptedModel(["It", HANG], repeat=True))
        return wrap(hung[-1])

    one = answering()
    report = check_chat_model(
        lambda: wrap(one),
        failing=lambda: wrap(failing()),
        calling=lambda: wrap(calling()),
        hanging=hanging,
        closed=lambda: len(hung[-1].closed) == 1,
        requests=None if wrapper == "fallback" else lambda: len(one.requests),
        name=wrapper,
    )
    assert set(dict(report.skipped)) <= {"requests"}
