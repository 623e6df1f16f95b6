"""A process of ours at a terminal: what it writes, what is typed."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Callable

SECONDS = 30.0
"""How long a process is waited for before a test fails."""


class Process:
    """A process of ours, and what it has written so far to one descriptor."""

    def __init__(self, popen: subprocess.Popen[bytes], descriptor: int) -> None:
        self.popen = popen
        self._descriptor = descriptor
        self.seen = ""

    def until(self, text: str, seconds: float = SECONDS) -> str:
        """Read until this has been written, and give it and all before it."""
        while text not in self.seen:
            ready, _, _ = select.select([self._descriptor], [], [], seconds)
            try:
                data = os.read(self._descriptor, 4096) if ready else b""
            except OSError:
                # the other side of a terminal has gone
                data = b""
            if not data:
                raise AssertionError(f"{text!r} never came; there was {self.seen!r}")
            self.seen += data.decode()
        before, _, self.seen = self.seen.partition(text)
        return before + text

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def interrupt(self) -> None:
        self.popen.send_signal(signal.SIGINT)

    def interrupt_until(self, text: str) -> str:
        """Press Ctrl-C until this comes: between its prompt and its waiting readline is deaf, one presses again."""
        for _ in range(9):
            self.interrupt()
            with contextlib.suppress(AssertionError):
                return self.until(text, 3)
        self.interrupt()
        return self.until(text)

    def wait(self) -> int:
        return self.popen.wait(SECONDS)


Start = Callable[..., Process]
