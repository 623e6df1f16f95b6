"""The command line as a process, and a server for it to talk to."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.signals import reset_for_children

from .processes import Process, Start
from .scripted_server import Server


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def environment() -> dict[str, str]:
    """The environment of a process of ours: nothing in it chooses a model or colours."""
    unwanted = ("OPENAI_", "NO_COLOR", "FORCE_COLOR", "AGENTSCOPE_RX_", "PYTHONIOENCODING")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    return {**kept, "PYTHONUTF8": "1", "PYTHONWARNINGS": "error", "TERM": "xterm"}


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty working directory, and no environment that would choose a model."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "AGENTSCOPE_RX_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


Cli = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def cli(environment: dict[str, str], tmp_path: Path) -> Cli:
    """Runs `python -m agentscope_rx` in an empty folder and gives what it wrote and its status."""

    def run(*arguments: str, input: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "agentscope_rx", *arguments],
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            encoding="utf-8",
            env={**environment, "HOME": str(tmp_path), **variables},
            cwd=tmp_path,
            timeout=60,
        )

    return run


@pytest.fixture
def terminal(server: Server, environment: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Starts the command line, each time on a terminal of its own."""
    processes: list[subprocess.Popen[bytes]] = []
    controllers: list[int] = []

    def start(*arguments: str, model: Sequence[str] | None = None) -> Process:
        named = ["--model", "openai:m", "--base-url", server.url] if model is None else model
        controller, side = pty.openpty()
        controllers.append(controller)
        try:
            with reset_for_children():
                popen = subprocess.Popen(
                    [sys.executable, "-m", "agentscope_rx", *arguments, *named],
                    stdin=side,
                    stdout=side,
                    stderr=side,
                    env={**environment, "HOME": str(tmp_path)},
                    cwd=tmp_path,
                    start_new_session=True,
                )
        finally:
            os.close(side)
        processes.append(popen)
        return Process(popen, controller)

    try:
        yield start
    finally:
        for popen in processes:
            popen.kill()
            popen.wait()
        for controller in controllers:
            os.close(controller)
