"""Indexing that is killed by SIGKILL; `make soak` kills more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_killed_runs_leave_whole_documents():
    # in a process of its own, which forks: this one has threads
    command = [sys.executable, "-m", "tests.knowledge.indexing.kills", "--kills", "4", "--seed", "7"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    assert "killed" in ran.stdout
