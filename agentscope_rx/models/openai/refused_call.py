"""A call that the server itself refused (`tool_use_failed`, as Groq does) -> a call that the model is told of. Pure.

The server answers 400 in place of what the model wrote, because it is no call or does not fit the schema. For the agent
it is a call whose arguments cannot be read: the result says why and quotes it, and the model tries again. After
`MAX_REFUSED` such answers on end the error is the caller's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast
from uuid import uuid4

from agentscope_rx.errors import BadRequestError
from agentscope_rx.messages import Msg, MsgRole, ToolUseBlock
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.models.response import ChatResponse, FinishReason
from agentscope_rx.models.wire.json_size import load_json

CODE = "tool_use_failed"
MAX_REFUSED = 2
"""How many such answers on end the model is told of."""

_MARK = "refused_by_server"


def refused_call(error: Exception, messages: Sequence[Msg], tools: Sequence[ToolSchema]) -> ChatResponse | None:
    """The answer that stands for this error; None if it is another error, or one too many."""
    if not (isinstance(error, BadRequestError) and error.code == CODE and tools):
        return None
    if _on_end(messages) >= MAX_REFUSED:
        return None
    written = _written(error.body)
    names = sorted((tool.name for tool in tools), key=len, reverse=True)
    # what was written is no call: the tool that was meant is the one that it names
    name = next((name for name in names if name in f"{written} {error}"), tools[0].name)
    block = ToolUseBlock(
        f"call_{uuid4().hex}",
        name,
        raw=written,
        input_error=f"the server refused the call ({error})",
        metadata={_MARK: True},
    )
    return ChatResponse((block,), finish_reason=FinishReason.TOOL_CALLS, raw_finish_reason=CODE)


def _on_end(messages: Sequence[Msg]) -> int:
    """How many of the last answers were refused calls."""
    count = 0
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.role is MsgRole.ASSISTANT:
            if not any(call.metadata.get(_MARK) for call in message.tool_calls):
                break
            count += 1
        elif message.role is MsgRole.USER and message.text and not message.tool_results:
            break
    return count


def _written(body: str | None) -> str:
    """What the model wrote, as far as the server tells."""
    try:
        answer = load_json(body or "")
    except (ValueError, RecursionError):
        # an error keeps the beginning of a body only
        return body or ""
    told = cast("Mapping[str, object]", answer).get("error") if isinstance(answer, Mapping) else None
    text = cast("Mapping[str, object]", told).get("failed_generation") if isinstance(told, Mapping) else None
    return text if isinstance(text, str) else ""
