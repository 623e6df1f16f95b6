"""Short lives of an agent with many hooks at once; `make soak` has longer ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentscope_rx.testing import collect_dropped, run_virtual
from tests.agent.combined_lives import live, live_working


@pytest.mark.parametrize("seed", range(8))
def test_many_hooks_at_once(seed: int, tmp_path: Path):
    (tmp_path / "AGENTS.md").write_text("Be kind.")
    with collect_dropped() as dropped:
        assert run_virtual(live(seed, 10, tmp_path))
        assert not dropped


@pytest.mark.parametrize("seed", range(4))
def test_background_work_and_sub_agents(seed: int, tmp_path: Path):
    (tmp_path / "AGENTS.md").write_text("Be kind.")
    with collect_dropped() as dropped:
        assert run_virtual(live_working(seed, 8, tmp_path))
        # what the subscribers of the test raise
        assert all(isinstance(error, KeyError) for error in dropped)
