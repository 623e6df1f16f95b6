"""`resolve`: follows a path from the root by open folders. `ResolvedPath`: its last name, in an open folder."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from agentscope_rx.errors import WorkspaceError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.tools.files.dirfd import FileKind, Folder
from agentscope_rx.tools.files.paths import shown

MAX_LINKS = 40


def refusal(path: str, reason: str, why: str) -> WorkspaceError:
    """The error for a path; `why` completes the sentence that begins with it."""
    return WorkspaceError(f"{shown(path)} {why}.", path=path, reason=reason)


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """A name in an open folder; empty for the root itself. `parts` is the path without links."""

    path: str
    folder: Folder
    name: str
    parts: tuple[str, ...]

    def stat(self) -> os.stat_result | None:
        """The status of the name, or None if it does not exist."""
        try:
            return self.folder.stat(self.name or ".")
        except FileNotFoundError:
            return None

    def kind_or_none(self) -> FileKind | None:
        """The kind of the name, or None if it does not exist."""
        status = self.stat()
        return None if status is None else FileKind.of(status.st_mode)

    def kind(self) -> FileKind:
        """File or folder; `WorkspaceError` for anything else."""
        with translated_errors(self.path):
            status = self.folder.stat(self.name or ".")
        kind = FileKind.of(status.st_mode)
        if kind is FileKind.LINK:
            raise link_refusal(self.path, "/".join(self.parts))
        if kind is FileKind.OTHER:
            raise refusal(self.path, "special", "is neither a file nor a folder")
        return kind

    def read(self, limit: int) -> tuple[bytes, os.stat_result]:
        """The bytes of the file, and its status before reading; `WorkspaceError` if there are more than `limit`."""
        with self._open() as file:
            status = os.fstat(file.fileno())
            with translated_errors(self.path):
                data = file.read(limit + 1) if status.st_size <= limit else b""
        if status.st_size > limit or len(data) > limit:
            size = max(status.st_size, len(data))
            raise refusal(self.path, "too_large", f"is too large: {size:,} bytes, and at most {limit:,} bytes are read")
        return data, status

    def head(self, size: int) -> bytes:
        """The first bytes of the file."""
        with self._open() as file, translated_errors(self.path):
            return file.read(size)

    @contextmanager
    def _open(self) -> Generator[BinaryIO]:
        if self.kind() is FileKind.FOLDER:
            raise refusal(self.path, "folder", "is a folder, not a file. List it instead")
        with translated_errors(self.path):
            descriptor = self.folder.open_file(self.name)
        with os.fdopen(descriptor, "rb") as file:
            # check the open file again: the name may have been replaced since the first check
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise refusal(self.path, "special", "is neither a file nor a folder")
            yield file

    @contextmanager
    def open_folder(self) -> Generator[Folder]:
        """Open the folder of this name."""
        if not self.name:
            yield self.folder
            return
        if self.kind() is FileKind.FILE:
            raise refusal(self.path, "file", "is a file, not a folder. Read it with read_file")
        with translated_errors(self.path):
            folder = self.folder.open_folder(self.name)
        with folder:
            yield folder


def resolve(
    path: str, parts: tuple[str, ...], open_root: Callable[[], Folder], *, follow: bool, make: bool, root: str
) -> ResolvedPath:
    """Resolve the parts. The caller closes the folder of the result."""
    pending, done, links = list(reversed(parts)), list[str](), 0
    folder = open_root()
    try:
        while pending:
            name = pending.pop()
            if name == "..":
                # only links contain "..": it is relative to the link's target, and never leads above the root
                if not done:
                    raise refusal(path, "link", "is behind a symbolic link that leads out of the working directory")
                done.pop()
                folder = _reopened(folder, open_root, done)
                continue
            kind = _kind(folder, name)
            if kind is FileKind.LINK:
                links += 1
                if not follow:
                    raise link_refusal(path, "/".join([*done, name]))
                if links > MAX_LINKS:
                    raise refusal(path, "link", "is behind symbolic links that lead in a circle")
                target = folder.readlink(name)
                if os.path.isabs(target):
                    folder = _reopened(folder, open_root, done := [])
                pending += reversed(_link_parts(path, target, root))
                continue
            if not pending:
                return ResolvedPath(path, folder, name, (*done, name))
            if kind is FileKind.OTHER:
                raise refusal(path, "special", f"cannot be opened: {shown('/'.join([*done, name]))} is no folder")
            folder = _down(folder, name, make and kind is None)
            done.append(name)
        return ResolvedPath(path, folder, "", tuple(done))
    except BaseException:
        folder.close()
        raise


@contextmanager
def translated_errors(path: str) -> Generator[None]:
    """Turn an `OSError` for this path into a `WorkspaceError`."""
    try:
        yield
    except FileNotFoundError:
        text = "List what there is first"
        raise WorkspaceError(
            f"There is no file or folder {shown(path)}. {text}.", path=path, reason="missing"
        ) from None
    except NotADirectoryError:
        raise WorkspaceError(
            f"There is no {shown(path)}: a part of it is a file, not a folder.", path=path, reason="missing"
        ) from None
    except PermissionError:
        raise refusal(path, "permission", "may not be opened: permission denied") from None
    except FileExistsError:
        raise refusal(path, "exists", "exists already") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise link_refusal(path, path) from None
        if error.errno == errno.ENOTEMPTY:
            raise refusal(path, "folder", "is not empty. Delete its contents first") from None
        raise refusal(path, "system", f"cannot be opened: {error.strerror or error}") from None
    except ValueError as error:
        raise refusal(path, "name", f"cannot be opened: {error}") from None


def link_refusal(path: str, part: str) -> WorkspaceError:
    """The error for a link, which is not followed."""
    text = f"{shown(part)} is a symbolic link. Links are not followed; give the path of the file itself."
    return WorkspaceError(text, path=path, reason="link")


def _kind(folder: Folder, name: str) -> FileKind | None:
    try:
        return FileKind.of(folder.stat(name).st_mode)
    except FileNotFoundError:
        return None


def _down(folder: Folder, name: str, make: bool) -> Folder:
    if make:
        # a name that another process makes first is opened, or refused, like any existing one
        with suppress(FileExistsError):
            folder.mkdir(name)
    below = folder.open_folder(name)
    folder.close()
    return below


def _reopened(folder: Folder, open_root: Callable[[], Folder], parts: list[str]) -> Folder:
    folder.close()
    found = open_root()
    try:
        for part in parts:
            found = _down(found, part, False)
    except BaseException:
        found.close()
        raise
    return found


def _link_parts(path: str, target: str, root: str) -> list[str]:
    if os.path.isabs(target):
        if target != root and not target.startswith(root.rstrip(os.sep) + os.sep):
            raise refusal(path, "link", "is behind a symbolic link that leads out of the working directory")
        target = target[len(root.rstrip(os.sep)) :]
    return [part for part in target.replace(os.sep, "/").split("/") if part not in ("", ".")]
