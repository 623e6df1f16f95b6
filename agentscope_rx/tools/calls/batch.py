"""`ToolBatch`: how the calls of one batch run: how many at once, which of them alone, and after a failure.

    calls         a1  a2  b   X  c          tool a at most one at once, X exclusive, at most 2 at once
    a1            [====]
    a2            .....[====]               waits for its tool; b passes it
    b             [==]
    X             ...........[===]          a barrier
    c             ................[==]

The results are in call order all the same: see `merge_ordered`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal

from agentscope_rx.messages import ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.reactive import Flow, OneShotEvent, Semaphore, defer, flat_map_iterable, merge_ordered, take_until
from agentscope_rx.tools.calls.signals import ToolEvent

OnFailure = Literal["collect", "cancel_siblings"]
"""A failed call leaves the others of its batch alone, or ends them."""

FAILURES = frozenset(
    {ToolResultKind.FAILED, ToolResultKind.TIMEOUT, ToolResultKind.NOT_FOUND, ToolResultKind.INVALID_ARGUMENTS}
)
"""Results that are a call's own failure; a call that was rejected or cut off has not failed."""


class ToolBatch:
    """One batch. `slots`: its places, if calls wait for more than a place; `alone`: the indices of exclusive calls.

    With `cancels`, the first failed call, `cause`, fires `failed`.
    """

    __slots__ = ("alone", "at_once", "cause", "failed", "slots")

    def __init__(
        self, count: int, places: int, *, waits: bool = False, alone: Collection[int] = (), cancels: bool = False
    ) -> None:
        self.alone: Collection[int] = alone
        crowded = waits and 1 < places < count
        # calls in turn stay in turn; otherwise a call that waits for its tool must not keep a place from later calls
        self.slots: Semaphore | None = Semaphore(places, shared=True) if crowded else None
        self.at_once: int = count if crowded else places
        self.failed: OneShotEvent | None = OneShotEvent() if cancels else None
        self.cause: ToolUseBlock | None = None

    def note(self, call: ToolUseBlock, result: ToolResultBlock) -> None:
        """Take note of a call's result."""
        if self.failed is not None and not self.failed.fired and result.kind in FAILURES:
            self.cause = call
            self.failed.fire(later=_soon)

    def cut_off(self, call: ToolUseBlock, *, begun: bool) -> ToolResultBlock | None:
        """The result of a call that was ended, or never begun, because another has failed; None if none has."""
        if self.cause is None:
            return None
        what = "It was cancelled" if begun else "It had not begun, and had no effect"
        text = f"{what}: the call of {self.cause.name!r} ({self.cause.id}) beside it failed."
        return ToolResultBlock.error(call, ToolResultKind.INTERRUPTED, text)


def run_batch(
    calls: Sequence[ToolUseBlock],
    run: Callable[[ToolUseBlock], Flow[ToolEvent]],
    batch: ToolBatch,
    waits: Callable[[ToolUseBlock], bool],
) -> Flow[ToolEvent]:
    """Runs the calls as the batch says; `waits` is True for a call that reports its beginning by `ToolBegun`.

    Signals: progress of all calls as it comes, the results in call order; completion.
    Cancels: the calls in progress; those not begun never begin.
    """
    lanes = [run(call) for call in calls]
    if batch.failed is not None:
        lanes = [_ended_by(batch.failed, call, lane, batch, waits) for call, lane in zip(calls, lanes, strict=True)]
    return merge_ordered(lanes, max_concurrency=batch.at_once, live=_is_progress, alone=batch.alone)


def _ended_by(
    failed: OneShotEvent,
    call: ToolUseBlock,
    source: Flow[ToolEvent],
    batch: ToolBatch,
    waits: Callable[[ToolUseBlock], bool],
) -> Flow[ToolEvent]:
    """A call that ends with the first failure of its batch, and whose own failure ends the others.

    Signals: the source's; if it is ended, a result with the reason. Cancels: the source.
    """
    begun = ended = False

    def observed(value: ToolEvent) -> Iterator[ToolEvent]:
        nonlocal begun, ended
        begun = True
        if isinstance(value, ToolResultBlock):
            ended = True
            batch.note(call, value)
        yield value

    def cut_off() -> Iterator[ToolEvent]:
        result = None if ended else batch.cut_off(call, begun=begun)
        if result is not None:
            yield result

    def begin() -> Flow[ToolEvent]:
        nonlocal begun
        begun = not failed.fired and not waits(call)
        return source.pipe(take_until(failed)).pipe(flat_map_iterable(observed, cut_off))

    return defer(begin)


def _is_progress(event: ToolEvent) -> bool:
    return not isinstance(event, ToolResultBlock)


def _soon(call: Callable[[], None]) -> None:
    # not inside of the failing call's own signal
    asyncio.get_running_loop().call_soon(call)
