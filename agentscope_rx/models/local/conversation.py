"""A history as a small model needs it: the request that is open, and what has been done about it. Pure.

The open request is what the user said last. A user's message directly behind tool results is a hint to the agent, not a
new request: it is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentscope_rx.messages import Msg, MsgRole, ToolResultBlock, ToolUseBlock, call_places
from agentscope_rx.messages.history import Place


@dataclass(frozen=True, slots=True)
class Round:
    """One call and what it gave."""

    tool: str
    arguments: Mapping[str, object]
    text: str
    failed: bool


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a history says. `spoken` is what user and assistant said in words, the request last."""

    system: str
    spoken: tuple[Msg, ...]
    request: str
    rounds: tuple[Round, ...]


def read(messages: Sequence[Msg]) -> Conversation:
    """What a history says."""
    system = "\n".join(message.text for message in messages if message.role is MsgRole.SYSTEM and message.text)
    start = _request_at(messages)
    request = messages[start].text if start is not None else ""
    rest = messages[start:] if start is not None else messages
    spoken = tuple(
        Msg(message.role.value, message.text, message.role)
        for index, message in enumerate(messages)
        if message.text and message.role in (MsgRole.USER, MsgRole.ASSISTANT) and (start is None or index <= start)
    )
    return Conversation(system, spoken, request, _rounds(rest))


def _request_at(messages: Sequence[Msg]) -> int | None:
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.role is MsgRole.USER and message.text and not (index and messages[index - 1].tool_results):
            return index
    return None


def _rounds(messages: Sequence[Msg]) -> tuple[Round, ...]:
    calls = call_places(messages)
    return tuple(
        _round(block, calls.get((number, at)), messages)
        for number, message in enumerate(messages)
        for at, block in enumerate(message.content)
        if isinstance(block, ToolResultBlock)
    )


def _round(result: ToolResultBlock, place: Place | None, messages: Sequence[Msg]) -> Round:
    call = None if place is None else messages[place[0]].content[place[1]]
    arguments: Mapping[str, object] = call.input if isinstance(call, ToolUseBlock) else {}
    return Round(result.name, arguments, result.text, result.is_error)
