"""`ShellTool`: runs allowed programs in a workspace, without a shell, in bounded time and output.

    ShellTool(workspace, allow=["git status", "git log *", Rule("ls *", options=("-l", "-a"))])

    command -> split (see `shell_words`) -> matched with the rules (see `allowlist`) -> run (see `process`)
                  |                            |
               rejected                     rejected

It is no sandbox: a program that runs can do what its user can. The rules only ensure that no other programs run, and
that these get no other arguments.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from agentscope_rx.errors import CommandDeniedError, ConfigurationError, ToolError
from agentscope_rx.messages import TextBlock, ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.tools.context import ToolContext
from agentscope_rx.tools.files.workspace import Workspace
from agentscope_rx.tools.function_tool import FunctionTool, tool
from agentscope_rx.tools.process.environment import environment, with_home
from agentscope_rx.tools.process.run import GRACE, SETTLE, ProcessResult, run
from agentscope_rx.tools.process.supervised import namespace as namespace_on
from agentscope_rx.tools.shell.allowlist import Rule, rules_of
from agentscope_rx.tools.shell.shell_words import denied, split_command

MAX_OUTPUT = 30_000
TIMEOUT = 60.0


class ShellTool:
    """The tool `run_command`, for the commands in `allow`, and those in `ask` after approval.

    `path` lists the folders to search programs in; the default are the absolute folders of PATH outside of the
    workspace. `timeout` (seconds) and `max_output` (bytes) bound each run. The environment is `env` and a few harmless
    variables, without others of this process; HOME is an empty folder outside of the workspace.

    With `namespace`, each command runs in a PID namespace of its own, which no process leaves: always (True, which
    needs `bwrap`), never (False), or where the system can (None). Without one, a supervisor follows the processes.
    """

    def __init__(
        self,
        workspace: Workspace | str | os.PathLike[str],
        allow: Iterable[Rule | str] = (),
        *,
        ask: Iterable[Rule | str] = (),
        path: Sequence[str | os.PathLike[str]] | None = None,
        timeout: float = TIMEOUT,
        max_output: int = MAX_OUTPUT,
        env: Mapping[str, str] | None = None,
        namespace: bool | None = None,
    ) -> None:
        self.workspace: Workspace = workspace if isinstance(workspace, Workspace) else Workspace(workspace)
        self.allow: tuple[Rule, ...] = rules_of(allow, "allow")
        self.ask: tuple[Rule, ...] = rules_of(ask, "ask")
        if not self.allow and not self.ask:
            raise ConfigurationError(
                "ShellTool needs the commands that it may run, as in allow=['git status', 'git log *']."
            )
        check_limits(timeout, max_output)
        self.timeout = timeout
        self.max_output = max_output
        self._path = os.pathsep.join(_search_path(path, self.workspace))
        self._env = environment(self._path, env)
        self._namespace = namespace_for(self.workspace, namespace)
        bound: FunctionTool[..., object] = self.run_command  # pyright: ignore[reportAssignmentType]
        bound.description = self._description()
        bound.requires_approval = self._needs_approval
        bound.execution_config = ExecutionConfig(timeout=timeout + GRACE + 2 * SETTLE)
        self.__dict__["run_command"] = bound

    def __repr__(self) -> str:
        return f"<ShellTool run_command: {'; '.join(map(str, (*self.allow, *self.ask)))}>"

    @tool
    async def run_command(
        self,
        command: Annotated[str, Field(description="The program and its arguments.", examples=["git log -n 3"])],
        cwd: Annotated[str, Field(description="The folder to run in, relative to the working directory.")] = ".",
        timeout: Annotated[float | None, Field(description="Seconds after which it is ended.", gt=0)] = None,
        context: ToolContext | None = None,
    ) -> object:
        """Run a command."""
        words = self._checked(command, cwd)
        program = shutil.which(words[0], path=self._path)
        if program is None:
            raise ToolError(f"There is no program {words[0]!r:.80} here. Use another way.")
        limit = self.timeout if timeout is None else min(timeout, self.timeout)
        with self.workspace.folder(cwd) as folder, folder.as_path() as where:
            async with with_home(self._env, self.workspace.root) as env:
                outcome = await run(
                    (program, *words[1:]),
                    cwd=where,
                    env=env,
                    timeout=limit,
                    max_output=self.max_output,
                    show=None if context is None else context.emit,
                    namespace=self._namespace,
                )
        return result_of_run(outcome, limit, None if context is None else context.call)

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
        command, cwd = str(arguments["command"]), str(arguments.get("cwd", "."))
        try:
            words = self._checked(command, cwd)
        except CommandDeniedError:
            # it will not run, so that there is nothing to approve
            return False
        return not any(rule.fits(words) and rule.problem(words, self.workspace, cwd) is None for rule in self.allow)

    def _description(self) -> str:
        rules = "; ".join(map(str, (*self.allow, *self.ask)[:40]))
        return (
            "Run one of the commands that are allowed, in the working directory, and get its output and exit code. "
            "There is no shell: no pipes, redirection, variables, patterns or several commands in one. "
            f"Allowed (* is any further arguments): {rules}"
        )


def result_of_run(outcome: ProcessResult, limit: float, call: ToolUseBlock | None) -> ToolResultBlock:
    """The result of a run for the model: its output, and how it ended."""
    call = call or ToolUseBlock("by hand", "run", {})
    metadata = {"exit_code": outcome.exit_code, "timed_out": outcome.timed_out, "output_bytes": outcome.total}
    text = outcome.text.rstrip("\n") or "(no output)"
    if outcome.timed_out:
        message = f"Error: It did not finish within {limit:g} s and was ended. Its output until then:\n{text}"
        return ToolResultBlock(call.id, call.name, (TextBlock(message),), ToolResultKind.TIMEOUT, metadata)
    code = outcome.exit_code
    how = f"ended by signal {-code}" if code is not None and code < 0 else f"exit code {code}"
    return ToolResultBlock(call.id, call.name, (TextBlock(f"{text}\n({how})"),), None, metadata)


def namespace_for(workspace: Workspace, wanted: bool | None) -> tuple[str, ...]:
    """The words that run a command in a PID namespace; empty if it is not wanted, or neither required nor possible."""
    found = None if wanted is False else namespace_on(os.pathsep.join(_search_path(None, workspace)))
    if found is None and wanted:
        raise ConfigurationError(
            "namespace=True needs `bwrap` (bubblewrap) on PATH, outside of the workspace, and a system that lets it "
            "make PID namespaces. Install it, or leave namespace out: on Linux a supervisor then follows the commands."
        )
    return found or ()


def check_limits(timeout: float, max_output: int) -> None:
    """`ConfigurationError` unless the limits are positive numbers."""
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < float("inf"):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"timeout must be more than 0 seconds, not {timeout!r}.")
    if type(max_output) is not int or max_output < 100:
        raise ConfigurationError(f"max_output is in bytes, a whole number of at least 100, not {max_output!r}.")


def _search_path(path: Sequence[str | os.PathLike[str]] | None, workspace: Workspace) -> list[str]:
    """The folders that programs are searched in; by default none where a model may write."""
    if path is None:
        given = os.environ.get("PATH", os.defpath).split(os.pathsep)
        return [each for each in given if os.path.isabs(each) and not _within(each, workspace.root)]
    if isinstance(path, str):
        raise ConfigurationError(f"path takes a list of folders, as in path=[{path!r}].")
    for each in path:
        if not os.path.isabs(each):
            raise ConfigurationError(f"path takes absolute paths of folders, not {str(each)!r}.")
    return [os.fspath(each) for each in path]


def _within(folder: str, root: Path) -> bool:
    return Path(os.path.realpath(folder)).is_relative_to(root)
