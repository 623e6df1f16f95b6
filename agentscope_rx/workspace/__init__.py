"""The workspace of an agent: its layout.

Not imported by `agentscope_rx` itself.
"""

from agentscope_rx.workspace.layout import daily_file, init_workspace, workspace_session

__all__ = ["daily_file", "init_workspace", "workspace_session"]
