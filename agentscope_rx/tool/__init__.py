"""Tools: functions that a model may call, and the toolkit that calls them."""

from agentscope_rx.tool.arguments import InvalidArgumentsError
from agentscope_rx.tool.call import ToolChunk, ToolEvent, ToolRetry
from agentscope_rx.tool.tool import FunctionTool, Tool, tool
from agentscope_rx.tool.toolkit import Toolkit

__all__ = ["FunctionTool", "InvalidArgumentsError", "Tool", "ToolChunk", "ToolEvent", "ToolRetry", "Toolkit", "tool"]
