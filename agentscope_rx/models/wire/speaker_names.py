"""`SpeakerNames`: who speaks, said in words, for wire formats that have no field for it.

| speaker                   | what the model reads                                                  |
|---------------------------|-----------------------------------------------------------------------|
| a user named "user"       | the text: the role has said it                                        |
| a user with another name  | `Alice: ` before the text                                             |
| the only assistant        | the text: it is the model itself, and would put its name into answers |
| one of several assistants | `Bob: ` before the text                                               |

For a conversation of many there is a formatter of its own; this one keeps a name from being lost.
"""

from __future__ import annotations

from collections.abc import Iterable

from agentscope_rx.messages import Msg, MsgRole


class SpeakerNames:
    """The speakers of one conversation."""

    __slots__ = ("_several",)

    def __init__(self, messages: Iterable[Msg]) -> None:
        self._several = len({m.name for m in messages if m.role is MsgRole.ASSISTANT}) > 1

    def of(self, message: Msg) -> str | None:
        """The name that must be said; None if the role says as much."""
        name = message.name.strip()
        if message.role is MsgRole.ASSISTANT:
            return name if self._several and name else None
        if message.role is not MsgRole.USER or name.lower() == message.role.value:
            return None
        return name or None
