"""`Workspace`: a folder that no path leads out of. The one place where a model's path becomes an open file.

| path                                   | answer                                                                |
|----------------------------------------|-----------------------------------------------------------------------|
| `docs/index.md`, `./docs//index.md`    | the file                                                              |
| `/etc/passwd`, `../x`, `~/x`, `NUL`    | refused as it stands, before anything is looked at (see `paths`)      |
| a link, or anything behind one         | refused, wherever it leads; followed inside with `follow_symlinks`    |
| a pipe, a socket, a device             | refused, and not opened: opening one can wait, or do something        |
| what a pattern of `deny` names         | refused, with all that is below it                                    |

Every part is opened relative to the one before it (see `folder`), so that nothing that is put in place meanwhile is
followed. What is written appears whole or not at all, under a name of its own first. A refusal is a `WorkspaceError`.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from agentscope_rx.errors import ConfigurationError, WorkspaceError
from agentscope_rx.reactive.kernel.forking import new_lock
from agentscope_rx.tools.files.dirfd import BY_PARTS, FileKind, Folder
from agentscope_rx.tools.files.encoding import SAMPLE
from agentscope_rx.tools.files.globs import DenyList
from agentscope_rx.tools.files.locks import locked
from agentscope_rx.tools.files.paths import folded, parts_of, shown
from agentscope_rx.tools.files.resolve import Place, explained, locate, refusal

MIB = 1024 * 1024
DENIED = (".git", ".ssh", ".env", ".env.*")
"""Out of bounds unless `deny` says otherwise: what other programs run (git's hooks and settings), and keys."""
SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})
"""What is left out of listings and searches, beside what is hidden."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A name in a folder; `path` is relative to the workspace."""

    name: str
    path: str
    kind: FileKind
    size: int = 0
    modified: float = 0.0


class Workspace:
    """The folder `root`, as it is called now: a link that leads to it is followed, once, here.

    `max_read` and `max_write` bound one file, `max_total` all that is ever written through this object, in bytes.
    `hidden` lists and searches names that begin with a dot, too. `deny` are patterns of what is out of bounds (see
    `DenyList`). `portable=False` allows names that only other systems take for something else.
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
            raise ConfigurationError(f"A workspace is the path of a folder, not {root!r:.60}.")
        self.root = Path(os.path.realpath(root))
        for name, limit in (("max_read", max_read), ("max_write", max_write), ("max_total", max_total)):
            if type(limit) is not int or limit < 1:
                raise ConfigurationError(f"{name} counts bytes: a whole number of at least 1, not {limit!r}.")
        if not self.root.is_dir():
            raise ConfigurationError(f"A workspace is a folder that exists; {str(root)!r:.200} is none. Make it first.")
        if isinstance(deny, str):
            raise ConfigurationError(f"deny takes several patterns, as in deny=[{deny!r}].")
        deny = tuple(deny)
        if strange := [each for each in deny if not isinstance(each, str)]:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"deny takes patterns, which are text, not {strange[0]!r:.60}.")
        self.max_read = max_read
        self.max_write = max_write
        self.max_total = max_total
        self.follow_symlinks = follow_symlinks
        self.hidden = hidden
        self.deny = DenyList(deny)
        self._skip = frozenset(skip)
        self._portable = portable
        self._written = 0
        self._quota = new_lock()
        with Folder.open(str(self.root), by_parts=BY_PARTS) as folder:
            self._identity = folder.identity()

    def __repr__(self) -> str:
        return f"<Workspace {str(self.root)!r}>"

    @property
    def written(self) -> int:
        """How many bytes have been written through this object."""
        return self._written

    def parts(self, path: str) -> tuple[str, ...]:
        """The names that a path is made of; `WorkspaceError` for one that names a place elsewhere."""
        return parts_of(path, portable=self._portable, root=str(self.root))

    # --- reading --------------------------------------------------------------------------------------------------

    def kind(self, path: str) -> FileKind:
        """Whether there is a file or a folder at this path; `WorkspaceError` if there is neither."""
        with self.place(path) as place:
            return place.kind()

    def read(self, path: str, limit: int | None = None) -> bytes:
        """The bytes of a file; `WorkspaceError` if they are more than `limit` (`max_read`)."""
        with self.place(path) as place:
            return place.read(self.max_read if limit is None else limit)[0]

    def entries(self, path: str = ".") -> list[FileEntry]:
        """What is in a folder, by name, without what is hidden, skipped or denied."""
        with self.place(path) as place, place.open_folder() as folder:
            # named as it was asked for: behind a link, too, that is the path to go on with
            above = self.parts(path)
            found = folder.list()
        denied = self.deny.below(above)
        return [
            FileEntry(each.name, "/".join([*above, each.name]), each.kind, each.size, each.modified)
            for each in found
            if self._listed(each.name) and not denied(each.name)
        ]

    def walk(self, path: str = ".", *, stop: Callable[[], bool] | None = None) -> Iterator[FileEntry]:
        """Every file at or below a path, folder by folder, by name; links are not followed, nor unreadable folders.

        It ends where `stop`, which is asked before each folder below is read, says so.
        """
        if self.kind(path) is FileKind.FILE:
            parts = self.parts(path)
            yield FileEntry(parts[-1], "/".join(parts), FileKind.FILE)
            return
        waiting = list(reversed(self.entries(path)))
        while waiting:
            entry = waiting.pop()
            if entry.kind is FileKind.FILE:
                yield entry
            elif entry.kind is FileKind.FOLDER:
                if stop is not None and stop():
                    return
                with suppress(WorkspaceError):
                    waiting += reversed(self.entries(entry.path))

    @contextmanager
    def folder(self, path: str = ".") -> Generator[Folder]:
        """A folder of the workspace, open."""
        with self.place(path) as place, place.open_folder() as folder:
            yield folder

    # --- writing --------------------------------------------------------------------------------------------------

    def write(self, path: str, data: bytes | Callable[[bytes | None], bytes]) -> bool:
        """Put these bytes in the place of a file, or make it, with the folders above it; whether it is new.

        A function is given the first `SAMPLE` bytes of the file that is there, or None.
        """
        with self.place(path, make=True) as place, self._locked(place):
            seen = place.look()
            if not isinstance(data, bytes):
                data = data(place.head(SAMPLE) if seen is not None and stat.S_ISREG(seen.st_mode) else None)
            return self._put(place, data, seen)

    def update(self, path: str, change: Callable[[bytes], bytes]) -> None:
        """Replace a file by what `change` makes of it; nobody else in this process writes to it meanwhile.

        Another process that does is noticed: the file is left as it is, and the error says to read it again.
        """
        with self.place(path) as place, self._locked(place):
            data, seen = place.read(self.max_read)
            changed = change(data)
            if changed != data:
                self._put(place, changed, seen)

    def delete(self, path: str) -> None:
        """Remove a file, or a folder that is empty."""
        with self.place(path) as place, self._locked(place), explained(path):
            if not place.name:
                raise refusal(path, "folder", "is the working directory itself. It stays")
            self._refuse_git_folder(place)
            if place.kind() is FileKind.FOLDER:
                place.folder.remove_folder(place.name)
            else:
                place.folder.unlink(place.name)

    def move(self, path: str, target: str) -> None:
        """Give a file or folder another path; never in the place of something."""
        with self.place(path) as old, self.place(target, make=True) as new, self._locked(old, new), explained(path):
            if not old.name or not new.name:
                raise refusal(path, "folder", "cannot be moved: the working directory itself stays")
            old.kind()
            self._refuse_git_folder(old)
            self._refuse_git_folder(new)
            if new.look() is not None:
                raise refusal(target, "exists", "exists already. Give another target, or delete it first")
            if new.parts[: len(old.parts)] == old.parts:
                raise refusal(target, "parent", f"is inside {shown(path)}: a folder cannot be moved into itself")
            if old.look_kind() is FileKind.FOLDER and self.deny.patterns:
                self._all_allowed(path, new.parts)
            old.folder.rename(old.name, new.folder, new.name)

    # --- where a path leads ---------------------------------------------------------------------------------------

    @contextmanager
    def place(self, path: str, *, make: bool = False) -> Generator[Place]:
        """Where a path leads, with its folder open; `make` makes the folders above it."""
        parts = self.parts(path)
        self._refuse_denied(path, parts)
        with explained(path):
            place = locate(path, parts, self._open_root, follow=self.follow_symlinks, make=make, root=str(self.root))
        with place.folder:
            if place.parts != parts:
                self._refuse_denied(path, place.parts)
            yield place

    def _open_root(self) -> Folder:
        folder = Folder.open(str(self.root), by_parts=BY_PARTS)
        if folder.identity() != self._identity:
            folder.close()
            raise WorkspaceError(
                "The working directory is no longer the folder that it was: it has been replaced. Nothing can be done.",
                path=".",
                reason="replaced",
            )
        return folder

    def _refuse_denied(self, path: str, parts: tuple[str, ...]) -> None:
        if pattern := self.deny.denies(parts):
            raise refusal(path, "denied", f"is out of bounds here (rule {pattern!r}). Do without it")

    def _refuse_git_folder(self, place: Place) -> None:
        """What lies in a git folder names programs that git runs: it is git's to write, whatever the folder is called.

        (`.git` is denied by its name. `git init --separate-git-dir`, submodules and worktrees have others.)
        """
        for depth in range(len(place.parts)):
            folder = self.root.joinpath(*place.parts[:depth])
            if (folder / "HEAD").is_file() and (
                ((folder / "objects").is_dir() and (folder / "refs").is_dir()) or (folder / "commondir").is_file()
            ):
                where = shown("/".join(place.parts[:depth]) or ".")
                raise refusal(place.path, "repository", f"is within {where}, a folder of git's own. Use git for that")

    def _all_allowed(self, path: str, target: tuple[str, ...]) -> None:
        """A folder that moves takes along no name that is denied where it goes, nor one that is denied where it is."""
        above = self.parts(path)
        waiting: list[tuple[str, ...]] = [()]
        while waiting:
            below = waiting.pop()
            with self.place("/".join([*above, *below])) as place, place.open_folder() as folder:
                found = folder.list()
            for each in found:
                self._refuse_denied(path, (*above, *below, each.name))
                self._refuse_denied(path, (*target, *below, each.name))
                if each.kind is FileKind.FOLDER:
                    waiting.append((*below, each.name))

    def _listed(self, name: str) -> bool:
        return (self.hidden or not name.startswith(".")) and name not in self._skip

    @contextmanager
    def _locked(self, *places: Place) -> Generator[None]:
        with locked(*((self._identity, *map(folded, place.parts)) for place in places)):
            yield

    # --- putting a file in its place ------------------------------------------------------------------------------

    def _put(self, place: Place, data: bytes, seen: os.stat_result | None) -> bool:
        """Write under another name, then rename: who reads sees the old file or the new one, and never a part."""
        if len(data) > self.max_write:
            raise refusal(
                place.path, "too_large", f"would be {len(data):,} bytes, and at most {self.max_write:,} may be written"
            )
        if not place.name or (seen is not None and stat.S_ISDIR(seen.st_mode)):
            raise refusal(place.path, "folder", "is a folder, not a file. Give the path of a file")
        self._refuse_git_folder(place)
        if seen is not None and FileKind.of(seen.st_mode) is not FileKind.FILE:
            raise refusal(place.path, "special", "is neither a file nor a folder")
        if seen is not None and not seen.st_mode & 0o222:
            raise refusal(place.path, "permission", "is read-only and stays as it is")
        self._take(place.path, len(data))
        temporary = f".{secrets.token_hex(8)}.tmp"
        try:
            with explained(place.path):
                _write(place.folder, temporary, data, seen)
                if _stamp(place.look()) != _stamp(seen):
                    raise refusal(
                        place.path, "changed", "has been changed by somebody else meanwhile. Read it again, then retry"
                    )
                place.folder.rename(temporary, place.folder, place.name)
        except BaseException:
            with suppress(OSError):
                place.folder.unlink(temporary)
            self._take(place.path, -len(data))
            raise
        return seen is None

    def _take(self, path: str, size: int) -> None:
        with self._quota:
            if size > 0 and self._written + size > self.max_total:
                raise refusal(
                    path, "quota", f"cannot be written: at most {self.max_total:,} bytes may be written in all"
                )
            self._written += size


def _write(folder: Folder, name: str, data: bytes, seen: os.stat_result | None) -> None:
    descriptor = folder.file(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if seen is None else 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        if seen is not None and hasattr(os, "fchmod"):
            # who may do what stays; rights that a program would gain by them do not
            os.fchmod(descriptor, stat.S_IMODE(seen.st_mode) & 0o777)


def _stamp(seen: os.stat_result | None) -> tuple[int, ...] | None:
    """What changes when somebody writes to a file, or puts another in its place."""
    return None if seen is None else (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_mode)
