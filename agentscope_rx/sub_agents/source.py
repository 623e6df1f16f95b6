"""`SubAgentSource`: a place where sub-agents are declared. Its methods block: they are called on worker threads.

| source                        | label        | sub-agents                                            |
|-------------------------------|--------------|-------------------------------------------------------|
| `WorkspaceSubAgents(".")`     | `workspace`  | `subagents/*.md` in the workspace                     |
| `UserSubAgents()`             | `user`       | `~/.agentscope/subagents/*.md`                        |
| `FolderSubAgents(path)`       | the path     | `*.md` in a folder                                    |
| `GivenSubAgents([...])`       | `code`       | `SubAgent`s that are made in code                     |

Files are read through a `Workspace`: links are not followed, so that no name reaches a file outside of the folder. A
file that cannot be used is a problem of the scan, and the others are there; hidden files are left out.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from agentscope_rx.errors import ConfigurationError, SubAgentFileError, WorkspaceError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.sub_agents.declaration_file import sub_agent_of_text
from agentscope_rx.sub_agents.sub_agent import SubAgent
from agentscope_rx.tools.files.dirfd import FileKind
from agentscope_rx.tools.files.workspace import Workspace
from agentscope_rx.workspace.file_watch import FileText, FileWatch
from agentscope_rx.workspace.layout import SUBAGENTS

ENDING: Final = ".md"
MAX_FILES: Final = 200
MAX_TEXT: Final = 64 * 1024
"""Bytes of one file."""


@dataclass(frozen=True, slots=True)
class FoundSubAgent:
    """A sub-agent in its source; `place` is the file that declares it, as text for people."""

    declared: SubAgent
    source: str
    place: str

    @property
    def name(self) -> str:
        """The name of the sub-agent."""
        return self.declared.name


@dataclass(frozen=True, slots=True)
class SubAgentScan:
    """One reading of a source: the sub-agents it has found, and `problems` with those that cannot be used."""

    found: tuple[FoundSubAgent, ...] = ()
    problems: tuple[SubAgentFileError, ...] = ()


class SubAgentSource(ABC):
    """A place where sub-agents are declared."""

    label: str = ""

    @abstractmethod
    def scan(self) -> SubAgentScan:
        """The sub-agents now; equal to the scan before if nothing has changed."""


class GivenSubAgents(SubAgentSource):
    """Sub-agents that are declared in code."""

    label = "code"

    def __init__(self, declared: Iterable[SubAgent]) -> None:
        if isinstance(declared, SubAgent) or not isinstance(declared, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"GivenSubAgents takes a list of SubAgents, not {declared!r:.60}.")
        found: dict[str, FoundSubAgent] = {}
        for each in declared:
            if not isinstance(each, SubAgent):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigurationError(f"GivenSubAgents takes SubAgents, not {each!r:.60}.")
            if each.name in found:
                raise ConfigurationError(f"There are two sub-agents named {each.name!r}. Rename one of them.")
            found[each.name] = FoundSubAgent(each, self.label, each.name)
        self._scan = SubAgentScan(tuple(found.values()))

    def scan(self) -> SubAgentScan:
        return self._scan

    def __repr__(self) -> str:
        return f"<GivenSubAgents {', '.join(each.name for each in self._scan.found)}>"


class _Files(SubAgentSource):
    """Sub-agents in the files of one folder of a workspace; a file is read again when it has changed."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._watch: tuple[Workspace | None, FileWatch | None] = None, None
        # by path: the text that was read, and what was made of it
        self._made: dict[str, tuple[FileText, FoundSubAgent | SubAgentFileError]] = {}

    @abstractmethod
    def _opened(self) -> tuple[Workspace, str] | None:
        """The workspace and the folder in it; None if there is no such folder."""

    @abstractmethod
    def _shown(self, path: str = "") -> str:
        """A path below the folder, for people."""

    def scan(self) -> SubAgentScan:
        try:
            opened = self._opened()
            return SubAgentScan() if opened is None else self._scanned(*opened)
        except (WorkspaceError, ConfigurationError, OSError) as error:
            text = f"the sub-agents in it cannot be read: {error}"
            return SubAgentScan((), (SubAgentFileError(self._shown(), text),))

    def _scanned(self, workspace: Workspace, folder: str) -> SubAgentScan:
        problems: list[SubAgentFileError] = []
        paths: dict[str, str] = {}
        with workspace.folder(folder or ".") as opened:
            entries = sorted(opened.list(), key=lambda each: each.name)
        for each in entries:
            name = each.name
            if name.startswith(".") or not name.lower().endswith(ENDING):
                continue
            if each.kind is FileKind.LINK:
                text = "it is a symbolic link, and links are not followed. Copy the file."
                problems.append(SubAgentFileError(self._shown(name), text))
            elif each.kind is not FileKind.FILE:
                problems.append(SubAgentFileError(self._shown(name), "it is no file."))
            elif len(paths) >= MAX_FILES:
                text = f"there are more than {MAX_FILES} files of sub-agents, and this one is left out."
                problems.append(SubAgentFileError(self._shown(name), text))
            else:
                paths[name] = f"{folder}/{name}" if folder else name
        watched, watch = self._watch
        if watch is None or watched is not workspace:
            watch = FileWatch(workspace, limit=MAX_TEXT, clock=self._clock)
            self._watch = workspace, watch
        texts = watch.look(paths.values())
        made = {name: self._one(name, texts.get(path), self._made.get(name)) for name, path in paths.items()}
        self._made = made
        return self._merged([each for _, each in made.values()], problems)

    def _one(
        self, name: str, content: FileText | None, before: tuple[FileText, FoundSubAgent | SubAgentFileError] | None
    ) -> tuple[FileText, FoundSubAgent | SubAgentFileError]:
        place = self._shown(name)
        if content is None:
            gone = FileText(problem="denied")
            return gone, SubAgentFileError(place, "it cannot be read: it is denied by the workspace, or gone.")
        if before is not None and before[0] == content:
            return before
        if content.problem:
            return content, SubAgentFileError(place, content.problem)
        if content.more:
            return content, SubAgentFileError(place, f"it has more than {MAX_TEXT:,} bytes. Make the prompt shorter.")
        try:
            declared = sub_agent_of_text(content.text, place, name[: -len(ENDING)])
        except SubAgentFileError as error:
            return content, error
        return content, FoundSubAgent(declared, self.label, place)

    def _merged(
        self, made: Iterable[FoundSubAgent | SubAgentFileError], problems: list[SubAgentFileError]
    ) -> SubAgentScan:
        found: dict[str, FoundSubAgent] = {}
        for each in made:
            if isinstance(each, SubAgentFileError):
                problems.append(each)
                continue
            other = found.setdefault(each.name, each)
            if other is not each:
                text = f"{other.place} declares the name {each.name!r}, too. Rename one of them."
                problems.append(SubAgentFileError(each.place, text, sub_agent=each.name))
        return SubAgentScan(tuple(found.values()), tuple(problems))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._shown()!r}>"


class WorkspaceSubAgents(_Files):
    """The sub-agents in a folder of a workspace, by default `subagents`."""

    def __init__(
        self, workspace: Workspace | str | os.PathLike[str], folder: str = SUBAGENTS, *, label: str = "workspace"
    ) -> None:
        super().__init__()
        self.workspace: Workspace = workspace if isinstance(workspace, Workspace) else Workspace(workspace)
        self.folder: str = "/".join(self.workspace.parts(folder))
        self.label = label

    def _opened(self) -> tuple[Workspace, str] | None:
        return (self.workspace, self.folder) if self.workspace.exists(self.folder or ".") else None

    def _shown(self, path: str = "") -> str:
        return "/".join(part for part in (self.folder, path) if part) or "."


class FolderSubAgents(_Files):
    """The sub-agents in the `*.md` files of a folder. The folder may be a link, and may not exist yet."""

    def __init__(self, path: str | os.PathLike[str], *, label: str | None = None) -> None:
        super().__init__()
        if not isinstance(path, (str, os.PathLike)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"FolderSubAgents takes the path of a folder, not {path!r:.60}.")
        self.path: Path = Path(path).expanduser()
        self.label: str = str(path) if label is None else label
        self._workspace: Workspace | None = None

    def _opened(self) -> tuple[Workspace, str] | None:
        if not self.path.exists():
            self._workspace = None
            return None
        try:
            if self._workspace is not None and self._workspace.exists("."):
                return self._workspace, ""
        except WorkspaceError as error:
            if error.reason != "replaced":
                raise
        self._workspace = Workspace(self.path, portable=False)
        return self._workspace, ""

    def _shown(self, path: str = "") -> str:
        return str(self.path / path) if path else str(self.path)


class UserSubAgents(FolderSubAgents):
    """The sub-agents of the user, in `~/.agentscope/subagents` or in `path`."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        super().__init__(Path.home() / ".agentscope" / SUBAGENTS if path is None else path, label="user")
