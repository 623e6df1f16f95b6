"""One writer at a time in a folder, over all threads and processes: a lock on a file, which ends with its holder."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from agentscope_rx.reactive.kernel.forking import call_after_fork

if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

    _Held = PermissionError
else:
    import fcntl

    def _lock(descriptor: int) -> None:
        # of the opened file, not of the process: it keeps threads apart, too
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(descriptor: int) -> None:
        # said, not left to close(): a process that was forked meanwhile has the file open as well
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    _Held = BlockingIOError

LOCK = "lock"
_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)


class _Descriptors(set[int]):
    """The lock files that are open in this process."""

    def after_fork(self) -> None:
        """The child has them open, too: it would keep a session locked whose parent has been killed."""
        for descriptor in self:
            os.close(descriptor)
        self.clear()


_open = _Descriptors()
call_after_fork(_open)


class HeldError(Exception):
    """Somebody else holds the lock: try again later."""


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Holds the folder's lock inside the block; `HeldError` at once if somebody else does."""
    path = folder / LOCK
    try:
        descriptor = os.open(path, _FLAGS, 0o600)
    except FileNotFoundError:
        # the folder went away after it was made: a session that was being deleted
        raise HeldError from None
    _open.add(descriptor)
    try:
        try:
            _lock(descriptor)
        except _Held:
            raise HeldError from None
        try:
            if not _is_at(path, descriptor):
                raise HeldError
            yield
        finally:
            _unlock(descriptor)
    finally:
        # in this order: what a child closes is certain to be this file
        _open.discard(descriptor)
        os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the file that was locked is still the one of that name: a deleted session takes its lock along."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
