"""Short soaks; `make soak` runs them in their full size."""

from __future__ import annotations

import asyncio

import pytest

from agentscope_rx.testing import run_virtual
from tests.soak.soak import soak


@pytest.mark.parametrize("seed", range(3))
def test_virtual_time(seed: int):
    run_virtual(soak(60, agents=20, seed=seed))


def test_real_time():
    asyncio.run(soak(3, agents=20, seed=0, pace=0.1, threads=True))
