"""`ParentLink`: ties a sub-agent's run to the call of the parent that it belongs to.

    the parent's run --call-->  ParentLink  <--attach--  the sub-agent's run

The usage of the run counts for the parent, and an interruption of the parent interrupts the run. The sub-agent's
conversation holds `attach` while the call is in progress, so that the agent's own `stream` need not know of the parent.
"""

from __future__ import annotations

from collections.abc import Callable

from agentscope_rx.agent.interruption import Cut
from agentscope_rx.agent.run_state import RunState


def _nothing() -> None: ...


class ParentLink:
    """One call of a sub-agent. `parent` is None if the tool was called without an agent."""

    __slots__ = ("_on_interrupt", "_unlisten", "call_id", "parent", "run")

    def __init__(self, parent: RunState | None, call_id: str) -> None:
        self.parent: RunState | None = parent
        self.call_id: str = call_id
        self.run: RunState | None = None
        self._unlisten: Callable[[], None] = _nothing
        self._on_interrupt: Callable[[], object] = _nothing

    def attach(self, run: RunState) -> None:
        """The sub-agent's run has begun."""
        if self.run is not None:
            return
        self.run = run
        if self.parent is not None:
            run.within(self.parent, self.call_id)
            if self.parent.interruption.requested:
                self.pass_down()

    def listen(self, on_interrupt: Callable[[], object]) -> None:
        """Pass an interruption of the parent down from now on, and call `on_interrupt` before."""
        self._on_interrupt = on_interrupt
        if self.parent is not None:
            self._unlisten = self.parent.interruption.event.listen(self.pass_down)

    def pass_down(self) -> None:
        """Interrupt the sub-agent's run for the same reason as the parent's, unless it is work in the background.

        At its deadline the parent keeps time for its own summary: the sub-agent's run ends without one.
        """
        if self.parent is None or self.call_id in self.parent.calls.in_background:
            return
        self._on_interrupt()
        if self.run is not None:
            interruption = self.parent.interruption
            cut = Cut.REPLY if interruption.cut is Cut.DEADLINE else interruption.cut
            self.run.interruption.request(None, interruption.source, cut)

    def end(self) -> None:
        """The run is over."""
        self._unlisten()
        self._unlisten = self._on_interrupt = _nothing
        self.run = None
