"""`InFlight`: a count of the tasks and clean-ups under way, so that code can wait for their end.

A source's task counts from its start until its last `finally` block has run, which may be long after its disposal. Work
in a child scope counts in its parents, too. A count belongs to one loop's thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from agentscope_rx.reactive.kernel.dropped import report_dropped

if TYPE_CHECKING:
    from agentscope_rx.reactive.job import AbandonedCalls
    from agentscope_rx.reactive.kernel.deadlines import Deadlines


class Held(Protocol):
    """Something that a call on a thread keeps in use, such as a limiter's lease."""

    def hold(self) -> None:
        """Begin to use it."""
        ...

    def let_go(self) -> None:
        """Use it no more; from any thread."""
        ...


class InFlight:
    """Counts the work under way in a scope."""

    __slots__ = (
        "_waiting",
        "abandoned",
        "count",
        "deadlines",
        "lease",
        "on_abort",
        "parent",
        "subscribing",
    )

    def __init__(self, parent: InFlight | None = None) -> None:
        self.parent: InFlight | None = parent
        self.count: int = 0
        self.lease: Held | None = None if parent is None else parent.lease
        """Held by calls on threads until they have returned, also if they are abandoned."""
        self.abandoned: AbandonedCalls | None = None if parent is None else parent.abandoned
        """Counts the abandoned calls on threads."""
        self.deadlines: Deadlines | None = None
        """The deadlines of the run, on the outermost count (see `Deadline`)."""
        # made when something waits: most scopes have nothing that does
        self._waiting: list[Callable[[], object]] | None = None
        self.subscribing: bool = False
        """Set on the outermost count until `subscribe` has returned to the subscriber."""
        self.on_abort: Callable[[BaseException], object] | None = None
        """Set on the outermost count while it is subscribed: ends the run (see `Scope.abort`)."""

    def outermost(self) -> InFlight:
        """The outermost count above this one."""
        work = self
        while work.parent is not None:
            work = work.parent
        return work

    def begin(self) -> None:
        """Count one more."""
        work: InFlight | None = self
        while work is not None:
            work.count += 1
            work = work.parent

    def end(self) -> None:
        """Count one less; after the last, call the functions of `when_idle`."""
        work: InFlight | None = self
        while work is not None:
            work.count -= 1
            if work.count == 0:
                if work._waiting is not None:
                    work._call()
                if work.deadlines is not None:
                    work.deadlines.stop()
            work = work.parent

    def when_idle(self, call: Callable[[], object]) -> Callable[[], None]:
        """Call when nothing is under way, at once if so; returns a function that cancels that."""
        if self.count == 0:
            call()
        elif self._waiting is None:
            self._waiting = [call]
        else:
            self._waiting.append(call)

        def forget() -> None:
            if self._waiting is not None and call in self._waiting:
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
        waiting, self._waiting = self._waiting, None
        for call in waiting or ():
            try:
                call()
            except Exception as error:
                report_dropped(error, "a clean-up")
