"""`LocalServer`: the server of the local model, one process per program, started at first use."""

import atexit
import json
import secrets
import sys
from dataclasses import field
from pathlib import Path
from subprocess import PIPE, Popen
from typing import IO, Any, cast

from agentscope_rx.errors import SetupError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.models.local.weights import SETUP, check_installed, verified_weights
from agentscope_rx.reactive.kernel.forking import call_after_fork, keep_inherited, new_lock

_SIZES = {"context": 8192, "parallel": 2}
"""The tokens shared by all slots, and the number of slots: the requests answered at once. Others wait."""


@dataclass(frozen=True, slots=True)
class Served:
    """The server's address and its key, which keeps other programs and web pages out."""

    base_url: str
    key: str = field(repr=False)


class LocalServer:
    """The server's process. Thread-safe; ends with the program."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._process: Popen[str] | None = None
        self._served: Served | None = None
        call_after_fork(self)

    def after_fork(self) -> None:
        """Close the inherited stdin of the parent's server, which ends when all copies of its stdin are closed."""
        process, self._process, self._served = self._process, None, None
        if process is not None:
            keep_inherited(process)
            stdin: Any = process.stdin
            # close the raw file: a buffered close would write to the pipe
            stdin.buffer.raw.close()

    def address(self) -> Served:
        """The server's address. Starts the server if needed, which blocks for a second; `SetupError` if that fails."""
        with self._lock:
            if self._process is not None and self._process.poll() is not None:
                self._end()
            return self._served or self._start()

    def stop(self) -> None:
        """End the process, if any; the next `address()` starts another."""
        with self._lock:
            self._end()

    def _start(self) -> Served:
        check_installed()
        key = secrets.token_urlsafe(24)
        config = {"weights": str(verified_weights()), "key": key, **_SIZES}
        # -P: the folder of this package must not shadow modules that the runtime imports
        command = [sys.executable, "-P", str(Path(__file__).with_name("serve.py"))]
        self._process = process = Popen(  # noqa: S603 - this Python, with a file of this package
            command, stdin=PIPE, stdout=PIPE, stderr=PIPE, encoding="utf-8", errors="replace"
        )
        atexit.unregister(self.stop)
        atexit.register(self.stop)
        try:
            address = _launch(process, json.dumps(config))
        except BaseException:
            self._end()
            raise
        self._served = Served(f"{address}/v1", key)
        return self._served

    def _end(self) -> None:
        process, self._process, self._served = self._process, None, None
        if process is not None:
            process.kill()
            # waits, and closes the pipes
            process.__exit__(None, None, None)


def _launch(process: Popen[str], config: str) -> str:
    """Send the configuration to the process and read its address."""
    stdin, stdout, stderr = cast("tuple[IO[str], ...]", (process.stdin, process.stdout, process.stderr))
    try:
        stdin.write(config + "\n")
        stdin.flush()
        line = stdout.readline()
    except OSError:
        line = ""
    if not line:
        output, status = stderr.read().strip()[-400:], process.wait()
        raise SetupError(f"The local model's server did not start (exit status {status}): {output}\nTry: {SETUP}")
    stdout.close()
    stderr.close()
    return line.strip()


SERVER = LocalServer()
