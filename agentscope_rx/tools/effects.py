"""`Effects`: which arguments of a tool are paths, a command or code, and if its effects stay in its workspace.

    @tool(effects=Effects(paths=("source", "target")))
    def copy(source: str, target: str) -> str: ...

Rules about paths and commands (`agentscope_rx.permissions`) read the arguments that are named here. A tool without
`effects` has those of its arguments' names:

| an argument named                                                                | is         |
|----------------------------------------------------------------------------------|------------|
| path, paths, file, files, file_path, filepath, filename, folder, directory, dir, | a path     |
| source, src, destination, dest, target, old_path, new_path, root                 |            |
| command, cmd                                                                     | a command  |
| code, script                                                                     | code       |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentscope_rx.errors import ToolDefinitionError

_PATHS = ("path", "paths", "file", "files", "file_path", "filepath", "filename", "folder", "directory", "dir")
_PAIRS = ("source", "src", "destination", "dest", "target", "old_path", "new_path", "root")
PATH_NAMES = frozenset((*_PATHS, *_PAIRS))
COMMAND_NAMES = ("command", "cmd")
CODE_NAMES = ("code", "script")


@dataclass(frozen=True, slots=True)
class Effects:
    """What the arguments of a tool's calls can have an effect on.

    `paths` are arguments with one path, or a list of paths; `command` is one with a command line, which runs in the
    folder `folder`; `code` is one with a program that runs. With `below` a call may also reach what lies below its
    paths. `confined` promises that no call changes anything outside of the workspace of the tool's object.
    """

    paths: tuple[str, ...] = ()
    command: str | None = None
    folder: str | None = None
    code: str | None = None
    below: bool = False
    confined: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.paths, str):
            raise ToolDefinitionError(f"paths of Effects takes a tuple, as in paths=({self.paths!r},).", tool="")
        object.__setattr__(self, "paths", tuple(self.paths))


def effects_by_names(properties: Mapping[str, object]) -> Effects:
    """The effects of a tool that declares none: by the names of its arguments, and below its paths."""
    return Effects(
        paths=tuple(name for name in properties if name.lower() in PATH_NAMES),
        command=next((name for name in properties if name.lower() in COMMAND_NAMES), None),
        folder=next((name for name in properties if name.lower() in ("cwd", "workdir", "working_directory")), None),
        code=next((name for name in properties if name.lower() in CODE_NAMES), None),
        below=True,
    )
