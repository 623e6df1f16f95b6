"""Backends: the place of an agent's files and commands. This system, or a sandbox on it.

Give one backend to all tools of a folder. `agentscope_rx` itself does not import this package.

    backend = BubblewrapBackend("project", limits=Limits(memory=1 << 30, processes=64))
    toolkit = Toolkit([FileTools(backend=backend), ShellTool(backend=backend, allow_any=True)])
"""

from agentscope_rx.tools.backends.backend import ISOLATION, Backend, Guarantee
from agentscope_rx.tools.backends.bubblewrap import SANDBOX_LIMITS, BubblewrapBackend
from agentscope_rx.tools.backends.local import LocalBackend
from agentscope_rx.tools.process.limits import Limits
from agentscope_rx.tools.process.run import ProcessResult

__all__ = [
    "ISOLATION",
    "SANDBOX_LIMITS",
    "Backend",
    "BubblewrapBackend",
    "Guarantee",
    "Limits",
    "LocalBackend",
    "ProcessResult",
]
