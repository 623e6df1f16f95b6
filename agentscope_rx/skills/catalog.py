"""`SkillCatalog`: the skills of several sources, the earlier sources first.

    catalog = SkillCatalog(WorkspaceSkills(workspace), UserSkills(), PackageSkills())
    skills = catalog.read()                a `Skills`: by name, with hidden ones and problems

A skill hides those of the same name in later sources. A source is read again when its stamp has changed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from difflib import get_close_matches
from types import MappingProxyType

from agentscope_rx.errors import ConfigurationError, SkillError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.reactive.kernel.forking import new_lock
from agentscope_rx.skills.folders import FolderSkills, UserSkills, WorkspaceSkills
from agentscope_rx.skills.front_matter import check_installed
from agentscope_rx.skills.packages import PackageSkills
from agentscope_rx.skills.skill import Skill
from agentscope_rx.skills.source import FoundSkill, GivenSkills, SkillScan, SkillSource
from agentscope_rx.tools.files.workspace import Workspace

_UNKNOWN: tuple[object, SkillScan] = object(), SkillScan()

AnySource = SkillSource | Workspace | Skill | str | os.PathLike[str]
"""A source, or what one is made of: a workspace, a skill, the path of a folder that holds skills."""


@dataclass(frozen=True, slots=True)
class Skills:
    """The skills of a catalog at one moment."""

    by_name: Mapping[str, FoundSkill] = field(default_factory=dict[str, FoundSkill])
    """The skills by name, in a fixed order, so that a list made of them is always the same text."""
    shadowed: tuple[tuple[FoundSkill, FoundSkill], ...] = ()
    """Each skill that is hidden, with the one that hides it."""
    problems: tuple[SkillError, ...] = ()

    def near(self, name: str) -> tuple[str, ...]:
        """Names of skills that resemble this one; all names, if there are few."""
        names = tuple(self.by_name)
        return names if len(names) <= 10 else tuple(get_close_matches(name[:100], names, 3, 0.5))


class SkillCatalog:
    """Reads the skills of several sources, the earlier sources first; changed skills are read again.

        catalog = SkillCatalog(WorkspaceSkills(workspace), UserSkills(), PackageSkills())
        skills = catalog.read()                a `Skills`: by name, with hidden ones and problems

    A skill hides those of the same name in later sources. It may be used from several threads. `MissingExtraError`
    without PyYAML.
    """

    def __init__(self, *sources: AnySource) -> None:
        check_installed()
        self.sources: tuple[SkillSource, ...] = sources_of(sources)
        self._lock = new_lock()
        self._known: dict[int, tuple[object, SkillScan]] = {}
        self._skills: Skills | None = None

    def read(self) -> Skills:
        """The skills now; the same object if nothing has changed. It blocks."""
        # not under the lock: a source that hangs must not hold the readers that come later
        fresh = [
            (index, stamp, _scan(source))
            for index, source in enumerate(self.sources)
            if (stamp := _stamp(source)) != self._known.get(index, _UNKNOWN)[0]
        ]
        with self._lock:
            for index, stamp, scan in fresh:
                self._known[index] = stamp, scan
            if self._skills is None or fresh:
                self._skills = _merged([self._known[index][1] for index in range(len(self.sources))])
            return self._skills

    def __repr__(self) -> str:
        return f"<SkillCatalog {', '.join(map(repr, self.sources))}>"


def sources_of(given: tuple[AnySource, ...]) -> tuple[SkillSource, ...]:
    """The sources; a run of skills is one source. `ConfigurationError` for anything else."""
    found: list[SkillSource] = []
    skills: list[Skill] = []
    for each in given:
        if isinstance(each, Skill):
            skills.append(each)
            continue
        if isinstance(each, SkillSource):
            found.append(each)
        elif isinstance(each, Workspace):
            found.append(WorkspaceSkills(each))
        elif isinstance(each, (str, os.PathLike)):  # pyright: ignore[reportUnnecessaryIsInstance]
            found.append(FolderSkills(each))
        else:
            raise ConfigurationError(
                f"Skills come from a SkillSource, a Workspace, a Skill or the path of a folder, not {each!r:.60}."
            )
    # made in code, for this very agent: they hide the others
    return (GivenSkills(skills), *found) if skills else tuple(found)


def usual_sources(workspace: Workspace | str | os.PathLike[str]) -> tuple[SkillSource, ...]:
    """The skills of the workspace, then those of the user, then those of installed packages."""
    return WorkspaceSkills(workspace), UserSkills(), PackageSkills()


def _stamp(source: SkillSource) -> object:
    try:
        return source.stamp()
    except Exception as error:
        # the scan meets it, too, and reports it
        return str(error)


def _scan(source: SkillSource) -> SkillScan:
    try:
        return source.scan()
    except SkillError as error:
        return SkillScan((), (error,))
    except Exception as error:
        # a source of the program's own may fail with anything: the others keep their skills
        text = f"its skills cannot be read: {type(error).__name__}: {error}"
        return SkillScan((), (SkillError(source.label or repr(source), text),))


def _merged(scans: list[SkillScan]) -> Skills:
    found: dict[str, FoundSkill] = {}
    shadowed: list[tuple[FoundSkill, FoundSkill]] = []
    for scan in scans:
        for each in scan.skills:
            first = found.setdefault(each.name, each)
            if first is not each:
                shadowed.append((each, first))
    return Skills(
        MappingProxyType(dict(sorted(found.items()))),
        tuple(sorted(shadowed, key=lambda pair: (pair[0].name, pair[0].source))),
        tuple(problem for scan in scans for problem in scan.problems),
    )
