"""What happens next: pure functions over plain state, one enum as the answer. No I/O, nothing reactive.

| asked                | in this order                                                                     |
|----------------------|-----------------------------------------------------------------------------------|
| `at_begin`           | calls to run -> ACT; results are the reply -> RETURN; REASON                       |
| `before_reasoning`   | interrupted -> INTERRUPT; usage limit -> LIMIT; rounds used up, unless sent back   |
|                      | by a hook -> SUMMARIZE; REASON                                                     |
| `after_reasoning`    | interrupted -> INTERRUPT; stop -> STOP; goto -> GOTO; calls -> ACT;                |
|                      | thinking alone -> REASON; FINISH                                                   |
| `before_acting`      | interrupted -> INTERRUPT; usage limit -> LIMIT; ACT                                |
| `after_acting`       | interrupted -> INTERRUPT; stop -> STOP; calls wait -> SUSPEND;                     |
|                      | results are the reply -> RETURN; REASON                                            |
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
    SUSPEND = "suspend"
    RETURN = "return"
    LIMIT = "limit"
    INTERRUPT = "interrupt"


def at_begin(*, calls: int, direct: bool = False) -> Decision:
    """Where a call begins: with what is pending, if that is to be run; `direct` says that its results are the reply."""
    if calls:
        return Decision.ACT
    return Decision.RETURN if direct else Decision.REASON


def before_reasoning(
    *, interrupted: bool, limited: bool, iteration: int, max_iters: int, gotos: int, sent_back: bool
) -> Decision:
    """Whether the model is asked. A hook's goto may pass `max_iters`, but no more often than that itself."""
    if interrupted:
        return Decision.INTERRUPT
    if limited:
        return Decision.LIMIT
    if iteration >= max_iters and not (sent_back and gotos <= max_iters):
        return Decision.SUMMARIZE
    return Decision.REASON


def after_reasoning(*, interrupted: bool, stop: bool, goto: bool, calls: int, thinking: bool = False) -> Decision:
    """What follows an answer; `thinking` says that it is thinking alone, which is to be gone on from."""
    if interrupted:
        return Decision.INTERRUPT
    if stop:
        return Decision.STOP
    if goto:
        return Decision.GOTO
    if calls:
        return Decision.ACT
    return Decision.REASON if thinking else Decision.FINISH


def before_acting(*, interrupted: bool, limited: bool) -> Decision:
    """Whether a batch is run."""
    if interrupted:
        return Decision.INTERRUPT
    return Decision.LIMIT if limited else Decision.ACT


def after_acting(*, interrupted: bool, stop: bool, waiting: bool, direct: bool = False) -> Decision:
    """What follows a batch: `waiting` says that calls of it are suspended or need approval, `direct` that results of it
    are the reply."""
    if interrupted:
        return Decision.INTERRUPT
    if stop:
        return Decision.STOP
    if waiting:
        return Decision.SUSPEND
    return Decision.RETURN if direct else Decision.REASON
