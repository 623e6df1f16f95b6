"""A forked child works: what is the parent's threads' and loops' is made anew in it, and the parent's is as it was.

Each case is a program of its own (see `forks`): it forks, bounds what the child takes, and looks at how that has ended.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentscope_rx.session.durable import locked

ROOT = Path(__file__).parents[2]


def begin(case: str, folder: Path) -> subprocess.Popen[str]:
    # (newer interpreters warn of each fork beside threads, which is what is done here)
    return subprocess.Popen(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-m", "tests.security.forks", case, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.mark.parametrize(
    "case",
    [
        "used",
        "prefork",
        "amid",
        "in_a_loop",
        "by_multiprocessing",
        "under_load",
        "connections",
        "left_behind",
        "executors",
        "states",
    ],
)
def test_a_forked_child_works(case: str, tmp_path: Path) -> None:
    with begin(case, tmp_path) as process:
        said, complained = process.communicate(timeout=110)
    assert (process.returncode, said, complained) == (0, "", "")


def test_a_child_keeps_no_lock_of_its_dead_parent(tmp_path: Path) -> None:
    with begin("lock_of_the_dead", tmp_path) as process:
        assert process.wait(110) == 0
        # the child waits for us, and has all that was open
        with locked(tmp_path):
            pass
        process.communicate("x")
