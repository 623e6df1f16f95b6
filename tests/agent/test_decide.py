"""The loop's decisions as tables: every combination of what they look at, and what comes first."""

from __future__ import annotations

from itertools import product

import pytest

from agentscope_rx.agent.react.decide import (
    Decision,
    after_acting,
    after_reasoning,
    at_begin,
    before_acting,
    before_reasoning,
)

YES_NO = (False, True)


@pytest.mark.parametrize(("calls", "decision"), [(0, Decision.REASON), (1, Decision.ACT), (3, Decision.ACT)])
def test_a_call_begins_with_what_is_to_be_run(calls: int, decision: Decision):
    assert at_begin(calls=calls) is decision


@pytest.mark.spec("W36", "§22.10")
@pytest.mark.parametrize(("interrupted", "limited", "sent_back"), list(product(YES_NO, repeat=3)))
@pytest.mark.parametrize(
    ("iteration", "max_iters", "gotos", "rounds_left", "goto_left"),
    [
        (0, 1, 0, True, True),
        (0, 3, 0, True, True),
        (2, 3, 1, True, True),
        (1, 1, 0, False, True),
        (3, 3, 3, False, True),
        (4, 3, 3, False, True),
        (4, 3, 4, False, False),
        (9, 3, 9, False, False),
    ],
)
def test_before_reasoning(
    interrupted: bool,
    limited: bool,
    sent_back: bool,
    iteration: int,
    max_iters: int,
    gotos: int,
    rounds_left: bool,
    goto_left: bool,
):
    """A hook's goto passes the limit, but is bounded."""
    if interrupted:
        expected = Decision.INTERRUPT
    elif limited:
        expected = Decision.LIMIT
    else:
        expected = Decision.REASON if rounds_left or (sent_back and goto_left) else Decision.SUMMARIZE
    found = before_reasoning(
        interrupted=interrupted,
        limited=limited,
        iteration=iteration,
        max_iters=max_iters,
        gotos=gotos,
        sent_back=sent_back,
    )
    assert found is expected


@pytest.mark.spec("§22.10")
@pytest.mark.parametrize(
    ("interrupted", "stop", "goto", "calls", "decision"),
    [
        (False, False, False, 0, Decision.FINISH),
        (False, False, False, 2, Decision.ACT),
        (False, False, True, 0, Decision.GOTO),
        (False, False, True, 2, Decision.GOTO),
        (False, True, False, 0, Decision.STOP),
        (False, True, False, 2, Decision.STOP),
        (False, True, True, 0, Decision.STOP),
        (False, True, True, 2, Decision.STOP),
        *((True, stop, goto, calls, Decision.INTERRUPT) for stop, goto, calls in product(YES_NO, YES_NO, (0, 2))),
    ],
)
def test_after_reasoning(interrupted: bool, stop: bool, goto: bool, calls: int, decision: Decision):
    """Stop beats goto, goto beats acting, an interruption beats all."""
    assert after_reasoning(interrupted=interrupted, stop=stop, goto=goto, calls=calls) is decision


@pytest.mark.parametrize(
    ("interrupted", "limited", "decision"),
    [
        (False, False, Decision.ACT),
        (False, True, Decision.LIMIT),
        (True, False, Decision.INTERRUPT),
        (True, True, Decision.INTERRUPT),
    ],
)
def test_before_acting(interrupted: bool, limited: bool, decision: Decision):
    assert before_acting(interrupted=interrupted, limited=limited) is decision


@pytest.mark.parametrize(
    ("interrupted", "stop", "waiting", "decision"),
    [
        (False, False, False, Decision.REASON),
        (False, False, True, Decision.SUSPEND),
        (False, True, False, Decision.STOP),
        (False, True, True, Decision.STOP),
        *((True, stop, waiting, Decision.INTERRUPT) for stop, waiting in product(YES_NO, YES_NO)),
    ],
)
def test_after_acting(interrupted: bool, stop: bool, waiting: bool, decision: Decision):
    assert after_acting(interrupted=interrupted, stop=stop, waiting=waiting) is decision


@pytest.mark.parametrize(
    ("interrupted", "stop", "waiting", "decision"),
    [
        (False, False, False, Decision.RETURN),
        (False, False, True, Decision.SUSPEND),
        (False, True, False, Decision.STOP),
        (True, False, False, Decision.INTERRUPT),
    ],
)
def test_results_that_are_the_reply(interrupted: bool, stop: bool, waiting: bool, decision: Decision):
    assert after_acting(interrupted=interrupted, stop=stop, waiting=waiting, direct=True) is decision
    assert at_begin(calls=0, direct=True) is Decision.RETURN
    assert at_begin(calls=1, direct=True) is Decision.ACT
