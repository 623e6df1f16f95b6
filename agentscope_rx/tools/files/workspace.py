"""`Workspace`: a folder that no path leads out of. Only here a model's path becomes an open file.

| path                                   | answer                                                                |
|----------------------------------------|-----------------------------------------------------------------------|
| `docs/index.md`, `./docs//index.md`    | the file                                                              |
| `/etc/passwd`, `../x`, `~/x`, `NUL`    | refused by its text, before any file is accessed (see `paths`)        |
| a link, or a path through one          | refused, wherever it leads; followed inside with `follow_symlinks`    |
| a pipe, a socket, a device             | refused, and not opened: that can block, or have effects              |
| a match of a `deny` pattern            | refused, with everything below it                                     |

Every part is opened relative to the one before it (see `dirfd`), so that a link put there meanwhile is not followed.
A file is written under a temporary name, then renamed, and so appears whole or not at all. Refusals are
`WorkspaceError`s.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from weakref import WeakValueDictionary

from agentscope_rx.errors import ConfigurationError, WorkspaceError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.reactive.kernel.forking import new_lock
from agentscope_rx.tools.files.dirfd import HAS_DIR_FD, FileKind, Folder
from agentscope_rx.tools.files.encoding import SAMPLE
from agentscope_rx.tools.files.globs import DenyList
from agentscope_rx.tools.files.paths import folded, parts_of, shown
from agentscope_rx.tools.files.resolve import ResolvedPath, refusal, resolve, translated_errors

MIB = 1024 * 1024
OWN_FOLDER = ".agentscope"
"""The library's own folder in a workspace: permissions, which no model may change."""
DENIED = (".git", ".ssh", ".env", ".env.*", OWN_FOLDER)
"""Denied by default: files that other programs run (git's hooks and settings), keys, and the library's own folder."""
SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})
"""Folders that listings and searches leave out, beside hidden ones."""


class _FileLock:
    """The lock of one file; it is dropped when no thread holds it or waits for it."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = new_lock()


_locks: WeakValueDictionary[object, _FileLock] = WeakValueDictionary()
_locks_guard = new_lock()


@dataclass(frozen=True, slots=True)
class FileEntry:
    """An entry of a folder: `path` in the workspace, `size` in bytes, `modified` in seconds since the epoch."""

    name: str
    path: str
    kind: FileKind
    size: int = 0
    modified: float = 0.0


class Workspace:
    r"""A folder that no path leads out of. `root` may be a link, which is followed once, when the workspace is made.

    `max_read` and `max_write` bound one file, `max_total` all writes through this object together, in bytes.
    `hidden=True` includes names that begin with a dot in listings and searches. `deny` lists patterns of denied paths,
    with everything below them; one without a slash holds at any depth. It replaces `DENIED`: begin a list of your own
    with `*DENIED`. `follow_symlinks=True` follows links that stay inside. `portable=False` allows names that are
    special on other operating systems only. `skip` are names of folders that listings and searches leave out, such as
    `node_modules`.

    | path | effect |
    |---|---|
    | `..`, absolute paths, `~`, drive letters, `\`, NUL, control characters | refused by its text |
    | device names, streams, short names and trailing dots of Windows | refused on every system, if `portable` |
    | a link, or a path through one | not followed: each part is opened relative to the one before |
    | the root, replaced by a link or another folder | detected; nothing is done |
    | pipes, sockets, devices | refused, and never waited for |
    | `.GIT`, `.ｇｉｔ`, `.g<zero width>it` for `.git` | denied alike |

    Not protected: hard links to files outside, and mounts within the root, which are part of the folder; on Windows,
    which has no `openat`, a link that is swapped in between check and use; text that a model writes into files that
    other programs execute (`conftest.py`, `Makefile`).
    """

    def __init__(
        self,
        root: str | os.PathLike[str] = ".",
        *,
        max_read: int = 4 * MIB,
        max_write: int = 4 * MIB,
        max_total: int = 256 * MIB,
        follow_symlinks: bool = False,
        hidden: bool = False,
        deny: Iterable[str] = DENIED,
        skip: Iterable[str] = SKIPPED,
        portable: bool = True,
    ) -> None:
        if not isinstance(root, (str, os.PathLike)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"Workspace takes the path of a folder, not {root!r:.60}.")
        self.root: Path = Path(os.path.realpath(root))
        for name, limit in (("max_read", max_read), ("max_write", max_write), ("max_total", max_total)):
            if type(limit) is not int or limit < 1:
                raise ConfigurationError(f"{name} is in bytes, a whole number of at least 1, not {limit!r}.")
        if not self.root.is_dir():
            raise ConfigurationError(f"The workspace {str(root)!r:.200} is not an existing folder. Create it first.")
        if isinstance(deny, str):
            raise ConfigurationError(f"deny takes a list of patterns, as in deny=[{deny!r}].")
        deny = tuple(deny)
        if strange := [each for each in deny if not isinstance(each, str)]:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"deny takes patterns, which are text, not {strange[0]!r:.60}.")
        self.max_read = max_read
        self.max_write = max_write
        self.max_total = max_total
        self.follow_symlinks = follow_symlinks
        self.hidden = hidden
        self.deny: DenyList = DenyList(deny)
        self._skip = frozenset(skip)
        self._portable = portable
        self._written = 0
        self._quota = new_lock()
        with Folder.open(str(self.root), dir_fd=HAS_DIR_FD) as folder:
            self._identity = folder.identity()

    def __repr__(self) -> str:
        return f"<Workspace {str(self.root)!r}>"

    @property
    def written(self) -> int:
        """The number of bytes written through this object."""
        return self._written

    def parts(self, path: str) -> tuple[str, ...]:
        """The names in a path; `WorkspaceError` for a path that leads out of the workspace."""
        return parts_of(path, portable=self._portable, root=str(self.root))

    # --- reading --------------------------------------------------------------------------------------------------

    def kind(self, path: str) -> FileKind:
        """The kind of the path, a file or a folder; `WorkspaceError` if it is neither."""
        with self.resolve(path) as resolved:
            return resolved.kind()

    def exists(self, path: str) -> bool:
        """True if there is a file or folder; `WorkspaceError` if it is neither, or the path is denied."""
        try:
            self.kind(path)
        except WorkspaceError as error:
            if error.reason == "missing":
                return False
            raise
        return True

    def read(self, path: str, limit: int | None = None) -> bytes:
        """The bytes of a file; `WorkspaceError` if there are more than `limit` (by default `max_read`)."""
        with self.resolve(path) as resolved:
            return resolved.read(self.max_read if limit is None else limit)[0]

    def entries(self, path: str = ".") -> list[FileEntry]:
        """The entries of a folder by name, without hidden, skipped or denied ones."""
        with self.resolve(path) as resolved, resolved.open_folder() as folder:
            # paths as the caller gave them, also through a link: these work in further calls
            above = self.parts(path)
            found = folder.list()
        denied = self.deny.below(above)
        return [
            FileEntry(each.name, "/".join([*above, each.name]), each.kind, each.size, each.modified)
            for each in found
            if self.is_listed(each.name) and not denied(each.name)
        ]

    def walk(self, path: str = ".", *, stop: Callable[[], bool] | None = None) -> Iterator[FileEntry]:
        """The files at or below a path, folder by folder, by name. Links and unreadable folders are left out.

        `stop` is called before each folder below is read; True ends the walk.
        """
        if self.kind(path) is FileKind.FILE:
            parts = self.parts(path)
            yield FileEntry(parts[-1], "/".join(parts), FileKind.FILE)
            return
        pending = list(reversed(self.entries(path)))
        while pending:
            entry = pending.pop()
            if entry.kind is FileKind.FILE:
                yield entry
            elif entry.kind is FileKind.FOLDER:
                if stop is not None and stop():
                    return
                with suppress(WorkspaceError):
                    pending += reversed(self.entries(entry.path))

    @contextmanager
    def folder(self, path: str = ".") -> Generator[Folder]:
        """Open a folder of the workspace."""
        with self.resolve(path) as resolved, resolved.open_folder() as folder:
            yield folder

    # --- writing --------------------------------------------------------------------------------------------------

    def write(self, path: str, data: bytes | Callable[[bytes | None], bytes]) -> bool:
        """Create or overwrite a file, with the folders above it; True if it is new.

        `data` may be a function that gets the first `SAMPLE` bytes of the existing file, or None, and returns the new
        bytes.
        """
        with self.resolve(path, make=True) as resolved, self._locked(resolved):
            before = resolved.stat()
            if not isinstance(data, bytes):
                data = data(resolved.head(SAMPLE) if before is not None and stat.S_ISREG(before.st_mode) else None)
            return self._put(resolved, data, before)

    def update(self, path: str, change: Callable[[bytes], bytes]) -> None:
        """Replace the bytes of a file by `change(bytes)`, under a lock for this process.

        If another process writes to the file meanwhile, it is left unchanged, and the error says to read it again.
        """
        with self.resolve(path) as resolved, self._locked(resolved):
            data, before = resolved.read(self.max_read)
            changed = change(data)
            if changed != data:
                self._put(resolved, changed, before)

    def delete(self, path: str) -> None:
        """Remove a file or an empty folder."""
        with self.resolve(path) as resolved, self._locked(resolved), translated_errors(path):
            if not resolved.name:
                raise refusal(path, "folder", "is the working directory itself and cannot be deleted")
            self._refuse_git_folder(resolved)
            if resolved.kind() is FileKind.FOLDER:
                resolved.folder.rmdir(resolved.name)
            else:
                resolved.folder.unlink(resolved.name)

    def move(self, path: str, target: str) -> None:
        """Rename a file or folder, never over an existing one."""
        with (
            self.resolve(path) as old,
            self.resolve(target, make=True) as new,
            self._locked(old, new),
            translated_errors(path),
        ):
            if not old.name or not new.name:
                raise refusal(path, "folder", "cannot be moved: it is the working directory itself")
            old.kind()
            self._refuse_git_folder(old)
            self._refuse_git_folder(new)
            if new.stat() is not None:
                raise refusal(target, "exists", "exists already. Give another target, or delete it first")
            if new.parts[: len(old.parts)] == old.parts:
                raise refusal(target, "parent", f"is inside {shown(path)}: a folder cannot be moved into itself")
            if old.kind_or_none() is FileKind.FOLDER and self.deny.patterns:
                self._all_allowed(path, new.parts)
            old.folder.rename(old.name, new.folder, new.name)

    # --- paths ----------------------------------------------------------------------------------------------------

    @contextmanager
    def resolve(self, path: str, *, make: bool = False) -> Generator[ResolvedPath]:
        """Resolve a path, with its folder open; `make` creates the folders above it."""
        parts = self.parts(path)
        self._refuse_denied(path, parts)
        with translated_errors(path):
            resolved = resolve(
                path, parts, self._open_root, follow=self.follow_symlinks, make=make, root=str(self.root)
            )
        with resolved.folder:
            if resolved.parts != parts:
                self._refuse_denied(path, resolved.parts)
            yield resolved

    def _open_root(self) -> Folder:
        folder = Folder.open(str(self.root), dir_fd=HAS_DIR_FD)
        if folder.identity() != self._identity:
            folder.close()
            raise WorkspaceError(
                "The working directory has been replaced by another folder since the start. Stop using these tools.",
                path=".",
                reason="replaced",
            )
        return folder

    def _refuse_denied(self, path: str, parts: tuple[str, ...]) -> None:
        if pattern := self.deny.denies(parts):
            raise refusal(path, "denied", f"is out of bounds here (rule {pattern!r}). Do not use it")

    def _refuse_git_folder(self, resolved: ResolvedPath) -> None:
        """Refuse writes in a git folder of any name: its files name programs that git runs.

        `.git` is denied by its name. `git init --separate-git-dir`, submodules and worktrees use other names.
        """
        for depth in range(len(resolved.parts)):
            folder = self.root.joinpath(*resolved.parts[:depth])
            if (folder / "HEAD").is_file() and (
                ((folder / "objects").is_dir() and (folder / "refs").is_dir()) or (folder / "commondir").is_file()
            ):
                where = shown("/".join(resolved.parts[:depth]) or ".")
                raise refusal(
                    resolved.path, "repository", f"is within {where}, a folder of git's own. Use git for that"
                )

    def _all_allowed(self, path: str, target: tuple[str, ...]) -> None:
        """Refuse to move a folder that holds a denied path, by its old or its new path."""
        above = self.parts(path)
        pending: list[tuple[str, ...]] = [()]
        while pending:
            below = pending.pop()
            with self.resolve("/".join([*above, *below])) as resolved, resolved.open_folder() as folder:
                found = folder.list()
            for each in found:
                self._refuse_denied(path, (*above, *below, each.name))
                self._refuse_denied(path, (*target, *below, each.name))
                if each.kind is FileKind.FOLDER:
                    pending.append((*below, each.name))

    def is_listed(self, name: str) -> bool:
        """True if listings and searches have this name: it is not hidden, and not that of a skipped folder."""
        return (self.hidden or not name.startswith(".")) and name not in self._skip

    @contextmanager
    def _locked(self, *paths: ResolvedPath) -> Generator[None]:
        """Hold the locks of these files in this process, always taken in the same order to prevent deadlocks."""
        locks: list[_FileLock] = []
        with ExitStack() as held:
            for key in sorted({(self._identity, *map(folded, each.parts)) for each in paths}, key=repr):
                with _locks_guard:
                    locks.append(_locks.setdefault(key, _FileLock()))
                held.enter_context(locks[-1].lock)
            yield

    # --- replacing a file ----------------------------------------------------------------------------------------

    def _put(self, resolved: ResolvedPath, data: bytes, before: os.stat_result | None) -> bool:
        """Write under a temporary name, then rename: readers see the old file or the new one, never a part."""
        if len(data) > self.max_write:
            raise refusal(
                resolved.path, "too_large", f"would be {len(data):,} bytes; at most {self.max_write:,} may be written"
            )
        if not resolved.name or (before is not None and stat.S_ISDIR(before.st_mode)):
            raise refusal(resolved.path, "folder", "is a folder, not a file. Give the path of a file")
        self._refuse_git_folder(resolved)
        if before is not None and FileKind.of(before.st_mode) is not FileKind.FILE:
            raise refusal(resolved.path, "special", "is neither a file nor a folder")
        if before is not None and not before.st_mode & 0o222:
            raise refusal(resolved.path, "permission", "is read-only and stays as it is")
        self._use_quota(resolved.path, len(data))
        temporary = f".{secrets.token_hex(8)}.tmp"
        try:
            with translated_errors(resolved.path):
                _write(resolved.folder, temporary, data, before)
                if _stamp(resolved.stat()) != _stamp(before):
                    raise refusal(
                        resolved.path, "changed", "was changed by another program meanwhile. Read it again, then retry"
                    )
                resolved.folder.rename(temporary, resolved.folder, resolved.name)
        except BaseException:
            with suppress(OSError):
                resolved.folder.unlink(temporary)
            self._use_quota(resolved.path, -len(data))
            raise
        return before is None

    def _use_quota(self, path: str, size: int) -> None:
        with self._quota:
            if size > 0 and self._written + size > self.max_total:
                raise refusal(
                    path, "quota", f"cannot be written: at most {self.max_total:,} bytes may be written in all"
                )
            self._written += size


def _write(folder: Folder, name: str, data: bytes, before: os.stat_result | None) -> None:
    descriptor = folder.open_file(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if before is None else 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        if before is not None and hasattr(os, "fchmod"):
            # keep the permissions, but not setuid and setgid
            os.fchmod(descriptor, stat.S_IMODE(before.st_mode) & 0o777)


def _stamp(status: os.stat_result | None) -> tuple[int, ...] | None:
    """The parts of a status that change when a file is written or replaced."""
    return (
        None if status is None else (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode)
    )
