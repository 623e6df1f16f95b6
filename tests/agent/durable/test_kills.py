"""Processes that are killed at random moments of a script: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.durable.kills import SERVERS, STORES
from tests.support.servers import Server


@pytest.mark.parametrize("store", STORES)
def test_a_script_survives_kills_on_every_store(store: str, tmp_path: Path, request: pytest.FixtureRequest):
    command = [sys.executable, "-m", "tests.agent.durable.kills", store, str(tmp_path / "runs"), "--kills", "5"]
    if store in SERVERS:
        # (its fixture has the name of the store)
        server: Server = request.getfixturevalue(store)
        command += ["--url", SERVERS[store][1](server)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["kills"] == 5
