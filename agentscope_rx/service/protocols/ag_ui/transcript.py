"""`Transcript`: the conversation as it is stored, beside the one that the client holds.

    client's messages ---.                      .--> equal: nothing
                         +-- ids compared ------+
    stored messages -----'                      '--> MESSAGES_SNAPSHOT: the client takes over the stored ones

The client holds what it has sent and what it was shown. A snapshot is due when that differs from what is stored: the
client had other messages, an attempt of a model was discarded, a hook has changed a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ag_ui.core import ActivityMessage, Message, MessagesSnapshotEvent, ReasoningMessage

from agentscope_rx.messages import Msg, MsgRole
from agentscope_rx.service.protocols.ag_ui.messages import shown_ids, shown_messages


class _Kept(NamedTuple):
    message: Msg
    prefix: str
    subagent: str | None


class Transcript:
    """The messages of a thread during a run: those `stored`, those `given` to it, and those that the client `held`.

    Messages of sub-agents are the client's only: a snapshot repeats those that it has.
    """

    def __init__(self, stored: Sequence[Msg], given: Sequence[Msg], held: Sequence[Message]) -> None:
        self._kept: dict[str, _Kept] = {each.id: _Kept(each, "", None) for each in (*stored, *given)}
        self._given: set[str] = {message.id for message in given if message.role is MsgRole.USER}
        self._of_subagents = [message for message in held if message.subagent_run_id is not None]
        mine = {message.id for message in held if message.subagent_run_id is None and not _is_clients(message)}
        self.differs: bool = mine != {id for kept in self._kept.values() for id in shown_ids(kept.message)}
        """A snapshot is due."""

    def take(self, input: Iterable[Msg]) -> None:
        """The run has taken these messages of its input, as hooks have left them."""
        for message in input:
            self._given.discard(message.id)
            self.add(message, shown=False)

    def end(self) -> None:
        """The run has ended: what it was given and has not taken is not in the conversation."""
        self.remove(self._given)

    def add(self, message: Msg, prefix: str = "", subagent: str | None = None, *, shown: bool = True) -> None:
        """The conversation has this message; the client, too, if it was `shown`."""
        known = self._kept.get(message.id)
        self._kept[message.id] = _Kept(message, prefix, subagent)
        if not shown and (known is None or known.message != message) and shown_ids(message):
            self.differs = True

    def replace(self, messages: Iterable[Msg]) -> None:
        """These messages have changed in memory."""
        for message in messages:
            known = self._kept.get(message.id)
            if known is None:
                continue
            self._kept[message.id] = known._replace(message=message)
            if shown_messages(known.message) != shown_messages(message):
                self.differs = True

    def remove(self, ids: Iterable[str]) -> None:
        """These messages have gone from memory."""
        for id in ids:
            known = self._kept.pop(id, None)
            if known is not None and shown_ids(known.message):
                self.differs = True

    def snapshot(self) -> MessagesSnapshotEvent:
        """All messages. The client holds these from now on."""
        self.differs = False
        shown = [each for kept in self._kept.values() for each in shown_messages(*kept)]
        return MessagesSnapshotEvent(messages=[*self._of_subagents, *shown])


def _is_clients(message: Message) -> bool:
    """True for what a snapshot leaves alone."""
    return isinstance(message, (ActivityMessage, ReasoningMessage)) or message.role in ("system", "developer")
