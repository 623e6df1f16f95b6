"""`PackageSkills`: the skills of installed packages, found by the entry points of the group `agentscope_rx.skills`.

    [project.entry-points."agentscope_rx.skills"]       in the package's pyproject.toml
    acme = "acme_tools:skills"                          acme_tools/skills/*/SKILL.md
    acme = "acme_tools.skills"                          the same, if `skills` is a package itself

The files are read through `importlib.resources`, so a package may be in a zip file. To find them, Python imports the
package that the entry point names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files as files_of
from importlib.resources.abc import Traversable

from agentscope_rx.errors import ConfigurationError, SkillError
from agentscope_rx.reactive.kernel.forking import new_lock
from agentscope_rx.skills.folders import decoded_text
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
from agentscope_rx.tools.files.workspace import SKIPPED

GROUP = "agentscope_rx.skills"


class PackageSkills(SkillSource):
    """The skills of installed packages, found by the entry points of the group `agentscope_rx.skills`.

        [project.entry-points."agentscope_rx.skills"]       in the package's pyproject.toml
        acme = "acme_tools:skills"                          acme_tools/skills/*/SKILL.md

    `only` lists the names of the entry points that are used. The files may be in a zip file. To find them, Python
    imports the package that the entry point names. They are read once: a package does not change while a program runs.
    """

    label = "package"

    def __init__(self, only: Iterable[str] | None = None) -> None:
        if isinstance(only, str):
            raise ConfigurationError(f"only takes a list of names of entry points, as in only=[{only!r}].")
        self.only: frozenset[str] | None = None if only is None else frozenset(only)
        self._lock = new_lock()
        self._scan: SkillScan | None = None

    def stamp(self) -> object:
        return None

    def scan(self) -> SkillScan:
        with self._lock:
            if self._scan is None:
                self._scan = self._scanned()
            return self._scan

    def _scanned(self) -> SkillScan:
        points = sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value))
        chosen = [each for each in points if self.only is None or each.name in self.only]
        found: list[FoundSkill] = []
        problems: list[SkillError] = []
        for name in sorted((self.only or frozenset()) - {each.name for each in chosen}):
            problems.append(SkillError(name, f"no installed package has an entry point of this name in {GROUP!r}."))
        for each in chosen:
            try:
                _collect(each, found, problems)
            except Exception as error:
                # the package is imported, which may fail with anything
                problems.append(SkillError(each.value, f"the package cannot be read: {type(error).__name__}: {error}"))
        scan = unique(found)
        return SkillScan(scan.skills, (*problems, *scan.problems))

    def __repr__(self) -> str:
        return f"<PackageSkills{'' if self.only is None else ' ' + ', '.join(sorted(self.only))}>"


def _collect(point: EntryPoint, found: list[FoundSkill], problems: list[SkillError]) -> None:
    root = files_of(point.module)
    for part in point.attr.split(".") if point.attr else ():
        root = root / part
    if not root.is_dir():
        problems.append(SkillError(point.value, "the package has no such folder."))
        return
    for folder in _visible(root):
        if not folder.is_dir():
            continue
        place = f"{point.value}/{folder.name}"
        files = PackageFiles(folder, place)
        try:
            _, info = info_of_text(files.text(), f"{place}/{FILE_NAME}")
        except SkillError as error:
            problems.append(error)
        else:
            note = note_of(info.name, folder.name)
            found.append(FoundSkill(info, f"package:{point.name}", place, files, note))


def _visible(folder: Traversable) -> list[Traversable]:
    """What is in the folder, by name, without hidden files and what Python and others leave there."""
    kept = [each for each in folder.iterdir() if not each.name.startswith(".") and each.name not in SKIPPED]
    return sorted(kept, key=lambda each: each.name)


class PackageFiles:
    """The files of a skill in an installed package."""

    __slots__ = ("_place", "_root")

    def __init__(self, root: Traversable, place: str) -> None:
        self._root = root
        self._place = place

    def text(self) -> str:
        """The text of SKILL.md."""
        return decoded_text(self._read(FILE_NAME, MAX_TEXT), f"{self._place}/{FILE_NAME}")

    def list(self) -> tuple[SkillFile, ...]:
        """The other files, sorted by path."""
        found: list[SkillFile] = []
        for path, each in self._walk(self._root, ""):
            if len(found) >= MAX_FILES:
                raise SkillError(self._place, f"it has more than {MAX_FILES:,} files.")
            if path != FILE_NAME:
                found.append(SkillFile(path, len(_bytes(each, MAX_FILE, f"{self._place}/{path}"))))
        return tuple(sorted(found, key=lambda each: each.path))

    def read(self, path: str) -> bytes:
        """The bytes of one of these files."""
        return self._read(path, MAX_FILE)

    def _read(self, path: str, limit: int) -> bytes:
        # by the list: no path leads out of the folder
        for known, each in self._walk(self._root, ""):
            if known == path:
                return _bytes(each, limit, f"{self._place}/{path}")
        raise SkillError(f"{self._place}/{path}", "there is no such file.")

    def _walk(self, folder: Traversable, above: str) -> Iterator[tuple[str, Traversable]]:
        for each in _visible(folder):
            path = f"{above}{each.name}"
            if each.is_dir():
                yield from self._walk(each, f"{path}/")
            else:
                yield path, each


def _bytes(file: Traversable, limit: int, shown: str) -> bytes:
    try:
        with file.open("rb") as opened:
            data: bytes = opened.read(limit + 1)
    except OSError as error:
        raise SkillError(shown, f"it cannot be read: {error.strerror or error}.") from None
    if len(data) > limit:
        raise SkillError(shown, f"it has more than {limit:,} bytes.")
    return data
