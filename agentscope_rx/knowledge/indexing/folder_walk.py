"""`FolderWalk`: the documents in a folder, with what tells that a file has changed.

| in the folder                                                       | is                                      |
|---------------------------------------------------------------------|-----------------------------------------|
| a file whose name has a reader                                      | a document                              |
| another file                                                        | counted in `skipped`                    |
| hidden files and folders, `node_modules`, `__pycache__`, `venv`, ... | left out                               |
| what `ignore` matches, and all below it                             | left out                                |
| a link, a pipe, a device                                            | left out                                |
| a folder that cannot be read                                        | a problem; its documents are not "gone" |

(What a link leads to inside of the folder is found at its own place.)

A file is read without following a link that was put in its place meanwhile. Functions here block.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import field
from hashlib import sha256
from pathlib import Path
from typing import Final

from agentscope_rx.errors import ConfigurationError, DocumentError, InvalidInputError, KnowledgeError
from agentscope_rx.errors.text import encodable
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.knowledge.indexing.reader_table import ReaderTable
from agentscope_rx.messages.local_file import open_file
from agentscope_rx.tools.files.globs import DenyList
from agentscope_rx.tools.files.workspace import SKIPPED

AT_ONCE: Final = 500
"""Names that are looked at before a walk can be stopped."""
PIECE: Final = 1024 * 1024
_ANY_SIZE: Final = 2**62

Stamp = tuple[int, int, int, int, int]
"""Device, inode, size, and the times of the last change of the content and of the file, in nanoseconds."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that may be a document; `id` names it in the store."""

    id: str
    path: Path
    stamp: Stamp

    @property
    def size(self) -> int:
        """Its bytes, when it was found."""
        return self.stamp[2]


@dataclass(slots=True)
class FolderContents:
    """What a walk has found. Documents below `unread` may be there."""

    files: dict[str, FoundFile] = field(default_factory=dict[str, FoundFile])
    skipped: int = 0
    problems: list[DocumentError] = field(default_factory=list[DocumentError])
    unread: list[str] = field(default_factory=list[str])

    def may_have(self, document: str) -> bool:
        """True if the document is there, or in a folder that could not be read."""
        return document in self.files or any(document.startswith(each) for each in self.unread)


class FolderWalk:
    """Finds the documents of a folder, whose ids are `prefix` and the path below it."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        readers: ReaderTable,
        *,
        prefix: str = "",
        include: Sequence[str] = (),
        ignore: Sequence[str] = (),
    ) -> None:
        self.root: Path = Path(os.path.abspath(os.path.expanduser(path)))
        self.prefix = prefix
        self._readers = readers
        self._include = _patterns("include", include)
        self._ignore = _patterns("ignore", ignore)

    def look(self) -> Iterator[FolderContents]:
        """The contents, which grow while this is iterated; the last one is whole. Ids are in order.

        `InvalidInputError` if there is no such folder, `KnowledgeError` if it cannot be read.
        """
        self.check()
        contents = FolderContents()
        seen = 0
        folders: list[tuple[str, ...]] = [()]
        while folders:
            parts = folders.pop()
            below: list[tuple[str, ...]] = []
            for entry in self._entries(parts, contents):
                seen += 1
                if not seen % AT_ONCE:
                    yield contents
                if self._add((*parts, entry.name), entry, contents):
                    below.append((*parts, entry.name))
            folders += reversed(below)
        contents.files = dict(sorted(contents.files.items()))
        yield contents

    def check(self) -> None:
        """`InvalidInputError` if there is no such folder."""
        if not self.root.is_dir():
            what = "is no folder" if self.root.exists() else "does not exist"
            raise InvalidInputError(f"{self.root} {what}: give a folder with documents.")

    def concerns(self, path: str) -> bool:
        """True if a change of this path may be one of a document."""
        try:
            parts = Path(path).relative_to(self.root).parts
        except ValueError:
            return False
        return not any(_is_hidden(name) for name in parts) and not (parts and self._is_ignored(parts))

    def _entries(self, parts: tuple[str, ...], contents: FolderContents) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self.root.joinpath(*parts)) as found:
                return sorted(found, key=lambda entry: entry.name)
        except FileNotFoundError:
            if parts:
                # removed meanwhile
                return []
            raise KnowledgeError(f"{self.root} was removed while it was read.") from None
        except OSError as error:
            if not parts:
                raise KnowledgeError(f"{self.root} cannot be read: {error.strerror or error}.") from error
            folder = self._id(parts)
            contents.unread.append(f"{folder}/")
            contents.problems.append(DocumentError(folder, f"the folder cannot be read: {error.strerror or error}"))
            return []

    def _add(self, parts: tuple[str, ...], entry: os.DirEntry[str], contents: FolderContents) -> bool:
        """Add a file to the contents; True for a folder to look into."""
        if _is_hidden(entry.name) or self._is_ignored(parts):
            return False
        try:
            if entry.is_dir(follow_symlinks=False):
                return True
            status = entry.stat(follow_symlinks=False)
        except OSError:
            # removed meanwhile
            return False
        if not stat.S_ISREG(status.st_mode):
            return False
        if self._readers.find(entry.name) is None or self._is_left_out(parts):
            contents.skipped += 1
            return False
        id = self._id(parts)
        if id != encodable(id):
            name = ascii("/".join(parts))
            contents.problems.append(DocumentError(name, "the name is not valid Unicode. Rename the file."))
            return False
        contents.files[id] = FoundFile(id, Path(entry.path), stamp_of(status))
        return False

    def _is_ignored(self, parts: tuple[str, ...]) -> bool:
        return self._ignore is not None and self._ignore.denies(parts) is not None

    def _is_left_out(self, parts: tuple[str, ...]) -> bool:
        return self._include is not None and self._include.denies(parts) is None

    def _id(self, parts: tuple[str, ...]) -> str:
        return self.prefix + "/".join(parts)


def stamp_of(status: os.stat_result) -> Stamp:
    """What differs if a file has changed; but for changes within the same step of the file system's clock."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def digest_of(path: Path, root: Path | None = None) -> tuple[str, Stamp]:
    """The SHA-256 of a file and the stamp from before it was read. `OSError`, also for what is no file.

    With `root` the file must be below that folder, without a link on the way.
    """
    try:
        descriptor = open_file(path, _ANY_SIZE, None if root is None else str(root))
    except InvalidInputError as error:
        raise OSError(None, str(error).rstrip(".")) from None
    with open(descriptor, "rb", buffering=0) as file:
        status = os.fstat(descriptor)
        digest = sha256()
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest(), stamp_of(status)


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name in SKIPPED


def _patterns(option: str, patterns: Sequence[str]) -> DenyList | None:
    if isinstance(patterns, str):
        raise ConfigurationError(
            f"{option} takes a list of patterns, such as ['*.log'], not the text {patterns!r:.60}."
        )
    try:
        return DenyList(patterns) if patterns else None
    except ConfigurationError as error:
        raise ConfigurationError(f"{option}: {error.__context__ or error}") from None
