"""Commands and Python in a workspace. Not imported by `agentscope_rx` itself.

workspace = Workspace("project")
toolkit = Toolkit([ShellTool(workspace, allow=["git status", "git log *"]), PythonTool(workspace, allow=True)])
"""

from agentscope_rx.tools.shell.allowlist import Rule
from agentscope_rx.tools.shell.python import PythonTool
from agentscope_rx.tools.shell.shell import ShellTool

__all__ = ["PythonTool", "Rule", "ShellTool"]
