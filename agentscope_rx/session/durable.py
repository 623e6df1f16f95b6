"""Files that are there once a call returns, even if the machine goes down: written, synced, and so is their folder."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
# conversations are private
_FILE_MODE = 0o600
_FOLDER_MODE = 0o700


def make_folder(path: Path) -> None:
    """Make a folder and those above it, where they are missing."""
    if path.is_dir():
        return
    make_folder(path.parent)
    try:
        os.mkdir(path, _FOLDER_MODE)
    except FileExistsError:
        # by somebody else meanwhile; or it is a file, and whoever opens something in it hears of that
        return
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable, on systems that let one ask for it."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY | _FLAGS)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_file(path: Path, data: bytes) -> None:
    """Write a file that nobody reads yet."""
    _write(path, os.O_WRONLY | os.O_CREAT, data, 0)


def append_to(path: Path, size: int, data: bytes) -> None:
    """Put the data behind the first `size` bytes of a file; what was there is the rest of a write that failed."""
    _write(path, os.O_WRONLY, data, size)


def replace_file(path: Path, data: bytes) -> None:
    """Put new content in the place of a file's, in one step."""
    fresh = path.with_name(f"{path.name}.tmp")
    write_file(fresh, data)
    os.replace(fresh, path)
    sync_folder(path.parent)


def remove_files(paths: Iterable[Path]) -> None:
    """Remove files that may be gone already."""
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
