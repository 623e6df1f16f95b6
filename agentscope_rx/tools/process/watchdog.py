"""`Watchdog`: measures a command's processes from outside, for the limits that hold for all of them together. Linux.

    root (bwrap, or the supervisor)  ->  /proc/<pid>/task/*/children, downwards  ->  processes, threads, memory

It runs in the process that has started the command: what runs in a sandbox can neither see nor slow it. The memory is
RssAnon + RssShmem + VmSwap of each process, which counts pages that processes share once for each of them. If that sum
is over the limit, the proportional sizes decide (`smaps_rollup`, where each page counts once; slow). Not counted: files
in memory that no process has mapped.
"""

from __future__ import annotations

import os
from functools import cache

from agentscope_rx.tools.process.limits import Limits

INTERVAL = 0.05
"""Seconds between two looks. What a command uses in between, and gives back, is not seen."""

_SIZES = (b"RssAnon:", b"RssShmem:", b"VmSwap:")
_SHARES = (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:")
_PASSES = 3


class Watchdog:
    """The limits of one command's processes, which descend from the process `root`.

    The first `helpers` processes, from `root` down by first children, are not the command's own.
    """

    __slots__ = ("_helpers", "_limits", "_root")

    def __init__(self, root: int, helpers: int, limits: Limits) -> None:
        self._root = root
        self._helpers = helpers
        self._limits = limits

    def exceeded(self) -> str | None:
        """The name of the limit that is exceeded now, or None."""
        tree = self._tree()
        limit = self._limits.processes
        if limit is not None and sum(tree.values()) > limit:
            return "processes"
        most = self._limits.memory
        if most is None or _sum("status", tree, _SIZES) <= most:
            return None
        return "memory" if _sum("smaps_rollup", tree, _SHARES) > most else None

    def _tree(self) -> dict[int, int]:
        """The command's processes, each with the number of its threads."""
        helpers: set[int] = set()
        found: dict[int, int] = {}
        for _ in range(_PASSES):
            helpers.clear()
            found.clear()
            vanished = False
            pending = [(self._root, 1)]
            while pending:
                pid, depth = pending.pop()
                threads, children = _children(pid)
                if not threads:
                    vanished = True
                elif depth <= self._helpers:
                    helpers.add(pid)
                else:
                    found[pid] = threads
                # only the first child of a helper is one: the others are orphans that it has adopted
                pending += [
                    (child, depth + 1 if not index and pid in helpers else self._helpers + 1)
                    for index, child in enumerate(children)
                ]
            if not vanished:
                # the children of one that ended while it was looked at have another parent now: look again
                break
        return found


@cache
def can_watch() -> bool:
    """True if this system shows the children of a process (CONFIG_PROC_CHILDREN)."""
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def _children(pid: int) -> tuple[int, list[int]]:
    """The number of a process's threads, and its children in the order of their start."""
    found: list[int] = []
    threads = 0
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
            threads += 1
    except (FileNotFoundError, ProcessLookupError):
        # ended meanwhile
        return threads, found
    return threads, found


def _sum(name: str, tree: dict[int, int], fields: tuple[bytes, ...]) -> int:
    return sum(_size(pid, name, fields) for pid in tree)


def _size(pid: int, name: str, fields: tuple[bytes, ...]) -> int:
    """The sum of some lines of a file about a process, in bytes."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            lines = file.read().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    except PermissionError:
        # a process may hide its maps, but not its size
        return 0 if name == "status" else _size(pid, "status", _SIZES)
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(fields))
