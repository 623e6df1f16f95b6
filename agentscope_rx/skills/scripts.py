"""`SkillScripts`: runs the scripts of skills in a workspace, by the tool `run_skill_script`.

    SkillsHook(*usual_sources(workspace), run_scripts=SkillScripts(workspace))

    run_skill_script(name, path, version, args)
      -> approval: the person sees the skill, the script, the version and the arguments
      -> all files of the skill are read: is the version the one of the call?        no: refused, with the new version
      -> their copy in a folder of its own, outside of the workspace
      -> the interpreter of the script's extension runs it, in the workspace

The version is a hash over all files of the skill. So a remembered approval (`remember="arguments"`) is for this very
content: a script that has changed, or a file beside it, asks again. What runs is the copy that was hashed, so that a
change after the approval has no effect.

It is no sandbox: a script can do what its user can.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

from pydantic import Field

from agentscope_rx.errors import ConfigurationError, ToolError
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.reactive import ENGINE_WORKERS, on_worker
from agentscope_rx.reactive.kernel.forking import new_lock
from agentscope_rx.skills.skill import digest_of
from agentscope_rx.skills.skill_tools import SkillName, reading
from agentscope_rx.skills.source import FoundSkill
from agentscope_rx.skills.wording import LOAD, RUN, shown_path
from agentscope_rx.tools import FunctionTool, Tool, ToolContext, tool
from agentscope_rx.tools.base import Approval, check_mark
from agentscope_rx.tools.files.workspace import Workspace
from agentscope_rx.tools.process.environment import environment, with_home
from agentscope_rx.tools.process.run import GRACE, SETTLE, run
from agentscope_rx.tools.shell.shell import MAX_OUTPUT, TIMEOUT, check_limits, namespace_for, result_of_run

SKILL_DIR = "SKILL_DIR"
"""The environment variable with the folder of the skill's copy."""
MAX_ARGUMENTS = 100_000
"""Characters of all arguments of a script."""

_PYTHON = (sys.executable or "python3", "-E", "-s", "-B", "-u", "-X", "utf8")
INTERPRETERS: Mapping[str, tuple[str, ...]] = {
    ".py": _PYTHON,
    ".sh": ("sh",),
    ".bash": ("bash",),
    ".js": ("node",),
    ".mjs": ("node",),
    ".cjs": ("node",),
}
"""The words before the path of a script, by its extension."""


class SkillScripts:
    """Runs scripts of skills, each in a process of its own, in the folder `workspace`.

    | option              | sets                                                                                   |
    |---------------------|----------------------------------------------------------------------------------------|
    | `requires_approval` | False: no call needs approval; or a function of the arguments                          |
    | `interpreters`      | more rows for `INTERPRETERS`, or others; None in the place of the words takes one out  |
    | `timeout`           | seconds for one script                                                                 |
    | `max_output`        | bytes of output that the model gets                                                    |
    | `env`               | variables of the scripts, which get no others of this process but harmless ones        |
    | `namespace`         | as for `ShellTool`                                                                     |
    """

    def __init__(
        self,
        workspace: Workspace | str | os.PathLike[str],
        *,
        requires_approval: Approval = True,
        interpreters: Mapping[str, Sequence[str] | None] | None = None,
        timeout: float = TIMEOUT,
        max_output: int = MAX_OUTPUT,
        env: Mapping[str, str] | None = None,
        namespace: bool | None = None,
    ) -> None:
        check_limits(timeout, max_output)
        self.workspace: Workspace = workspace if isinstance(workspace, Workspace) else Workspace(workspace)
        self.requires_approval: Approval = check_mark(RUN, requires_approval)
        self.interpreters: Mapping[str, tuple[str, ...]] = _interpreters(interpreters or {})
        self.timeout = timeout
        self.max_output = max_output
        self._path = os.pathsep.join(
            each
            for each in os.environ.get("PATH", os.defpath).split(os.pathsep)
            if os.path.isabs(each) and not Path(os.path.realpath(each)).is_relative_to(self.workspace.root)
        )
        self._env = environment(self._path, env)
        self._namespace = namespace_for(self.workspace, namespace)

    async def run(
        self, skill: FoundSkill, path: str, version: str, args: Sequence[str], context: ToolContext | None
    ) -> object:
        """Run one script of this version of the skill, and return its result for the model."""
        files = await on_worker(lambda: _files(skill), ENGINE_WORKERS)
        found = digest_of(files)
        if version != found:
            raise ToolError(
                f"Skill {skill.name!r} has the version {found} now, not {version!r:.80}: a file of it has changed, or "
                "the version was not copied exactly. Load the skill again, look at what the script does, and call "
                "with this version."
            )
        script = self._checked(skill.name, files, path, args)
        words = self._words(script)
        with self.workspace.folder() as folder, folder.as_path() as where:
            async with _copied(files, self.workspace.root) as copy, with_home(self._env, self.workspace.root) as env:
                outcome = await run(
                    (*words, os.path.join(copy, *script.split("/")), *args),
                    cwd=where,
                    env={**env, SKILL_DIR: copy},
                    timeout=self.timeout,
                    max_output=self.max_output,
                    show=None if context is None else context.emit,
                    namespace=self._namespace,
                )
        return result_of_run(outcome, self.timeout, None if context is None else context.call)

    def can_run(self, path: str) -> bool:
        """True if there is an interpreter for the extension of this path."""
        return os.path.splitext(path)[1].lower() in self.interpreters

    def _checked(self, name: str, files: Mapping[str, bytes], path: str, args: Sequence[str]) -> str:
        script = path.strip().removeprefix("./")
        scripts = [each for each in sorted(files) if self.can_run(each)]
        if script not in files:
            there = ", ".join(map(shown_path, scripts[:20])) or "none"
            raise ToolError(f"Skill {name!r} has no script {path!r:.200}. Its scripts: {there}.")
        if not self.can_run(script):
            raise ToolError(
                f"{shown_path(script)} cannot be run: its extension is none of {', '.join(sorted(self.interpreters))}."
            )
        if sum(map(len, args)) > MAX_ARGUMENTS or any("\0" in each for each in args):
            raise ToolError(f"args hold a NUL character, or more than {MAX_ARGUMENTS:,} characters. Pass a file.")
        return script

    def _words(self, script: str) -> tuple[str, ...]:
        program, *options = self.interpreters[os.path.splitext(script)[1].lower()]
        where = program if os.path.isabs(program) else shutil.which(program, path=self._path)
        if where is None:
            raise ToolError(f"There is no program {program!r} here, which {shown_path(script)} needs. Use another way.")
        return (where, *options)

    def __repr__(self) -> str:
        return f"<SkillScripts in {str(self.workspace.root)!r}: {', '.join(sorted(self.interpreters))}>"


class ScriptTool:
    """The tool `run_skill_script` over `SkillScripts`; `find` gives the skill of a name."""

    def __init__(self, scripts: SkillScripts, find: Callable[[str], FoundSkill]) -> None:
        self._scripts = scripts
        self._find = find
        bound: FunctionTool[..., object] = self.run_skill_script  # pyright: ignore[reportAssignmentType]
        bound.requires_approval = scripts.requires_approval
        bound.execution_config = ExecutionConfig(timeout=scripts.timeout + GRACE + 2 * SETTLE)
        self.tool: Tool = bound

    @tool(name=RUN)
    async def run_skill_script(
        self,
        name: SkillName,
        path: Annotated[str, Field(description="The script, as load_skill lists it.", examples=["scripts/fares.py"])],
        version: Annotated[str, Field(description=f"The version of the skill's files, as {LOAD} gives it.")],
        args: Annotated[list[str], Field(description="The arguments of the script, one item for each.")] = [],  # noqa: B006
        context: ToolContext | None = None,
    ) -> object:
        """Run a script of a skill in the working directory and get its output and exit code."""
        skill = await on_worker(lambda: self._find(name), ENGINE_WORKERS)
        return await self._scripts.run(skill, path, version, args, context)


def _files(skill: FoundSkill) -> dict[str, bytes]:
    with reading():
        return skill.load_files()


@asynccontextmanager
async def _copied(files: Mapping[str, bytes], root: Path) -> AsyncGenerator[str]:
    """A folder with these files, outside of the workspace, which is removed at the end."""
    copy = _Copy(files, root)
    try:
        yield await on_worker(copy.make, ENGINE_WORKERS)
    finally:
        if (made := copy.leave()) is not None:
            await on_worker(made.cleanup, ENGINE_WORKERS)


class _Copy:
    """A folder that a worker makes. If its call has left meanwhile, the worker removes it."""

    def __init__(self, files: Mapping[str, bytes], root: Path) -> None:
        self._files = files
        self._root = root
        self._lock = new_lock()
        self._left = False
        self._made: tempfile.TemporaryDirectory[str] | None = None

    def make(self) -> str:
        """Write the files; gives the path of the folder."""
        folder = tempfile.TemporaryDirectory(
            prefix="agentscope-rx-skill-", dir=_outside(self._root), ignore_cleanup_errors=True
        )
        kept = False
        try:
            for path, data in self._files.items():
                target = Path(folder.name, *path.split("/"))
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
                target.chmod(0o500)
            with self._lock:
                kept = not self._left
                self._made = folder if kept else None
        finally:
            if not kept:
                folder.cleanup()
        return folder.name

    def leave(self) -> tempfile.TemporaryDirectory[str] | None:
        """The folder, for its removal; None if there is none, or none yet."""
        with self._lock:
            self._left, made, self._made = True, self._made, None
            return made


def _outside(root: Path) -> str:
    """A folder for temporary files that is not in the workspace, where a model's tools could change them."""
    for folder in (tempfile.gettempdir(), "/var/tmp", "/dev/shm", "/tmp"):  # noqa: S108 - a private folder is made there
        found = os.path.realpath(folder)
        if not Path(found).is_relative_to(root) and os.access(found, os.W_OK | os.X_OK):
            return found
    raise ToolError("Scripts cannot be run here: there is no folder for temporary files outside of the workspace.")


def _interpreters(given: Mapping[str, Sequence[str] | None]) -> Mapping[str, tuple[str, ...]]:
    found = dict(INTERPRETERS)
    for extension, words in given.items():
        if not isinstance(extension, str) or not extension.startswith(".") or extension != extension.lower():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"interpreters has extensions such as '.rb' as keys, not {extension!r:.40}.")
        if words is None:
            found.pop(extension, None)
        elif isinstance(words, str) or not words or not all(isinstance(each, str) and each for each in words):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"interpreters takes words, as in {{'.rb': ['ruby']}}, not {words!r:.60}.")
        else:
            found[extension] = tuple(words)
    return found
