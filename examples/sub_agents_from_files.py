"""Sub-agents declared in files: the model starts two side by side, goes on with one, and one works in the background.

Look at: the two files in `subagents/` beside this one, which are all that declares them: a name, when to use it, its
tools, its prompt. They have the model of the editor; the script has a part for each.

    python examples/sub_agents_from_files.py
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/sub_agents_from_files.py
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from agentscope_rx import ReActAgent, tool
from agentscope_rx.events import BackgroundEvent, PostCallEvent
from agentscope_rx.sub_agents import FolderSubAgents, SubAgentLimits, SubagentsHook
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.testing.scripted_model import Reply, ScriptedRequest

FOLDER = Path(__file__).parent / "subagents"


@tool
def search_archive(words: str) -> str:
    """Search the archive."""
    return "Record 7: the library opened in May 1911."


EDITOR: list[Reply] = [
    [
        call("agent_spawn", agent="fact-finder", task="When did the library open?", label="opening"),
        call("agent_spawn", agent="critic", task="'It opened last week.'", timeout_seconds=0),
    ],
    call("agent_send", agent="opening", message="Who opened it?"),
    "It opened in May 1911 (record 7). I wait for the critic.",
    "It opened in May 1911 (record 7); who opened it is not recorded.",
]
FACT_FINDER: list[Reply] = [call("search_archive", words="opening"), "In May 1911 (record 7).", "No record says."]


class Script:
    """What the model answers: as the agent that asks. The critic is the last to be ready."""

    def __init__(self) -> None:
        self._others_done = asyncio.Event()

    def __call__(self, request: ScriptedRequest) -> Reply:
        who = request.messages[0].text
        turn = sum(message.role == "assistant" for message in request.messages)
        if who.startswith("You find facts"):
            return FACT_FINDER[turn]
        if who.startswith("You are a strict reader"):
            return [self._others_done, "It does not say in which year."]
        if turn == 2:
            self._others_done.set()
        return EDITOR[turn]


async def main() -> None:
    model = os.environ.get("AGENTSCOPE_RX_MODEL") or ScriptedModel(Script(), repeat=True)
    hook = SubagentsHook(FolderSubAgents(FOLDER), limits=SubAgentLimits(depth=1, at_once=4))
    agent = ReActAgent("Editor", model, "You edit texts about a library.", tools=[search_archive], hooks=[hook])
    async for event in agent.stream("When did our library open?"):
        if isinstance(event, PostCallEvent):
            print(f"{'  ' * (len(event.path) // 2)}{event.agent}: {event.message.text}")
        elif isinstance(event, BackgroundEvent):
            print(f"  (in the background: {event.tool_use.input['agent']} {event.state})")
    children = agent.conversation().children
    started = () if children is None else children.all
    # (sorted: those of one round begin at once)
    print("started:", ", ".join(sorted(f"{child.label} ({child.agent})" for child in started)) or "none")


if __name__ == "__main__":
    asyncio.run(main())
