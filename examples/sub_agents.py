"""An editor asks a researcher, and a person approves what the researcher is about to do: all of it in one stream.

Look at: `tools=[researcher.as_tool()]`, and the indented events: the researcher's run stands in the editor's stream.
Its call that needs approval waits at the editor, and the approval reaches it from there.

    python examples/sub_agents.py
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/sub_agents.py
"""

from __future__ import annotations

import asyncio
import os

from agentscope_rx import Approve, ReActAgent, tool
from agentscope_rx.events import ActingChunkEvent, ChunkEvent
from agentscope_rx.testing import ScriptedModel, call


@tool
async def search(query: str) -> str:
    """Search the archive."""
    return f"three letters about the {query}, one of them sealed"


@tool(requires_approval=True)
async def open_letter(number: int) -> str:
    """Open a sealed letter; it cannot be closed again."""
    return f"letter {number}: 'The bridge will open in May 1911.'"


def team() -> ReActAgent:
    real = os.environ.get("AGENTSCOPE_RX_MODEL")
    researcher = ReActAgent(
        "Researcher",
        real
        or ScriptedModel(call("search", query="bridge"), call("open_letter", number=3), ["It opened ", "in May 1911."]),
        tools=[search, open_letter],
    )
    return ReActAgent(
        "Editor",
        real
        or ScriptedModel(
            ["Let me ask.", call("call_researcher", message="When did the bridge open?")],
            "The bridge opened in May 1911.",
        ),
        tools=[researcher.as_tool()],
    )


async def main() -> None:
    editor = team()
    question: str | Approve = "When did the bridge open?"
    while True:
        events = [event async for event in editor.stream(question)]
        for event in events:
            # (chunks and the editor's own view of the researcher's words left out)
            if not isinstance(event, (ChunkEvent, ActingChunkEvent)):
                print(f"{event.seq:4} {'  ' * event.depth}{event.agent} {event.type}")
        reply = (await editor.pending_calls()) or events[-1]
        if not isinstance(reply, tuple):
            break
        for waiting in reply:
            print(f"approve {waiting.name}({', '.join(map(str, waiting.input.values()))})? yes, says Ann")
            question = Approve(waiting)

    for message in await editor.memory.get():
        words = message.text or [result.text.splitlines()[-1] for result in message.tool_results]
        print(f"{message.name}: {words}")


if __name__ == "__main__":
    asyncio.run(main())
