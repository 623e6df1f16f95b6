"""Processes that are killed at random moments of a script: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.durable.kills import STORES


@pytest.mark.parametrize("store", sorted(STORES))
def test_a_script_survives_twenty_kills(store: str, tmp_path: Path):
    command = [sys.executable, "-m", "tests.agent.durable.kills", store, str(tmp_path / "runs"), "--kills", "20"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["kills"] == 20
