"""`ShellTool`: runs allowed programs in a workspace, without a shell, in bounded time and output.

    ShellTool(workspace, allow=["git status", "git log *", Rule("ls *", options=("-l", "-a"))])

    command -> split (see `shell_words`) -> matched with the rules (see `allowlist`) -> run (see `process`)
                  |                            |
               rejected                     rejected

It is no sandbox: a program that runs can do what its user can. The rules only ensure that no other programs run, and
that these get no other arguments. In a backend that isolates, `allow_any=True` is a free shell instead:

    ShellTool(backend=BubblewrapBackend("project"), allow_any=True)
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from agentscope_rx.errors import CommandDeniedError, ConfigurationError, ToolError
from agentscope_rx.errors.text import is_encodable
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.tools.backends.backend import ISOLATION, Backend
from agentscope_rx.tools.context import ToolContext
from agentscope_rx.tools.effects import Effects
from agentscope_rx.tools.files.workspace import Workspace
from agentscope_rx.tools.function_tool import FunctionTool, tool
from agentscope_rx.tools.process.environment import environment
from agentscope_rx.tools.process.run import GRACE, SETTLE
from agentscope_rx.tools.shell.allowlist import Rule, rules_of
from agentscope_rx.tools.shell.running import backend_for, limits_for, result_of_run
from agentscope_rx.tools.shell.shell_words import denied, split_command

_EFFECTS = Effects(command="command", folder="cwd")

_SHELLS = ("bash", "sh")
"""The shells of `allow_any`, the first that there is."""


class ShellTool:
    """The tool `run_command`, for the commands in `allow`, and those in `ask` after approval.

        ShellTool(workspace, allow=["git status", "git log *", Rule("ls *", options=("-l", "-a"))])

    Without `allow` or `ask` it is a `ConfigurationError`. No shell starts: the command is split into words (quotes and
    backslashes as in `sh`), which must match a rule. Syntax of a shell is denied with the reason (`CommandDeniedError`,
    kind `rejected`). Rules protect which program runs with which words. They are no sandbox: a program that runs can do
    what its user can.

    `path` lists the folders to search programs in; the default are the absolute folders of PATH outside of the
    workspace. `timeout` (seconds) and `max_output` (bytes) bound each run, by default as the backend does. The
    environment is `env` and a few harmless variables, without others of this process; HOME is an empty folder. The
    result is the output, both streams in order and cut in the middle, and the exit code, which is also in `metadata`.

    Commands run in a folder of this system, as with `LocalBackend`, or in a `backend`, whose guarantees are the tool's.
    `namespace` is as for `LocalBackend`. `allow_any=True` runs any command in a shell, in place of `allow` and `ask`.
    It needs a backend with the guarantees of `ISOLATION`:

        ShellTool(backend=BubblewrapBackend("project"), allow_any=True)
    """

    def __init__(
        self,
        workspace: Workspace | str | os.PathLike[str] | None = None,
        allow: Iterable[Rule | str] = (),
        *,
        ask: Iterable[Rule | str] = (),
        path: Sequence[str | os.PathLike[str]] | None = None,
        timeout: float | None = None,
        max_output: int | None = None,
        env: Mapping[str, str] | None = None,
        namespace: bool | None = None,
        backend: Backend | None = None,
        allow_any: bool = False,
    ) -> None:
        self.allow: tuple[Rule, ...] = rules_of(allow, "allow")
        self.ask: tuple[Rule, ...] = rules_of(ask, "ask")
        self.allow_any = allow_any
        if not self.allow and not self.ask and not allow_any:
            raise ConfigurationError(
                "ShellTool needs the commands that it may run, as in allow=['git status', 'git log *']."
            )
        self.backend: Backend = backend_for(workspace, backend, namespace)
        self.workspace: Workspace = self.backend.workspace
        if allow_any:
            self._check_any()
        self._limits = limits_for(self.backend, timeout, max_output)
        self.timeout: float = self._limits.time
        self.max_output: int = self._limits.output
        self._path = self.backend.search_path(path)
        self._env = environment(self._path, env)
        bound: FunctionTool[..., object] = self.run_command  # pyright: ignore[reportAssignmentType]
        bound.description = self._description()
        bound.requires_approval = self._needs_approval
        bound.effects = replace(_EFFECTS, confined=self.backend.confines)
        bound.execution_config = ExecutionConfig(timeout=self.timeout + GRACE + 2 * SETTLE)
        self.__dict__["run_command"] = bound

    def __repr__(self) -> str:
        commands = "any command" if self.allow_any else "; ".join(map(str, (*self.allow, *self.ask)))
        return f"<ShellTool run_command: {commands}>"

    @tool(effects=_EFFECTS)
    async def run_command(
        self,
        command: Annotated[str, Field(description="The program and its arguments.", examples=["git log -n 3"])],
        cwd: Annotated[str, Field(description="The folder to run in, relative to the working directory.")] = ".",
        timeout: Annotated[float | None, Field(description="Seconds after which it is ended.", gt=0)] = None,
        context: ToolContext | None = None,
    ) -> object:
        """Run a command."""
        words = self._words(command, cwd)
        limits = self._limits if timeout is None else replace(self._limits, time=min(timeout, self.timeout))
        outcome = await self.backend.run(
            words,
            cwd=cwd,
            env=self._env,
            limits=limits,
            show=None if context is None else context.emit,
        )
        return result_of_run(outcome, limits, None if context is None else context.call)

    def _words(self, command: str, cwd: str) -> tuple[str, ...]:
        """The words to run, the first the path of a program."""
        if self.allow_any:
            shell = self._shell()
            if "\0" in command or not is_encodable(command):
                raise ToolError("The command has a NUL or a lone surrogate in it, which no shell takes.")
            return (shell, "-c", command)
        words = self._checked(command, cwd)
        program = self.backend.find(words[0], self._path)
        if program is None:
            raise ToolError(f"There is no program {words[0]!r:.80} here. Use another way.")
        return (program, *words[1:])

    def _shell(self) -> str:
        for name in _SHELLS:
            if found := self.backend.find(name, self._path):
                return found
        raise ToolError("There is no shell here. Use another way.")

    def _check_any(self) -> None:
        if self.allow or self.ask:
            raise ConfigurationError("allow_any=True runs any command: leave out allow and ask.")
        if missing := sorted(ISOLATION - self.backend.guarantees):
            raise ConfigurationError(
                "allow_any=True runs any command, and needs a backend that isolates it, as BubblewrapBackend does. "
                f"{type(self.backend).__name__} does not guarantee: {', '.join(missing)}."
            )

    def _checked(self, command: str, cwd: str) -> tuple[str, ...]:
        words = split_command(command)
        problem: str | None = None
        for rule in (*self.allow, *self.ask):
            if rule.fits(words):
                why = rule.problem(words, self.workspace, cwd)
                if why is None:
                    return words
                problem = problem or why
        if problem is not None:
            raise denied(command, problem)
        hint = " To run in another folder give cwd" if words[0] == "cd" else ""
        listed = "; ".join(map(str, (*self.allow, *self.ask)[:40]))
        raise denied(command, f"Allowed are (* is any further arguments): {listed}.{hint}".rstrip("."))

    def _needs_approval(self, arguments: Mapping[str, object]) -> bool:
        """True if no rule of `allow` lets the command run, and one of `ask` does."""
        if self.allow_any:
            return False
        command, cwd = str(arguments["command"]), str(arguments.get("cwd", "."))
        try:
            words = self._checked(command, cwd)
        except CommandDeniedError:
            # it will not run, so that there is nothing to approve
            return False
        return not any(rule.fits(words) and rule.problem(words, self.workspace, cwd) is None for rule in self.allow)

    def _description(self) -> str:
        notice = self.backend.notice
        if self.allow_any:
            shell = os.path.basename(self._shell())
            return f"Run a command in {shell}, and get its output and exit code. {notice}"
        rules = "; ".join(map(str, (*self.allow, *self.ask)[:40]))
        return (
            "Run one of the commands that are allowed, in the working directory, and get its output and exit code. "
            "There is no shell: no pipes, redirection, variables, patterns or several commands in one. "
            f"{notice}{' ' if notice else ''}Allowed (* is any further arguments): {rules}"
        )
