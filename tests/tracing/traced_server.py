"""A toolkit as an MCP server on stdio, in a process of its own: a tool, and an agent with it, say where they run."""

from __future__ import annotations

import asyncio

from mcp.server.stdio import stdio_server
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from agentscope_rx import ReActAgent, Toolkit, tool
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.tools.mcp import mcp_server
from agentscope_rx.tracing import instrument


@tool
def where() -> str:
    """The trace and the span that the call runs in."""
    here = trace.get_current_span().get_span_context()
    return f"{trace.format_trace_id(here.trace_id)} {trace.format_span_id(here.span_id)}"


async def main() -> None:
    trace.set_tracer_provider(TracerProvider())
    instrument()
    model = ScriptedModel(call("where"), lambda request: request.messages[-1].tool_results[0].text, repeat=True)
    friday = ReActAgent("friday", model, toolkit=Toolkit([where]))
    server = mcp_server(Toolkit([where, friday.as_tool()]))
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
