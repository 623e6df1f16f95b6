"""What comes from a server, before the SDK looks at it: an answer that is too large becomes an error answer.

| limit               | default | of                                                                             |
|---------------------|---------|--------------------------------------------------------------------------------|
| `MAX_LISTED`        | 1,000   | tools, resources or prompts that a server lists, all pages together            |
| `MAX_ANSWER_VALUES` | 50,000  | values in one answer: numbers, texts (of any length), lists, objects           |

The SDK checks an answer against the protocol on the loop's thread, half a millisecond for each thousand values: 20,000
tools would hold all agents for a second.
"""

from __future__ import annotations

from typing import Any, cast

from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCResponse

MAX_LISTED = 1_000
MAX_ANSWER_VALUES = 50_000
TOO_MUCH = -32_077
"""The code of the error answers that are made here."""

_LISTS = ("tools", "resources", "resourceTemplates", "prompts")


def guarded(message: SessionMessage | Exception) -> SessionMessage | Exception:
    """The message, or the error that stands for an answer that is too large."""
    if not isinstance(message, SessionMessage) or not isinstance(message.message, JSONRPCResponse):
        return message
    answer = message.message
    what = _excess(answer.result)
    if what is None:
        return message
    error = ErrorData(code=TOO_MUCH, message=what)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=answer.id, error=error), metadata=message.metadata)


def too_many(what: str) -> str:
    """What is said of a list that is too long."""
    return f"lists more than {MAX_LISTED:,} {what}: that many are not taken. Have it offer fewer."


def _excess(result: dict[str, Any]) -> str | None:
    for name in _LISTS:
        listed = result.get(name)
        if isinstance(listed, list) and len(cast("list[object]", listed)) > MAX_LISTED:
            return too_many(name)
    left = MAX_ANSWER_VALUES
    waiting: list[object] = [result]
    while waiting:
        here = waiting.pop()
        inner = cast("dict[str, object]", here).values() if isinstance(here, dict) else cast("list[object]", here)
        left -= len(inner)
        if left < 0:
            return f"gave an answer with more than {MAX_ANSWER_VALUES:,} values: that is not taken."
        waiting += [each for each in inner if isinstance(each, (dict, list))]
    return None
