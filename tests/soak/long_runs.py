"""A run of thousands of rounds within a budget: each request is within it, and late rounds cost what early ones do.

python -m tests.soak --rounds 2000
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from agentscope_rx import Msg
from agentscope_rx.context_policy import CompactionHook
from agentscope_rx.testing import run_virtual
from tests.context_policy.long_task import Explorer, explored, explorer, plain, rooms_tool


class LongRun(NamedTuple):
    """What a run has come to. The costs are seconds of CPU a round, in the second and in the last quarter."""

    largest: int
    requests: int
    summaries: int
    early: float
    late: float


def run_long(rounds: int, budget: int, *, scale: float = 1.2) -> LongRun:
    """A run of so many rounds; the provider counts `scale` times as many tokens as the estimate.

    The answer needs a fact of round 3, and the memory has every message whole at the end.
    """
    moments: list[float] = []

    def note(number: int, messages: Sequence[Msg]) -> None:
        moments.append(time.thread_time())

    model = Explorer(rounds, scale=scale, on_request=note)
    look = rooms_tool(lambda room: plain(room) * (1 + room % 7))
    found = run_virtual(explored(explorer(model, CompactionHook(max_tokens=budget), look)), patience=300)
    assert found == "value3", found
    largest = max(model.sizes)
    assert largest <= budget, f"a request of {largest} tokens, and the budget is {budget}"
    quarter = len(moments) // 4
    early = (moments[2 * quarter] - moments[quarter]) / quarter
    late = (moments[-1] - moments[-quarter - 1]) / quarter
    return LongRun(largest, len(model.sizes), model.summaries, early, late)
