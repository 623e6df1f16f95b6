"""A plan, its approval and its steps: the model may only read until a person agrees, then it follows its plan.

    python examples/planning.py

The first process ends while the plan waits for its approval; the second one loads the conversation and goes on. The
model is scripted, so that it runs offline; put `OpenAIChatModel(...)` in its place and it is a real one.
"""

from __future__ import annotations

import asyncio
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


def gardener(model: ScriptedModel) -> ReActAgent:
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
    reply = await agent.call("Make the garden ready.")
    for message in await agent.memory.get():
        for result in message.tool_results:
            print(f"{result.name}: {result.text.partition('.')[0]}")
    print(f"to approve: {reply.pending_calls[0].input['plan']}")


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
    (plan,) = await agent.pending_calls()
    async for event in agent.stream(Approve(plan)):
        if isinstance(event, PlanEvent):
            print(f"{event.change} {'' if event.subtask is None else event.subtask}".rstrip())
    notebook = agent.plan_notebook
    assert notebook is not None
    (garden,) = await notebook.historical_plans(agent.conversation())
    print(*plan_markdown(garden).splitlines()[-3:], sep="\n")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        await first_process(JsonSession(folder))
        await second_process(JsonSession(folder))


if __name__ == "__main__":
    asyncio.run(main())
