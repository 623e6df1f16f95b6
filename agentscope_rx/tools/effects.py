"""`Effects`: which arguments of a tool are paths, a command or code, and if its effects stay in its workspace.

    @tool(effects=Effects(paths=("source", "target")))
    def copy(source: str, target: str) -> str: ...

Rules about paths and commands (`agentscope_rx.permissions`) read the arguments that are named here. A tool without
`effects` has those of its arguments' names:

| an argument named                                                                | is         |
|----------------------------------------------------------------------------------|------------|
| path, file, filename, folder, directory, dir, or with such a word at its end     | a path     |
| (`output_path`, `inputFile`); source, src, destination, dest, target, root, uri  |            |
| command, cmd, or with such a word at its end (`shell_command`)                   | a command  |
| code, script                                                                     | code       |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

from agentscope_rx.errors import ToolDefinitionError
from agentscope_rx.frozen_values import dataclass

_PATH_WORDS = ("path", "file", "filepath", "filename", "folder", "foldername", "directory", "dir", "dirname")
_LAST_WORDS = frozenset((*_PATH_WORDS, *(f"{each}s" for each in _PATH_WORDS), "directories"))
_PATH_NAMES = frozenset(("source", "src", "destination", "dest", "target", "root", "uri", "file_name", "dir_name"))
_COMMAND_WORDS = ("command", "cmd", "cmdline")
_COMMAND_NAMES = ("command_line",)
_CODE_NAMES = ("code", "script")
_FOLDER_NAMES = ("cwd", "workdir", "working_directory", "working_dir", "workingdirectory")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Effects:
    """Names the arguments through which a tool's calls have an effect.

    | field      | names                                                                         |
    |------------|-------------------------------------------------------------------------------|
    | `paths`    | arguments with one path, or a list of paths                                   |
    | `command`  | the argument with a command line; `folder` is that with the folder it runs in |
    | `code`     | the argument with a program that runs                                         |
    | `below`    | True: a call may also reach files below its paths                             |
    | `confined` | True: no call changes anything outside of the workspace of the tool's object  |

    Permissions read it: `@tool(effects=Effects(paths=("source",)))`.
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


def _words(name: str) -> list[str]:
    return [each.lower() for each in _WORD.findall(name)]


def is_path_name(name: str) -> bool:
    """True if an argument of this name is taken for a path, or a list of paths."""
    words = _words(name)
    return bool(words) and (words[-1] in _LAST_WORDS or "_".join(words) in _PATH_NAMES)


def is_command_name(name: str) -> bool:
    """True if an argument of this name is taken for a command."""
    words = _words(name)
    return bool(words) and (words[-1] in _COMMAND_WORDS or "_".join(words) in _COMMAND_NAMES)


def is_code_name(name: str) -> bool:
    """True if an argument of this name is taken for code."""
    return name.lower() in _CODE_NAMES


def check_effects(tool: str, effects: Effects | None, parameters: Mapping[str, object]) -> Effects | None:
    """`ToolDefinitionError` if they are none, or name an argument that the tool does not have.

    Rules about paths and commands would be without effect for it.
    """
    if effects is None:
        return None
    if not isinstance(effects, Effects):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ToolDefinitionError(
            f"effects of tool {tool!r} must be Effects(paths=(...)), not {effects!r:.60}.", tool=tool
        )
    known = parameters.get("properties")
    if isinstance(known, Mapping) and parameters.get("additionalProperties") in (None, False):
        arguments = cast("Mapping[str, object]", known)
        given = (*effects.paths, effects.command, effects.folder, effects.code)
        strange = [each for each in given if each is not None and each not in arguments]
        if strange:
            raise ToolDefinitionError(
                f"Effects of tool {tool!r} name {strange[0]!r:.60}, and its arguments are: "
                f"{', '.join(arguments) or 'none'}.",
                tool=tool,
            )
    return effects


def effects_by_names(properties: Mapping[str, object]) -> Effects:
    """The effects of a tool that declares none: by the names of its arguments, and below its paths."""
    commands = [name for name in properties if is_command_name(name)]
    codes = [name for name in properties if is_code_name(name)]
    folder = next((name for name in properties if name.lower() in _FOLDER_NAMES), None)
    return Effects(
        paths=tuple(name for name in properties if is_path_name(name) and name != folder),
        command=commands[0] if commands else None,
        folder=folder,
        # only one command is read: with a second one it cannot be told what the call does
        code=next(iter((*codes, *commands[1:])), None),
        below=True,
    )
