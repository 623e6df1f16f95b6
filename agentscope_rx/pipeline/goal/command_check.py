"""`CommandCheck`: a command as a verifier: the goal is reached when it ends with exit code 0.

GoalLoop(coder, CommandCheck("pytest", "-q", backend=BubblewrapBackend("project")))
"""

from __future__ import annotations

from collections.abc import Mapping

from agentscope_rx.errors import ConfigurationError, ToolError
from agentscope_rx.messages import Msg
from agentscope_rx.pipeline.goal.verdict import GoalVerdict
from agentscope_rx.tools.backends import Backend, Limits
from agentscope_rx.tools.process.environment import environment, with_home

MAX_FEEDBACK = 4000
"""The characters of the output that the executor gets: its end, where test runners report."""


class CommandCheck:
    """A verifier that runs one command in the workspace of `backend`, without a shell. Exit code 0 means success.

        GoalLoop(coder, CommandCheck("pytest", "-q", backend=LocalBackend("project")))

    The feedback is the end of the command's output, at most `max_feedback` characters. The executor's answer is not
    read: the state of the workspace counts. A command that does not end in time has not succeeded. A command that
    cannot start is a failure of the verifier. `limits` replaces the backend's limits, `env` adds variables.
    """

    def __init__(
        self,
        *command: str,
        backend: Backend,
        limits: Limits | None = None,
        env: Mapping[str, str] | None = None,
        max_feedback: int = MAX_FEEDBACK,
    ) -> None:
        if not command or not all(isinstance(each, str) for each in command):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"CommandCheck takes the words of a command, such as CommandCheck('pytest', '-q'), not {command!r:.60}."
            )
        if not isinstance(backend, Backend):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"backend must be a Backend, such as LocalBackend('project'), not {backend!r:.60}."
            )
        self.command = command
        self.backend = backend
        self.limits = limits
        self.env = env
        self.max_feedback = max_feedback
        self.__name__ = "check"

    async def __call__(self, answer: Msg) -> GoalVerdict:
        """Run the command. `ToolError` if it does not start."""
        backend = self.backend
        path = backend.search_path()
        program = backend.find(self.command[0], path)
        if program is None:
            raise ToolError(f"The program {self.command[0]!r} was not found in {path!r}.")
        limits = backend.limits if self.limits is None else self.limits
        async with with_home(environment(path, self.env), backend.workspace.root) as env:
            result = await backend.run([program, *self.command[1:]], env=env, limits=limits)
        if result.exit_code == 0 and not result.timed_out and result.exceeded is None:
            return GoalVerdict(done=True)
        ended = f"ended with exit code {result.exit_code}"
        if result.timed_out:
            ended = f"did not end within {limits.time:g} s"
        elif result.exceeded is not None:
            ended = f"used too much {result.exceeded}"
        text = result.text[-self.max_feedback :]
        shown = text if len(text) == len(result.text) else f"[...]\n{text}"
        return GoalVerdict(done=False, feedback=f"The command {' '.join(self.command)} {ended}.\n{shown}".rstrip())
