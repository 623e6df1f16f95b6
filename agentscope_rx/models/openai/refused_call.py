"""A tool call that the server refused (`tool_use_failed`, as Groq does) -> an unreadable call for the agent. Pure.

The server answers 400 in place of the model's text, because that is no call or does not fit the schema. The agent
treats it as a call with unreadable arguments: its result has the reason and the text, and the model tries again. After
`MAX_REFUSED` such answers in a row the caller gets the error.
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
"""The most such answers in a row that the model may repair."""

_MARK = "refused_by_server"


def refused_call(error: Exception, messages: Sequence[Msg], tools: Sequence[ToolSchema]) -> ChatResponse | None:
    """The answer that stands for this error; None if it is another error, or one too many."""
    if not (isinstance(error, BadRequestError) and error.code == CODE and tools):
        return None
    if _in_a_row(messages) >= MAX_REFUSED:
        return None
    written = _written(error.body)
    names = sorted((tool.name for tool in tools), key=len, reverse=True)
    # the text is no call: the tool whose name it has is taken for the intended one
    name = next((name for name in names if name in f"{written} {error}"), tools[0].name)
    block = ToolUseBlock(
        f"call_{uuid4().hex}",
        name,
        raw=written,
        input_error=f"the server refused the call ({error})",
        metadata={_MARK: True},
    )
    return ChatResponse((block,), finish_reason=FinishReason.TOOL_CALLS, raw_finish_reason=CODE)


def _in_a_row(messages: Sequence[Msg]) -> int:
    """The number of refused calls among the last answers."""
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
    """The text of the model, if the server sends it."""
    try:
        answer = load_json(body or "")
    except (ValueError, RecursionError):
        # an error keeps only the beginning of a body
        return body or ""
    error = cast("Mapping[str, object]", answer).get("error") if isinstance(answer, Mapping) else None
    text = cast("Mapping[str, object]", error).get("failed_generation") if isinstance(error, Mapping) else None
    return text if isinstance(text, str) else ""
