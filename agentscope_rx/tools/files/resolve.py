"""`locate`: from the root to the last name of a path, one open folder at a time; `Place`: that name in its folder."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO

from agentscope_rx.errors import WorkspaceError
from agentscope_rx.tools.files.dirfd import FileKind, Folder
from agentscope_rx.tools.files.paths import shown

MAX_LINKS = 40


def refusal(path: str, reason: str, why: str) -> WorkspaceError:
    """The error for a path; `why` completes the sentence that it begins."""
    return WorkspaceError(f"{shown(path)} {why}.", path=path, reason=reason)


@dataclass(frozen=True, slots=True)
class Place:
    """A name in an open folder; the name is empty for the root itself. `parts` lead there without any link."""

    path: str
    folder: Folder
    name: str
    parts: tuple[str, ...]

    def look(self) -> os.stat_result | None:
        """What is there, if anything."""
        try:
            return self.folder.look(self.name or ".")
        except FileNotFoundError:
            return None

    def look_kind(self) -> FileKind | None:
        """The kind of what is there, if anything."""
        seen = self.look()
        return None if seen is None else FileKind.of(seen.st_mode)

    def kind(self) -> FileKind:
        """A file or a folder; `WorkspaceError` for anything else."""
        with explained(self.path):
            seen = self.folder.look(self.name or ".")
        kind = FileKind.of(seen.st_mode)
        if kind is FileKind.LINK:
            raise link_refusal(self.path, "/".join(self.parts))
        if kind is FileKind.OTHER:
            raise refusal(self.path, "special", "is neither a file nor a folder")
        return kind

    def read(self, limit: int) -> tuple[bytes, os.stat_result]:
        """The bytes of the file, and what it was when they were read; `WorkspaceError` if more than `limit`."""
        with self._open() as file:
            seen = os.fstat(file.fileno())
            with explained(self.path):
                data = file.read(limit + 1) if seen.st_size <= limit else b""
        if seen.st_size > limit or len(data) > limit:
            size = max(seen.st_size, len(data))
            raise refusal(self.path, "too_large", f"is too large: {size:,} bytes, and at most {limit:,} bytes are read")
        return data, seen

    def head(self, size: int) -> bytes:
        """The first bytes of the file."""
        with self._open() as file, explained(self.path):
            return file.read(size)

    @contextmanager
    def _open(self) -> Generator[BinaryIO]:
        if self.kind() is FileKind.FOLDER:
            raise refusal(self.path, "folder", "is a folder, not a file. List it instead")
        with explained(self.path):
            descriptor = self.folder.file(self.name)
        with os.fdopen(descriptor, "rb") as file:
            # once more, of what is open now: it may have been replaced since it was looked at
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise refusal(self.path, "special", "is neither a file nor a folder")
            yield file

    @contextmanager
    def open_folder(self) -> Generator[Folder]:
        """The folder that is there, open."""
        if not self.name:
            yield self.folder
            return
        if self.kind() is FileKind.FILE:
            raise refusal(self.path, "file", "is a file, not a folder. Read it with read_file")
        with explained(self.path):
            folder = self.folder.folder(self.name)
        with folder:
            yield folder


def locate(
    path: str, parts: tuple[str, ...], open_root: Callable[[], Folder], *, follow: bool, make: bool, root: str
) -> Place:
    """Where the parts lead; the folder of the place is open, and whoever asked closes it."""
    pending, done, links = list(reversed(parts)), list[str](), 0
    folder = open_root()
    try:
        while pending:
            name = pending.pop()
            if name == "..":
                # a link's own: up from where it led, and never above the root
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
                target = folder.link_target(name)
                if os.path.isabs(target):
                    folder = _reopened(folder, open_root, done := [])
                pending += reversed(_link_parts(path, target, root))
                continue
            if not pending:
                return Place(path, folder, name, (*done, name))
            if kind is FileKind.OTHER:
                raise refusal(path, "special", f"cannot be opened: {shown('/'.join([*done, name]))} is no folder")
            folder = _down(folder, name, make and kind is None)
            done.append(name)
        return Place(path, folder, "", tuple(done))
    except BaseException:
        folder.close()
        raise


@contextmanager
def explained(path: str) -> Generator[None]:
    """Says what an `OSError` of the system means for this path."""
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
            raise refusal(path, "folder", "is a folder with something in it. Delete that first") from None
        raise refusal(path, "system", f"cannot be opened: {error.strerror or error}") from None
    except ValueError as error:
        raise refusal(path, "name", f"cannot be opened: {error}") from None


def link_refusal(path: str, part: str) -> WorkspaceError:
    """The error for a link that is not followed."""
    text = f"{shown(part)} is a symbolic link. Links are not followed; give the path of the file itself."
    return WorkspaceError(text, path=path, reason="link")


def _kind(folder: Folder, name: str) -> FileKind | None:
    try:
        return FileKind.of(folder.look(name).st_mode)
    except FileNotFoundError:
        return None


def _down(folder: Folder, name: str, make: bool) -> Folder:
    if make:
        # (if somebody else was faster, what they made is opened, or refused, like anything that was there)
        with suppress(FileExistsError):
            folder.make(name)
    below = folder.folder(name)
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
