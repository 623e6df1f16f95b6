"""`ByteCounts`: the sizes of the items that wait in a channel, and the bytes that have passed it.

received = waiting + delivered + dropped + merged, in bytes as in items. Two items of 300 and 280 bytes that merge into
one of 320 bytes have merged 260.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from agentscope_rx.errors import ConfigurationError

T = TypeVar("T")


class ByteCounts(Generic[T]):
    """The sizes of waiting items, in their order, and sums of sizes."""

    __slots__ = ("_size_of", "_sizes", "delivered", "dropped", "max_bytes", "merged", "most", "received", "waiting")

    def __init__(self, max_bytes: int, size_of: Callable[[T], int]) -> None:
        self._size_of = size_of
        self._sizes: deque[int] = deque()
        self.max_bytes: int = max_bytes
        self.waiting: int = 0
        self.received: int = 0
        self.delivered: int = 0
        self.dropped: int = 0
        self.merged: int = 0
        self.most: int = 0
        """The most bytes that have waited at once."""

    def size(self, item: T) -> int:
        """The size of an item; `ConfigurationError` if `size_of` returns anything but a number of bytes."""
        size = self._size_of(item)
        if not isinstance(size, int) or size < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"size_of must return a whole number of bytes, at least 0. It returned {size!r:.60} for an item of "
                f"type {type(item).__name__}."
            )
        return size

    @property
    def full(self) -> bool:
        """True if the waiting items are at the bound."""
        return self.waiting >= self.max_bytes

    def fits(self, size: int) -> bool:
        """True if there is room for an item of this size. An empty buffer has room for every item."""
        return not self._sizes or self.waiting + size <= self.max_bytes

    def add(self, size: int) -> None:
        """Count an item that waits now."""
        self.received += size
        self._sizes.append(size)
        self._grow(size)

    def merge(self, size: int, merged: int) -> None:
        """Count an item of this size that has joined the last one, which has the size `merged` now."""
        self.received += size
        last, self._sizes[-1] = self._sizes[-1], merged
        self.merged += last + size - merged
        self._grow(merged - last)

    def refuse(self, size: int) -> None:
        """Count an item that was dropped when it came."""
        self.received += size
        self.dropped += size

    def deliver(self) -> None:
        """Count the oldest item as delivered."""
        size = self._sizes.popleft()
        self.waiting -= size
        self.delivered += size

    def drop(self) -> None:
        """Count the oldest item as dropped."""
        size = self._sizes.popleft()
        self.waiting -= size
        self.dropped += size

    def drop_all(self) -> None:
        """Count all waiting items as dropped."""
        self._sizes.clear()
        self.dropped += self.waiting
        self.waiting = 0

    def _grow(self, size: int) -> None:
        self.waiting += size
        self.most = max(self.most, self.waiting)
