"""A plan, its approval and its steps: the model may only read until a person agrees, then it follows its plan.

Look at: `plan_mode=True`. The first `dig` is refused, because it may change something and no plan is approved; the
second process loads the conversation, approves, and the steps of the plan come as events.

    python examples/planning.py
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/planning.py
"""

from __future__ import annotations

import asyncio
import os
import tempfile

from agentscope_rx import Approve, JsonSession, ReActAgent, tool
from agentscope_rx.events import PlanEvent
from agentscope_rx.plan import plan_markdown
from agentscope_rx.planning import PlanNotebook
from agentscope_rx.testing import ScriptedModel, call


@tool(read_only=True)
def look(bed: str) -> str:
    """See what grows in a bed."""
    return f"weeds in the {bed}"


@tool
def dig(bed: str) -> str:
    """Dig a bed over: what grows there is gone."""
    print(f"  (digging the {bed})")
    return f"the {bed} is dug over"


def gardener(script: ScriptedModel) -> ReActAgent:
    model = os.environ.get("AGENTSCOPE_RX_MODEL") or script
    return ReActAgent(
        "Gardener", model, tools=[look, dig], plan_mode=True, plan_notebook=PlanNotebook(need_user_confirm=False)
    )


async def first_process(session: JsonSession) -> None:
    steps = [{"name": "Dig the north bed"}, {"name": "Dig the south bed"}]
    model = ScriptedModel(
        [call("dig", bed="rose bed"), call("look", bed="north bed")],
        call("create_plan", name="Garden", description="No roses.", expected_outcome="two beds", subtasks=steps),
        call("submit_plan", plan="Dig the north bed, then the south bed. The roses stay."),
    )
    agent = gardener(model)
    await agent.bind(session, "ann")
    reply = await agent.call("Make the two beds of the garden ready, but not the roses.")
    for message in await agent.memory.get():
        for result in message.tool_results:
            print(f"{result.name}: {result.text.partition('.')[0]}")
    for waiting in reply.pending_calls:
        print(f"to approve: {waiting.input.get('plan', waiting.name)}")


async def second_process(session: JsonSession) -> None:
    model = ScriptedModel(
        call("update_subtask_state", subtask_idx=0, state="in_progress"),
        call("dig", bed="north bed"),
        call("finish_subtask", subtask_idx=0, subtask_outcome="dug over"),
        call("dig", bed="south bed"),
        call("finish_subtask", subtask_idx=1, subtask_outcome="dug over"),
        call("finish_plan", state="done", outcome="two beds, and the roses"),
        "The garden is ready.",
    )
    agent = gardener(model)
    await agent.bind(session, "ann")
    approved = [Approve(plan) for plan in await agent.pending_calls()]
    async for event in agent.stream(approved or "Go on."):
        if isinstance(event, PlanEvent):
            print(f"{event.change} {'' if event.subtask is None else event.subtask}".rstrip())
    notebook = agent.plan_notebook
    assert notebook is not None
    for garden in await notebook.historical_plans(agent.conversation()):
        print(*plan_markdown(garden).splitlines()[-3:], sep="\n")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        await first_process(JsonSession(folder))
        await second_process(JsonSession(folder))


if __name__ == "__main__":
    asyncio.run(main())
