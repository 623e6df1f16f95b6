"""What the replay driver calls: one recorded request through the model of its API, its answer summed up."""

from __future__ import annotations

from typing import Any

from agentscope_rx.errors import ContentFilterError
from agentscope_rx.messages import ChatUsage, Msg, TextBlock, ThinkingBlock, ToolUseBlock
from agentscope_rx.models import (
    AnthropicChatModel,
    ChatModel,
    DashScopeChatModel,
    ExecutionConfig,
    GeminiChatModel,
    GenerateOptions,
    OllamaChatModel,
    OpenAIChatModel,
)
from agentscope_rx.models.accumulate import ResponseAccumulator
from agentscope_rx.models.transport import HttpConfig, Transport

COMMON: Any = {
    # for http: no certificates are loaded, which each of the many loops would do anew
    "transport": Transport(HttpConfig(verify=False)),
    "execution_config": ExecutionConfig(max_attempts=1),
}


async def adapter(
    provider: str, base_url: str, request_json: object, *, api: str, streaming: bool, model: str
) -> dict[str, object]:
    chat = _MODELS[api](model or "recorded", base_url, streaming, request_json)
    gather = ResponseAccumulator()
    try:
        async with chat.stream([Msg.user("Hello")]) as chunks:
            async for chunk in chunks:
                gather.feed(chunk)
    except ContentFilterError:
        # withheld, and counted all the same: what it cost and why has been told before
        if gather.finish_reason is None:
            raise
    blocks = gather.blocks()
    return {
        "text": "".join(block.text for block in blocks if isinstance(block, TextBlock)),
        "thinking": "".join(block.thinking for block in blocks if isinstance(block, ThinkingBlock)),
        "tool_calls": [
            {"id": block.id, "name": block.name, "args": dict(block.input)}
            for block in blocks
            if isinstance(block, ToolUseBlock)
        ],
        "finish_reason": gather.finish_reason,
        "usage": _usage(gather.usage),
    }


def _openai(model: str, base_url: str, streaming: bool, request: object) -> ChatModel:
    return OpenAIChatModel(model, api_key="recorded", base_url=f"{base_url}/v1", stream=streaming, **COMMON)


def _dashscope(model: str, base_url: str, streaming: bool, request: Any) -> ChatModel:
    # without the flag the recorded server told the answer from its beginning in each event
    flag = request["parameters"].get("incremental_output") if request else True
    options = GenerateOptions(additional_body_params={"incremental_output": flag})
    return DashScopeChatModel(
        model, api_key="recorded", base_url=f"{base_url}/api/v1", stream=streaming, options=options, **COMMON
    )


def _ollama(model: str, base_url: str, streaming: bool, request: object) -> ChatModel:
    return OllamaChatModel(model, base_url=base_url, stream=streaming, **COMMON)


def _anthropic(model: str, base_url: str, streaming: bool, request: object) -> ChatModel:
    return AnthropicChatModel(model, api_key="recorded", base_url=base_url, stream=streaming, **COMMON)


def _gemini(model: str, base_url: str, streaming: bool, request: object) -> ChatModel:
    return GeminiChatModel(model, api_key="recorded", base_url=f"{base_url}/v1beta", stream=streaming, **COMMON)


_MODELS = {"openai": _openai, "gemini": _gemini, "anthropic": _anthropic, "dashscope": _dashscope, "ollama": _ollama}


def _usage(usage: ChatUsage | None) -> dict[str, int] | None:
    return {"input": usage.input_tokens, "output": usage.output_tokens} if usage else None
