"""A toolkit as an MCP server on stdio, in a process of its own: its tool says in which trace it runs."""

from __future__ import annotations

import asyncio

from mcp.server.stdio import stdio_server
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from agentscope_rx import Toolkit, tool
from agentscope_rx.tools.mcp import mcp_server


@tool
def where() -> str:
    """The trace and the span that the call runs in."""
    here = trace.get_current_span().get_span_context()
    return f"{trace.format_trace_id(here.trace_id)} {trace.format_span_id(here.span_id)}"


async def main() -> None:
    trace.set_tracer_provider(TracerProvider())
    server = mcp_server(Toolkit([where]))
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
