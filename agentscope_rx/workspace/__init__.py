"""The workspace of an agent: its layout, its context in the system message, its memory files.

`agentscope_rx` itself does not import this package.
"""

from agentscope_rx.workspace.context_hook import WorkspaceContextHook
from agentscope_rx.workspace.layout import daily_file, init_workspace, workspace_session
from agentscope_rx.workspace.memory_files_hook import MemoryFilesHook

__all__ = ["MemoryFilesHook", "WorkspaceContextHook", "daily_file", "init_workspace", "workspace_session"]
