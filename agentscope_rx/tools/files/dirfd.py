"""`Folder`: an open folder, and what is done to the names in it. No name is looked up but in the folder that is open.

On POSIX it holds a descriptor and every call is made relative to it (`openat` and its kin) with O_NOFOLLOW: what is put
in the folder's place meanwhile, or in the place of a folder above it, changes nothing. Elsewhere (Windows) it holds a
path, and looks before and after each opening whether that still leads where it says: a race between those looks is
not caught there.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from enum import Enum
from typing import Any, NamedTuple

BY_PARTS = {os.open, os.stat, os.mkdir, os.unlink, os.rmdir, os.rename, os.readlink} <= os.supports_dir_fd and (
    os.scandir in os.supports_fd and hasattr(os, "O_NOFOLLOW")
)
"""Whether this system can open relative to a folder that is open."""

# opening never waits (for the other end of a pipe) and never makes a terminal ours
_FLAGS = (
    getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
) | getattr(os, "O_NOFOLLOW", 0)
_FOLDER = getattr(os, "O_DIRECTORY", 0)


class FileKind(Enum):
    """What a name in a folder stands for."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"

    @classmethod
    def of(cls, mode: int) -> FileKind:
        """The kind that `st_mode` tells."""
        if stat.S_ISREG(mode):
            return cls.FILE
        if stat.S_ISDIR(mode):
            return cls.FOLDER
        return cls.LINK if stat.S_ISLNK(mode) else cls.OTHER


class Found(NamedTuple):
    """A name in a folder, as it was when the folder was read."""

    name: str
    kind: FileKind
    size: int
    modified: float


class Folder:
    """An open folder; close it. `path` is where it was when it was opened."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, descriptor: int | None) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def open(cls, path: str, *, by_parts: bool = BY_PARTS) -> Folder:
        """The folder at a path of the caller's own, which is trusted but for its last name."""
        if by_parts:
            return cls(path, os.open(path, os.O_RDONLY | _FLAGS | _FOLDER))
        _not_elsewhere(path)
        return cls(path, None)

    def identity(self) -> tuple[int, int]:
        """What tells this folder from all others that exist."""
        found = os.stat(self.path if self._descriptor is None else self._descriptor)
        return found.st_dev, found.st_ino

    def look(self, name: str) -> os.stat_result:
        """What a name stands for; a link stands for itself."""
        return os.stat(self._at(name), follow_symlinks=False, **self._where())

    def folder(self, name: str) -> Folder:
        """The folder of this name, open; `OSError` for a link."""
        path = os.path.join(self.path, name)
        if self._descriptor is None:
            if not stat.S_ISDIR(os.stat(path, follow_symlinks=False).st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            _not_elsewhere(path)
            return Folder(path, None)
        return Folder(path, os.open(name, os.O_RDONLY | _FLAGS | _FOLDER, dir_fd=self._descriptor))

    def file(self, name: str, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
        """A descriptor of this name, which the caller closes; `OSError` for a link."""
        if self._descriptor is not None:
            return os.open(name, flags | _FLAGS, mode, dir_fd=self._descriptor)
        path = self._at(name)
        if not flags & os.O_CREAT:
            _not_elsewhere(path)
        descriptor = os.open(path, flags | _FLAGS, mode)
        try:
            _not_elsewhere(path)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def link_target(self, name: str) -> str:
        """Where a link says that it leads."""
        return os.readlink(self._at(name), **self._where())

    def make(self, name: str) -> None:
        """A new folder; `FileExistsError` if the name is taken."""
        os.mkdir(self._at(name), **self._where())

    def unlink(self, name: str) -> None:
        """Remove a name that is no folder; a link goes, not what it leads to."""
        os.unlink(self._at(name), **self._where())

    def remove_folder(self, name: str) -> None:
        """Remove a folder that is empty."""
        os.rmdir(self._at(name), **self._where())

    def rename(self, name: str, target: Folder, new: str) -> None:
        """Give what `name` stands for another name, in place of a file that has it; links stand for themselves."""
        if self._descriptor is None:
            _not_elsewhere(self.path)
            _not_elsewhere(target.path)
            os.replace(self._at(name), target._at(new))
        else:
            os.replace(name, new, src_dir_fd=self._descriptor, dst_dir_fd=target._descriptor)

    def list(self) -> list[Found]:
        """Everything in it, by name."""
        with os.scandir(self.path if self._descriptor is None else self._descriptor) as entries:
            return sorted(each for each in map(_found, entries) if each is not None)

    @contextmanager
    def as_path(self) -> Generator[str]:
        """A path of it for a child to start in, good as long as the context: on Linux it is this very folder."""
        here = f"/proc/self/fd/{self._descriptor}"
        yield here if self._descriptor is not None and os.path.exists(here) else self.path

    def close(self) -> None:
        """Give the descriptor back; again is nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _at(self, name: str) -> str:
        return name if self._descriptor is not None else os.path.join(self.path, name)

    def _where(self) -> dict[str, Any]:
        return {} if self._descriptor is None else {"dir_fd": self._descriptor}


def _found(entry: os.DirEntry[str]) -> Found | None:
    try:
        seen = entry.stat(follow_symlinks=False)
    except OSError:
        # gone since the folder was read
        return None
    return Found(entry.name, FileKind.of(seen.st_mode), seen.st_size, seen.st_mtime)


def _not_elsewhere(path: str) -> None:
    """`OSError` if a part of an existing path is a link or a junction."""
    if os.path.realpath(path) != path:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
