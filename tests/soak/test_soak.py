"""Short soaks; `make soak` runs them in their full size."""

from __future__ import annotations

import asyncio

import pytest

from agentscope_rx.testing import run_virtual
from tests.soak.long_runs import run_long
from tests.soak.soak import soak


@pytest.mark.parametrize("seed", range(3))
def test_virtual_time(seed: int):
    run_virtual(soak(60, agents=20, seed=seed))


def test_real_time():
    asyncio.run(soak(3, agents=20, seed=0, pace=0.1, threads=True))


def test_a_long_run_under_a_budget():
    run = run_long(300, 4_000)
    assert run.largest <= 4_000 and run.summaries > 5
