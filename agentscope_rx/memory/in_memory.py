"""`InMemoryMemory`: a list of messages that is read in O(1)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import TypeVar

from agentscope_rx.memory.changes import Change, checked_messages, handed_on, replaced_by
from agentscope_rx.memory.memory import Memory
from agentscope_rx.memory.short_forms import SHORT_FORMS
from agentscope_rx.memory.views import has_marks, summary_carrier
from agentscope_rx.messages.history import History
from agentscope_rx.messages.marks import MARKS, check_marks
from agentscope_rx.messages.msg import Msg
from agentscope_rx.messages.places import Places
from agentscope_rx.reactive import Flow, defer, just
from agentscope_rx.reactive.kernel.forking import shared_lock
from agentscope_rx.reactive.kernel.fuse import Deferred, Immediate

T = TypeVar("T")


class InMemoryMemory(Memory):
    """Keeps messages in this process. `get` returns a view in O(1), which later changes do not affect."""

    def __init__(self, messages: Iterable[Msg] = ()) -> None:
        self._lock = shared_lock()
        # views share the list: it is only appended to, and any other change makes a new list
        self._messages = checked_messages(messages)
        # those of this list and of the ones before it, as long as messages are only added and replaced
        self._places = Places()
        self.marked: bool = False
        self._look_for_marks(self._messages)

    @property
    def messages(self) -> History:
        """The conversation now."""
        with self._lock:
            return History(self._messages, None, self._places)

    def __len__(self) -> int:
        return len(self._messages)

    def __repr__(self) -> str:
        return f"<InMemoryMemory of {len(self)} messages>"

    def add(self, messages: Sequence[Msg], marks: Collection[str] = ()) -> Flow[None]:
        """Append the messages, all or none; with `marks`, each gets these marks. Signals and cancels as the port."""
        if marks:
            check_marks(marks)

        return Deferred(partial(self._add, messages, marks))

    def _add(self, messages: Sequence[Msg], marks: Collection[str]) -> Flow[None]:
        checked = checked_messages(messages)
        if marks:
            checked = [message.marked(*marks) for message in checked]
        with self._lock:
            if not self.marked:
                # the look for marks, without its call
                for message in checked:
                    if message.metadata and (MARKS in message.metadata or SHORT_FORMS in message.metadata):
                        self.marked = True
            self._messages.extend(checked)
        return _STORED

    def get(self) -> Flow[Sequence[Msg]]:
        return Deferred(self._view)

    def _view(self) -> Flow[Sequence[Msg]]:
        with self._lock:
            return Immediate(History(self._messages, None, self._places))

    def replace(self, message: Msg) -> Flow[bool]:
        def replace() -> bool:
            with self._lock:
                for index in range(len(self._messages) - 1, -1, -1):
                    if self._messages[index].id == message.id:
                        self._look_for_marks((message,))
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
                carrier = summary_carrier(self._messages) if self.marked else None
                if carrier is not None and carrier.id in gone and (change := handed_on(kept, carrier)):
                    kept = [change[1] if message is change[0] else message for message in kept]
                self._messages, self._places = kept, Places()
                # (without a mark, such as that of a transient message, requests need not look for them again)
                self.marked = self.marked and has_marks(kept)
                return count

        return _now(delete)

    def clear(self) -> Flow[None]:
        def clear() -> None:
            with self._lock:
                self._messages, self._places = [], Places()
                self.marked = False

        return _now(clear)

    def replace_all(self, messages: Sequence[Msg]) -> Flow[int]:
        checked = checked_messages(messages)
        ids = {message.id for message in checked}

        def change(known: Sequence[Msg]) -> list[Change]:
            places = self._places.of(known, len(known), ids)
            return replaced_by([known[number] for number in places], checked)

        return self._replace_each(change) if checked else just(0)

    def _replace_each(
        self,
        change: Callable[[Sequence[Msg]], list[Change]],
        counts: Callable[[Msg, Msg], bool] = lambda old, new: True,
    ) -> Flow[int]:
        """In one step: a reader sees all of the changes or none."""

        def replace() -> int:
            with self._lock:
                changes = change(self._messages)
                if changes:
                    self._messages = self._changed(changes)
                    self._look_for_marks([new for _, new in changes])
            return sum(counts(old, new) for old, new in changes)

        return _now(replace)

    def _changed(self, changes: Sequence[Change]) -> list[Msg]:
        """The messages with these changes, found by identity: ids may occur twice."""
        new_of = {id(old): new for old, new in changes}
        changed = self._messages.copy()
        for number in self._places.of(changed, len(changed), {old.id for old, _ in changes}):
            changed[number] = new_of.get(id(changed[number]), changed[number])
        return changed

    def _look_for_marks(self, messages: Iterable[Msg]) -> None:
        self.marked = self.marked or has_marks(messages)


_STORED = just(None)


def _now(call: Callable[[], T]) -> Flow[T]:
    return defer(lambda: just(call()))
