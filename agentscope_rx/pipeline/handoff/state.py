"""`HandoffState`: which member a conversation is with. It is saved and loaded with the conversation.

    active    the member that made the open calls, if there are any; else the one that answers
    next      the member that takes over as soon as every call of this round has its result

A transfer beside a call that waits for approval takes effect after the answer: until then the calls are the active
member's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import cast

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.parts import Part

NAME = "handoffs"


@dataclass(frozen=True, slots=True)
class HandoffState:
    """Which member a conversation is with; "" as `active` is the first one.

    `call` is the call that has transferred to `next`. `since` is the id of the last message before the active member
    took over. `count` are the transfers in this call of the agent.
    """

    active: str = ""
    next: str = ""
    call: str = ""
    since: str = ""
    count: int = 0

    def transferring(self, to: str, call: str) -> HandoffState:
        """The state once a call has asked for a transfer."""
        return replace(self, next=to, call=call, count=self.count + 1)

    def taken_over(self, since: str) -> HandoffState:
        """The state once the next member has taken over."""
        return replace(self, active=self.next, next="", call="", since=since)

    def asked(self) -> HandoffState:
        """The state at new input: transfers are counted from there."""
        return replace(self, count=0) if self.count else self


def _read(saved: object) -> HandoffState:
    values = dict(cast("Mapping[str, object]", saved)) if isinstance(saved, Mapping) else {"": None}
    count = values.pop("count", 0)
    texts = {name: value for name, value in values.items() if name in _TEXTS and isinstance(value, str)}
    if type(count) is not int or len(texts) < len(values):
        raise InvalidInputError(f"The state {NAME!r} of this conversation cannot be read: {saved!r:.120}.")
    return HandoffState(**texts, count=count)


_TEXTS = ("active", "next", "call", "since")

STATE: Part[HandoffState] = Part(NAME, 1, HandoffState(), dump=asdict, read=_read)
"""The state in each conversation."""
