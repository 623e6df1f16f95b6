"""`OneShotEvent`: fires at most once and stays fired; a listener is called when it fires, at once if it has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class OneShotEvent:
    """An event that happens at most once. For one loop's thread."""

    __slots__ = ("_listeners", "fired")

    def __init__(self) -> None:
        self.fired = False
        # made with the first listener
        self._listeners: list[Callable[[], object]] | None = None

    def fire(self, later: Callable[[Callable[[], None]], object] | None = None) -> None:
        """Set `fired` and call the listeners; further calls do nothing.

        With `later` (such as `loop.call_soon`) the listeners are called through it. It is needed to fire inside of a
        signal of a stream that listens, so that signals do not overlap.
        """
        if not self.fired:
            self.fired: bool = True
            if later is None:
                self._call()
            else:
                later(self._call)

    def listen(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call `listener` when the event fires; returns a function that removes it."""
        if self.fired:
            listener()
        elif self._listeners is None:
            self._listeners = [listener]
        else:
            self._listeners.append(listener)

        return lambda: self.forget(listener)

    def forget(self, listener: Callable[[], object]) -> None:
        """Remove a listener, if it is there."""
        if self._listeners is not None and listener in self._listeners:
            self._listeners.remove(listener)

    async def wait(self) -> None:
        """Return when the event has fired."""
        fired: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        forget = self.listen(lambda: fired.done() or fired.set_result(None))
        try:
            await fired
        finally:
            forget()

    def _call(self) -> None:
        listeners, self._listeners = self._listeners, None
        for listener in listeners or ():
            listener()
