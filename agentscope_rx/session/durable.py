"""Durable files and the lock on their folder.

A file is durable once the call that writes it returns: its data and the folder that names it are synced, so that both
survive a crash of the machine. The lock admits one writer at a time to a folder, over all threads and processes; it
ends with the process that holds it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from agentscope_rx.reactive.kernel.forking import call_after_fork
from agentscope_rx.session.attempts import HeldError

_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
# private: the files hold conversations
_FILE_MODE = 0o600
_FOLDER_MODE = 0o700


def is_path(text: str) -> bool:
    """True if the file system can have a path of this text."""
    try:
        return bool(text.strip()) and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def make_folder(path: Path) -> None:
    """Make a folder and its missing parents."""
    if path.is_dir():
        return
    make_folder(path.parent)
    try:
        os.mkdir(path, _FOLDER_MODE)
    except FileExistsError:
        # made by another process meanwhile; or it is a file, and opening a file in it fails with a clear error
        return
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable; does nothing on Windows, which cannot sync a folder."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY | _FLAGS)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_file(path: Path, data: bytes) -> None:
    """Write a file that has no readers yet."""
    _write(path, os.O_WRONLY | os.O_CREAT, data, 0)


def append_to(path: Path, size: int, data: bytes) -> None:
    """Write data after the first `size` bytes of a file; what a failed write left behind them is cut off."""
    _write(path, os.O_WRONLY, data, size)


def replace_file(path: Path, data: bytes) -> None:
    """Replace the content of a file in one step: readers see the old or the new content."""
    fresh = path.with_name(f"{path.name}.tmp")
    write_file(fresh, data)
    os.replace(fresh, path)
    sync_folder(path.parent)


def remove_files(paths: Iterable[Path]) -> None:
    """Remove files; those that do not exist are skipped."""
    for path in paths:
        path.unlink(missing_ok=True)


def _write(path: Path, flags: int, data: bytes, offset: int) -> None:
    descriptor = os.open(path, flags | _FLAGS, _FILE_MODE)
    try:
        os.ftruncate(descriptor, offset)
        os.lseek(descriptor, offset, os.SEEK_SET)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
        # flock locks the opened file, not the process, so it excludes other threads, too
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(descriptor: int) -> None:
        # explicitly, not by close(): a process that was forked meanwhile has the file open, too
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    _Held = BlockingIOError

LOCK = "lock"
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)


class _Descriptors(set[int]):
    """The lock files that are open in this process."""

    def after_fork(self) -> None:
        """Close the child's copies: they would keep a session locked after its parent was killed."""
        for descriptor in self:
            os.close(descriptor)
        self.clear()


_open = _Descriptors()
call_after_fork(_open)


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Holds the folder's lock inside the block; `HeldError` at once if another writer holds it."""
    path = folder / LOCK
    try:
        descriptor = os.open(path, _LOCK_FLAGS, _FILE_MODE)
    except FileNotFoundError:
        # the folder was removed after it was made: the session was being deleted
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
        # in this order: a forked child closes only descriptors that are still this file
        _open.discard(descriptor)
        os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    """True if the locked file still has that name: deleting a session removes its lock file."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
