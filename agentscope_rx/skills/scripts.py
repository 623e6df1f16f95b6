"""`SkillScripts`: runs the scripts of skills in a backend, by the tool `run_skill_script`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

from pydantic import Field

from agentscope_rx.errors import ConfigurationError, ToolError
from agentscope_rx.errors.text import encodable
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.reactive import ENGINE_WORKERS, on_worker
from agentscope_rx.skills.skill import digest_of
from agentscope_rx.skills.skill_tools import SkillName, reading
from agentscope_rx.skills.source import FoundSkill
from agentscope_rx.skills.wording import LOAD, RUN
from agentscope_rx.tools import Effects, FunctionTool, Tool, ToolContext, tool
from agentscope_rx.tools.backends.backend import Backend
from agentscope_rx.tools.base import Approval, check_mark
from agentscope_rx.tools.files.paths import on_one_line
from agentscope_rx.tools.files.workspace import Workspace
from agentscope_rx.tools.process.environment import environment
from agentscope_rx.tools.process.limits import Limits
from agentscope_rx.tools.process.run import GRACE, SETTLE
from agentscope_rx.tools.shell.running import backend_for, limits_for, result_of_run

SKILL_DIR = "SKILL_DIR"
"""The environment variable with the folder that has the skill's files."""
MAX_ARGUMENTS = 100_000
"""Characters of all arguments of a script."""
PYTHON = "python"
"""Stands in `interpreters` for the Python of the backend."""

INTERPRETERS: Mapping[str, tuple[str, ...]] = {
    ".py": (PYTHON, "-E", "-s", "-B", "-u", "-X", "utf8"),
    ".sh": ("sh",),
    ".bash": ("bash",),
    ".js": ("node",),
    ".mjs": ("node",),
    ".cjs": ("node",),
}
"""The words before the path of a script, by its extension."""

# unpacks standard input (a line of paths and sizes, then the bytes), and becomes the script
_BOOT = """
import json, os, sys
data = sys.stdin.buffer
folder = os.path.join(os.environ["HOME"], "skill")
try:
    for path, size in json.loads(data.readline()):
        target = os.path.join(folder, *path.split("/"))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as file:
            file.write(data.read(size))
        os.chmod(target, 0o500)
except OSError as error:
    sys.exit(f"The files of the skill could not be unpacked: {error}")
os.environ["SKILL_DIR"] = folder
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
count = int(sys.argv[1]) + 2
words = [*sys.argv[2:count], os.path.join(folder, *sys.argv[count].split("/")), *sys.argv[count + 1 :]]
if os.name == "nt":
    import subprocess
    sys.exit(subprocess.call(words))
os.execv(words[0], words)
"""


@dataclass(frozen=True, slots=True)
class _Script:
    """A script that can run: its path in the skill, and the words of its interpreter."""

    path: str
    words: tuple[str, ...]


class SkillScripts:
    """Runs scripts of skills in the folder of a workspace, or in a `backend`.

        SkillsHook(*usual_sources(workspace), run_scripts=SkillScripts(backend=BubblewrapBackend(workspace)))

        run_skill_script(name, path, version, args)
          -> approval: the person sees the skill, the script, the version and the arguments
          -> all files of the skill are read: is the version the one of the call?   no: refused, with the new version
          -> the backend gets them through standard input, and unpacks them in the HOME of the command, an empty folder
          -> the interpreter of the script's extension runs it, in the workspace

    - `requires_approval`: False: no call needs approval; or a function of the arguments. With a `PermissionsHook` no
      mode lets a script run unasked, and a rule that allows the exact call holds for its version
    - `interpreters`: by extension, such as `{".rb": ["ruby"]}`; None takes one out. Known: .py, .sh, .bash, .js, .mjs,
      .cjs
    - `timeout`: seconds for one script; default: the limit of the backend
    - `max_output`: bytes of output that the model gets; default: the limit of the backend
    - `env`: variables of the scripts, which get no others of this process but harmless ones

    - The version is a hash over all files of the skill, so a remembered approval (`remember="arguments"`) is for this
      very content. The bytes that were hashed are the ones that run: a change after the approval has no effect.
    - No file of a skill is put into the workspace, and none remains. Scripts of the user's folder and of zipped
      packages run, too.
    - The backend limits a script (`Backend.guarantees`); in a `LocalBackend` it can do all that its user can do.
    """

    def __init__(
        self,
        workspace: Workspace | str | os.PathLike[str] | None = None,
        *,
        backend: Backend | None = None,
        requires_approval: Approval = True,
        interpreters: Mapping[str, Sequence[str] | None] | None = None,
        timeout: float | None = None,
        max_output: int | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.backend: Backend = backend_for(workspace, backend, None)
        self.requires_approval: Approval = check_mark(RUN, requires_approval)
        self.interpreters: Mapping[str, tuple[str, ...]] = _interpreters(interpreters or {})
        self.limits: Limits = limits_for(self.backend, timeout, max_output)
        if "HOME" in (env or {}):
            raise ConfigurationError(
                "env must not have HOME: scripts run in an empty one, where the skill's files are."
            )
        self._path = self.backend.search_path()
        self._env = environment(self._path, env)

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
        script = self._script(skill.name, files, path)
        python = self.backend.python
        if python is None:
            raise ToolError("No Python is available here, and scripts of skills need one to start. Use another way.")
        if sum(map(len, args)) > MAX_ARGUMENTS or any("\0" in each for each in args):
            raise ToolError(f"args hold a NUL character, or more than {MAX_ARGUMENTS:,} characters. Pass a file.")
        outcome = await self.backend.run(
            (
                *(python, "-I", "-X", "utf8", "-c", _BOOT),
                *(str(len(script.words)), *script.words, script.path),
                *map(encodable, args),
            ),
            env=self._env,
            limits=self.limits,
            show=None if context is None else context.emit,
            given=_packed(files),
        )
        return result_of_run(outcome, self.limits, None if context is None else context.call)

    def can_run(self, path: str) -> bool:
        """True if there is an interpreter for the extension of this path."""
        return os.path.splitext(path)[1].lower() in self.interpreters

    def _script(self, name: str, files: Mapping[str, bytes], path: str) -> _Script:
        script = path.strip().removeprefix("./")
        if script not in files:
            there = ", ".join(on_one_line(each) for each in sorted(files) if self.can_run(each)) or "none"
            raise ToolError(f"Skill {name!r} has no script {path!r:.200}. Its scripts: {there:.2000}.")
        if not self.can_run(script):
            raise ToolError(
                f"{on_one_line(script)} cannot be run: its extension is none of {', '.join(sorted(self.interpreters))}."
            )
        program, *options = self.interpreters[os.path.splitext(script)[1].lower()]
        where = self.backend.python if program == PYTHON else program
        if where is not None and not os.path.isabs(where):
            where = self.backend.find(where, self._path)
        if where is None:
            raise ToolError(
                f"There is no program {program!r} here, which {on_one_line(script)} needs. Use another way."
            )
        return _Script(script, (where, *options))

    def __repr__(self) -> str:
        return f"<SkillScripts in {self.backend!r}: {', '.join(sorted(self.interpreters))}>"


class ScriptTool:
    """The tool `run_skill_script` over `SkillScripts`; `find` gives the skill of a name."""

    def __init__(self, scripts: SkillScripts, find: Callable[[str], FoundSkill]) -> None:
        self._scripts = scripts
        self._find = find
        bound: FunctionTool[..., object] = self.run_skill_script  # pyright: ignore[reportAssignmentType]
        bound.requires_approval = scripts.requires_approval
        if scripts.backend.notice:
            bound.description = f"{bound.description} {scripts.backend.notice}"
        bound.execution_config = ExecutionConfig(timeout=scripts.limits.time + GRACE + 2 * SETTLE)
        self.tool: Tool = bound

    # what it runs is not in its arguments: rules about paths and commands cannot tell
    @tool(name=RUN, effects=Effects(code="path"))
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


def _packed(files: Mapping[str, bytes]) -> bytes:
    """The files as `_BOOT` reads them."""
    head = json.dumps([(path, len(data)) for path, data in files.items()])
    return b"".join((head.encode(), b"\n", *files.values()))


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
