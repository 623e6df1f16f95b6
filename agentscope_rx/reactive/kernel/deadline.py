"""`Deadline`: a call after some seconds, nearly always cancelled before; those of a run share one timer."""

from __future__ import annotations

from collections.abc import Callable

from agentscope_rx.reactive.kernel.deadlines import Deadlines
from agentscope_rx.reactive.kernel.scope import Scope


class Deadline:
    """`call()` after `delay` seconds of the loop's clock, in a fresh copy of the scope's context, unless cancelled."""

    __slots__ = ("_all", "_call", "_scope", "since", "when")

    def __init__(self, scope: Scope, delay: float, call: Callable[[], object]) -> None:
        work = scope.work
        while work.parent is not None:
            work = work.parent
        all = work.deadlines
        if all is None:
            all = work.deadlines = Deadlines(scope.loop, scope.context)
        self._all = all
        self._scope = scope
        self._call = call
        self.since: float = all.clock()
        self.when: float = self.since + delay
        all.waiting[self] = None
        if self.when < all.rings:
            all.arm(self.when)

    def cancel(self) -> None:
        """Drop it. Idempotent."""
        all = self._all
        all.waiting.pop(self, None)
        if not all.waiting:
            work = self._scope.work
            while work.parent is not None:
                work = work.parent
            if work.count == 0:
                all.stop()

    def ring(self) -> None:
        """Make the call: the deadline has passed."""
        self._scope.context.copy().run(self._scope.guarded, self._call)
