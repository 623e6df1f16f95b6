"""Reads local files up to a size limit; the checks are made on the opened file.

    read_file(path)                   any regular file
    read_file(path, root="/data")     only a file below the folder

The reported size is not trusted, because an endless device reports 0 and a file may grow while it is read. A path is
not trusted either, because it can be replaced between a check and the opening.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from agentscope_rx.errors import ConfigurationError, InvalidInputError

MAX_FILE_BYTES = 50 * 1024 * 1024
"""The largest file that is read."""

_PIECE = 1024 * 1024
# opening must not wait for the other end of a pipe, be inherited, or take a controlling terminal
_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "O_BINARY"))
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = getattr(os, "O_DIRECTORY", 0)
_BY_PARTS = os.open in os.supports_dir_fd and _NO_LINK != 0


def read_file(path: str | os.PathLike[str], limit: int = MAX_FILE_BYTES, root: str | None = None) -> bytes:
    """The bytes of a regular file; blocks. `InvalidInputError` for anything else, and for more than `limit` bytes."""
    try:
        descriptor = open_file(path, limit, root)
        try:
            return _read(path, descriptor, limit)
        finally:
            os.close(descriptor)
    except InvalidInputError:
        raise
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"The file {path} cannot be read: {error}") from error


def open_file(path: str | os.PathLike[str], limit: int, root: str | None = None) -> int:
    """The descriptor of a regular file of at most `limit` bytes now; `InvalidInputError` for others, `OSError`."""
    if root is None:
        # checked before opening, too, because opening a device can have effects
        _check_regular(path, os.stat(path), limit)
        descriptor = os.open(path, _FLAGS)
    else:
        descriptor = _open_beneath(root, os.fspath(path), limit)
    try:
        _check_regular(path, os.fstat(descriptor), limit)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def resolved_beneath(root: str, path: str) -> str:
    """An absolute path with its links resolved; `InvalidInputError` if it is not below the folder."""
    base = os.path.realpath(root)
    # the text of the path first: resolving a link elsewhere can mount a network file system or send credentials
    if any(_starts(folder, os.path.normpath(path)) for folder in {root, base}):
        resolved = os.path.realpath(path)
        if _starts(base, resolved):
            return resolved
    raise InvalidInputError(f"{path[:200]!r} leads out of the folder that files may be read from.")


def checked_root(root: str | os.PathLike[str] | None) -> str | None:
    """The folder as an absolute path; `ConfigurationError` if it does not exist."""
    if root is None:
        return None
    if not isinstance(root, (str, os.PathLike)) or not os.path.isdir(root):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"file_root is the path of a folder that exists; {str(root)!r:.200} is none.")
    return str(Path(root).absolute())


def _starts(folder: str, path: str) -> bool:
    folder, path = os.path.normcase(folder), os.path.normcase(path)
    return path != folder and path.startswith(folder if folder.endswith(os.sep) else folder + os.sep)


def _check_regular(path: object, seen: os.stat_result, limit: int) -> None:
    if not stat.S_ISREG(seen.st_mode):
        raise InvalidInputError(
            f"{path} is not a regular file (a folder, a pipe, a device, ...): only regular files are read."
        )
    if seen.st_size > limit:
        raise InvalidInputError(f"The file {path} has {seen.st_size:,} bytes; at most {limit:,} are read.")


def _read(path: object, descriptor: int, limit: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    # one byte more than the limit shows that a file has grown or is endless
    while piece := os.read(descriptor, min(_PIECE, limit + 1 - size)):
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise InvalidInputError(f"The file {path} has more than {limit:,} bytes, and goes on; that many are read.")
    return b"".join(pieces)


def _open_beneath(root: str, path: str, limit: int) -> int:
    """A descriptor of a file below the folder; no part of the path that is replaced meanwhile is followed."""
    resolved = resolved_beneath(root, path)
    if not _BY_PARTS:
        return _open_and_compare(root, path, resolved)
    base = os.path.realpath(root)
    *folders, name = os.path.relpath(resolved, base).split(os.sep)
    if os.pardir in (*folders, name):
        # the root itself was replaced since it was resolved
        raise InvalidInputError(f"{path} was replaced while it was opened.")
    within = os.open(base, _FLAGS | _FOLDER)
    try:
        for folder in folders:
            below = os.open(folder, _FLAGS | _FOLDER | _NO_LINK, dir_fd=within)
            os.close(within)
            within = below
        _check_regular(path, os.stat(name, dir_fd=within, follow_symlinks=False), limit)
        return os.open(name, _FLAGS | _NO_LINK, dir_fd=within)
    finally:
        os.close(within)


def _open_and_compare(root: str, path: str, resolved: str) -> int:
    """The same for systems that cannot open relative to a folder; a race with several changes is not detected."""
    descriptor = os.open(resolved, _FLAGS)
    try:
        if os.path.samestat(os.stat(resolved_beneath(root, path)), os.fstat(descriptor)):
            return descriptor
        raise InvalidInputError(f"{path} was replaced while it was opened.")
    except BaseException:
        os.close(descriptor)
        raise
