"""`SubAgentCatalog`: the sub-agents of several sources, the earlier sources first.

    catalog = SubAgentCatalog(WorkspaceSubAgents(workspace), UserSubAgents(), SubAgent("critic", ...))
    catalog.read()                     a `SubAgents`: by name, with what is hidden and what cannot be used

Those in code hide those of the same name in files, and an earlier source those in later ones.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from difflib import get_close_matches
from types import MappingProxyType

from agentscope_rx.errors import ConfigurationError, SubAgentFileError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.reactive.kernel.forking import new_lock
from agentscope_rx.skills.front_matter import check_installed
from agentscope_rx.sub_agents.source import (
    FolderSubAgents,
    FoundSubAgent,
    GivenSubAgents,
    SubAgentScan,
    SubAgentSource,
    UserSubAgents,
    WorkspaceSubAgents,
)
from agentscope_rx.sub_agents.sub_agent import SubAgent
from agentscope_rx.tools.files.workspace import Workspace

AnySubAgents = SubAgentSource | Workspace | SubAgent | str | os.PathLike[str]
"""A source, or an object that becomes one: a workspace, a declaration, the path of a folder with files."""


@dataclass(frozen=True, slots=True)
class SubAgents:
    """The sub-agents of a catalog at one moment: `by_name`, hidden ones in `shadowed`, and the `problems`."""

    by_name: Mapping[str, FoundSubAgent] = field(default_factory=dict[str, FoundSubAgent])
    """The sub-agents by name, in a fixed order, so that a list made of them is always the same text."""
    shadowed: tuple[tuple[FoundSubAgent, FoundSubAgent], ...] = ()
    """Each one that is hidden, with the one that hides it."""
    problems: tuple[SubAgentFileError, ...] = ()

    def near(self, name: str) -> tuple[str, ...]:
        """Names that are similar to this one; all names, if there are few."""
        names = tuple(self.by_name)
        return names if len(names) <= 10 else tuple(get_close_matches(name[:100], names, 3, 0.5))


class SubAgentCatalog:
    """The sub-agents of several sources. `read` reads a source again when its files have changed.

    It may be used from several threads. `MissingExtraError` without PyYAML, if a source reads files.
    """

    def __init__(self, *sources: AnySubAgents) -> None:
        self.sources: tuple[SubAgentSource, ...] = sources_of(sources)
        if not self.in_memory:
            check_installed()
        self._lock = new_lock()
        self._made: tuple[object, SubAgents] = (), SubAgents()

    def read(self) -> SubAgents:
        """The sub-agents now; the same object if nothing has changed.

        It blocks: in a coroutine use `SubagentsHook.sub_agents`.
        """
        # not under the lock: a source that hangs must not hold the readers that come later
        scans = tuple(map(_scan, self.sources))
        key = [(scan.found, tuple(map(str, scan.problems))) for scan in scans]
        with self._lock:
            if self._made[0] != key:
                self._made = key, _merged(scans)
            return self._made[1]

    @property
    def in_memory(self) -> bool:
        """True if all are declared in code, so that reading takes no time."""
        return all(isinstance(each, GivenSubAgents) for each in self.sources)

    @property
    def in_code(self) -> tuple[FoundSubAgent, ...]:
        """The sub-agents that are declared in code."""
        return tuple(found for each in self.sources if isinstance(each, GivenSubAgents) for found in each.scan().found)

    @property
    def is_declared(self) -> bool:
        """True if no declaration has a ready agent (`agent=`)."""
        known = (GivenSubAgents, FolderSubAgents, WorkspaceSubAgents)
        return all(isinstance(each, known) for each in self.sources) and not any(
            each.declared.agent is not None for each in self.in_code
        )

    def __repr__(self) -> str:
        return f"<SubAgentCatalog {', '.join(map(repr, self.sources))}>"


def sources_of(given: tuple[AnySubAgents, ...]) -> tuple[SubAgentSource, ...]:
    """The sources; the declarations are one source, the first. `ConfigurationError` for anything else."""
    found: list[SubAgentSource] = []
    declared: list[SubAgent] = []
    for each in given:
        if isinstance(each, SubAgent):
            declared.append(each)
        elif isinstance(each, SubAgentSource):
            found.append(each)
        elif isinstance(each, Workspace):
            found.append(WorkspaceSubAgents(each))
        elif isinstance(each, (str, os.PathLike)):  # pyright: ignore[reportUnnecessaryIsInstance]
            found.append(FolderSubAgents(each))
        else:
            raise ConfigurationError(
                "Sub-agents come from a SubAgent, a SubAgentSource, a Workspace or the path of a folder, not "
                f"{each!r:.60}. A ready agent is declared by SubAgent(name, description, agent=...)."
            )
    return (GivenSubAgents(declared), *found) if declared else tuple(found)


def usual_sub_agents(workspace: Workspace | str | os.PathLike[str]) -> tuple[SubAgentSource, ...]:
    """The sources that most programs use: the workspace's sub-agents, then those of the user."""
    return WorkspaceSubAgents(workspace), UserSubAgents()


def _scan(source: SubAgentSource) -> SubAgentScan:
    try:
        return source.scan()
    except Exception as error:
        # a source of the program's own may fail with anything: the others keep their sub-agents
        text = f"its sub-agents cannot be read: {type(error).__name__}: {error}"
        return SubAgentScan((), (SubAgentFileError(source.label or repr(source), text),))


def _merged(scans: tuple[SubAgentScan, ...]) -> SubAgents:
    found: dict[str, FoundSubAgent] = {}
    shadowed: list[tuple[FoundSubAgent, FoundSubAgent]] = []
    for scan in scans:
        for each in scan.found:
            first = found.setdefault(each.name, each)
            if first is not each:
                shadowed.append((each, first))
    return SubAgents(
        MappingProxyType(dict(sorted(found.items()))),
        tuple(shadowed),
        tuple(problem for scan in scans for problem in scan.problems),
    )
