"""`Backend`: the port under the file, shell and Python tools: the files of an agent, and a place to run its commands.

    FileTools  ->  backend.workspace                  ShellTool, PythonTool  ->  backend.run(words, ...)

| backend             | files                  | commands                                             |
|---------------------|------------------------|------------------------------------------------------|
| `LocalBackend`      | of this system         | as this user, with limits                            |
| `BubblewrapBackend` | of this system         | in a sandbox in which only the workspace is writable |

A backend whose files are not on this system (a container, another machine) is a subclass with a subclass of `Workspace`
that overrides `resolve` and `folder`, the two places where a path becomes an open file; `FileTools` open files nowhere
else. It also overrides `find`, which looks for programs among the files of this system.
"""

from __future__ import annotations

import os
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.tools.files.workspace import Workspace
from agentscope_rx.tools.process.limits import Limits
from agentscope_rx.tools.process.run import ProcessResult


class Guarantee(StrEnum):
    """A promise of a backend about a command, also about one that works against it.

    None covers processes that another program of the system was asked to start, faults of the kernel, or a limit that
    is not set.
    """

    TIME = "time"
    """The call ends soon after the time limit."""
    OUTPUT = "output"
    """The output takes a bounded amount of memory here."""
    FOLDER = "folder"
    """A workspace that was replaced by another folder is noticed, and nothing runs in it."""
    ENVIRONMENT = "environment"
    """The command's environment has no variables of this process."""
    MEMORY = "memory"
    """No process has more private memory than the limit."""
    FILE_SIZE = "file_size"
    """No file becomes larger than the limit."""
    DESCENDANTS = "descendants"
    """All processes of the command end with it."""
    TOTAL_MEMORY = "total_memory"
    """All processes together are ended when they have more memory than the limit for more than a moment."""
    PROCESSES = "processes"
    """All processes are ended when there are more of them, threads included, than the limit for more than a moment."""
    HOST_PROCESSES = "host_processes"
    """Other processes of the system are neither seen nor reached."""
    NETWORK = "network"
    """There is no network, not even to this machine."""
    READS = "reads"
    """No files are read but those of the workspace, the system's programs, and what was added."""
    WRITES = "writes"
    """No files are written but those of the workspace."""
    DENIED_PATHS = "denied_paths"
    """Paths that the workspace denies are not read and not written, if they exist when the command starts.

    Not if another command in the same workspace moves them at that moment. A pattern such as `config/secrets/**` denies
    a place: once a command has moved `config`, what is in it has another path, which is not denied.
    """
    PRIVILEGES = "privileges"
    """No rights are gained: no setuid program, mount, device or new namespace."""


ISOLATION = frozenset(
    {
        Guarantee.DESCENDANTS,
        Guarantee.DENIED_PATHS,
        Guarantee.ENVIRONMENT,
        Guarantee.HOST_PROCESSES,
        Guarantee.PRIVILEGES,
        Guarantee.READS,
        Guarantee.WRITES,
    }
)
"""The guarantees that a tool for any command needs."""


class Backend(ABC):
    """A workspace, and a place to run commands in it. `limits` are those of a command that is given no others.

    For a backend of your own, implement `guarantees` and `run`. If its files are not on this system (a container,
    another machine), give it a `Workspace` of its own kind: a subclass that overrides `resolve` and `folder`.
    """

    def __init__(self, workspace: Workspace | str | os.PathLike[str], limits: Limits) -> None:
        if not isinstance(limits, Limits):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"limits takes Limits(...), not {limits!r:.60}.")
        self.workspace: Workspace = workspace if isinstance(workspace, Workspace) else Workspace(workspace)
        self.limits: Limits = limits

    def __repr__(self) -> str:
        held = ", ".join(each for each in Guarantee if each in self.guarantees)
        return f"<{type(self).__name__} {str(self.workspace.root)!r}, guarantees: {held}>"

    @property
    @abstractmethod
    def guarantees(self) -> frozenset[Guarantee]:
        """The guarantees of this place, with these limits."""

    @abstractmethod
    async def run(
        self,
        words: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str = ".",
        limits: Limits | None = None,
        show: Callable[[str], object] | None = None,
        given: bytes | None = None,
    ) -> ProcessResult:
        """Run the program `words[0]` (an absolute path) in the folder `cwd` of the workspace, with all of `env`.

        `show` gets the output as it arrives; `given` is the standard input, if any. Cancelling ends the command, and
        returns when it has ended. `ToolError` if it does not start.
        """

    @property
    def confines(self) -> bool:
        """True if no effect of a command leaves the workspace, whatever the command is."""
        return self.guarantees >= ISOLATION | {Guarantee.NETWORK}

    @property
    def notice(self) -> str:
        """Facts about this place for the descriptions of tools, which a model reads; empty for an ordinary one."""
        return ""

    @property
    def python(self) -> str | None:
        """The interpreter for `PythonTool`; None if there is none."""
        return None if getattr(sys, "frozen", False) else sys.executable or None

    def search_path(self, path: Sequence[str | os.PathLike[str]] | None = None) -> str:
        """The PATH of commands: these folders, or by default those of PATH in which no model may write."""
        if path is None:
            return os.pathsep.join(program_folders(self.workspace))
        if isinstance(path, str):
            raise ConfigurationError(f"path takes a list of folders, as in path=[{path!r}].")
        for each in path:
            if not os.path.isabs(each):
                raise ConfigurationError(f"path takes absolute paths of folders, not {str(each)!r}.")
        return os.pathsep.join([os.fspath(each) for each in path])

    def find(self, program: str, path: str) -> str | None:
        """The absolute path of a program in the folders of `path`; None if there is none."""
        return shutil.which(program, path=path)


def program_folders(workspace: Workspace) -> list[str]:
    """The absolute folders of PATH outside of the workspace: no model can write a program there."""
    given = os.environ.get("PATH", os.defpath).split(os.pathsep)
    root = workspace.root
    return [each for each in given if os.path.isabs(each) and not Path(os.path.realpath(each)).is_relative_to(root)]


def backend_of(
    workspace: Workspace | str | os.PathLike[str] | None,
    backend: Backend | None,
    default: Callable[[Workspace | str | os.PathLike[str]], Backend],
) -> Backend:
    """The backend of a tool that was given a workspace or a backend."""
    if backend is None:
        if workspace is None:
            raise ConfigurationError("Give a workspace (a folder), or a backend=...")
        return default(workspace)
    if not isinstance(backend, Backend):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"backend takes a Backend, as in backend=LocalBackend('project'), not {backend!r:.60}."
        )
    if workspace is not None and workspace is not backend.workspace:
        raise ConfigurationError("Give a workspace or a backend, not both: the backend has its own workspace.")
    return backend
