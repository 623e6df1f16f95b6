"""Programs that fork and end, so that what is left is never what was started; and how to see if anything is left."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from pathlib import Path

from agentscope_rx.tools.process.supervised import namespace

FORKING = """
import os, signal, sys, time
how, end, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

def leave():
    if how != "plain":
        os.setsid()
    if how == "cleaned":
        # nothing of the environment, and nothing of the output
        os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", DAEMON, sys.argv[-1]], {})

DAEMON = "import os, time; [os.close(n) for n in range(3)]; time.sleep(600)"

for _ in range(count):
    if not os.fork():
        if how == "cleaned":
            os.setsid()
            if os.fork():
                os._exit(0)
            leave()
        # a chain that nothing ends ends itself: it would take the whole machine
        until = time.monotonic() + 30
        while time.monotonic() < until:
            if os.fork():
                os._exit(0)
            leave()
        os._exit(0)
os.write(1, b"started\\n")
if end == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if end != "ends":
    time.sleep(600)
"""
"""Arguments: plain, session or cleaned; ends, waits or stubborn; how many; a marker."""

KINDS = ("plain", "session", "cleaned")


def forking(folder: Path) -> str:
    """The program as a file in this folder, as the words that run it."""
    (folder / "forking.py").write_text(FORKING)
    return f"{sys.executable} -I -S forking.py"


def left(marker: str) -> list[int]:
    """The processes that have this word among their arguments."""
    found: list[int] = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
                state = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if marker.encode() in words and state not in "ZX":
                found.append(int(name))
    return found


def none_left(marker: str, seconds: float = 15.0) -> bool:
    """Within this time, and twice: a chain may be between two links. (It ends by itself after 30 s.)"""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not left(marker) and not left(marker):
            return True
        threading.Event().wait(0.005)
    return False


def bwrap(folder: Path) -> str:
    """A PATH with a `bwrap`: the system's, or one that does what is needed of it with `unshare`."""
    if shutil.which("bwrap"):
        return os.environ["PATH"]
    user = "" if os.geteuid() == 0 else "--user --map-current-user"
    file = folder / "bwrap"
    file.write_text(
        "#!/bin/sh\n"
        'while [ "$1" != -- ]; do shift; done\n'
        f"PATH={os.environ['PATH']}\n"
        f'shift; exec unshare {user} --pid --fork --kill-child --mount-proc -- "$@"\n'
    )
    file.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def can_unshare(folder: Path) -> bool:
    """True if this system allows a new PID namespace."""
    return namespace(bwrap(folder)) is not None
