"""The port to an agent's memory: the conversation, in order. Every method is a cold Flow: subscribe or await it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from agentscope_rx.messages.msg import Msg
from agentscope_rx.reactive import Flow


class Memory(ABC):
    """Messages in the order in which they were added. Implementations can be called from several threads."""

    @abstractmethod
    def add(self, messages: Sequence[Msg]) -> Flow[None]:
        """Append the messages, all or none.

        Signals: one None when they are stored, then completion.
        Cancels: a write that has not begun; the agent lets a write that has begun run to its end.
        """

    @abstractmethod
    def get(self) -> Flow[Sequence[Msg]]:
        """The whole conversation, as a sequence that does not change later.

        Signals: the sequence, then completion.
        Cancels: the read.
        """

    @abstractmethod
    def replace(self, message: Msg) -> Flow[bool]:
        """Replace the message with the same id; emits True if there was one. Cancels as `add`."""

    @abstractmethod
    def delete(self, ids: Sequence[str]) -> Flow[int]:
        """Remove the messages with these ids; emits the number of removed messages. Cancels as `add`."""

    @abstractmethod
    def clear(self) -> Flow[None]:
        """Remove all messages; emits None. Cancels as `add`."""
