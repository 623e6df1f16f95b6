"""A skill: the model sees its name, reads it when the question fits, and runs its script after approval.

Look at: what the model is given at first: a name and a line, not the skill. The skill is the folder
`skills/ferry-fares` beside this file; the version of its script is in the text that `load_skill` gives, so that a
script which has changed since cannot run.

    python examples/skills.py
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/skills.py
"""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from pathlib import Path

from agentscope_rx import Approve, ReActAgent
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.skills import FolderSkills, SkillScripts, SkillsHook
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.testing.scripted_model import ScriptedRequest

SKILLS = Path(__file__).parent / "skills"


def run_script(request: ScriptedRequest) -> ToolUseBlock:
    """The call that a model makes when it has read the skill."""
    loaded = request.messages[-1].tool_results[0].text
    version = re.findall(r"Their version is (\w+)", loaded)[0]
    args = ["oslo-kiel", "2", "2"]
    return call("run_skill_script", name="ferry-fares", path="scripts/fares.py", version=version, args=args)


async def main() -> None:
    script = ScriptedModel(
        call("load_skill", name="ferry-fares"),
        run_script,
        "Oslo to Kiel costs you 324 euros, with the discount for groups.",
    )
    with tempfile.TemporaryDirectory() as workspace:
        hook = SkillsHook(FolderSkills(SKILLS), run_scripts=SkillScripts(workspace))
        model = os.environ.get("AGENTSCOPE_RX_MODEL") or script
        agent = ReActAgent("Purser", model, "You sell ferry tickets.", hooks=[hook])
        reply = await agent.call("Oslo to Kiel for two adults and two children, please.")
        while waiting := reply.pending_calls:
            for each in waiting:
                print(f"to approve: {each.input['path']} of {each.input['name']} with {each.input.get('args')}")
            reply = await agent.call([Approve(each, remember="arguments") for each in waiting])
    if script.requests:
        prompt = script.requests[0].messages[0].text
        print(f"the model saw: {re.findall('<name>(.*?)</name>', prompt)}")
    for message in await agent.memory.get():
        for result in message.tool_results:
            print(f"{result.name}: {result.text.splitlines()[0]}")
    print(f"{agent.name}: {reply.text}")


if __name__ == "__main__":
    asyncio.run(main())
