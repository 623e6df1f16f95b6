"""Skills in folders: those of a workspace, of the user, and of any other folder.

A folder is read through a `Workspace`: links are not followed, so that no skill reaches a file outside of the folder,
and hidden files are left out. A sub-folder whose SKILL.md cannot be used is a problem of the scan.
"""

from __future__ import annotations

import os
import time
from abc import abstractmethod
from hashlib import sha256
from pathlib import Path
from typing import Final

from agentscope_rx.errors import ConfigurationError, SkillError, WorkspaceError
from agentscope_rx.skills.skill import FILE_NAME, info_of_text
from agentscope_rx.skills.source import (
    MAX_FILE,
    MAX_FILES,
    MAX_TEXT,
    FoundSkill,
    SkillFile,
    SkillScan,
    SkillSource,
    note_of,
    unique,
)
from agentscope_rx.tools.files.dirfd import DirEntry, FileKind
from agentscope_rx.tools.files.workspace import Workspace

SKILLS = "skills"
"""The folder of a workspace that has its skills."""
SETTLING: Final = 3.0
"""File systems count time in steps, at most 2 seconds (FAT): two changes of a file within one step look the same."""

_clock = time.time


def user_folder() -> Path:
    """The folder of the user's skills, `~/.agentscope/skills`."""
    return Path.home() / ".agentscope" / SKILLS


class _Folder(SkillSource):
    """Skills in the sub-folders of one folder of a workspace."""

    @abstractmethod
    def _opened(self) -> tuple[Workspace, str] | None:
        """The workspace and the folder in it; None if there is no such folder."""

    @abstractmethod
    def _shown(self, path: str = "") -> str:
        """A path below the folder, for people."""

    def stamp(self) -> object:
        """Inode, times and size of each SKILL.md; the text too, while a change may give it the same times."""
        opened = self._opened()
        return None if opened is None else _stamp(*opened)

    def scan(self) -> SkillScan:
        try:
            opened = self._opened()
            return SkillScan() if opened is None else self._scanned(*opened)
        except SkillError as error:
            return SkillScan((), (error,))

    def _scanned(self, workspace: Workspace, folder: str) -> SkillScan:
        found: list[FoundSkill] = []
        problems: list[SkillError] = []
        try:
            entries = _entries(workspace, folder)
        except WorkspaceError as error:
            raise SkillError(self._shown(), f"the skills in it cannot be read: {error}") from None
        for each in entries:
            if each.name == FILE_NAME:
                text = "this folder is a skill itself. Give the folder above it."
                problems.append(SkillError(self._shown(), text))
            elif each.kind is FileKind.LINK:
                text = "it is a symbolic link, and links are not followed. Copy the folder."
                problems.append(SkillError(self._shown(each.name), text))
            elif each.kind is FileKind.FOLDER:
                try:
                    found.append(self._skill(workspace, folder, each.name))
                except SkillError as error:
                    problems.append(error)
        scan = unique(found)
        return SkillScan(scan.skills, (*problems, *scan.problems))

    def _skill(self, workspace: Workspace, folder: str, name: str) -> FoundSkill:
        place = self._shown(name)
        files = FolderFiles(workspace, f"{folder}/{name}" if folder else name, place)
        _, info = info_of_text(files.text(), f"{place}/{FILE_NAME}")
        return FoundSkill(info, self.label, place, files, note_of(info.name, name))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._shown()!r}>"


class WorkspaceSkills(_Folder):
    """The skills in a folder of a workspace, by default `skills`."""

    def __init__(
        self, workspace: Workspace | str | os.PathLike[str], folder: str = SKILLS, *, label: str = "workspace"
    ) -> None:
        self.workspace: Workspace = workspace if isinstance(workspace, Workspace) else Workspace(workspace)
        self.folder: str = "/".join(self.workspace.parts(folder))
        self.label = label

    def _opened(self) -> tuple[Workspace, str] | None:
        try:
            there = self.workspace.exists(self.folder or ".")
        except WorkspaceError as error:
            raise SkillError(self._shown(), f"the skills in it cannot be read: {error}") from None
        return (self.workspace, self.folder) if there else None

    def _shown(self, path: str = "") -> str:
        return "/".join(part for part in (self.folder, path) if part) or "."


class FolderSkills(_Folder):
    """The skills in a folder, which may not exist yet. If the folder itself is a link, it is followed."""

    def __init__(self, path: str | os.PathLike[str], *, label: str | None = None) -> None:
        if not isinstance(path, (str, os.PathLike)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"FolderSkills takes the path of a folder, not {path!r:.60}.")
        self.path: Path = Path(path).expanduser()
        self.label: str = str(path) if label is None else label

    def _opened(self) -> tuple[Workspace, str] | None:
        if not self.path.exists():
            return None
        try:
            # a new one each time: the folder may be replaced by another one
            return Workspace(self.path, portable=False), ""
        except (ConfigurationError, OSError) as error:
            raise SkillError(str(self.path), f"the skills in it cannot be read: {error}") from None

    def _shown(self, path: str = "") -> str:
        return str(self.path / path) if path else str(self.path)


class UserSkills(FolderSkills):
    """The skills of the user, in `~/.agentscope/skills` or in `path`."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        super().__init__(user_folder() if path is None else path, label="user")


class FolderFiles:
    """The files of a skill in a folder of a workspace."""

    __slots__ = ("_folder", "_place", "_workspace")

    def __init__(self, workspace: Workspace, folder: str, place: str) -> None:
        self._workspace = workspace
        self._folder = folder
        self._place = place

    def text(self) -> str:
        """The text of SKILL.md."""
        return decoded_text(self._read(FILE_NAME, MAX_TEXT), f"{self._place}/{FILE_NAME}")

    def list(self) -> tuple[SkillFile, ...]:
        """The other files, sorted by path."""
        found: list[SkillFile] = []
        prefix = len(self._folder) + 1
        try:
            for each in self._workspace.walk(self._folder):
                if len(found) >= MAX_FILES:
                    raise SkillError(self._place, f"it has more than {MAX_FILES:,} files.")
                if each.path[prefix:] != FILE_NAME:
                    found.append(SkillFile(each.path[prefix:], each.size))
        except WorkspaceError as error:
            raise SkillError(self._place, f"its files cannot be listed: {error}") from None
        return tuple(sorted(found, key=lambda each: each.path))

    def read(self, path: str) -> bytes:
        """The bytes of one of these files."""
        return self._read(path, MAX_FILE)

    def _read(self, path: str, limit: int) -> bytes:
        try:
            return self._workspace.read(f"{self._folder}/{path}", limit)
        except WorkspaceError as error:
            file = f"{self._place}/{path}"
            if error.reason == "missing":
                raise SkillError(file, "there is no such file.") from None
            raise SkillError(file, f"it cannot be read: {error}") from None


def decoded_text(data: bytes, file: str) -> str:
    """The text of a file in UTF-8; `SkillError` with the line of the first byte that is none."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SkillError(
            file, "it is not UTF-8. Save it in that encoding.", data[: error.start].count(b"\n") + 1
        ) from None


def _entries(workspace: Workspace, path: str) -> list[DirEntry]:
    with workspace.folder(path or ".") as folder:
        return [each for each in folder.list() if not each.name.startswith(".")]


def _stamp(workspace: Workspace, path: str) -> object:
    found: list[object] = []
    try:
        with workspace.folder(path or ".") as folder:
            for each in folder.list():
                found.append((each.name, each.kind))
                if each.kind is not FileKind.FOLDER:
                    continue
                try:
                    with folder.open_folder(each.name) as inner:
                        seen = inner.stat(FILE_NAME)
                    found.append((seen.st_ino, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size))
                    if _clock() - max(seen.st_mtime_ns, seen.st_ctime_ns) / 1e9 <= SETTLING:
                        found.append(_text_of(workspace, f"{path}/{each.name}/{FILE_NAME}"))
                except OSError as error:
                    found.append(error.errno)
    except WorkspaceError as error:
        return error.reason
    return found


def _text_of(workspace: Workspace, path: str) -> bytes | None:
    """A hash of the file; None if it cannot be read, which the scan reports."""
    try:
        return sha256(workspace.read(path.removeprefix("/"), MAX_TEXT)).digest()
    except WorkspaceError:
        return None
