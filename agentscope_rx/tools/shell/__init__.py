"""Commands and Python in a workspace.

`agentscope_rx` itself does not import this package.

    workspace = Workspace("project")
    toolkit = Toolkit([ShellTool(workspace, allow=["git status", "git log *"]), PythonTool(workspace, allow=True)])
"""

from agentscope_rx.tools.shell.allowlist import Rule
from agentscope_rx.tools.shell.python import PythonTool
from agentscope_rx.tools.shell.shell import ShellTool

__all__ = ["PythonTool", "Rule", "ShellTool"]
