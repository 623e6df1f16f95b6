"""`OpenCalls`: the tool calls of a run that have no result in memory yet, and how far each has come.

    remembered        open ----------------------------------------> result remembered: settled
    in this round           waiting --> in flight --> result

At the end of a run the open calls get error results, unless the run leaves them `pending`: to be answered or run by a
later call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from agentscope_rx.messages import Msg, ToolResultBlock, ToolResultKind, ToolUseBlock, closing_results

NOT_BEGUN = "The run ended before this call had begun; it had no effect."


class OpenCalls:
    """The open calls of one run, in call order."""

    __slots__ = ("_begun", "admitted", "ended", "in_background", "in_flight", "left", "open", "pending", "waiting")

    def __init__(self) -> None:
        self.open: dict[str, ToolUseBlock] = {}
        """By id: the calls in memory that have no result there."""
        # made with the first call
        self._begun: set[str] | None = None
        self.in_background: frozenset[str] = frozenset()
        """The ids of the calls that go on in the background: they have their handle, and no interruption ends them."""
        self.waiting: dict[str, ToolUseBlock] = {}
        """The calls of this round that have not begun."""
        self.in_flight: dict[str, ToolUseBlock] = {}
        """The calls of this round that have begun and have no result."""
        self.pending: bool = False
        """True if the run leaves its open calls open on purpose."""
        self.admitted: bool = False
        """True once the run has taken its input: from then on it settles the calls that were pending."""
        self.left: frozenset[str] = frozenset()
        """The ids of the calls that the run has left pending, once it has ended."""
        self.ended: bool = False
        """True once the conversation has recorded the end of the run."""

    @property
    def begun(self) -> set[str]:
        """The ids of the open calls that have begun, in this run or possibly in an earlier one."""
        if self._begun is None:
            self._begun = set()
        return self._begun

    def take_over(self, calls: Iterable[ToolUseBlock]) -> None:
        """Make these calls of an earlier run this run's own. They may have begun there."""
        self.open = {call.id: call for call in calls}
        self.begun.update(self.open)

    def start(self, call: ToolUseBlock) -> None:
        """The call begins to run."""
        if self._begun is None:
            self._begun = {call.id}
        else:
            self._begun.add(call.id)
        self.in_flight[call.id] = call
        self.waiting.pop(call.id, None)

    def stop(self, call: ToolUseBlock) -> None:
        """The call no longer runs, or waits."""
        self.in_flight.pop(call.id, None)
        self.waiting.pop(call.id, None)

    def end_round(self) -> None:
        """Nothing of the round runs or waits any longer."""
        self.in_flight.clear()
        self.waiting.clear()

    def record(
        self, messages: Sequence[Msg], settled: Callable[[str], object] | None, *, foreign: bool = False
    ) -> None:
        """Account for messages that are in memory now: their calls are open, their results settle calls.

        Calls in `foreign` messages belong to others. `settled` gets the id of each call that has its result.
        """
        for message in messages:
            if not foreign:
                for block in message.content:
                    if type(block) is ToolUseBlock:
                        self.open[block.id] = block
            for block in message.content:
                if type(block) is ToolResultBlock:
                    self.open.pop(block.id, None)
                    if self._begun is not None:
                        self._begun.discard(block.id)
                    if settled is not None:
                        settled(block.id)

    def closing_result(self, call: ToolUseBlock, kind: ToolResultKind, text: str | None = None) -> ToolResultBlock:
        """The error result of a call that gets no other. By default its text says if the call had not begun."""
        if text is None and call.id not in self.begun:
            text = NOT_BEGUN
        return closing_results((call,), kind, text)[0]
