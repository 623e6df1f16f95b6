"""Writing skills into a folder, and reading them from zip files.

| function                               | does                                                                   |
|----------------------------------------|------------------------------------------------------------------------|
| `save_skill(skill, folder)`            | writes `<folder>/<name>/`, as a whole or not at all                    |
| `delete_skill(name, folder)`           | removes it                                                             |
| `skill_of_zip(file)`                   | reads one skill: one folder with a SKILL.md in it, within limits       |

Paths are those of a `Workspace`: none leads out of the folder, and links are not followed.
"""

from __future__ import annotations

import io
import os
import secrets
import stat
import zipfile
from pathlib import Path

from agentscope_rx.errors import ConfigurationError, SkillError, WorkspaceError
from agentscope_rx.skills.folders import decoded_text
from agentscope_rx.skills.skill import FILE_NAME, Skill, name_problem, skill_of_text, skill_text
from agentscope_rx.skills.source import MAX_FILE, MAX_FILES, MAX_TEXT, MAX_TOTAL
from agentscope_rx.tools.files.dirfd import FileKind, Folder
from agentscope_rx.tools.files.paths import parts_of
from agentscope_rx.tools.files.workspace import Workspace

IGNORED = ("__MACOSX", ".DS_Store", "Thumbs.db")
"""What file managers add to zip files."""


def save_skill(skill: Skill, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write the skill below a folder, which is made if need be; gives its path.

    `SkillError`, and nothing is changed, if there is one of this name, unless `overwrite` replaces it with all its
    files, or if a file cannot be written.
    """
    if not isinstance(skill, Skill):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"save_skill takes a Skill, not {skill!r:.60}.")
    root = Path(folder).expanduser()
    place = root / skill.name
    try:
        root.mkdir(parents=True, exist_ok=True)
        workspace = Workspace(root, portable=False, max_write=MAX_FILE)
        if not overwrite and workspace.exists(skill.name):
            raise SkillError(str(place), "it exists already. Pass overwrite=True to replace it.", skill=skill.name)
        # beside the others, under hidden names that no scan shows
        new, old = (f".{what}-{secrets.token_hex(8)}" for what in ("new", "old"))
        try:
            for path, data in skill.resources.items():
                workspace.write(f"{new}/{path}", data)
            workspace.write(f"{new}/{FILE_NAME}", skill_text(skill).encode())
            if workspace.exists(skill.name):
                workspace.move(skill.name, old)
            try:
                workspace.move(new, skill.name)
            except BaseException:
                if workspace.exists(old):
                    workspace.move(old, skill.name)
                raise
        finally:
            for each in (new, old):
                _remove(workspace, each)
    except (WorkspaceError, OSError) as error:
        raise SkillError(str(place), f"the skill was not saved: {error}", skill=skill.name) from error
    return place


def delete_skill(name: str, folder: str | os.PathLike[str]) -> bool:
    """Remove the skill in `<folder>/<name>`; False if there is none."""
    root = Path(folder).expanduser()
    if problem := name_problem(name):
        raise ConfigurationError(problem)
    if not root.is_dir():
        return False
    try:
        workspace = Workspace(root, portable=False)
        if not workspace.exists(f"{name}/{FILE_NAME}"):
            return False
        _remove(workspace, name)
    except (WorkspaceError, OSError) as error:
        raise SkillError(str(root / name), f"the skill was not deleted: {error}", skill=name) from error
    return True


def skill_of_zip(file: str | os.PathLike[str] | bytes) -> Skill:
    """The skill in a zip file, or in the bytes of one; `SkillError` for any other file, or one beyond a limit.

    It has one folder at its root, with SKILL.md directly in it. Binary files are kept as they are.
    """
    shown = "the zip file" if isinstance(file, bytes) else str(file)
    try:
        with zipfile.ZipFile(io.BytesIO(file) if isinstance(file, bytes) else file) as archive:
            files = _unpacked(archive, shown)
    except SkillError:
        raise
    except Exception as error:
        # (damaged files: BadZipFile, zlib.error, OSError, EOFError, struct.error, ...)
        raise SkillError(shown, f"it cannot be read as a zip file: {error}") from error
    text = files.pop(FILE_NAME, None)
    if text is None:
        raise SkillError(shown, f"there is no {FILE_NAME} directly in its folder.")
    if len(text) > MAX_TEXT:
        raise SkillError(f"{shown}/{FILE_NAME}", f"it has more than {MAX_TEXT:,} bytes.")
    name = f"{shown}/{FILE_NAME}"
    try:
        return skill_of_text(decoded_text(text, name), name, files)
    except ConfigurationError as error:
        raise SkillError(shown, str(error)) from error


def _unpacked(archive: zipfile.ZipFile, shown: str) -> dict[str, bytes]:
    """The files below the one folder of the archive, by their path in it."""
    found: dict[str, bytes] = {}
    folded: set[str] = set()
    roots: set[str] = set()
    total = 0
    entries = archive.infolist()
    if len(entries) > 2 * MAX_FILES:
        raise SkillError(shown, f"it has more than {2 * MAX_FILES:,} entries.")
    for each in entries:
        path = _checked(each, shown)
        if any(part in IGNORED for part in path):
            continue
        roots.add(path[0])
        if len(roots) > 1:
            raise SkillError(shown, f"it has more than one folder at its root: {', '.join(sorted(roots))!r:.200}.")
        if each.is_dir():
            continue
        if len(path) < 2:
            raise SkillError(shown, f"{path[0]!r:.100} is not in a folder. Zip the folder of the skill.")
        inner = "/".join(path[1:])
        if inner.casefold() in folded:
            raise SkillError(shown, f"{inner!r:.200} is there twice.")
        folded.add(inner.casefold())
        if len(found) >= MAX_FILES:
            raise SkillError(shown, f"it has more than {MAX_FILES:,} files.")
        with archive.open(each) as opened:
            # by what comes out, not by what the entry says
            data = opened.read(min(MAX_FILE, MAX_TOTAL - total) + 1)
        total += len(data)
        if len(data) > MAX_FILE or total > MAX_TOTAL:
            raise SkillError(
                shown, f"unpacked, a file has more than {MAX_FILE:,} bytes, or all more than {MAX_TOTAL:,}."
            )
        found[inner] = data
    return found


def _checked(entry: zipfile.ZipInfo, shown: str) -> list[str]:
    """The names in the path of an entry; `SkillError` for one that leads elsewhere, or is no plain file."""
    name = entry.orig_filename
    try:
        parts = parts_of(name.rstrip("/") if entry.is_dir() else name)
    except WorkspaceError as error:
        raise SkillError(shown, f"an entry has a path that is not allowed: {error}") from None
    if not parts:
        raise SkillError(shown, f"an entry has a path that is not allowed: {name!r:.100}.")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # the others are unpacked without a bound
        raise SkillError(shown, f"{name!r:.200} is compressed in another way than 'deflate'.")
    if entry.flag_bits & 0x1:
        raise SkillError(shown, f"{name!r:.200} is encrypted.")
    mode = entry.external_attr >> 16
    if mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise SkillError(shown, f"{name!r:.200} is a link or a device.")
    return list(parts)


def _remove(workspace: Workspace, name: str) -> None:
    """Remove a folder with all that is in it, links and hidden files too; nothing if it is not there."""
    if not workspace.exists(name):
        return
    with workspace.folder() as root:
        with root.open_folder(name) as folder:
            _empty(folder)
        root.rmdir(name)


def _empty(folder: Folder) -> None:
    for each in folder.list():
        if each.kind is FileKind.FOLDER:
            with folder.open_folder(each.name) as inner:
                _empty(inner)
            folder.rmdir(each.name)
        else:
            folder.unlink(each.name)
