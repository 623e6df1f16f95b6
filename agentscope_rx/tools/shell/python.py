"""`PythonTool`: runs a model's code in a separate Python. By default THIS IS NO SANDBOX: the code can do what its user
can.

Its time, output, memory and the size of each file that it writes are bounded, and it does not get the environment of
this process, its modules, or a terminal. It can read and write any file that the user can, and use the network. Run it
where that does no harm: with a `BubblewrapBackend`, in a container, as a user without rights.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from agentscope_rx.errors import ConfigurationError, ToolError
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.tools.backends.backend import Backend
from agentscope_rx.tools.context import ToolContext
from agentscope_rx.tools.effects import Effects
from agentscope_rx.tools.files.workspace import MIB, Workspace
from agentscope_rx.tools.function_tool import FunctionTool, tool
from agentscope_rx.tools.process.environment import environment
from agentscope_rx.tools.process.run import GRACE, SETTLE
from agentscope_rx.tools.shell.running import backend_for, limits_for, result_of_run

MEMORY = 1024 * MIB

_EFFECTS = Effects(code="code")

_BOOT = """
import sys
code = sys.stdin.buffer.read().decode()
exec(compile(code, "<code>", "exec"), {"__name__": "__main__"})
"""


class PythonTool:
    """The tool `run_python`. By default it is not a sandbox, so `allow=True` is required.

    The code can do what your user can, files and network included. In a `BubblewrapBackend` it runs in a sandbox;
    `allow=True` is required all the same. Each call needs approval unless `requires_approval=False`.

    It runs in a folder, or in a `backend`, whose guarantees are the tool's; `memory` is in bytes (1 GiB). `timeout`,
    `max_output` and `memory` default to the limits of the backend. Without such a limit, `max_write` of the workspace
    bounds the size of a file. The code gets neither the environment of this process nor its modules. `namespace` is as
    for `LocalBackend`.
    """

    def __init__(
        self,
        workspace: Workspace | str | os.PathLike[str] | None = None,
        *,
        allow: bool = False,
        requires_approval: bool = True,
        timeout: float | None = None,
        max_output: int | None = None,
        memory: int | None = None,
        env: Mapping[str, str] | None = None,
        namespace: bool | None = None,
        backend: Backend | None = None,
    ) -> None:
        if allow is not True:
            raise ConfigurationError(
                "PythonTool runs any code that a model writes, with all rights of this user: it is no sandbox. Pass "
                "allow=True where that does no harm, as with a BubblewrapBackend or in a container."
            )
        self.backend: Backend = backend_for(workspace, backend, namespace)
        self.workspace: Workspace = self.backend.workspace
        limits = limits_for(self.backend, timeout, max_output)
        self.timeout: float = limits.time
        self.max_output: int = limits.output
        self._limits = replace(
            limits,
            memory=memory or limits.memory or MEMORY,
            file_size=limits.file_size or self.workspace.max_write,
            cpu=limits.cpu or self.timeout + 2,
        )
        self._env = environment(os.defpath, env)
        bound: FunctionTool[..., object] = self.run_python  # pyright: ignore[reportAssignmentType]
        bound.requires_approval = requires_approval
        bound.effects = replace(_EFFECTS, confined=self.backend.confines)
        if self.backend.notice:
            bound.description = f"{bound.description} {self.backend.notice}"
        bound.execution_config = ExecutionConfig(timeout=self.timeout + GRACE + 2 * SETTLE)
        self.__dict__["run_python"] = bound

    @tool(effects=_EFFECTS)
    async def run_python(
        self,
        code: Annotated[str, Field(description="A whole program. Only its output is returned.")],
        context: ToolContext | None = None,
    ) -> object:
        """Run a Python program in the working directory and get its output. No state is kept between calls."""
        python = self.backend.python
        if python is None:
            raise ToolError("No Python interpreter is available here to run the code.")
        try:
            given = code.encode()
        except UnicodeEncodeError:
            raise ToolError("The code holds a lone surrogate, which is not valid text.") from None
        ended = await self.backend.run(
            (python, "-I", "-u", "-X", "utf8", "-c", _BOOT),
            env=self._env,
            limits=self._limits,
            show=None if context is None else context.emit,
            given=given,
        )
        return result_of_run(ended, self._limits, None if context is None else context.call)
