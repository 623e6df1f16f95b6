"""Tools: functions that a model may call, and the toolkit that calls them."""

from agentscope_rx.reactive import Rate
from agentscope_rx.tool.approval import ApprovalPolicy
from agentscope_rx.tool.arguments import InvalidArgumentsError
from agentscope_rx.tool.context import ToolContext
from agentscope_rx.tool.event import ToolBegun, ToolChunk, ToolEvent, ToolNested, ToolRetry
from agentscope_rx.tool.evictor import FolderEvictor
from agentscope_rx.tool.external import ExternalTool
from agentscope_rx.tool.from_schema import tool_from_schema
from agentscope_rx.tool.inject import Inject
from agentscope_rx.tool.schema_of import schema_of
from agentscope_rx.tool.size import ResultEvictor, ResultLimit
from agentscope_rx.tool.tool import FunctionTool, Tool, tool
from agentscope_rx.tool.toolkit import Toolkit
from agentscope_rx.tool.wrap import approving, limited, mapped, only, prefixed, preset, renamed, without
from agentscope_rx.tool.wrapper import WrapperTool

__all__ = [
    "ApprovalPolicy",
    "ExternalTool",
    "FolderEvictor",
    "FunctionTool",
    "Inject",
    "InvalidArgumentsError",
    "Rate",
    "ResultEvictor",
    "ResultLimit",
    "Tool",
    "ToolBegun",
    "ToolChunk",
    "ToolContext",
    "ToolEvent",
    "ToolNested",
    "ToolRetry",
    "Toolkit",
    "WrapperTool",
    "approving",
    "limited",
    "mapped",
    "only",
    "prefixed",
    "preset",
    "renamed",
    "schema_of",
    "tool",
    "tool_from_schema",
    "without",
]
