"""`Machine`: this process among others. Who it is, which others have ended, and clocks to compare with theirs.

| asked                          | by                                                                                  |
|--------------------------------|-------------------------------------------------------------------------------------|
| is it the same machine?        | `boot`: the id of its boot, and of the namespace of its clocks                      |
| has that process ended?        | `space` (the namespace of process ids), process id and start time                   |
| how long ago, on this machine? | `uptime()`: seconds since the boot; setting the clock does not change it            |
| how long ago, on another one?  | `now()`: the clock of the machine, which may be wrong or be set                     |

Linux has all of it. Elsewhere `boot` is None: every other process counts as one of another machine.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from agentscope_rx.frozen_values import dataclass

_PROC = Path("/proc")
_HIDDEN = "?"


@dataclass(frozen=True, slots=True)
class Process:
    """A process. Its `start` time distinguishes it from a later process with the same id."""

    host: str
    boot: str | None
    space: str | None
    pid: int
    start: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class Machine:
    """The machine that this code runs on. A subclass may give other clocks, for tests."""

    def __init__(self) -> None:
        self._process: Process | None = None

    def process(self) -> Process:
        """This process; in a forked child another one."""
        if self._process is None or self._process.pid != os.getpid():
            self._process = _this_process()
        return self._process

    def has_ended(self, process: Process) -> bool:
        """True if the process has certainly ended; False for process ids of another namespace."""
        own = self.process()
        if own.boot is None or own.space is None or (process.boot, process.space) != (own.boot, own.space):
            return False
        return _start_of(process.pid) not in (process.start, _HIDDEN)

    def uptime(self) -> float:
        """Seconds since the boot without those of sleep, in which no process can give a sign of life."""
        return time.monotonic()

    def now(self) -> datetime:
        """The clock of the machine."""
        return datetime.now(UTC)


THIS_MACHINE = Machine()


def _this_process() -> Process:
    pid = os.getpid()
    start = _start_of(pid) if sys.platform == "linux" else None
    start = None if start == _HIDDEN else start
    return Process(
        host=socket.gethostname(),
        boot=None if start is None else _boot(),
        space=None if start is None else _link("pid"),
        pid=pid,
        # without /proc: another text for each process, as it is never compared with that of a living one
        start=start or f"{time.time_ns()}",
    )


def _boot() -> str | None:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None
    # clocks of another time namespace are set off
    return f"{boot} {_link('time') or ''}".strip()


def _link(name: str) -> str | None:
    try:
        return os.readlink(_PROC / "self/ns" / name)
    except OSError:
        return None


def _start_of(pid: int) -> str | None:
    """The start of a process in ticks since the boot, None if it has ended; `_HIDDEN` from this user."""
    try:
        stat = (_PROC / f"{pid}" / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return _HIDDEN if _exists(pid) else None
    # the name of the program stands in parentheses, and may hold any character
    state, *fields = stat.rpartition(")")[2].split()
    # a killed process stays as a zombie until its parent has read its end
    return None if state in "ZX" else fields[18]


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
