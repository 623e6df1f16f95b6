"""`SavedItems`: the items of a saved list, as a view in O(1). `ItemsOfHistory`: the messages of a history as items.

A save needs to know how much of a list is stored already. As long as messages are only added, all views are of one
list, so that the answer takes no comparison of items, however long the conversation is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import overload

from agentscope_rx.messages import Msg
from agentscope_rx.messages.history import same_beginning
from agentscope_rx.session import Unchanging


class SavedItems(Sequence[Unchanging]):
    """The first `length` items of a list that is only appended to."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: list[Unchanging] | None = None) -> None:
        self._items = items if items is not None else []
        self._length = len(self._items)

    @classmethod
    def of(cls, values: Iterable[object]) -> SavedItems:
        """The items of these JSON values."""
        return cls([Unchanging(value) for value in values])

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Unchanging: ...
    @overload
    def __getitem__(self, index: slice) -> list[Unchanging]: ...
    def __getitem__(self, index: int | slice) -> Unchanging | list[Unchanging]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            return self._items[start:stop:step]
        if not -self._length <= index < self._length:
            raise IndexError("index of a saved item out of range")
        return self._items[index % self._length]

    def __iter__(self) -> Iterator[Unchanging]:
        return islice(self._items, self._length)

    def __repr__(self) -> str:
        return f"<SavedItems: {self._length}>"

    def begins_as(self, other: SavedItems) -> int:
        """The number of items that both begin with: in O(1) for views of one list, else by identity."""
        shorter = min(self._length, other._length)
        if self._items is other._items:
            return shorter
        return next((at for at, (a, b) in enumerate(zip(self, other, strict=False)) if a is not b), shorter)

    def same_as(self, other: SavedItems) -> bool:
        """True if both have the same items, as `begins_as` finds them."""
        return self._length == other._length == self.begins_as(other)

    def going_on(self, kept: int, new: Sequence[Unchanging]) -> SavedItems:
        """The first `kept` items and the new ones, which are appended to the list if that is possible."""
        if kept == self._length and not new:
            return self
        if kept == self._length == len(self._items):
            self._items.extend(new)
            return SavedItems(self._items)
        return SavedItems([*self._items[:kept], *new])


class ItemsOfHistory:
    """The items of the history that was saved or loaded last: a message that was in it keeps its item."""

    __slots__ = ("_history", "items")

    def __init__(self) -> None:
        self.note((), SavedItems())

    def note(self, history: Sequence[Msg], items: SavedItems) -> None:
        """The messages were read from these items."""
        self._history: Sequence[Msg] = history
        self.items: SavedItems = items

    def of(self, history: Sequence[Msg]) -> SavedItems:
        """The items of the history now. The caller lets no other thread in."""
        same = same_beginning(self._history, history)
        new = [Unchanging(message.to_dict()) for message in _behind(history, same)]
        self.note(history, self.items.going_on(same, new))
        return self.items


def _behind(history: Sequence[Msg], start: int) -> Iterator[Msg]:
    """The messages from an index on, without walking over those before."""
    return (history[index] for index in range(start, len(history)))
