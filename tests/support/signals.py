"""Children that are sent signals: as from a terminal, wherever the tests run, and never for ever.

A shell that starts something in the background (`nohup make test &`) has it ignore SIGINT, which children inherit: one
that waits for Ctrl-C would wait for ever.
"""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

SECONDS = 60.0
"""How long a child may take for everything together: then it is killed, and what is read from it ends."""
_RESET = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def reset_for_children() -> Iterator[None]:
    """What is started inside this block begins with the signals as a terminal would leave them."""
    # exec puts the default in the place of a handler, and leaves a signal that is ignored as it is
    before = {number: signal.signal(number, signal.default_int_handler) for number in _RESET}
    mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, _RESET)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def child(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A child that can be sent signals; it is killed at the end of the block, or when its time is up."""
    with reset_for_children():
        process = subprocess.Popen(command, text=True, **options)
    bound = threading.Timer(SECONDS, process.kill)
    bound.start()
    try:
        with process:
            try:
                yield process
            finally:
                if process.poll() is None and not _ends(process):
                    process.kill()
    finally:
        bound.cancel()
        bound.join()


def _ends(process: subprocess.Popen[str]) -> bool:
    """True if a child that has been seen to is about to end by itself."""
    try:
        process.wait(SECONDS / 6)
    except subprocess.TimeoutExpired:
        return False
    return True
