"""What is under way: a count of tasks and clean-ups, so that an end can be waited for.

A source's task counts from its start until its last `finally` block has run, which may be long after it was disposed.
Work in a child scope counts in its parents too. All of it happens on one loop thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from agentscope_rx.errors import AgentScopeError
from agentscope_rx.reactive.kernel.dropped import report_dropped

if TYPE_CHECKING:
    from agentscope_rx.reactive.job import Tally
    from agentscope_rx.reactive.limiter import Lease


class CleanUpTimeoutError(AgentScopeError):
    """Cancelled work did not end in time; what waited for it went on without it."""


class InFlight:
    """Counts what is under way in a scope and tells when nothing is."""

    __slots__ = ("_parent", "_waiting", "count", "lease", "on_abort", "subscribing", "tally")

    def __init__(self, parent: InFlight | None = None) -> None:
        self._parent = parent
        self.count = 0
        self.lease: Lease | None = None if parent is None else parent.lease
        """What calls on threads keep until they have really ended, whoever still waits for them."""
        self.tally: Tally | None = None if parent is None else parent.tally
        """Where those of them are counted that nobody waits for any more."""
        self._waiting: list[Callable[[], object]] = []
        self.subscribing = False
        """Set on the outermost count while the subscription is being made: its subscriber does not hold it yet."""
        self.on_abort: Callable[[BaseException], object] | None = None
        """Set on the outermost count by the subscription, while it is subscribed: ends the run (see `Scope.abort`)."""

    def outermost(self) -> InFlight:
        """The count that this one belongs to in the end."""
        work = self
        while work._parent is not None:
            work = work._parent
        return work

    def begin(self) -> None:
        """One more is under way."""
        work: InFlight | None = self
        while work is not None:
            work.count += 1
            work = work._parent

    def end(self) -> None:
        """One has ended; those who wait for nothing being under way are called when it was the last."""
        work: InFlight | None = self
        while work is not None:
            work.count -= 1
            if work.count == 0 and work._waiting:
                work._call()
            work = work._parent

    def when_idle(self, call: Callable[[], object]) -> Callable[[], None]:
        """Call once nothing is under way, at once if so; returns a function that takes the wish back."""
        if self.count == 0:
            call()
        else:
            self._waiting.append(call)

        def forget() -> None:
            if call in self._waiting:
                self._waiting.remove(call)

        return forget

    async def idle(self) -> None:
        """Return when nothing is under way."""
        idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        forget = self.when_idle(lambda: idle.done() or idle.set_result(None))
        try:
            await idle
        finally:
            forget()

    def _call(self) -> None:
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            try:
                call()
            except Exception as error:
                report_dropped(error, "a clean-up")
