"""Tools that come with the library: files, commands, Python. Not imported by `agentscope_rx` itself.

from agentscope_rx.tool.builtin import FileTools, ShellTool, Workspace

place = Workspace("project")
toolkit = Toolkit([FileTools(place), ShellTool(place, allow=["git status", "git log *"])])
"""

from agentscope_rx.tool.builtin.files import FileTools
from agentscope_rx.tool.builtin.python import PythonTool
from agentscope_rx.tool.builtin.rule import Rule
from agentscope_rx.tool.builtin.shell import ShellTool
from agentscope_rx.tool.builtin.workspace import DENIED, Entry, Workspace

__all__ = ["DENIED", "Entry", "FileTools", "PythonTool", "Rule", "ShellTool", "Workspace"]
