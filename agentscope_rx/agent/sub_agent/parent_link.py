"""`ParentLink`: what ties a sub-agent's run to the call that it belongs to.

    the parent's run --call-->  Bond  <--tied--  the sub-agent's run

What the run costs is the parent's cost, too; what interrupts the parent interrupts it. It is found by the sub-agent's
conversation, so that an agent's own `stream` needs to know nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable

from agentscope_rx.agent.run import Cut, Run


def _nothing() -> None: ...


class ParentLink:
    """One call of a sub-agent. `parent` is None if the tool was called without an agent."""

    __slots__ = ("_forget", "_interrupted", "call_id", "parent", "run")

    def __init__(self, parent: Run | None, call_id: str) -> None:
        self.parent = parent
        self.call_id = call_id
        self.run: Run | None = None
        self._forget: Callable[[], None] = _nothing
        self._interrupted: Callable[[], object] = _nothing

    def tie(self, run: Run) -> None:
        """The run has begun."""
        if self.run is not None:
            return
        self.run = run
        if self.parent is not None:
            run.within(self.parent, self.call_id)
            if self.parent.interrupted:
                self.pass_down()

    def listen(self, interrupted: Callable[[], object]) -> None:
        """From now on pass down what interrupts the parent, and tell that it has been."""
        self._interrupted = interrupted
        if self.parent is not None:
            self._forget = self.parent.interrupt.listen(self.pass_down)

    def pass_down(self) -> None:
        """The parent's run is to end: so is this one, for the same reason.

        What the parent keeps back for its last word before its deadline is not the sub-agent's to use: this run ends
        without one.
        """
        if self.parent is None:
            return
        self._interrupted()
        if self.run is not None:
            cut = Cut.REPLY if self.parent.cut is Cut.DEADLINE else self.parent.cut
            self.run.request_interrupt(None, self.parent.interrupt_source, cut)

    def end(self) -> None:
        """The run is over."""
        self._forget()
        self._forget = self._interrupted = _nothing
        self.run = None
