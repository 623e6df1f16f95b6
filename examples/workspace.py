"""An agent in its workspace: instructions of two folders, notes of one conversation in the context of the next.

Look at: "MEMORY.md", which a second model has written after the first conversation, and "beds/AGENTS.md", which comes
with the first file that is read from that folder. Each conversation has an agent of its own: the folder connects them.

    python examples/workspace.py
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/workspace.py
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

from agentscope_rx import ReActAgent
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.tools.files import FileTools, Workspace
from agentscope_rx.workspace import MemoryFilesHook, WorkspaceContextHook, init_workspace

MODEL = os.environ.get("AGENTSCOPE_RX_MODEL")
KEEPER = ScriptedModel(
    # after the first call: a fact for the file of the day, then the new MEMORY.md
    call("store_facts", facts=[{"subject": "hour of watering", "text": "Ann waters in the evening."}]),
    "<memory_file>\n## Habits\n- Ann waters in the evening.\n</memory_file>",
    # after the second one: nothing new, so there is nothing to distil
    call("store_facts", facts=[]),
)


def shown(text: str, tag: str) -> str:
    """The last line of a section."""
    _, found, rest = text.partition(f"<{tag}")
    return rest.partition(f"\n</{tag}>")[0].splitlines()[-1] if found else "(none)"


async def main() -> None:
    """Two conversations in one folder."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "garden"
        print(f"made: {', '.join(init_workspace(root))}")
        (root / "AGENTS.md").write_text("Answer in one sentence.\n")
        (root / "beds").mkdir()
        (root / "beds" / "AGENTS.md").write_text("Name plants in Latin.\n")
        (root / "beds" / "north.md").write_text("lavender\n")

        place = Workspace(root)
        notes = MemoryFilesHook(place, MODEL or KEEPER)
        hooks = [WorkspaceContextHook(place), notes]
        script = ScriptedModel(
            call("read_file", path="beds/north.md"),
            "Lavandula angustifolia.",
            "In the evening, as you always do.",
        )
        for question in ("I water in the evening. What grows in the north bed?", "When do I water?"):
            # each conversation has an agent of its own: the workspace connects them
            agent = ReActAgent(
                "Gardener", MODEL or script, "You are a gardener.", tools=[FileTools(place)], hooks=hooks
            )
            reply = await agent.call(question)
            await notes.drained()
            system = script.requests[-1].messages[0].text if script.requests else ""
            print(f"user: {question}")
            print(f"  AGENTS.md: {shown(system, 'agents_context')}")
            for message in await agent.memory.get():
                for result in message.tool_results:
                    print(f"  beds/AGENTS.md, with {result.name}: {shown(result.text, 'agents_context')}")
            print(f"  MEMORY.md: {shown(system, 'memory_context')}")
            print(f"  Gardener: {reply.text}")
        print("the folder: " + ", ".join(sorted(each.name for each in root.iterdir() if each.is_file())))


if __name__ == "__main__":
    asyncio.run(main())
