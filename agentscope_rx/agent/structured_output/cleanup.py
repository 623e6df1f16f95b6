"""Removes the traces of a structured output from a history. Pure.

| message                                             | becomes                               |
|-----------------------------------------------------|---------------------------------------|
| a failed attempt (`attempts`)                       | removed                               |
| calls of the response tool and others               | the other calls, and the text         |
| calls of the response tool only                     | removed, with its text                |
| results of the response tool and others             | the other results                     |
| results of the response tool only                   | removed                               |
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agentscope_rx.messages import ContentBlock, Msg, ToolResultBlock, ToolUseBlock


def without_traces(
    history: Sequence[Msg], calls: Collection[str], attempts: Collection[str]
) -> tuple[tuple[Msg, ...], tuple[str, ...]]:
    """The messages to replace, and the ids of those to remove."""
    replaced: list[Msg] = []
    removed: list[str] = []
    for message in history:
        if message.id in attempts:
            removed.append(message.id)
            continue
        kept = without_calls(message, calls)
        if kept is message:
            continue
        if kept.tool_calls or kept.tool_results:
            replaced.append(kept)
        else:
            removed.append(message.id)
    return tuple(replaced), tuple(removed)


def has_all_traces(history: Sequence[Msg], calls: Collection[str], attempts: Collection[str]) -> bool:
    """True if these calls and attempts are all among the messages."""
    missing = set(attempts).difference(message.id for message in history)
    return not missing and set(calls) <= {call.id for message in history for call in message.tool_calls}


def without_calls(message: Msg, calls: Collection[str]) -> Msg:
    """The message without these calls and their results; itself if it has none of them."""
    kept = tuple(block for block in message.content if not _is_of(block, calls))
    return message if len(kept) == len(message.content) else message.replace(content=kept)


def _is_of(block: ContentBlock, calls: Collection[str]) -> bool:
    return isinstance(block, (ToolUseBlock, ToolResultBlock)) and block.id in calls
