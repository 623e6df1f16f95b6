"""The next step of a run: pure functions over plain state with an enum as the result. No I/O, nothing reactive.

| function             | in this order                                                                     |
|----------------------|-----------------------------------------------------------------------------------|
| `at_begin`           | calls to run -> ACT; results are the reply -> RETURN; REASON                      |
| `before_reasoning`   | interrupted -> INTERRUPT; usage limit -> LIMIT; rounds used up, unless sent back  |
|                      | by a hook -> SUMMARIZE; REASON                                                    |
| `after_reasoning`    | interrupted -> INTERRUPT; stop -> STOP; goto -> GOTO; calls -> ACT;                |
|                      | thinking only -> REASON; FINISH                                                   |
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
    """The first step of a call: the pending calls, if there are any to run. `direct`: their results are the reply."""
    if calls:
        return Decision.ACT
    return Decision.RETURN if direct else Decision.REASON


def before_reasoning(
    *, interrupted: bool, limited: bool, iteration: int, max_iters: int, gotos: int, sent_back: bool
) -> Decision:
    """The step before a model call. A hook's goto may exceed `max_iters`, at most `max_iters` times."""
    if interrupted:
        return Decision.INTERRUPT
    if limited:
        return Decision.LIMIT
    if iteration >= max_iters and not (sent_back and gotos <= max_iters):
        return Decision.SUMMARIZE
    return Decision.REASON


def after_reasoning(*, interrupted: bool, stop: bool, goto: bool, calls: int, thinking: bool = False) -> Decision:
    """The step after an answer. `thinking`: it is thinking only, and the model is asked to continue."""
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
    """The step before a batch."""
    if interrupted:
        return Decision.INTERRUPT
    return Decision.LIMIT if limited else Decision.ACT


def after_acting(*, interrupted: bool, stop: bool, waiting: bool, direct: bool = False) -> Decision:
    """The step after a batch. `waiting`: calls are suspended or need approval; `direct`: results are the reply."""
    if interrupted:
        return Decision.INTERRUPT
    if stop:
        return Decision.STOP
    if waiting:
        return Decision.SUSPEND
    return Decision.RETURN if direct else Decision.REASON
