"""A one-shot signal: fired once, it stays fired; those who listen are called when it fires, at once if it has."""

from __future__ import annotations

from collections.abc import Callable


class OneShotEvent:
    """Something that happens at most once. For one loop's thread."""

    __slots__ = ("_listeners", "fired")

    def __init__(self) -> None:
        self.fired = False
        self._listeners: list[Callable[[], object]] = []

    def fire(self, later: Callable[[Callable[[], None]], object] | None = None) -> None:
        """Let it happen; further calls do nothing.

        `fired` is true at once. With `later` (such as `loop.call_soon`) the listeners are called through it: for one
        who fires from inside a signal of the very stream that listens, so that signals do not overlap.
        """
        if not self.fired:
            self.fired = True
            if later is None:
                self._call()
            else:
                later(self._call)

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

    def _call(self) -> None:
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()
