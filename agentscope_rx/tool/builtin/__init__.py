"""Tools that come with the library, for files. Not imported by `agentscope_rx` itself."""

from agentscope_rx.tool.builtin.files import FileTools
from agentscope_rx.tool.builtin.workspace import Entry, Workspace

__all__ = ["Entry", "FileTools", "Workspace"]
