"""`Supervised`: a command that runs under a supervisor (see `supervisor`), seen from the process that starts it. Linux.

| system                       | a process that the command starts ...                                         |
|------------------------------|-------------------------------------------------------------------------------|
| Linux, `bwrap` (`namespace`) | is in a PID namespace: the kernel ends it with the supervisor, whatever it is |
| Linux                        | is a descendant of the supervisor, which as a sub-reaper ends all of them     |
| elsewhere, frozen programs   | is not supervised: see the callers                                            |

Closing the socket ends the command, so the command ends with this process too, however this process ends.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

PROBE_SECONDS = 10.0
"""How long `bwrap` may take to show that it works here."""

SUPERVISOR = Path(__file__).with_name("supervisor.py")
"""The supervisor's program."""

_NUMBER = re.compile(r"-?[0-9]{1,5}")
_NAMESPACE = ("--dev-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "--die-with-parent", "--as-pid-1", "--")


class Supervised:
    """One command. Start `words` with `descriptors` passed on, then call `started`; `close` it in the end."""

    __slots__ = ("_ours", "_outcome", "_program", "_theirs", "descriptors", "words")

    def __init__(
        self,
        words: Sequence[str],
        cwd: str | os.PathLike[str] | None = None,
        namespace: Sequence[str] = (),
        limits: str = "-",
    ) -> None:
        # (a namespace's program may look the folder up again, by its path)
        folder = os.stat(cwd or ".")
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._program = words[0]
        self._outcome: int | OSError | None = None
        descriptor = self._theirs.fileno()
        self.words: tuple[str, ...] = (
            *namespace,
            *_supervisor(),
            str(descriptor),
            f"{folder.st_dev}:{folder.st_ino}",
            limits,
            *words,
        )
        self.descriptors: tuple[int] = (descriptor,)

    def started(self) -> None:
        """Close the supervisor's end of the socket here: it has its own copy, or failed to start."""
        self._theirs.close()

    def terminate(self) -> None:
        """Send SIGTERM to the command's process group."""
        self._send(b"T")

    def kill(self) -> None:
        """End every process of the command; all have ended when the supervisor has."""
        try:
            self._ours.shutdown(socket.SHUT_WR)
        except OSError:
            # the supervisor has ended by itself
            return

    def outcome(self, wait: float = 0.0) -> int | OSError | None:
        """How the command ended (minus the signal), or why it did not start; None before the supervisor reports.

        `wait` is how many seconds this thread blocks for the report.
        """
        if self._outcome is None:
            try:
                self._ours.settimeout(wait)
                self._outcome = self._read(self._ours.recv(64).decode(errors="replace"))
            except OSError:
                return None
        return self._outcome

    def close(self) -> None:
        """Close the socket, which also ends a command that still runs."""
        self._theirs.close()
        self._ours.close()

    def _send(self, data: bytes) -> None:
        try:
            self._ours.send(data)
        except OSError:
            # the supervisor has ended
            return

    def _read(self, report: str) -> int | OSError | None:
        kind, _, number = report.partition(" ")
        if kind in ("exit", "error") and _NUMBER.fullmatch(number) is None:
            # where the command is root, it may write here, too
            return OSError(errno.EPROTO, "its supervisor was tampered with", self._program)
        if kind == "exit":
            return int(number)
        if kind == "error":
            return OSError(int(number), os.strerror(int(number)), self._program)
        return OSError(errno.ESTALE, "its folder was replaced meanwhile") if kind == "moved" else None


@cache
def can_supervise() -> bool:
    """True if commands can be supervised here."""
    return sys.platform == "linux" and interpreter() is not None and find_spec("_ctypes") is not None


def interpreter() -> str | None:
    """The Python for helper processes; None in a frozen program, which has none.

    It is not the Python of a virtual environment. An environment in the workspace has a settings file (`pyvenv.cfg`)
    that names the folder of the standard library, and a model may be able to write that file.
    """
    if not sys.executable or getattr(sys, "frozen", False):
        return None
    return str(getattr(sys, "_base_executable", None) or sys.executable)


def namespace(path: str) -> tuple[str, ...] | None:
    """The words that run a command in a PID namespace of its own; None if no `bwrap` on `path` can do that here."""
    program = shutil.which("bwrap", path=path) if can_supervise() else None
    return _works(program) if program else None


@cache
def _works(program: str) -> tuple[str, ...] | None:
    """Tried once: `bwrap` may be installed but not permitted, in a container or without user namespaces."""
    words = (program, *_NAMESPACE)
    try:
        done = subprocess.run(  # noqa: S603 - bwrap, found outside of the workspace
            (*words, str(interpreter()), "-I", "-S", "-c", "import os; print(os.getpid())"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            timeout=PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return words if done.returncode == 0 and done.stdout.strip() == b"1" else None


def limited(words: Sequence[str], limits: str) -> tuple[str, ...]:
    """The words that run a command with limits and no supervisor, where the system has such limits.

    For core dumps alone it is not worth the start of another program.
    """
    if os.name != "posix" or interpreter() is None or limits in ("-", "CORE=0"):
        return tuple(words)
    return (*_supervisor(), "-", "-", limits, *words)


def _supervisor() -> tuple[str, ...]:
    return (str(interpreter()), "-I", "-S", str(SUPERVISOR))
