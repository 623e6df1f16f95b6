"""`LocalServer`: the embedded model's server, one process for all of a program, started when it is first needed.

idle --address()--> serving --the process dies--> idle        address() starts another
                    serving --stop(), exit------> idle
"""

from __future__ import annotations

import atexit
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BufferedWriter, TextIOWrapper
from pathlib import Path
from typing import cast

from agentscope_rx.errors import SetupError
from agentscope_rx.models.local.weights import SETUP, check_installed, verified_weights
from agentscope_rx.reactive.kernel.forking import keep_inherited, new_lock, told_of_fork

CONTEXT_TOKENS = 8192
PARALLEL = 2
"""Requests answered at once; more wait for their turn."""

_STOP_SECONDS = 5.0
_SHOWN = 400


@dataclass(frozen=True, slots=True)
class Served:
    """Where the server listens, and the key it wants (so that no other program and no web page can use it)."""

    base_url: str
    key: str = field(repr=False)


class LocalServer:
    """The server's process. Thread-safe; ends with the program."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._process: subprocess.Popen[str] | None = None
        self._served: Served | None = None
        self._owner = 0
        told_of_fork(self)

    def after_fork(self) -> None:
        """The process is the parent's, and ends when that no longer holds its input: this one does not, either."""
        process, self._process, self._served = self._process, None, None
        if process is not None:
            keep_inherited(process)
            if process.stdin is not None:
                # below the buffers: nothing is sent
                cast("BufferedWriter", cast("TextIOWrapper", process.stdin).buffer).raw.close()

    def address(self) -> Served:
        """Where the server listens; starts it if it does not run. Blocks for a second then: call it on a worker.

        `MissingExtraError` if a package is missing, `SetupError` if the weights are damaged or it does not start.
        """
        with self._lock:
            if self._process is not None and self._process.poll() is not None:
                self._end()
            return self._served or self._start()

    def stop(self) -> None:
        """End the process, if there is one; the next `address()` starts another."""
        with self._lock:
            if self._owner == os.getpid():
                self._end()

    def _start(self) -> Served:
        check_installed()
        key = secrets.token_urlsafe(24)
        config = {
            "weights": str(verified_weights()),
            "key": key,
            "context": CONTEXT_TOKENS,
            "parallel": PARALLEL,
        }
        process = subprocess.Popen(  # noqa: S603 - this Python, with a file of this package
            # -P: the folder of this package must not shadow modules that the runtime imports
            [sys.executable, "-P", str(Path(__file__).with_name("serve.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        self._process = process
        if self._owner != os.getpid():
            self._owner = os.getpid()
            atexit.register(self.stop)
        try:
            address = _handshake(process, config)
        except BaseException:
            self._end()
            raise
        self._served = Served(f"{address}/v1", key)
        return self._served

    def _end(self) -> None:
        process, self._process, self._served = self._process, None, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None and not pipe.closed:
                pipe.close()


def _handshake(process: subprocess.Popen[str], config: Mapping[str, object]) -> str:
    """Tell the process what to serve, and hear where it does."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        process.stdin.write(json.dumps(config) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
    except OSError:
        line = ""
    if not line:
        said = process.stderr.read().strip()[-_SHOWN:]
        status = process.wait()
        raise SetupError(f"The local model's server did not start (exit status {status}): {said}\nTry: {SETUP}")
    process.stdout.close()
    process.stderr.close()
    return str(json.loads(line)["address"])


SERVER = LocalServer()
"""The one server of this process."""
