"""`SkillSource`: a place where skills are found. Its methods block: the library calls them on worker threads.

| source                              | label            | skills                                                      |
|-------------------------------------|------------------|-------------------------------------------------------------|
| `WorkspaceSkills(workspace)`        | `workspace`      | `skills/*/SKILL.md` in the workspace                        |
| `UserSkills()`                      | `user`           | `~/.agentscope/skills/*/SKILL.md`                           |
| `FolderSkills(path)`                | the path         | `*/SKILL.md` in a folder                                    |
| `PackageSkills()`                   | `package:<name>` | those of installed packages, by their entry points          |
| `GivenSkills([Skill(...)])`         | `code`           | skills that are made in code                                |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import field
from typing import Protocol

from agentscope_rx.errors import ConfigurationError, SkillError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.skills.skill import FILE_NAME, Skill, SkillInfo, skill_of_text, skill_text

MAX_TEXT = 1024 * 1024
"""Bytes of a SKILL.md."""
MAX_FILE = 16 * 1024 * 1024
MAX_FILES = 1_000
MAX_TOTAL = 64 * 1024 * 1024
"""Bytes of one resource, the number of resources, and the bytes of a whole skill."""


@dataclass(frozen=True, slots=True)
class SkillFile:
    """A file of a skill besides its SKILL.md: its path in the skill's folder, and its bytes."""

    path: str
    size: int


class SkillFiles(Protocol):
    """The files of one skill, where they are. `SkillError` for what cannot be read."""

    def text(self) -> str:
        """The text of SKILL.md."""
        ...

    def list(self) -> tuple[SkillFile, ...]:
        """The other files, sorted by path, without hidden ones."""
        ...

    def read(self, path: str) -> bytes:
        """The bytes of one of these files."""
        ...


@dataclass(frozen=True, slots=True)
class FoundSkill:
    """A skill in its source; its instructions and files are read when they are needed."""

    info: SkillInfo
    source: str
    """The label of the source."""
    place: str
    """The folder of the skill, for people."""
    files: SkillFiles = field(compare=False, repr=False)
    note: str | None = None
    """A fault of the skill that does not prevent its use; None if there is none."""

    @property
    def name(self) -> str:
        """The name of the skill."""
        return self.info.name

    def load(self) -> Skill:
        """The whole skill with all its files; `SkillError` if they are more than the limits."""
        files = self.load_files()
        return skill_of_text(files.pop(FILE_NAME).decode(), f"{self.place}/{FILE_NAME}", files)

    def load_files(self) -> dict[str, bytes]:
        """The bytes of all files by path, SKILL.md included; `SkillError` if they are more than the limits."""
        found = self.files.list()
        total = sum(each.size for each in found)
        if total > MAX_TOTAL:
            raise SkillError(
                self.place, f"the files have {total:,} bytes; at most {MAX_TOTAL:,} are read.", skill=self.name
            )
        return {FILE_NAME: self.files.text().encode(), **{each.path: self.files.read(each.path) for each in found}}


@dataclass(frozen=True, slots=True)
class SkillScan:
    """The skills of a source at one moment; `problems` are those that cannot be used."""

    skills: tuple[FoundSkill, ...] = ()
    problems: tuple[SkillError, ...] = ()


class SkillSource(ABC):
    """A place where skills are found. Its methods block: the library calls them on worker threads.

    | source | label | skills |
    |---|---|---|
    | `WorkspaceSkills(workspace)` | `workspace` | `skills/*/SKILL.md` in the workspace |
    | `UserSkills()` | `user` | `~/.agentscope/skills/*/SKILL.md` |
    | `FolderSkills(path)` | the path | `*/SKILL.md` in a folder |
    | `PackageSkills()` | `package:<name>` | those of installed packages, by their entry points |
    | `GivenSkills([Skill(...)])` | `code` | skills that are made in code |

    Links are not followed, hidden files are left out, and no path leads out of a folder. Limits: 1 MiB for SKILL.md,
    1,000 files, 16 MiB for one and 64 MiB for all.
    """

    label: str = ""

    @abstractmethod
    def stamp(self) -> object:
        """A value that changes when the skills change; cheap, from the times and sizes of files."""

    @abstractmethod
    def scan(self) -> SkillScan:
        """Read the front matter of all skills. Those that cannot be read are in `problems`; the others are found."""


class GivenSkills(SkillSource):
    """Skills that are made in code."""

    label = "code"

    def __init__(self, skills: Iterable[Skill]) -> None:
        if isinstance(skills, Skill) or not isinstance(skills, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"GivenSkills takes a list of Skills, not {skills!r:.60}.")
        self.skills: tuple[Skill, ...] = tuple(skills)
        names: set[str] = set()
        for each in self.skills:
            if not isinstance(each, Skill):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigurationError(f"GivenSkills takes Skills, not {each!r:.60}.")
            if each.name in names:
                raise ConfigurationError(f"There are two skills named {each.name!r}. Rename one of them.")
            names.add(each.name)

    def stamp(self) -> object:
        return None

    def scan(self) -> SkillScan:
        return SkillScan(tuple(FoundSkill(each.info, self.label, each.name, _Given(each)) for each in self.skills))

    def __repr__(self) -> str:
        return f"<GivenSkills {', '.join(each.name for each in self.skills)}>"


class _Given:
    """The files of a skill that was made in code."""

    __slots__ = ("_skill",)

    def __init__(self, skill: Skill) -> None:
        self._skill = skill

    def text(self) -> str:
        return skill_text(self._skill)

    def list(self) -> tuple[SkillFile, ...]:
        return tuple(SkillFile(path, len(data)) for path, data in sorted(self._skill.resources.items()))

    def read(self, path: str) -> bytes:
        return self._skill.resources[path]


def note_of(name: str, folder: str) -> str | None:
    """What is wrong with a skill of this name in a folder of this name, if anything."""
    if name == folder:
        return None
    return f"the folder is named {folder!r}, and the skill {name!r}. Give both the same name."


def unique(found: Iterable[FoundSkill]) -> SkillScan:
    """The scan of these skills; the second one of a name in one source is a problem."""
    first: dict[str, FoundSkill] = {}
    problems: list[SkillError] = []
    for each in found:
        other = first.setdefault(each.name, each)
        if other is not each:
            problems.append(
                SkillError(
                    f"{each.place}/{FILE_NAME}",
                    f"{other.place} declares the name {each.name!r}, too. Rename one of them.",
                    skill=each.name,
                )
            )
    return SkillScan(tuple(first.values()), tuple(problems))
