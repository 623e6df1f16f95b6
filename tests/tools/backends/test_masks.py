"""Denied paths that a command has made hard to cover."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from agentscope_rx import Toolkit
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.tools.backends import BubblewrapBackend
from agentscope_rx.tools.backends.masks import MAX_BYTES, denied_paths
from agentscope_rx.tools.files.globs import DenyList
from agentscope_rx.tools.shell import ShellTool
from tests.tools.calling import use

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sandboxes of Linux")

NAME = "n" * 250


def deep(root: Path, depth: int) -> None:
    """A chain of folders with a denied file at its end, made as a command can: by relative paths."""
    folder = os.open(root, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(NAME, dir_fd=folder)
        inner = os.open(NAME, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(os.open(".env", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    os.close(folder)


@pytest.mark.parametrize("depth", [5, 14, 15, 25])
def test_a_path_that_is_too_long_is_covered_from_above(tmp_path: Path, depth: int) -> None:
    deep(tmp_path, depth)
    (found,) = denied_paths(str(tmp_path), DenyList([".env"]))
    assert all(each == NAME for each in found.parts[:-1]) and found.parts[-1] in (NAME, ".env")
    length = len(str(tmp_path.joinpath(*found.parts)))
    assert length <= MAX_BYTES + 256 and (found.parts[-1] == ".env" or length > MAX_BYTES)


def test_a_path_that_is_too_long_keeps_no_command_from_running(tmp_path: Path) -> None:
    try:
        backend = BubblewrapBackend(tmp_path)
    except ConfigurationError as error:
        pytest.skip(str(error))
    deep(tmp_path, 25)
    find = f"cd {'/'.join([NAME] * 12)}; for each in 1 2 3 4 5 6 7 8; do cd {NAME} || break; done 2>&1 | tail -c 20"
    result = Toolkit([ShellTool(backend=backend, allow_any=True)]).call(use("run_command", command=find)).run()
    assert "Permission denied" in result.text and "could not be started" not in result.text
