"""What the replay driver calls: one recorded request through `OpenAIChatModel`, its answer summed up."""

from __future__ import annotations

from agentscope_rx.message import ChatUsage, Msg, TextBlock, ThinkingBlock, ToolUseBlock
from agentscope_rx.model import ExecutionConfig, OpenAIChatModel
from agentscope_rx.model.gather import Gather
from agentscope_rx.model.transport import HttpConfig, Transport

PLAIN = Transport(HttpConfig(verify=False))
"""For http: no certificates are loaded, which each of the many loops would do anew."""


async def adapter(
    provider: str, base_url: str, request_json: object, *, api: str, streaming: bool, model: str
) -> dict[str, object]:
    chat = OpenAIChatModel(
        model or "recorded",
        api_key="recorded",
        base_url=f"{base_url}/v1",
        stream=streaming,
        transport=PLAIN,
        execution_config=ExecutionConfig(max_attempts=1),
    )
    gather = Gather()
    async with chat.stream([Msg.user("Hello")]) as chunks:
        async for chunk in chunks:
            for _ in gather.feed(chunk):
                pass
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


def _usage(usage: ChatUsage | None) -> dict[str, int] | None:
    return {"input": usage.input_tokens, "output": usage.output_tokens} if usage else None
