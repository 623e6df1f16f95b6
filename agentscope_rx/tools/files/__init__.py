"""The files of a `Workspace` as tools: `FileTools`.

`agentscope_rx` itself does not import this package.

    workspace = Workspace("project")
    toolkit = Toolkit([FileTools(workspace)])
"""

from agentscope_rx.tools.files.files import FileTools
from agentscope_rx.tools.files.workspace import DENIED, FileEntry, Workspace

__all__ = ["DENIED", "FileEntry", "FileTools", "Workspace"]
