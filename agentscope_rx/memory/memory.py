"""The port to an agent's memory: the conversation, in order. Every method is a cold Flow: subscribe or await it.

A memory implements five methods. The others work by these for every memory, and a memory that can do them in one step,
or without reading all messages, overrides them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from functools import partial

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.memory.changes import checked_messages, compressed, has_mark, remarked, replaced_by, selected
from agentscope_rx.memory.views import summary_carrier
from agentscope_rx.messages.marks import check_marks, summary_in
from agentscope_rx.messages.msg import Msg
from agentscope_rx.reactive import Flow, concat, concat_map, defer, flat_map_iterable, just, then


class Memory(ABC):
    """An agent's conversation: messages in the order in which they were added.

    A subclass implements `add`, `get`, `replace`, `delete` and `clear`. The other methods work by these; override them
    where the memory can do it in one step. Methods may be called from several threads. `testing.check_memory` checks
    the laws.
    """

    durable: bool = False
    """True if the memory itself keeps its messages: a session then holds the state of the conversation only."""

    marked: bool = True
    """False as long as no message has a mark or a short form: requests then send the conversation as it is."""

    @abstractmethod
    def add(self, messages: Sequence[Msg]) -> Flow[None]:
        """Append the messages, all or none.

        Signals: one None when they are stored, then completion.
        Cancels: a write that has not begun; the agent lets a write that has begun run to its end.
        """

    @abstractmethod
    def get(self) -> Flow[Sequence[Msg]]:
        """Emits the conversation as a sequence that does not change later.

        A memory may leave old messages out here; `read` always gives all of them.

        Signals: the sequence, then completion.
        Cancels: the read.
        """

    @abstractmethod
    def replace(self, message: Msg) -> Flow[bool]:
        """Replace the message with the same id; emits True if there was one. Cancels as `add`."""

    def replace_all(self, messages: Sequence[Msg]) -> Flow[int]:
        """Replace every message that has the id of one of these; the last one of an id counts.

        In one step in the memories of this library. Elsewhere one by one: messages that carry a summary first, so that
        at no moment a message is left out that no summary covers, and the loss of a summary last.

        Signals: the number of replaced messages.
        Cancels: as `add`.
        """
        checked = checked_messages(messages)
        return self._replace_each(lambda known: replaced_by(known, checked)) if checked else just(0)

    @abstractmethod
    def delete(self, ids: Sequence[str]) -> Flow[int]:
        """Remove the messages with these ids; emits the number of removed messages. Cancels as `add`."""

    @abstractmethod
    def clear(self) -> Flow[None]:
        """Remove all messages; emits None. Cancels as `add`."""

    # --- the whole ------------------------------------------------------------------------------------------------

    def read(self, *, mark: str | None = None, exclude_mark: str | None = None) -> Flow[Msg]:
        """Emits all messages, one by one: those that have `mark` and not `exclude_mark`, if given.

        Signals: the messages in order, as fast as there is demand; completion.
        Cancels: the read.
        """
        check_marks([each for each in (mark, exclude_mark) if each is not None])
        kept = partial(has_mark, mark, exclude_mark)
        return self.get().pipe(flat_map_iterable(lambda messages: [each for each in messages if kept(each)]))

    def count(self) -> Flow[int]:
        """The number of messages in the whole conversation. Cancels the read."""
        return self.get().pipe(concat_map(lambda messages: just(len(messages))))

    # --- marks ----------------------------------------------------------------------------------------------------

    def get_memory(self, mark: str | None = None, exclude_mark: str | None = None) -> Flow[Sequence[Msg]]:
        """The messages of the whole conversation that have `mark` and not `exclude_mark`. Signals, cancels as `get`."""
        check_marks([each for each in (mark, exclude_mark) if each is not None])

        def collect() -> Flow[Sequence[Msg]]:
            found: list[Msg] = []

            def keep(message: Msg) -> Sequence[Msg]:
                found.append(message)
                return ()

            collected: Flow[Msg] = self.read(mark=mark, exclude_mark=exclude_mark).pipe(flat_map_iterable(keep))
            return collected.pipe(then(lambda: just(found)))

        return defer(collect)

    def update_messages_mark(
        self, new_mark: str | None, old_mark: str | None = None, msg_ids: Collection[str] | None = None
    ) -> Flow[int]:
        """Replaces the mark `old_mark` by `new_mark`; None stands for no mark.

        `msg_ids` selects the messages, else `old_mark` does; without both it is every message.

        Signals: the number of changed messages.
        Cancels: as `add`.
        """
        check_marks([mark for mark in (new_mark, old_mark) if mark is not None])
        return self._replace_each(lambda messages: remarked(messages, new_mark, old_mark, msg_ids))

    def delete_by_mark(self, mark: str) -> Flow[int]:
        """Remove the messages that have this mark; emits their number. Cancels as `add`."""
        check_marks([mark])

        def delete(messages: Sequence[Msg]) -> Flow[int]:
            ids = list(dict.fromkeys(message.id for message in messages))
            return self.delete(ids) if ids else just(0)

        return self.get_memory(mark).pipe(concat_map(delete))

    def compress(self, msg_ids: Collection[str], summary: str) -> Flow[int]:
        """Mark these messages as compressed, and let the summary take the place of all compressed ones in requests.

        The summary covers the messages that were compressed before, too: it replaces their summary. The last compressed
        message carries it, so it is saved with the conversation, and cleared with it.

        Signals: the number of messages that are compressed now and were not before; `InvalidInputError` if the
        conversation has none of the messages, or the summary is empty.
        Cancels: as `add`.
        """
        check_summary(summary)

        def change(messages: Sequence[Msg]) -> list[tuple[Msg, Msg]]:
            return compressed(messages, selected(messages, msg_ids), summary)

        return self._replace_each(change, counts=lambda old, new: old.marks != new.marks)

    def compressed_summary(self) -> Flow[str]:
        """The summary that takes the place of the compressed messages; '' for none. Cancels the read."""

        def summary(messages: Sequence[Msg]) -> Flow[str]:
            carrier = summary_carrier(messages)
            return just("" if carrier is None else summary_in(carrier.metadata))

        return self.get().pipe(concat_map(summary))

    def _replace_each(
        self,
        change: Callable[[Sequence[Msg]], list[tuple[Msg, Msg]]],
        counts: Callable[[Msg, Msg], bool] = lambda old, new: True,
    ) -> Flow[int]:
        """Replace messages one by one: `change` gives the old and the new ones; emits how many `counts` holds for.

        `replace` finds the last message of an id: of several with the same id it changes that one only.
        """

        def replace(messages: Sequence[Msg]) -> Flow[int]:
            changes = change(messages)
            number = sum(counts(old, new) for old, new in changes)
            written = concat(*(self.replace(new) for _, new in changes))
            return written.pipe(then(lambda: just(number)))

        return self.get().pipe(concat_map(replace))


def check_summary(summary: str) -> None:
    """`InvalidInputError` unless the summary is a text that is not empty."""
    if not isinstance(summary, str) or not summary.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInputError(f"A summary is a text that is not empty, not {summary!r:.60}.")
