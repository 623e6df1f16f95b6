"""What a scripted model answers, without the values of any library: all sides of a comparison are given the same.

An answer is texts and calls of tools; the model of a side makes its own values of them, because no model can do
without. It needs the standard library alone, because it is imported in the environments of other libraries, too.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence

Call = tuple[str, str, str]
"""The id, the name of the tool, and the arguments as JSON."""
Answer = tuple[Sequence[str], Sequence[Call]]

ARGUMENTS = '{"n": 1}'
WORD = "word "


class Gate:
    """Models that wait until as many of them are there, so that a measurement sees all runs at once."""

    def __init__(self, count: int, then: Callable[[], object]) -> None:
        self._left = count
        self._then = then
        self._open = asyncio.Event()
        self._open_for_threads = threading.Event()
        self._lock = threading.Lock()

    def _came(self) -> None:
        with self._lock:
            self._left -= 1
            last = not self._left
        if last:
            self._then()
            self._open_for_threads.set()
            self._open.set()

    async def wait(self) -> None:
        """Until the last one has come."""
        self._came()
        await self._open.wait()

    def wait_in_thread(self) -> None:
        """The same for a model that blocks."""
        self._came()
        self._open_for_threads.wait()


class Script:
    """The answers of one run: so many rounds with calls of a tool, then a text in so many pieces."""

    def __init__(
        self,
        turns: int = 0,
        *,
        at_once: int = 1,
        tool: str = "step",
        pieces: int = 0,
        seconds: float = 0.0,
        gate: Gate | None = None,
        breathes: bool = False,
    ) -> None:
        self._left = turns
        self._at_once = at_once
        self._tool = tool
        self._pieces = pieces
        self._seconds = seconds
        self._gate = gate
        self.breathes = breathes
        """Whether a stream lets other tasks run before each piece, as one that comes over a network does."""
        self.made = 0
        """The pieces that the model was asked for, if it breathes."""

    async def answer(self) -> Answer:
        """The next answer."""
        if self._seconds:
            await asyncio.sleep(self._seconds)
        elif self._gate is not None:
            await self._gate.wait()
        return self._next()

    def answer_in_thread(self) -> Answer:
        """The same for a model that blocks."""
        if self._seconds:
            time.sleep(self._seconds)
        elif self._gate is not None:
            self._gate.wait_in_thread()
        return self._next()

    def _next(self) -> Answer:
        if self._left:
            self._left -= 1
            return (), [(f"c{self._left}_{n}", self._tool, ARGUMENTS) for n in range(self._at_once)]
        if self.breathes:
            return self._counted(), ()  # type: ignore[return-value]
        return ([WORD] * self._pieces if self._pieces else ("done",)), ()

    def _counted(self) -> Iterator[str]:
        for _ in range(self._pieces):
            self.made += 1
            yield WORD
