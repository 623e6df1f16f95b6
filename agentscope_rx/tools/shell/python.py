"""`PythonTool`: runs a model's code in a separate Python. THIS IS NO SANDBOX: the code can do what its user can.

Its time, output, memory and the size of each file that it writes are bounded, and it does not get the environment of
this process, its modules, or a terminal. It can read and write any file that the user can, and use the network. Run it
where that does no harm: in a container, as a user without rights.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from agentscope_rx.errors import ConfigurationError, ToolError
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.tools.context import ToolContext
from agentscope_rx.tools.files.workspace import MIB, Workspace
from agentscope_rx.tools.function_tool import FunctionTool, tool
from agentscope_rx.tools.process.environment import environment, with_home
from agentscope_rx.tools.process.run import GRACE, SETTLE, run
from agentscope_rx.tools.shell.shell import MAX_OUTPUT, TIMEOUT, check_limits, namespace_for, result_of_run

MEMORY = 1024 * MIB

_BOOT = """
import sys
code = sys.stdin.buffer.read().decode()
try:
    import resource
    for which, most in (("AS", %(memory)d), ("CPU", %(cpu)d), ("FSIZE", %(file)d), ("CORE", 0)):
        try:
            hard = resource.getrlimit(getattr(resource, "RLIMIT_" + which))[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(getattr(resource, "RLIMIT_" + which), (most, most))
        except (AttributeError, ValueError, OSError):
            pass
except ImportError:
    pass
exec(compile(code, "<code>", "exec"), {"__name__": "__main__"})
"""


class PythonTool:
    """The tool `run_python`. It is not a sandbox (see above), so `allow=True` is required.

    Each call needs approval unless `requires_approval=False`. `memory` is in bytes, for systems that can bound it;
    `namespace` is as for `ShellTool`.
    """

    def __init__(
        self,
        workspace: Workspace | str | os.PathLike[str],
        *,
        allow: bool = False,
        requires_approval: bool = True,
        timeout: float = TIMEOUT,
        max_output: int = MAX_OUTPUT,
        memory: int = MEMORY,
        env: Mapping[str, str] | None = None,
        namespace: bool | None = None,
    ) -> None:
        if allow is not True:
            raise ConfigurationError(
                "PythonTool runs any code that a model writes, with all rights of this user: it is no sandbox. Pass "
                "allow=True where that does no harm, as in a container."
            )
        check_limits(timeout, max_output)
        self.workspace: Workspace = workspace if isinstance(workspace, Workspace) else Workspace(workspace)
        self.timeout = timeout
        self.max_output = max_output
        self._boot = _BOOT % {"memory": memory, "cpu": int(timeout) + 2, "file": self.workspace.max_write}
        self._env = environment(os.defpath, env)
        self._namespace = namespace_for(self.workspace, namespace)
        bound: FunctionTool[..., object] = self.run_python  # pyright: ignore[reportAssignmentType]
        bound.requires_approval = requires_approval
        bound.execution_config = ExecutionConfig(timeout=timeout + GRACE + 2 * SETTLE)
        self.__dict__["run_python"] = bound

    @tool
    async def run_python(
        self,
        code: Annotated[str, Field(description="A whole program. Only its output is returned.")],
        context: ToolContext | None = None,
    ) -> object:
        """Run a Python program in the working directory and get its output. No state is kept between calls."""
        if not sys.executable or getattr(sys, "frozen", False):
            raise ToolError("No Python interpreter is available here to run the code.")
        try:
            given = code.encode()
        except UnicodeEncodeError:
            raise ToolError("The code holds a lone surrogate, which is not valid text.") from None
        with self.workspace.folder() as folder, folder.as_path() as where:
            async with with_home(self._env, self.workspace.root) as env:
                ended = await run(
                    (sys.executable, "-I", "-u", "-X", "utf8", "-c", self._boot),
                    cwd=where,
                    env=env,
                    timeout=self.timeout,
                    max_output=self.max_output,
                    show=None if context is None else context.emit,
                    given=given,
                    namespace=self._namespace,
                )
        return result_of_run(ended, self.timeout, None if context is None else context.call)
