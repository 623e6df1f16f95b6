"""What remains of a history when the traces of a request for an output are taken out. Pure.

| message                                             | becomes                               |
|-----------------------------------------------------|---------------------------------------|
| an answer in vain (`attempts`)                      | removed                               |
| calls of the response tool, and siblings            | the siblings, and what was said       |
| calls of the response tool alone                    | removed, with what was said beside it |
| results of the response tool, and others            | the others                            |
| results of the response tool alone                  | removed                               |
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


def without_calls(message: Msg, calls: Collection[str]) -> Msg:
    """The message without these calls and their results; itself if it has none of them."""
    kept = tuple(block for block in message.content if not _is_of(block, calls))
    return message if len(kept) == len(message.content) else message.replace(content=kept)


def _is_of(block: ContentBlock, calls: Collection[str]) -> bool:
    return isinstance(block, (ToolUseBlock, ToolResultBlock)) and block.id in calls
