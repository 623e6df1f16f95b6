"""Tools of MCP servers, and toolkits as MCP servers, with the official SDK. Needs the extra `mcp`.

toolkit.register_mcp(McpStdio("uvx", ["mcp-server-time"])).run()
toolkit.serve_mcp(name="clock")
"""

from importlib.util import find_spec

from agentscope_rx.errors import MissingExtraError

if find_spec("mcp") is None:
    raise MissingExtraError("mcp", "mcp")

from agentscope_rx.tools.mcp.client import McpClient
from agentscope_rx.tools.mcp.elicitation import Elicitation
from agentscope_rx.tools.mcp.server import McpHttp, McpInMemory, McpServer, McpStdio
from agentscope_rx.tools.mcp.serving import mcp_app, mcp_server
from agentscope_rx.tools.mcp.tool import McpAnnotations, McpApproval, McpTool

__all__ = [
    "Elicitation",
    "McpAnnotations",
    "McpApproval",
    "McpClient",
    "McpHttp",
    "McpInMemory",
    "McpServer",
    "McpStdio",
    "McpTool",
    "mcp_app",
    "mcp_server",
]
