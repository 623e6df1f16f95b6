"""`Hearing`: what one conversation hears of groups that it is in, such as a `MsgHub`; and who hears its replies.

    a call ends --> saved --> `tell`: each audience of the conversation --> the PostCallEvent

A message is heard once, whatever way it comes: by several groups, or by a group and as the input of a call. Messages
are the same if their ids are, or if a pipeline passes on the reply of a member as its own. The ids of the last
`KEPT_IDS` messages are known; memory is the record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from agentscope_rx.events import Event, EventSource, HubEvent, PostCallEvent
from agentscope_rx.hooks import CompiledHooks
from agentscope_rx.messages import Msg, MsgRole
from agentscope_rx.reactive import Flow, Semaphore, concat, defer, just

KEPT_IDS = 4096
"""How many ids of heard messages a conversation knows."""

ORIGIN = "passed_on"
"""The key in the metadata of a reply: the id of the member's reply that a pipeline passes on unchanged."""


def origin_of(message: Msg) -> str:
    """The id of what was said: of the message, or of the reply that it passes on."""
    found = message.metadata.get(ORIGIN)
    return found if isinstance(found, str) else message.id


class Audience(Protocol):
    """A group that hears the replies of its members."""

    def said(self, hearing: Hearing, source: EventSource, reply: Msg) -> Flow[Event]:
        """Let the others hear the reply of a call that has succeeded, before it completes.

        Signals: events for the stream of the speaker's run; an error fails the run.
        Cancels: the waiting; a message that has been numbered is heard.
        """
        ...


class Hearing:
    """What a conversation has heard, in the order of `line`, and its audiences."""

    __slots__ = ("_ids", "audiences", "line")

    def __init__(self) -> None:
        self.audiences: tuple[Audience, ...] = ()
        """Replaced, not changed, under the lock of whoever changes it."""
        self.line: Semaphore = Semaphore(1)
        """One message is heard at a time, in the order in which they have entered."""
        self._ids: dict[str, None] = {}

    def take(self, id: str) -> bool:
        """True if the message is new to the conversation, which knows it from now on."""
        if id in self._ids:
            return False
        self._ids[id] = None
        while len(self._ids) > KEPT_IDS:
            del self._ids[next(iter(self._ids))]
        return True

    def give_back(self, id: str) -> None:
        """The message was not heard after all."""
        self._ids.pop(id, None)

    def note(self, messages: Iterable[Msg]) -> None:
        """The conversation has these messages: as its input, or as its own replies."""
        for message in messages:
            self.take(message.id)
            self.take(origin_of(message))

    def unheard(self, messages: tuple[Msg, ...], history: Sequence[Msg]) -> tuple[Msg, ...]:
        """The messages without those that were heard before, and that memory still has."""
        if not any(origin_of(message) in self._ids for message in messages):
            return messages
        remembered = {message.id for message in history}
        # what it has said itself is new to it if a pipeline passes it on
        remembered.update(origin_of(message) for message in history if message.role is MsgRole.USER)
        own = {message.id for message in history if message.role is not MsgRole.USER}
        return tuple(each for each in messages if not self._has_heard(each, remembered, own))

    def _has_heard(self, message: Msg, remembered: Collection[str], own: Collection[str]) -> bool:
        if message.id in self._ids and message.id in remembered:
            return True
        origin = origin_of(message)
        return origin in self._ids and origin in remembered and origin not in own


def tell(hearing: Hearing | None, hooks: CompiledHooks, event: PostCallEvent) -> Flow[Event]:
    """Let the audiences of a conversation hear the reply, then emit the event.

    Signals: the events of the audiences, and last this one; the error of an audience.
    Cancels: as `Audience.said`.
    """
    if hearing is None or not hearing.audiences:
        return just(event)
    hearing.note((event.message,))
    heard = (_said(each, hearing, event) for each in hearing.audiences)
    return concat(hooks.watched(HubEvent, concat(*heard)), just(event))


def _said(audience: Audience, hearing: Hearing, event: PostCallEvent) -> Flow[Event]:
    # not before its turn: the conversation may leave it meanwhile
    return defer(lambda: audience.said(hearing, event.source, event.message))
