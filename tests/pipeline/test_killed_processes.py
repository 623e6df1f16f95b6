"""A nested pipeline whose process is killed goes on in the next one: each member works to its end, and once."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

NAMES = ("A", "B", "C", "D", "E")


def process(folder: Path, kill_at: int) -> int:
    command = [sys.executable, "-m", "tests.pipeline.killed_child", str(folder), str(kill_at)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
    return ended.returncode


def test_a_nested_pipeline_survives_kills(tmp_path: Path):
    # each process counts anew: before A's effect, after B's, after C's, after C's again, and the last one never
    kills = 0
    for kill_at in (1, 6, 4, 2, 0):
        kills += process(tmp_path, kill_at) == -signal.SIGKILL
    assert kills == 4
    text, _ = (tmp_path / "end").read_text().rsplit("\n", 1)
    assert text == "E is done"
    assert all((tmp_path / f"effect {name}").exists() for name in NAMES)
    # only the tool that was in doubt is run again, never one whose result was saved
    assert (tmp_path / "begun").read_text().split() == list("ADBBCCCE")
