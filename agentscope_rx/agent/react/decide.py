"""What happens next: pure functions over plain state, one enum as the answer. No I/O, nothing reactive.

| asked                | in this order                                                                     |
|----------------------|-----------------------------------------------------------------------------------|
| `before_reasoning`   | interrupted -> INTERRUPT; limit reached, unless sent back by a hook -> SUMMARIZE; REASON |
| `after_reasoning`    | interrupted -> INTERRUPT; stop -> STOP; goto -> GOTO; no calls -> FINISH; ACT      |
| `after_acting`       | interrupted -> INTERRUPT; stop -> STOP; REASON                                     |
"""

from __future__ import annotations

from enum import StrEnum


class Decision(StrEnum):
    """The next step of a run."""

    REASON = "reason"
    ACT = "act"
    FINISH = "finish"
    STOP = "stop"
    GOTO = "goto"
    SUMMARIZE = "summarize"
    INTERRUPT = "interrupt"


def before_reasoning(*, interrupted: bool, iteration: int, max_iters: int, gotos: int, sent_back: bool) -> Decision:
    """Whether the model is asked. A hook's goto may pass the limit, but no more often than the limit itself."""
    if interrupted:
        return Decision.INTERRUPT
    if iteration >= max_iters and not (sent_back and gotos <= max_iters):
        return Decision.SUMMARIZE
    return Decision.REASON


def after_reasoning(*, interrupted: bool, stop: bool, goto: bool, calls: int) -> Decision:
    """What follows an answer."""
    if interrupted:
        return Decision.INTERRUPT
    if stop:
        return Decision.STOP
    if goto:
        return Decision.GOTO
    return Decision.ACT if calls else Decision.FINISH


def after_acting(*, interrupted: bool, stop: bool) -> Decision:
    """What follows a batch of results."""
    if interrupted:
        return Decision.INTERRUPT
    return Decision.STOP if stop else Decision.REASON
