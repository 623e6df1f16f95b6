"""`ToolBatch`: the calls of one batch: how many at once, which of them alone, and what one failure does to the others.

    calls         a1  a2  b   X  c          tool a at most one at once, X exclusive, at most 2 at once
    a1            [====]
    a2            .....[====]               waits for its tool; b passes it
    b             [==]
    X             ...........[===]          a barrier
    c             ................[==]

The results are in call order all the same: `merge_ordered` sees to that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from typing import Literal

from agentscope_rx.messages import ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.reactive import Flow, OneShotEvent, Semaphore, defer, flat_map_iterable, take_until
from agentscope_rx.tools.calls.signals import ToolEvent

OnFailure = Literal["collect", "cancel_siblings"]
"""What a failed call does to the others of its round: nothing, or it ends them."""

FAILURES = frozenset(
    {ToolResultKind.FAILED, ToolResultKind.TIMEOUT, ToolResultKind.NOT_FOUND, ToolResultKind.INVALID_ARGUMENTS}
)
"""The kinds of results that are a call's own failure; one that was rejected or cut off has not failed."""


class ToolBatch:
    """One batch. `slots`: its places, if calls wait for more than a place; `alone`: the indices of exclusive calls.

    With `cancel_siblings`, `failed` fires after the first failure, `because`.
    """

    __slots__ = ("alone", "at_once", "because", "failed", "slots")

    def __init__(
        self, count: int, places: int, *, waits: bool = False, alone: Collection[int] = (), cancels: bool = False
    ) -> None:
        self.alone = alone
        crowded = waits and 1 < places < count
        # calls in turn stay in turn; otherwise one that waits for its tool must not keep a place from those behind it
        self.slots = Semaphore(places, shared=True) if crowded else None
        self.at_once = count if crowded else places
        self.failed: OneShotEvent | None = OneShotEvent() if cancels else None
        self.because: ToolUseBlock | None = None

    def note(self, call: ToolUseBlock, result: ToolResultBlock) -> None:
        """A call has its result."""
        if self.failed is not None and not self.failed.fired and result.kind in FAILURES:
            self.because = call
            self.failed.fire(later=_soon)

    def cut_off(self, call: ToolUseBlock, *, begun: bool) -> ToolResultBlock | None:
        """The result of a call that was ended, or never begun, because another has failed; None if none has."""
        if self.because is None:
            return None
        what = "It was cancelled" if begun else "It had not begun, and had no effect"
        text = f"{what}: the call of {self.because.name!r} ({self.because.id}) beside it failed."
        return ToolResultBlock.error(call, ToolResultKind.INTERRUPTED, text)


def together(call: ToolUseBlock, source: Flow[ToolEvent], within: ToolBatch, *, waits: bool) -> Flow[ToolEvent]:
    """A call as one of its round: where a failure ends the others, it is ended by theirs, and ends them by its own.

    Signals: the source's; a result that says why in the place of the one that it does not come to.
    Cancels: the source.
    """
    failed = within.failed
    if failed is None:
        return source
    begun = ended = False

    def shown(value: ToolEvent) -> Iterator[ToolEvent]:
        nonlocal begun, ended
        begun = True
        if isinstance(value, ToolResultBlock):
            ended = True
            within.note(call, value)
        yield value

    def cut_off() -> Iterator[ToolEvent]:
        result = None if ended else within.cut_off(call, begun=begun)
        if result is not None:
            yield result

    def begin() -> Flow[ToolEvent]:
        nonlocal begun
        begun = not waits and not failed.fired
        return source.pipe(take_until(failed)).pipe(flat_map_iterable(shown, cut_off))

    return defer(begin)


def _soon(call: Callable[[], None]) -> None:
    # not inside of the failing call's own signal
    asyncio.get_running_loop().call_soon(call)
