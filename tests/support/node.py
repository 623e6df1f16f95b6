"""Packages of npm for the tests: installed once into a folder of temporary files, and run with node."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 120.0


@cache
def installed(*packages: str) -> Path:
    """The folder with these packages (`name@version`); skips the test if there is no node, or they cannot be had."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    kept = Path(tempfile.gettempdir()) / f"agentscope_rx-npm-{os.getuid()}"
    folder = kept / re.sub(r"[^\w.-]+", "_", "_".join(packages))
    if not folder.exists():
        kept.mkdir(mode=0o700, exist_ok=True)
        # another process may install the same: the first to be done wins
        fresh = Path(tempfile.mkdtemp(dir=kept))
        (fresh / "package.json").write_text('{"private": true}')
        command = [
            "npm",
            "install",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--loglevel=error",
            "--fetch-retries=0",
            "--fetch-timeout=20000",
            *packages,
        ]
        try:
            made = subprocess.run(command, cwd=fresh, capture_output=True, text=True, timeout=PATIENCE, check=False)
        except subprocess.TimeoutExpired:
            pytest.skip(f"npm has not installed {', '.join(packages)} in {PATIENCE:g} s")
        if made.returncode:
            pytest.skip(f"npm cannot install {', '.join(packages)}: {made.stderr[-300:]}")
        try:
            fresh.rename(folder)
        except OSError:
            shutil.rmtree(fresh)
    return folder


def run(folder: Path, script: str, given: object) -> Any:
    """What a script for node writes as JSON; it reads `given` from its standard input."""
    code = folder / f"{os.getpid()}.mjs"
    code.write_text(script)
    try:
        done = subprocess.run(
            ["node", str(code)],
            input=json.dumps(given),
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    finally:
        code.unlink()
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)
