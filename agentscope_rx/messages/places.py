"""`Places`: where the messages of a conversation are, by their ids."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence

from agentscope_rx.messages.msg import Msg
from agentscope_rx.reactive.kernel.forking import new_lock

_MAKING = new_lock()


class Places:
    """The indexes of messages by id, in lists that grow and in which messages are replaced by others of the same ids.

    It is filled when it is first asked, and at each later asking with the messages since then, so that an edit of a
    long conversation costs what it changes. From any thread.
    """

    __slots__ = ("_first", "_known", "_lock", "_more")

    def __init__(self) -> None:
        self._lock: threading.Lock | None = None
        self._known = 0
        """The number of messages whose ids are known."""
        self._first: dict[str, int] = {}
        self._more: dict[str, list[int]] = {}
        """The further indexes of ids that occur several times."""

    def of(self, messages: Sequence[Msg], length: int, ids: Collection[str]) -> list[int]:
        """The indexes, in order, of those of the first `length` messages that have one of these ids."""
        found: list[int] = []
        with self._reading():
            first, more = self._first, self._more
            if length > self._known:
                for number, message in enumerate(messages[self._known : length], self._known):
                    if first.setdefault(message.id, number) != number:
                        more.setdefault(message.id, []).append(number)
                self._known = length
            for id in set(ids):
                if id in first:
                    found.append(first[id])
                    found += more.get(id, ())
        return sorted([number for number in found if number < length])

    def _reading(self) -> threading.Lock:
        """The lock, made when it is first needed: few conversations are edited."""
        with _MAKING:
            if self._lock is None:
                self._lock = new_lock()
            return self._lock
