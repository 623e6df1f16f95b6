"""Tools of MCP servers, and toolkits as MCP servers, with the official SDK.

The package needs the extra `mcp`. The SDK speaks the current protocol and the older one.

    toolkit.register_mcp(McpStdio("uvx", ["mcp-server-time"])).run()
    toolkit.serve_mcp(name="clock").run()

A server may be hostile, and none may block the event loop:

| limit | default | beyond it |
|---|---|---|
| a message: a line, a response, an event | `max_message_bytes`, 16 MiB | `McpLimitError`, connection closed |
| JSON values in a message | one for each 64 bytes of that | the same |
| requests of the server that wait for an answer | 100, each with its own id | the same |
| open questions of the server | 100 | further ones are refused |
| values in an answer | 50,000 | `McpError` |
| tools, on at most 200 pages | 1,000 | `McpError` |
| a schema: characters, values, levels | 256 Ki, 8,000, 64 | an error at registration |
| references of a schema; parts for one value | 1,000; 5,000 | the same |
| patterns of a schema | a linear engine, no look-around | the same |
| arguments: values; steps of validation | 10,000; 15,000 | the model reads that they are too complex |
| standard error | the last 10 lines, 800 characters | older output is dropped |
| unread progress | the latest | older progress is dropped |
| log messages | 10,000 characters, 20 logger names | cut; logged under `agentscope_rx.mcp.<name>` |
| reports of changed tools | one listing at a time | one more listing for all of them |

A program beyond its limit is killed with its process group. The call fails with a result that names the limit, and the
next call connects again.
"""

from importlib.util import find_spec

from agentscope_rx.errors import MissingExtraError

if find_spec("mcp") is None:
    raise MissingExtraError("mcp", "mcp")

from agentscope_rx.tools.mcp.client import McpClient
from agentscope_rx.tools.mcp.elicitation import Elicitation
from agentscope_rx.tools.mcp.server import McpHttp, McpInMemory, McpServer, McpSse, McpStdio
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
    "McpSse",
    "McpStdio",
    "McpTool",
    "mcp_app",
    "mcp_server",
]
