"""A one-shot signal: fired once, it stays fired; those who listen are called when it fires, at once if it has."""

from __future__ import annotations

from collections.abc import Callable


class Signal:
    """Something that happens at most once. For one loop's thread."""

    __slots__ = ("_listeners", "fired")

    def __init__(self) -> None:
        self.fired = False
        self._listeners: list[Callable[[], object]] = []

    def fire(self) -> None:
        """Let it happen; later calls do nothing."""
        if not self.fired:
            self.fired = True
            listeners, self._listeners = self._listeners, []
            for listener in listeners:
                listener()

    def listen(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call `listener` when it happens; returns a function that stops listening."""
        if self.fired:
            listener()
        else:
            self._listeners.append(listener)

        def forget() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return forget
