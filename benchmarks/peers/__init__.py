"""Environments of their own for the libraries that this one is compared with.

Each is a virtual environment `.venv-peers-NAME` beside `.venv`, made when it is first asked for and made again when
what it needs has changed. The ranges name the versions that the pages and the measurements were written for. The
modules beside this one are run in them (`benchmarks.compare`), so this one needs the standard library alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PEERS: dict[str, tuple[str, ...]] = {
    # what it was made for: with mcp 2 it cannot be imported, with openai 3 it cannot read a stream
    "agentscope-1": ("agentscope>=1.0,<2", "mcp<2", "openai<2", "greenlet", "tqdm"),
    "agentscope-2": ("agentscope>=2.0,<3",),
    "langgraph": ("langgraph>=1.2,<2", "langchain>=1,<2", "langchain-openai>=1,<2"),
    "openai-agents": ("openai-agents>=0.24,<1",),
    "pydantic-ai": ("pydantic-ai-slim[openai]>=2,<3",),
}
"""What is installed for each that the pages show a program of; the first is the library itself."""
MEASURED: dict[str, tuple[str, ...]] = {
    **PEERS,
    "smolagents": ("smolagents[openai]>=1.26,<2",),
    "strands": ("strands-agents[openai]>=1.62,<2",),
}
"""The same with those that are measured only."""
SECONDS = 900


def environment(name: str, packages: Sequence[str], root: Path = ROOT) -> Path:
    """The interpreter of an environment that has these packages; made on demand, which downloads them."""
    folder = root / f".venv-peers-{name}"
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    stamp = folder / "packages.json"
    wanted = json.dumps(list(packages))
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True, timeout=SECONDS)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", *packages]
        subprocess.run(install, check=True, timeout=SECONDS)
        # last, so that an environment whose installation has failed is made again
        stamp.write_text(wanted, encoding="utf-8")
    return python


def versions(python: Path, packages: Sequence[str]) -> dict[str, str]:
    """The installed version of each of these packages, by its name."""
    names = [_name(package) for package in packages]
    code = "import importlib.metadata as m, json, sys; print(json.dumps([m.version(n) for n in sys.argv[1:]]))"
    done = subprocess.run([python, "-c", code, *names], check=True, capture_output=True, text=True, timeout=SECONDS)
    return dict(zip(names, json.loads(done.stdout), strict=True))


def _name(package: str) -> str:
    for end in "[<>=!~; @":
        package = package.partition(end)[0]
    return package
