"""`HubEvent`: what a `MsgHub` did: who joined and left, what was said, and who has heard it."""

from __future__ import annotations

from typing import ClassVar, Literal

from agentscope_rx.events.base import Event, register
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages.frozen import check_encodable, encodable
from agentscope_rx.messages.msg import Msg

HubChange = Literal["joined", "left", "announced", "said"]
"""What a `HubEvent` reports. "announced": a message of the hub's owner; "said": a member's reply."""


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class HubEvent(Event):
    """A change of the hub `hub`: `member` joined, left or sent `message`. `heard_by` are the members that have it.

    `number` counts the messages of the hub from 0, in the order in which every member gets them; it is None without a
    message. `missed_by` are the members that could not take it; `error_text` says why.
    """

    type: ClassVar[str] = "hub"

    hub: str = ""
    change: HubChange = "said"
    member: str = ""
    number: int | None = None
    message: Msg | None = None
    heard_by: tuple[str, ...] = ()
    missed_by: tuple[str, ...] = ()
    error_text: str = ""

    def __post_init__(self) -> None:
        for text in (self.hub, self.member, *self.heard_by, *self.missed_by):
            check_encodable(text, "HubEvent")
        if not self.error_text.isascii():
            # the text of an error may come from a server
            object.__setattr__(self, "error_text", encodable(self.error_text))
