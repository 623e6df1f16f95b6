"""A folder that no path leads out of: each is walked part by part from the folder itself, and no link is followed.

| path                                   | answer                                              |
|----------------------------------------|-----------------------------------------------------|
| `docs/index.md`, `./docs//index.md`    | the file                                            |
| `/etc/passwd`, `../x`, `docs/../x`     | denied as it stands, before anything is looked at   |
| a link, or anything behind one         | denied, wherever it leads                           |
| a pipe, a socket, a device             | denied                                              |

Every part is opened relative to the one before it and with O_NOFOLLOW, so a link that is put in place meanwhile is
refused by the system itself. A denial is a `ToolError` that says why.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from agentscope_rx.errors import ToolError

SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})
"""What is left out of listings and searches, beside everything hidden (`.git`, `.venv`, `.env`, ...)."""

_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_BY_PARTS = os.open in os.supports_dir_fd and os.stat in os.supports_dir_fd and os.scandir in os.supports_fd


class Kind(Enum):
    """What a name in a folder stands for."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"


class Entry(NamedTuple):
    """A name in a folder; `path` is relative to the workspace."""

    name: str
    path: str
    kind: Kind


class Workspace:
    """The folder `root`, as it is called now: a link that leads to it is followed, once, here."""

    def __init__(self, root: str | os.PathLike[str] = ".") -> None:
        self.root = Path(os.path.realpath(root))

    def kind(self, path: str) -> Kind:
        """Whether there is a file or a folder at this path; `ToolError` if there is neither."""
        with self._open(path) as descriptor:
            return _kind(os.fstat(descriptor).st_mode)

    def read(self, path: str, limit: int) -> bytes:
        """The bytes of a file; `ToolError` if they are more than `limit`."""
        with self._open(path) as descriptor:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise ToolError(f"{shown(path)} is a folder, not a file. List it with list_files.")
            if found.st_size <= limit:
                with os.fdopen(descriptor, "rb", closefd=False) as file:
                    data = file.read(limit + 1)
                if len(data) <= limit:
                    return data
            raise ToolError(
                f"{shown(path)} is too large: {found.st_size:,} bytes, and at most {limit:,} bytes are read."
            )

    def entries(self, path: str) -> list[Entry]:
        """What is in a folder, by name, without what is hidden or in `SKIPPED`."""
        folder = "/".join(_parts(path))
        with self._open(path) as descriptor:
            if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise ToolError(f"{shown(path)} is a file, not a folder. Read it with read_file.")
            with os.scandir(descriptor if _BY_PARTS else self.root / folder) as found:
                names = [(each.name, _kind(each.stat(follow_symlinks=False).st_mode)) for each in found]
        return [
            Entry(name, f"{folder}/{name}" if folder else name, kind)
            for name, kind in sorted(names)
            if not name.startswith(".") and name not in SKIPPED
        ]

    @contextmanager
    def _open(self, path: str) -> Generator[int]:
        parts = _parts(path)
        try:
            descriptor = self._walk(parts) if _BY_PARTS else self._resolve(parts)
        except _LinkError as error:
            raise ToolError(f"{shown(str(error))} is a symbolic link. Links are not followed.") from None
        except FileNotFoundError:
            raise ToolError(f"There is no file or folder {shown(path)}. List what there is with list_files.") from None
        except NotADirectoryError:
            raise ToolError(f"There is no {shown(path)}: a part of it is a file, not a folder.") from None
        except PermissionError:
            raise ToolError(f"{shown(path)} may not be read: permission denied.") from None
        except (OSError, ValueError) as error:
            raise ToolError(f"{shown(path)} cannot be opened: {getattr(error, 'strerror', None) or error}.") from None
        try:
            if _kind(os.fstat(descriptor).st_mode) is Kind.OTHER:
                raise ToolError(f"{shown(path)} is neither a file nor a folder.")
            yield descriptor
        finally:
            os.close(descriptor)

    def _walk(self, parts: list[str]) -> int:
        """Open part by part; the system refuses links."""
        descriptor = os.open(self.root, _FLAGS | _NO_LINK | os.O_DIRECTORY)
        for n, part in enumerate(parts):
            try:
                descriptor, above = self._step(descriptor, part, "/".join(parts[: n + 1])), descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(above)
        return descriptor

    def _step(self, folder: int, part: str, path: str) -> int:
        # looked at before it is opened: opening a device or a pipe can do something
        mode = os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            raise _LinkError(path)
        if _kind(mode) is Kind.OTHER:
            raise ToolError(f"{shown(path)} is neither a file nor a folder.")
        return os.open(part, _FLAGS | _NO_LINK, dir_fd=folder)

    def _resolve(self, parts: list[str]) -> int:
        """For systems that cannot open by parts: no part is a link, and nor is it afterwards."""
        path = self.root.joinpath(*parts)
        self._refuse_links(parts)
        descriptor = os.open(path, _FLAGS | _NO_LINK)
        try:
            self._refuse_links(parts)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _refuse_links(self, parts: list[str]) -> None:
        for n in range(len(parts)):
            path = self.root.joinpath(*parts[: n + 1])
            mode = os.stat(path, follow_symlinks=False).st_mode
            # a junction is the other way in which a folder can be elsewhere
            if stat.S_ISLNK(mode) or os.path.realpath(path) != str(path):
                raise _LinkError("/".join(parts[: n + 1]))
            if _kind(mode) is Kind.OTHER:
                raise ToolError(f"{shown('/'.join(parts))} is neither a file nor a folder.")


class _LinkError(Exception):
    """A part of the path is a link."""


def shown(path: str) -> str:
    """A path in a message to the model."""
    return repr(path if len(path) <= 120 else f"{path[:117]}...")


def _parts(path: str) -> list[str]:
    """The parts of a path below the workspace; refuses what names a place elsewhere."""
    if os.path.isabs(path) or path.startswith(("/", "\\")) or os.path.splitdrive(path)[0]:
        raise ToolError(f"{shown(path)} is an absolute path. Give a path inside the working directory, such as 'docs'.")
    parts = [part for part in path.strip().replace(os.sep, "/").split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ToolError(f"{shown(path)} has '..' in it. Nothing outside the working directory can be read.")
    return parts


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return Kind.FILE
    if stat.S_ISDIR(mode):
        return Kind.FOLDER
    return Kind.LINK if stat.S_ISLNK(mode) else Kind.OTHER
