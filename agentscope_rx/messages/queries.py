"""`Query`: what is searched for in documents and in long-term memory, as a text or as messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages.msg import Msg

Query = str | Msg | Sequence[Msg]
"""A text, a message or messages, whose text counts."""


def query_text(query: Query) -> str:
    """The text of a query, '' if it has none; `InvalidInputError` for anything else."""
    given = cast("object", query)
    if isinstance(given, str):
        return given.strip()
    messages = cast("object", [given] if isinstance(given, Msg) else given)
    if not isinstance(messages, Sequence) or not all(isinstance(m, Msg) for m in cast("Sequence[object]", messages)):
        raise InvalidInputError(f"retrieve takes a text, a Msg or a list of Msg as its query, not {given!r:.60}.")
    return "\n".join(m.text for m in cast("Sequence[Msg]", messages) if m.text.strip()).strip()
