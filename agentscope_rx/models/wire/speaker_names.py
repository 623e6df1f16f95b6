"""`SpeakerNames`: names in the text, for wire formats without a field for the speaker; and hints, which have none.

| speaker                   | the model reads                                                       |
|---------------------------|-----------------------------------------------------------------------|
| a user named "user"       | the text: the role names the speaker                                  |
| a user with another name  | `Alice: ` before the text                                             |
| the only assistant        | the text: it is the model itself, and would put its name into answers |
| one of several assistants | `Bob: ` before the text                                               |

`MultiAgentModel` formats a conversation of many; this only keeps names from being lost.
"""

from __future__ import annotations

from collections.abc import Iterable

from agentscope_rx.messages import Msg, MsgRole

AS_IT_IS = "as_it_is"
"""A key of a message's metadata: the message belongs to no speaker, and no wrapper rewrites it."""

PINNED = "pinned"
"""A key of a message's metadata: at the beginning of a request, a truncating wrapper keeps it as a system message."""


def hint_message(text: str) -> Msg:
    """A message of the engine to the model: what to do now."""
    return Msg("user", text, MsgRole.USER, metadata={AS_IT_IS: True})


class SpeakerNames:
    """The speakers of one conversation. What is said of one message depends on it and on `several` alone."""

    __slots__ = ("several",)

    def __init__(self, messages: Iterable[Msg]) -> None:
        self.several: bool = len({m.name for m in messages if m.role is MsgRole.ASSISTANT}) > 1

    def of(self, message: Msg) -> str | None:
        """The name to put before the text; None if the role names the speaker."""
        name = message.name.strip()
        if message.role is MsgRole.ASSISTANT:
            return name if self.several and name else None
        if message.role is not MsgRole.USER or name.lower() == message.role.value:
            return None
        return name or None
