"""`InMemoryMemory`: a list of messages that is read in O(1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.memory.memory import Memory
from agentscope_rx.messages.history import History
from agentscope_rx.messages.msg import Msg
from agentscope_rx.reactive import Flow, defer, just
from agentscope_rx.reactive.kernel.forking import new_lock

T = TypeVar("T")


class InMemoryMemory(Memory):
    """Keeps messages in this process. `get` returns a view that later changes do not affect."""

    def __init__(self, messages: Iterable[Msg] = ()) -> None:
        self._lock = new_lock()
        # views share the list: it is only appended to, and any other change makes a new list
        self._messages = _checked(messages)

    @property
    def messages(self) -> History:
        """The conversation now."""
        with self._lock:
            return History(self._messages)

    def __len__(self) -> int:
        return len(self._messages)

    def __repr__(self) -> str:
        return f"<InMemoryMemory of {len(self)} messages>"

    def add(self, messages: Sequence[Msg]) -> Flow[None]:
        def add() -> Flow[None]:
            checked = _checked(messages)
            with self._lock:
                self._messages.extend(checked)
            return _STORED

        return defer(add)

    def get(self) -> Flow[Sequence[Msg]]:
        return defer(self._view)

    def _view(self) -> Flow[Sequence[Msg]]:
        return just(self.messages)

    def replace(self, message: Msg) -> Flow[bool]:
        def replace() -> bool:
            with self._lock:
                for index in range(len(self._messages) - 1, -1, -1):
                    if self._messages[index].id == message.id:
                        self._messages = [*self._messages[:index], message, *self._messages[index + 1 :]]
                        return True
            return False

        return _now(replace)

    def delete(self, ids: Sequence[str]) -> Flow[int]:
        def delete() -> int:
            gone = set(ids)
            with self._lock:
                if not any(message.id in gone for message in self._messages):
                    return 0
                kept = [message for message in self._messages if message.id not in gone]
                count = len(self._messages) - len(kept)
                self._messages = kept
                return count

        return _now(delete)

    def clear(self) -> Flow[None]:
        def clear() -> None:
            with self._lock:
                self._messages = []

        return _now(clear)


_STORED = just(None)


def _now(call: Callable[[], T]) -> Flow[T]:
    return defer(lambda: just(call()))


def _checked(messages: Iterable[Msg]) -> list[Msg]:
    if isinstance(messages, (Msg, str)):
        raise InvalidInputError(f"A memory takes a list of Msg objects, not a single {type(messages).__name__}.")
    checked = list(messages)
    for message in checked:
        if not isinstance(message, Msg):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"A memory keeps Msg objects, not {type(message).__name__}.")
    return checked
