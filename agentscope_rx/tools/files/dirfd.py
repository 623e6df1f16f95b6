"""`Folder`: an open folder, and operations on the names in it. Each name is looked up in the open folder itself.

On POSIX it holds a descriptor, and every call is relative to it (`openat` and the like) with O_NOFOLLOW. Replacing the
folder, or one above it, has no effect then. Elsewhere (Windows) it holds a path, and checks for links before and after
each opening: a link that exists only between the two checks is followed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from enum import Enum
from typing import Any, NamedTuple

HAS_DIR_FD = {os.open, os.stat, os.mkdir, os.unlink, os.rmdir, os.rename, os.readlink} <= os.supports_dir_fd and (
    os.scandir in os.supports_fd and hasattr(os, "O_NOFOLLOW")
)
"""True if this system can open names relative to an open folder."""

# opening a pipe must not wait for its other end, and a terminal must not become the controlling one
_FLAGS = (
    getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
) | getattr(os, "O_NOFOLLOW", 0)
_FOLDER = getattr(os, "O_DIRECTORY", 0)


class FileKind(Enum):
    """The kind of a directory entry."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"

    @classmethod
    def of(cls, mode: int) -> FileKind:
        """The kind for an `st_mode`."""
        if stat.S_ISREG(mode):
            return cls.FILE
        if stat.S_ISDIR(mode):
            return cls.FOLDER
        return cls.LINK if stat.S_ISLNK(mode) else cls.OTHER


class DirEntry(NamedTuple):
    """A name in a folder, at the time when the folder was read."""

    name: str
    kind: FileKind
    size: int
    modified: float


class Folder:
    """An open folder; close it. `path` is its path at the time of opening."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, descriptor: int | None) -> None:
        self.path: str = path
        self._descriptor = descriptor

    @classmethod
    def open(cls, path: str, *, dir_fd: bool = HAS_DIR_FD) -> Folder:
        """Open a folder by a trusted path, whose last name must not be a link."""
        if dir_fd:
            return cls(path, os.open(path, os.O_RDONLY | _FLAGS | _FOLDER))
        _check_no_links(path)
        return cls(path, None)

    @property
    def descriptor(self) -> int | None:
        """The descriptor; None where a path stands for it, and once closed."""
        return self._descriptor

    def identity(self) -> tuple[int, int]:
        """The device and inode, which no other existing folder has."""
        found = os.stat(self.path if self._descriptor is None else self._descriptor)
        return found.st_dev, found.st_ino

    def stat(self, name: str) -> os.stat_result:
        """The status of a name; links are not followed."""
        return os.stat(self._at(name), follow_symlinks=False, **self._dir_fd())

    def open_folder(self, name: str) -> Folder:
        """Open the folder of this name; `OSError` for a link."""
        path = os.path.join(self.path, name)
        if self._descriptor is None:
            if not stat.S_ISDIR(os.stat(path, follow_symlinks=False).st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            _check_no_links(path)
            return Folder(path, None)
        return Folder(path, os.open(name, os.O_RDONLY | _FLAGS | _FOLDER, dir_fd=self._descriptor))

    def open_file(self, name: str, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
        """Open the file of this name; gives a descriptor that the caller closes. `OSError` for a link."""
        if self._descriptor is not None:
            return os.open(name, flags | _FLAGS, mode, dir_fd=self._descriptor)
        path = self._at(name)
        if not flags & os.O_CREAT:
            _check_no_links(path)
        descriptor = os.open(path, flags | _FLAGS, mode)
        try:
            _check_no_links(path)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def readlink(self, name: str) -> str:
        """The target of a link."""
        return os.readlink(self._at(name), **self._dir_fd())

    def mkdir(self, name: str) -> None:
        """Make a folder; `FileExistsError` if the name exists."""
        os.mkdir(self._at(name), **self._dir_fd())

    def unlink(self, name: str) -> None:
        """Remove a file, or a link but not its target."""
        os.unlink(self._at(name), **self._dir_fd())

    def rmdir(self, name: str) -> None:
        """Remove an empty folder."""
        os.rmdir(self._at(name), **self._dir_fd())

    def rename(self, name: str, target: Folder, new: str) -> None:
        """Rename, replacing an existing file; links are not followed."""
        if self._descriptor is None:
            _check_no_links(self.path)
            _check_no_links(target.path)
            os.replace(self._at(name), target._at(new))
        else:
            os.replace(name, new, src_dir_fd=self._descriptor, dst_dir_fd=target._descriptor)

    def list(self) -> list[DirEntry]:
        """All entries, sorted by name."""
        with os.scandir(self.path if self._descriptor is None else self._descriptor) as entries:
            return sorted(each for each in map(_found, entries) if each is not None)

    @contextmanager
    def as_path(self) -> Generator[str]:
        """A path for a child process to start in, valid within the context; on Linux it names this very folder."""
        link = f"/proc/self/fd/{self._descriptor}"
        yield link if self._descriptor is not None and os.path.exists(link) else self.path

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _at(self, name: str) -> str:
        return name if self._descriptor is not None else os.path.join(self.path, name)

    def _dir_fd(self) -> dict[str, Any]:
        return {} if self._descriptor is None else {"dir_fd": self._descriptor}


def _found(entry: os.DirEntry[str]) -> DirEntry | None:
    try:
        seen = entry.stat(follow_symlinks=False)
    except OSError:
        # removed since the folder was read
        return None
    return DirEntry(entry.name, FileKind.of(seen.st_mode), seen.st_size, seen.st_mtime)


def _check_no_links(path: str) -> None:
    """`OSError` if a part of an existing path is a link or a junction."""
    if os.path.realpath(path) != path:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
