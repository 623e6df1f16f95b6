"""The question of a call: what its users and agents have said, without what the engine and hooks have put in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentscope_rx.messages import Msg, MsgRole
from agentscope_rx.models.wire.speaker_names import AS_IT_IS


def said(messages: Iterable[Msg]) -> tuple[Msg, ...]:
    """The messages of users and agents that have text; results and the engine's hints are left out."""
    speakers = (MsgRole.USER, MsgRole.ASSISTANT)
    return tuple(m for m in messages if m.role in speakers and m.text.strip() and not m.metadata.get(AS_IT_IS))


def last_user(history: Sequence[Msg]) -> list[Msg]:
    """The last message of a user, in a list; an empty one if there is none."""
    for index in range(len(history) - 1, -1, -1):
        message = history[index]
        if message.role is MsgRole.USER and message.text.strip() and not message.metadata.get(AS_IT_IS):
            return [message]
    return []
