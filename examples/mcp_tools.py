"""Tools of an MCP server that is a program of its own: this very file.

Look at: `register_mcp`, which makes the connection once for run after run, and the end: the server asks for approval in
the middle of a call, which is suspended, answered and run to its end.

    python examples/mcp_tools.py             starts `python examples/mcp_tools.py serve`, and uses its tools
    python examples/mcp_tools.py serve       the server: a toolkit, on standard input and output
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/mcp_tools.py
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from reactivex import operators as ops

from agentscope_rx import ReActAgent, Toolkit, tool
from agentscope_rx.events import ActingChunkEvent, Event, PostCallEvent
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.tools.mcp import McpStdio


@tool
async def water(plants: list[str]) -> AsyncIterator[str]:
    """Water plants.

    Args:
        plants: Their names.
    """
    for plant in plants:
        yield f"watering the {plant}"
    yield f"{len(plants)} plants watered"


@tool(requires_approval=True)
async def repot(plant: str) -> str:
    """Move a plant to a larger pot."""
    return f"the {plant} has a larger pot"


def show(event: Event) -> None:
    """What the server says of its progress."""
    if isinstance(event, ActingChunkEvent) and not event.is_last:
        print(f"  ({event.chunk.text})")


def main() -> None:
    script = ScriptedModel(
        call("garden_water", plants=["fern", "ivy"]),
        "Fern and ivy are watered.",
        call("garden_repot", plant="fern"),
        "The fern has more room now.",
    )
    toolkit = Toolkit()
    # a server gets few of our variables; this one may need to know where the library is
    found = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    server = McpStdio(sys.executable, [str(Path(__file__).resolve()), "serve"], env=found)
    tools = toolkit.register_mcp(server, name="garden", prefix="garden_").run()
    print(f"tools: {', '.join(each.name for each in tools)}")

    model = os.environ.get("AGENTSCOPE_RX_MODEL") or script
    agent = ReActAgent("Gardener", model, toolkit=toolkit)
    last = agent.stream("Water the fern and the ivy.").pipe(ops.do_action(show)).run()
    assert isinstance(last, PostCallEvent)
    print(f"reply: {last.message.text}")

    reply = agent.call("The fern looks cramped: repot it.").run()
    for question in reply.tool_results:
        print(f"{reply.generate_reason}: {question.text}")
        toolkit.mcp["garden"].answer(question, {"approve": True})
        reply = agent.call().run()
    print(f"reply: {reply.text}")
    toolkit.close().run()


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        Toolkit([water, repot]).serve_mcp(name="garden").run()
    else:
        main()
